"""What is compiled together: functions, classes, modules, and the Python that runs them."""

from __future__ import annotations

import ast
import enum
import functools
import inspect
import math
import re
from typing import Any

from ..._tensor import Tensor
from ...core.base import display
from ...core.base.dtypes import device as Device
from ...core.base.dtypes import dtype as DType
from ...core.base.formats import layout, memory_format
from ...library._calls import CODES
from .. import _host
from .._modules import RecursiveScriptModule, ScriptFunction
from .._text import is_identifier, quoted
from ._entries import Entry
from ._hosts import Parameter
from ._marks import OVERLOADS, RESOLVERS
from ._source import MISSING, Code, CompileError, is_own
from ._special import QUESTIONS, SPECIAL, grad_modes
from ._statements import Statements
from ._types import DEVICE, INT, NONE, TENSOR, NoType, Type, of_annotation, of_value
from ._values import Simple

_COMMENT = re.compile(r"#\s*type:\s*\((.*)\)\s*->\s*(.+?)\s*$")
_CONSTANTS = (DType, layout, memory_format)


class Unit:
    """A compilation: what it has compiled so far, under which names."""

    special = SPECIAL
    questions = QUESTIONS

    def __init__(self) -> None:
        self.functions: dict[Any, Entry] = {}
        self.classes: dict[type, Any] = {}  # classes of Python: what they are compiled to
        self.types: dict[type, Type] = {}
        self.by_name: dict[str, Any] = {}
        self.named_tuples: dict[str, Entry] = {}
        self.interfaces: dict[str, dict[str, Entry]] = {}
        self.texts: list[str] = []  # of classes, in order
        self.python_calls: list[str] = []  # of functions that are left to Python
        self.taken: set[str] = set()
        self.bound: dict[int, str] = {}
        self.held: list[Any] = []
        self.awaited: dict[
            str, Any
        ] = {}  # names of Python that classes of the program are given when all is compiled
        self.enum_types: dict[str, type] = {}
        self.globals: dict[str, Any] = _globals()
        self.grad_modes = grad_modes()
        self.modules: list[Any] = []
        self.preserved: frozenset[str] | None = None  # of attributes, where all others become constants
        self.constants: list[Any] = []  # tensors in the code
        self.module_classes: dict[int, tuple[Any, Any]] = {}
        self.alike: dict[Any, Any] = {}  # classes of modules by what tells them apart
        self.resolvers = RESOLVERS

    def __deepcopy__(self, memo: Any) -> Unit:
        return self

    # --- names ------------------------------
    def unique(self, wish: str) -> str:
        """A name for something at the top of the program's code."""
        wish = wish if is_identifier(wish) else "x_" + "".join(c for c in wish if c.isalnum() and c.isascii())
        name, k = wish, 0
        while name in self.taken:
            name, k = f"{wish}_{k}", k + 1
        self.taken.add(name)
        return name

    def bind(self, value: Any, hint: str) -> str:
        """The name under which Python finds an object."""
        entry = self.bound.get(id(value))
        if entry is None:
            suffix = "".join(c for c in hint if c.isalnum() or c == "_")
            entry = self.bound[id(value)] = f"_g{len(self.bound)}_{suffix}"
            self.globals[entry] = value
            self.held.append(value)
        return entry

    def bind_class(self, t: Type) -> str:
        """The name under which Python finds a class of the program, which is made when all is compiled."""
        name = f"_g_class_{t.name.replace('.', '_')}"
        self.awaited[name] = t.name
        return name

    # --- values of Python ------------------------------
    def constant(self, x: Any) -> Simple | None:
        """What a program may have of Python's values by name: dtypes, devices, members of enumerations; None for anything else."""
        if isinstance(x, _CONSTANTS):
            return Simple(str(CODES.get(x, -1)), self.bind(x, str(x)), INT, x)
        if isinstance(x, Device):
            return Simple(f"torch.device({quoted(str(x))})", self.bind(x, "device"), DEVICE, x)
        if isinstance(x, enum.Enum):
            return self.enum_member(x)
        if x is None or type(x) in (int, float, bool, str, complex):
            return None
        if isinstance(x, (list, tuple)) and not hasattr(type(x), "_fields"):
            return self._constant_items(x)
        return None

    def _constant_items(self, x: Any) -> Simple | None:
        maker = _maker(self)
        items = []
        for v in x:
            constant = (
                maker.literal(v)
                if type(v) in (int, float, bool, str, complex, type(None))
                else self.constant(v)
            )
            if constant is None:
                return None
            items.append(constant)
        if isinstance(x, tuple):
            return maker.tuple_of(items)
        kinds = {v.type for v in items}
        return maker.list_of(items, None, ast.Pass()) if len(kinds) == 1 else None

    # --- functions ------------------------------
    def is_script_function(self, f: Any) -> bool:
        """Whether it is a function that `script` made."""
        return isinstance(f, ScriptFunction)

    def overloads_of(self, f: Any) -> list[Any]:
        """The signatures that a function was given by `_overload`."""
        return OVERLOADS.get((f.__module__, f.__qualname__), [])

    def function(self, f: Any, caller: Any, node: ast.AST, signature: Any = None, number: int = 0) -> Entry:
        """A function that the program calls, compiled."""
        key = (f, number)
        entry = self.functions.get(key)
        if entry is None:
            code = Code(f)
            entry = self.functions[key] = self.signature(code, f, signature)
            name = self.unique(f.__name__)
            entry.name, entry.py = f"__torch__.{name}", f"_f_{name}"
            self.compile(entry, code, None)
        elif not entry.is_done:
            caller.refuse(
                f"function '{f.__name__}' is called recursively. Recursive calls are not supported", node
            )
        return entry

    def declared(self, f: Any, caller: Any, node: ast.AST, is_method: bool = False) -> Entry:
        """The signature of a function that is not compiled."""
        key = (f, "declared")
        if key not in self.functions:
            entry = self.signature(Code(f), f, None, skip=is_method)
            entry.returns = entry.declared or TENSOR
            entry.is_done = True
            self.functions[key] = entry
        return self.functions[key]

    def signature(
        self, code: Code, f: Any, other: Any = None, skip: bool = False, owner: Any = None
    ) -> Entry:
        """What a function's annotations, and its type comment, say of it."""
        tree = code.tree if other is None else Code(other).tree
        assert isinstance(tree, ast.FunctionDef)
        args_node = tree.args
        own = is_own(f)
        if (
            args_node.vararg
            or args_node.kwarg
            or (args_node.kwonlyargs and any(d is not None for d in args_node.kw_defaults))
        ) and not own:
            at = args_node.vararg or args_node.kwarg or args_node.kwonlyargs[0]
            code.not_supported(
                "Compiled functions can't take variable number of arguments or use keyword-only arguments with defaults",
                at,
            )
        compiler = Statements(self, code, None)
        defaults = _defaults(f)
        comment = _comment(code)
        args = [*args_node.posonlyargs, *args_node.args, *args_node.kwonlyargs]
        if skip or owner is not None:
            args = args[1:]
        parameters = []
        for k, a in enumerate(args):
            annotation = comment[0][k] if comment and k < len(comment[0]) else a.annotation
            defaulted = a.arg in defaults
            if annotation is not None:
                t = self._declared_type(compiler, annotation, own)
            else:
                t = self._inferred(defaults.get(a.arg), own and defaulted)
            parameters.append(Parameter(a.arg, t, defaults.get(a.arg), defaulted))
        result = comment[1] if comment else tree.returns
        returns = None if result is None else compiler.annotation_of(result)
        if own and returns is not None and returns.kind in ("Any", "List", "Tensor"):
            returns = None
        entry = Entry(f.__name__, "", "", parameters, returns)
        entry.python = f
        return entry

    @staticmethod
    def _declared_type(compiler: Any, annotation: ast.expr, own: bool) -> Type:
        """What an annotation means; of a parameter of this library that takes anything, that it is a tensor."""
        t: Type = compiler.annotation_of(annotation)
        return TENSOR if own and t.kind == "Any" else t

    def _inferred(self, default: Any, own: bool) -> Type:
        if own and default is not None:
            try:
                return of_value(default, lambda c: None)
            except NoType:
                return TENSOR
        return TENSOR

    def compile(self, entry: Entry, code: Code, owner: Any, fixed: dict[str, Any] | None = None) -> None:
        """Write a function's code and its Python; `fixed` are parameters that are there while it is compiled."""
        tree = code.tree
        assert isinstance(tree, ast.FunctionDef)
        compiler = Statements(self, code, entry.declared)
        args = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
        heads, pythons = [], []
        if owner is not None:
            self_name = args[0].arg
            compiler.taken.add("self")
            compiler.names[self_name] = ("self", "self")
            compiler.frames[-1][self_name] = owner.self_value()
            heads.append(f"self: {owner.name}")
            pythons.append("self")
            compiler.enclosing = owner
        for name, value in (fixed or {}).items():
            compiler.frames[-1][name] = value
        for p in entry.parameters:
            variable = compiler.variable(p.name, p.type)
            variable.inferred = p.type == TENSOR and _unannotated(args, p.name)  # type: ignore[attr-defined]
            compiler.frames[-1][p.name] = variable
            if variable.text != p.name:
                entry.text_names[p.name] = variable.text
            heads.append(
                f"{variable.text}: {p.type.text}" + (f"={self.default_text(p)}" if p.defaulted else "")
            )
            pythons.append(variable.py)
        body = tree.body
        compiler.block(body)
        if not compiler.ended:
            if entry.declared not in (None, NONE) and entry.declared.kind not in ("Optional", "Any"):
                code.refuse(
                    f"Function was annotated as having type {entry.declared}, but does not return along all paths"
                    if compiler.returned is not None
                    else f"Return value was annotated as having type {entry.declared} but is actually of type NoneType",
                    tree,
                )
            if entry.declared is None and compiler.returned not in (None, NONE):
                code.refuse(
                    "Function is missing a return along some paths: it returns a value along others alone",
                    tree,
                )
            compiler.add("return None", "return None")
            compiler.returned = compiler.returned or NONE
        entry.returns = entry.declared or compiler.returned or NONE
        before = "    " if owner is not None else "  "
        text, _ = compiler.written("text", before, compiler.lines)
        name = entry.method_name if owner is not None else entry.name.rpartition(".")[2]
        joined = (",\n" + before + "  ").join(heads)
        head = f"{before[2:]}def {name}({joined}) -> {entry.returns.text}:\n"
        entry.text = head + text
        py, numbers = compiler.written("py", "  ", compiler.lines)
        self._make(
            entry, f"def {entry.py}({', '.join(pythons)}):\n{py}", [code.line(tree), *numbers], code.file
        )
        entry.is_done = True

    def _make(self, entry: Entry, text: str, numbers: list[int], file: str) -> None:
        """Let Python have the function, with the lines of the program."""
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if hasattr(node, "lineno"):
                node.lineno = numbers[min(node.lineno, len(numbers)) - 1]
                node.end_lineno = node.lineno
        made: dict[str, Any] = {}
        exec(compile(tree, file, "exec"), self.globals, made)  # noqa: S102  written above, of a program that is run anyway
        self.globals[entry.py] = made[entry.py]

    def default_text(self, p: Parameter) -> str:
        """The default of a parameter, as code."""
        from ._operators import constant_text

        try:
            if isinstance(p.default, (list, tuple)):
                inner = ", ".join(constant_text(v) for v in p.default)
                return f"[{inner}]" if p.type.unwrapped.kind == "List" else f"({inner}{',' * bool(inner)})"
            return constant_text(p.default)
        except Exception:  # noqa: BLE001  a default that code has no words for
            raise CompileError(
                f"\nExpected a default value of type {p.type} on parameter '{p.name}': {type(p.default).__name__} is none of TorchScript's"
            ) from None

    # --- types ------------------------------
    def annotation(self, value: Any, compiler: Any, node: ast.AST) -> Type:
        """What an annotation means; NoType where it is no type."""
        return of_annotation(value, lambda c: self.type_of_class(c, compiler, node))

    def evaluate(self, compiler: Any, node: ast.expr) -> Any:
        """The value of an annotation in the program's text."""
        tree = ast.Expression(_unquoted(node))
        ast.fix_missing_locations(tree)
        return eval(
            compile(tree, "<annotation>", "eval"), {"__builtins__": {}}, _Names(compiler.code.resolve)
        )  # noqa: S307

    def type_of_class(self, c: type, compiler: Any, node: ast.AST) -> Type | None:
        """The type of a class of Python, which is compiled where it was not; None for one that is no type."""
        if c in self.types:
            return self.types[c]
        from ._classes import class_type

        return class_type(self, c, compiler, node)

    def class_of(self, t: Type) -> Any:
        """What a class of the program is compiled to."""
        return self.by_name[t.name]

    def literal(self, value: Any) -> Simple:
        """A number, a text or None as a value."""
        return _maker(self).literal(value)

    # --- modules ------------------------------
    def module_class(self, module: Any) -> Any:
        """What a module is compiled to: one class for all modules that are alike."""
        module = _source_of(module)
        entry = self.module_classes.get(id(module))
        if entry is None:
            from ._modules import ModuleClass

            made = ModuleClass(self, module)
            made = self.alike.setdefault(made.key() if self.preserved is None else id(module), made)
            made.enter()
            entry = self.module_classes[id(module)] = module, made
        return entry[1]

    # --- enumerations ------------------------------
    def enum_member(self, x: enum.Enum, compiler: Any = None, node: ast.AST | None = None) -> Simple:
        """A member of an enumeration."""
        t = self.type_of_class(type(x), compiler, node or ast.Pass())
        assert t is not None
        name = f"_g_member_{t.name.replace('.', '_')}_{x.name}"
        self.awaited[name] = (t.name, x.name)
        return Simple(f"{t.name}.{x.name}", name, t, x)

    def enum_part(self, owner: Simple, name: str) -> Simple:
        """`member.name`, `member.value`."""
        from ._types import STR

        kind: Any = self.enum_types[owner.type.name]
        t = STR if name == "name" else of_value(next(iter(kind)).value, lambda c: None)
        return Simple(f"({owner.text}).{name}", f"{owner.py}.{name}", t)

    # --- all of it ------------------------------
    def sources(self, last: str = "") -> dict[str, str]:
        """The program's code by file."""
        parts = [*self.texts]
        parts += [c.text() for c in self.by_name.values() if hasattr(c, "text")]
        parts += [e.text for e in self.functions.values() if e.text]
        return {"__torch__.py": "".join([*parts, last])}

    def finish(self, program: Any) -> None:
        """Let Python have the classes of the program."""
        for name, what in self.awaited.items():
            if isinstance(what, tuple):
                self.globals[name] = program.find([*what[0].split("."), what[1]])
                continue
            resolved = program.find(what.split("."))
            self.globals[name] = getattr(resolved, "tuple_class", None) or resolved


def _source_of(module: Any) -> Any:
    """The module of Python that a module is compiled from; NotImplementedError for one that has no source, or hooks."""
    original = module.__dict__.get("_original", module)
    name = type(original).__name__
    if isinstance(original, RecursiveScriptModule):
        raise NotImplementedError(
            f"{display.NAME}.jit.script: the submodule {original.original_name} comes from jit.trace or jit.load and has no source: "
            "script the module that it was made of, or trace the whole"
        )
    if original._forward_hooks or original._forward_pre_hooks:
        raise NotImplementedError(
            f"{display.NAME}.jit.script: module {name} has hooks, which are not compiled: remove them, or trace the module"
        )
    return original


def _maker(unit: Unit) -> Any:
    """What makes values outside of a function."""
    from ._expressions import Expressions

    made = Expressions.__new__(Expressions)
    made.unit = unit
    return made


def _unannotated(args: list[ast.arg], name: str) -> bool:
    return any(a.arg == name and a.annotation is None for a in args)


def _defaults(f: Any) -> dict[str, Any]:
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def _comment(code: Code) -> tuple[list[ast.expr], ast.expr] | None:
    """The types of a comment `# type: (Tensor, int) -> Tensor`."""
    assert isinstance(code.tree, ast.FunctionDef)
    end = code.tree.body[0].lineno
    for line in code.lines[code.tree.lineno - 1 : end]:
        match = _COMMENT.search(line)
        if match:
            args = ast.parse(f"({match[1]},)" if match[1].strip() else "()", mode="eval").body
            assert isinstance(args, ast.Tuple)
            return args.elts, ast.parse(match[2], mode="eval").body
    return None


def _unquoted(node: ast.expr) -> ast.expr:
    """An annotation with what stands in quotes read, too."""

    class Reader(ast.NodeTransformer):
        def visit_Constant(self, part: ast.Constant) -> ast.expr:
            if isinstance(part.value, str):
                return _unquoted(ast.parse(part.value, mode="eval").body)
            return part

    return Reader().visit(node)  # type: ignore[no-any-return]


class _Names(dict[str, Any]):
    """The names of a program, looked up when they are needed."""

    def __init__(self, resolve: Any) -> None:
        super().__init__()
        self.resolve = resolve

    def __missing__(self, name: str) -> Any:
        resolved = self.resolve(name)
        if resolved is MISSING:
            raise KeyError(name)
        return resolved


@functools.cache
def _shared_globals() -> dict[str, Any]:
    from ...autograd.grad_mode import enable_grad, no_grad
    from .._objects import ScriptObject, construct
    from ._boundary import completed_future, either, interface_call, original_of, tolist

    shared: dict[str, Any] = {
        f"_host_{n}": f for n, f in (*_host.TENSORS.items(), *_host.TEXTS.items(), *_host.HOST.items())
    }
    for name in set(_host.TEXTS) & set(_host.HOST):
        shared[f"_host_{name}"] = either(_host.HOST[name], _host.TEXTS[name])
    shared |= {
        "math": math,
        "wrapped": _host.wrapped,
        "number": _host.number,
        "formatted": _host.formatted,
        "percent_formatted": _host.percent_formatted,
        "shown": _host.shown,
        "device": Device,
        "_g_raise": _host.raise_exception,
        "_g_object": ScriptObject,
        "_g_construct": construct,
        "_g_tolist": tolist,
        "_g_original": original_of,
        "_g_interface": interface_call,
        "_g_Tensor": Tensor,
        "_g_no_grad": no_grad,
        "_g_enable_grad": enable_grad,
        "_g_future": completed_future,
        "_manual_seed": _seed,
    }
    return shared


def _seed(n: int) -> None:
    from ...random import manual_seed

    manual_seed(n)


def _globals() -> dict[str, Any]:
    return dict(_shared_globals())
