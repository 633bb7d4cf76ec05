"""What an archive's code names: classes, functions, enumerations; and the objects of its classes.

Attributes are looked up among what a class declares, never by `getattr`: nothing of Python shows through.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from ._host import Error
from ._parser import Source, dotted, parse

_ROOT = "__torch__"
_MOST_CALLS = 200  # functions of an archive within one another: TorchScript has no recursion


class Function:
    """A function or a method of an archive; compiled when it is first called."""

    def __init__(self, program: Namespace, source: Source, definition: ast.FunctionDef, name: str) -> None:
        self.program, self.source, self.definition, self.name = program, source, definition, name
        self.parameters = [a.arg for a in definition.args.args]
        self._body: tuple[Callable[[list[Any]], Any], int, list[Any]] | None = None
        self._compiling = False
        self.native: Callable[..., Any] | None = (
            None  # the Python that computes it, of a program that was scripted here
        )

    def __deepcopy__(self, memo: Any) -> Function:
        return self

    def compile(self) -> tuple[Callable[[list[Any]], Any], int, list[Any]]:
        """The body as a function of a frame; Refused for code that does not hold together."""
        if self._body is None:
            if self._compiling:
                self.source.refuse(f"{self.name} calls itself", self.definition.lineno)
            self._compiling = True
            self._body = self.program.compiled(self.source, self.definition)
            self._compiling = False
        return self._body

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.native is not None:
            return self.native(*args, **kwargs)
        run, size, defaults = self._body or self.compile()
        frame = [None] * size
        count = len(self.parameters)
        if len(args) != count or kwargs:
            args = self._completed(args, kwargs, defaults)
        frame[:count] = args
        self.program.depth += 1
        try:
            if self.program.depth > _MOST_CALLS:
                raise Error(f"{self.name}(): more than {_MOST_CALLS} calls within one another")
            return run(frame)
        finally:
            self.program.depth -= 1

    def _completed(self, args: Sequence[Any], kwargs: dict[str, Any], defaults: list[Any]) -> tuple[Any, ...]:
        """The arguments in the order of the parameters, defaults for those left out."""
        names = self.parameters
        shown = self.name + "()"
        is_method = bool(names) and names[0] in ("self", "s")
        if len(args) > len(names):
            raise RuntimeError(
                f"{shown} expected at most {len(names) - is_method} argument(s) but received {len(args) - is_method} argument(s)"
            )
        values = dict(zip(names, args))
        for name, value in kwargs.items():
            if name not in names:
                raise RuntimeError(f"Unknown keyword argument '{name}' for operator '{shown}'")
            if name in values:
                raise RuntimeError(f"{shown} got multiple values for argument '{name}'")
            values[name] = value
        first = len(names) - len(defaults)
        for k, name in enumerate(names):
            if name not in values:
                if k < first:
                    raise RuntimeError(f"{shown} is missing value for argument '{name}'")
                values[name] = defaults[k - first]
        return tuple(values[name] for name in names)


class ScriptClass:
    """A class of an archive: what it declares, and its methods."""

    def __init__(self, program: Namespace, source: Source, definition: ast.ClassDef, name: str) -> None:
        self.program, self.source, self.definition, self.name = program, source, definition, name
        self.base = ".".join(dotted(definition.bases[0]) or ()) if definition.bases else ""
        self.annotations: dict[str, ast.expr] = {}
        self.constants: dict[str, Any] = {}
        self.lists: dict[str, list[str]] = {}  # __parameters__, __buffers__
        self.methods: dict[str, Function] = {}
        for node in definition.body:
            self._declare(node)
        self.fields = tuple(self.annotations) if self.base == "NamedTuple" else ()
        self.tuple_class = (
            _named_tuple(name.rpartition(".")[2], self.fields) if self.base == "NamedTuple" else None
        )

    def __deepcopy__(self, memo: Any) -> ScriptClass:
        return self

    def _declare(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef):
            self.methods[node.name] = Function(self.program, self.source, node, node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            self._annotate(node.target.id, node.annotation, node)
            if node.value is not None:
                self.constants[node.target.id] = self._literal(node.value)
        elif isinstance(node, ast.AnnAssign) or (isinstance(node, ast.Assign) and len(node.targets) == 1):
            self._assign(node)
        elif not isinstance(node, ast.Pass):
            self.source.refuse(f"{type(node).__name__} in class {self.name}", node.lineno)

    def _assign(self, node: ast.Assign | ast.AnnAssign) -> None:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        value = node.value
        if isinstance(target, ast.Name) and isinstance(value, ast.List):
            self.lists[target.id] = [str(self._literal(e)) for e in value.elts]
        elif isinstance(target, ast.Name) and value is not None:
            self.constants[target.id] = self._literal(value)
        elif (
            isinstance(target, ast.Subscript)
            and isinstance(target.value, ast.Name)
            and target.value.id == "__annotations__"
            and value is not None
        ):
            self._annotate(str(self._literal(target.slice)), value, node)
        else:
            self.source.refuse(f"an assignment in class {self.name} that is no attribute", node.lineno)

    def _annotate(self, name: str, kind: ast.expr, node: ast.stmt) -> None:
        if name in self.annotations:
            self.source.refuse(f"attribute {name!r} is declared twice in class {self.name}", node.lineno)
        self.annotations[name] = kind

    def _literal(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
            return -node.operand.value  # type: ignore[operator]
        if isinstance(node, (ast.List, ast.Tuple)):
            items = [self._literal(e) for e in node.elts]
            return items if isinstance(node, ast.List) else tuple(items)
        if isinstance(node, ast.Dict):
            return {
                self._literal(k): self._literal(v) for k, v in zip(node.keys, node.values) if k is not None
            }
        if isinstance(node, ast.Name) and node.id in ("inf", "nan"):
            return float(node.id)
        return self.source.refuse(f"class {self.name} declares a value that is no literal", node.lineno)

    @property
    def is_module(self) -> bool:
        """Whether its objects are modules."""
        return self.base == "Module"


def _named_tuple(name: str, fields: tuple[str, ...]) -> type:
    """A class of tuples with names for their items; made without code of Python that is put together from text."""

    def getter(k: int) -> property:
        return property(lambda self: tuple.__getitem__(self, k))

    def show(self: Any) -> str:
        return f"{name}({', '.join(f'{f}={v!r}' for f, v in zip(fields, self))})"

    members: dict[str, Any] = {f: getter(k) for k, f in enumerate(fields) if not f.startswith("_")}
    made = type(name, (tuple,), members | {"_fields": fields, "__repr__": show, "__slots__": ()})
    made.__new__ = lambda cls, *items: tuple.__new__(cls, items)  # type: ignore[assignment,misc]
    return made


class Enumeration:
    """A class of an archive that derives from Enum."""

    def __init__(self, declared: ScriptClass) -> None:
        self.name = declared.name
        self.members = {
            n: EnumValue(self, n, v) for n, v in declared.constants.items() if not n.startswith("__")
        }


class EnumValue:
    """A member of an enumeration."""

    def __init__(self, kind: Enumeration, name: str, value: Any) -> None:
        self.kind, self.name, self.value = kind, name, value

    def __deepcopy__(self, memo: Any) -> EnumValue:
        return self

    def __repr__(self) -> str:
        return f"<{self.kind.name.rpartition('.')[2]}.{self.name}: {self.value!r}>"


class ScriptObject:
    """An object of a class of an archive that is no module; its attributes stand in `values`."""

    def __init__(self, kind: ScriptClass) -> None:
        self.kind = kind
        self.values: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            values = self.__dict__.get("values", {})
            if name in values:
                return values[name]
            if name in self.kind.methods:
                return lambda *args, **kwargs: self.kind.methods[name](self, *args, **kwargs)
        raise AttributeError(f"'{self.kind.name}' object has no attribute {name!r}")


class Namespace:
    """The classes and functions of an archive by name, made when they are first named, and its constants."""

    def __init__(self, sources: dict[str, str], constants: Sequence[Any], folder: str = "code/") -> None:
        self.sources, self.constants, self.folder = sources, constants, folder
        self.depth = 0  # of calls that run
        self._files: dict[str, dict[str, ast.stmt]] = {}
        self._resolved: dict[str, Any] = {}

    def __deepcopy__(self, memo: Any) -> Namespace:
        return self

    def compiled(
        self, source: Source, definition: ast.FunctionDef
    ) -> tuple[Callable[[list[Any]], Any], int, list[Any]]:
        """A function's body as a function of a frame, how many variables frames have, and the last parameters' defaults."""
        raise NotImplementedError

    def constant(self, name: str) -> Any:
        """`CONSTANTS.c3`; None where there is none."""
        number = name[1:]
        if (
            not name.startswith("c")
            or not number.isdecimal()
            or len(number) > 9
            or int(number) >= len(self.constants)
        ):
            return None
        return self.constants[int(number)]

    def file_of(self, path: str) -> dict[str, ast.stmt]:
        """The definitions of a file by name; empty where there is no such file."""
        if path not in self._files:
            text = self.sources.get(path)
            source = Source(self.folder + path, text or "")
            definitions: dict[str, ast.stmt] = {}
            for node in parse(source) if text is not None else []:
                assert isinstance(node, (ast.ClassDef, ast.FunctionDef))
                if node.name in definitions:
                    source.refuse(f"{node.name} is defined twice", node.lineno)
                definitions[node.name] = node
            self._files[path] = definitions
        return self._files[path]

    def find(self, names: Sequence[str]) -> Any:
        """A class, function or member of an enumeration by its qualified name; None where there is none."""
        if names[0] != _ROOT or len(names) < 2:
            return None
        qualified = ".".join(names)
        if qualified not in self._resolved:
            self._resolved[qualified] = self._look_up(names, qualified)
        return self._resolved[qualified]

    def _look_up(self, names: Sequence[str], qualified: str) -> Any:
        path = "/".join(names[:-1]) + ".py"
        node = self.file_of(path).get(names[-1])
        source = Source(self.folder + path, self.sources.get(path, ""))
        if isinstance(node, ast.FunctionDef):
            return Function(self, source, node, names[-1])
        if isinstance(node, ast.ClassDef):
            made = ScriptClass(self, source, node, qualified)
            return Enumeration(made) if made.base == "Enum" else made
        if len(names) > 2:
            holder = self.find(names[:-1])
            if isinstance(holder, Enumeration):
                return holder.members.get(names[-1])
        return None

    def class_check(self, names: list[str]) -> Callable[[Any], bool] | None:
        """Whether values are objects of a class of the archive; None where there is no such class."""
        result = self.find(names)
        if isinstance(result, Enumeration):
            return lambda x: isinstance(x, EnumValue) and x.kind is result
        if not isinstance(result, ScriptClass):
            return None
        if result.tuple_class is not None:
            return lambda x: type(x) is result.tuple_class
        return lambda x: getattr(x, "kind", None) is result and isinstance(x, ScriptObject)


def construct(kind: ScriptClass | Enumeration, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`Foo(…)` in code: a named tuple, or a member of an enumeration by its value."""
    if isinstance(kind, Enumeration):
        for member in kind.members.values():
            if len(args) == 1 and type(member.value) is type(args[0]) and member.value == args[0]:
                return member
        raise Error(f"{kind.name} has no member of that value")
    if kind.tuple_class is None or kwargs or len(args) != len(kind.fields):
        raise Error(f"{kind.name} is no named tuple of {len(args)} items")
    return kind.tuple_class(*args)


def attribute(owner: Any, name: str) -> Any:
    """`owner.name` in code."""
    find = getattr(type(owner), "script_attribute", None)
    if find is not None:
        return find(owner, name)
    if isinstance(owner, ScriptObject):
        if name in owner.values:
            return owner.values[name]
        if name in owner.kind.constants:
            return owner.kind.constants[name]
    elif isinstance(owner, EnumValue):
        if name in ("name", "value"):
            return owner.name if name == "name" else owner.value
    elif isinstance(owner, tuple):
        if name in getattr(type(owner), "_fields", ()):
            return owner[type(owner)._fields.index(name)]  # type: ignore[attr-defined]
    raise Error(f"a {_shown(owner)} has no attribute {name!r}")


def set_attribute(owner: Any, name: str, value: Any) -> None:
    """`owner.name = value` in code."""
    kind = (
        owner.kind if isinstance(owner, ScriptObject) else getattr(type(owner), "set_script_attribute", None)
    )
    if isinstance(owner, ScriptObject) and name in owner.kind.annotations:
        owner.values[name] = value
    elif kind is not None and not isinstance(owner, ScriptObject):
        owner.set_script_attribute(name, value)
    else:
        raise Error(f"a {_shown(owner)} has no attribute {name!r}")


def method(owner: Any, name: str) -> Callable[..., Any]:
    """`owner.name` in code, to be called."""
    kind = owner.kind if isinstance(owner, ScriptObject) else getattr(owner, "script_class", None)
    if isinstance(kind, ScriptClass) and name in kind.methods:
        function = kind.methods[name]
        return lambda *args, **kwargs: function(owner, *args, **kwargs)
    raise Error(f"a {_shown(owner)} has no method {name!r}")


def _shown(owner: Any) -> str:
    kind = owner.kind if isinstance(owner, ScriptObject) else getattr(owner, "script_class", None)
    return kind.name if isinstance(kind, ScriptClass) else type(owner).__name__
