"""Modules of a program: what their attributes are, which of their methods are compiled, and their classes as code."""

from __future__ import annotations

import ast
import inspect
import typing
from collections.abc import Iterator
from typing import Any

from ..._tensor import Tensor
from ...nn.modules.container import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from ...nn.modules.module import Module
from .._text import is_identifier, quoted
from ..frontend import FrontendError
from ._classes import _evaluated
from ._marks import Attribute, is_exported, mark_of
from ._operators import constant_text
from ._source import MISSING, Code, is_own, names_of
from ._types import BOOL, NONE, TENSOR, List, NoType, Optional, Type, of_value
from ._values import Host, Method, ModuleRef, Several, Simple, Value

_OWN = frozenset(vars(Module())) - {"training"}
_SCALARS = (int, float, bool, str, type(None), complex)


class ModuleClass:
    """A module of Python as a class of code."""

    def __init__(self, unit: Any, module: Module, compiler: Any = None) -> None:
        self.unit, self.module, self.python = unit, module, type(module)
        self.shown = type(module).__name__
        self.short = self.name = ""
        self.attributes: dict[str, Type] = {}
        self.constants: dict[str, Any] = {}
        self.values: dict[str, Any] = {}  # of attributes that are no tensors of the module's own
        self.failed: dict[str, str] = {}
        self.hosts: dict[str, Any] = {}
        self.entries: dict[Any, Any] = {}
        self.children: dict[str, ModuleClass] = {}
        self.defining = False
        self.is_library = is_own(type(module))
        self.parameters = [n for n, p in module._parameters.items() if p is not None]
        self.buffers = [n for n, b in module._buffers.items() if b is not None]
        self.frozen: set[str] = set()
        self.read_attributes(compiler)
        if unit.preserved is not None:
            self.freeze(unit.preserved)
        for name, child in module._modules.items():
            if child is None:
                self.attributes[name], self.values[name] = NONE, None
            else:
                self.children[name] = unit.module_class(child)

    def key(self) -> Any:
        """What tells the class from others: modules that are alike in it have one class."""
        constants = tuple((n, type(v).__name__, repr(v)) for n, v in self.constants.items())
        nothing = tuple(n for n, v in self.values.items() if v is None)
        children = tuple((n, id(c)) for n, c in self.children.items())
        hosts = tuple((n, id(v)) for n, v in self.hosts.items())
        return (
            self.python,
            tuple(self.attributes.items()),
            constants,
            nothing,
            children,
            hosts,
            tuple(self.failed),
        )

    def enter(self) -> None:
        """Give the class its name, once."""
        if not self.name:
            self.short = self.unit.unique(self.shown)
            self.name = f"__torch__.{self.short}"
            self.type = Type("module", (), self.name)
            self.unit.by_name[self.name] = self
            self.unit.modules.append(self)

    # --- attributes ------------------------------
    def read_attributes(self, compiler: Any) -> None:
        """What the module's attributes are, by their values and by the annotations of its class."""
        module, annotated = self.module, self.annotations()
        for name in (*self.parameters, *self.buffers):
            self.attributes[name] = TENSOR
        for name, value in (*module._parameters.items(), *module._buffers.items()):
            if value is None:
                self.attributes[name], self.values[name] = annotated.get(name, NONE), None
        self.attributes["training"] = BOOL
        named = self._constant_names()
        ignored = set(getattr(module, "__jit_ignored_attributes__", ()))
        for name, value in self._own_values():
            if name in ignored or name in self.attributes:
                continue
            if isinstance(value, Attribute):
                self.attributes[name] = self.unit.annotation(value.type, None, ast.Pass())
                self.values[name] = value.value
            elif name in named or (self.is_library and _is_constant(value)):
                self.constants[name] = value
            elif name in annotated:
                self.attributes[name], self.values[name] = annotated[name], value
            elif callable(value) and not isinstance(value, Module) and not isinstance(value, Tensor):
                self.hosts[name] = value
            else:
                self._infer(name, value)

    def own_value(self, module: Module, name: str) -> Any:
        """The value of an attribute of a module of this class."""
        value = getattr(module, name)
        return value.value if isinstance(value, Attribute) else value

    def freeze(self, preserved: frozenset[str]) -> None:
        """Let attributes be constants of the code, but those that are kept."""
        frozen = [n for n in (*self.parameters, *self.buffers) if n not in preserved]
        self.parameters = [n for n in self.parameters if n in preserved]
        self.buffers = [n for n in self.buffers if n in preserved]
        scalars = [
            n
            for n, v in self.values.items()
            if n not in preserved and isinstance(v, _SCALARS) and v is not None
        ]
        self.constants.update({n: self.values.pop(n) for n in scalars})
        for name in scalars:
            del self.attributes[name]
        if "training" not in preserved:
            self.frozen.add("training")
        self.frozen.update(frozen)

    def _own_values(self) -> Iterator[tuple[str, Any]]:
        for name, value in vars(self.module).items():
            if name not in _OWN and not name.startswith("__"):
                yield name, value
        named = self._constant_names()
        for c in self.python.__mro__:
            if c is Module:
                break
            for name, value in vars(c).items():
                if name in vars(self.module) or name.startswith("__"):
                    continue
                if (
                    name in named
                    or (isinstance(value, _SCALARS) and name in vars(c).get("__annotations__", {}))
                    or (self.is_library and isinstance(value, (*_SCALARS, tuple)))
                ):
                    yield name, value

    def _infer(self, name: str, value: Any) -> None:
        try:
            self.attributes[name] = of_value(value, lambda c: self.unit.type_of_class(c, None, ast.Pass()))
            self.values[name] = value
        except (NoType, RuntimeError, OSError, FrontendError) as error:
            self.failed[name] = (
                f"(This attribute exists on the Python module, but we failed to convert Python type: "
                f"'{type(value).__name__}' to a TorchScript type. {error})"
            )

    def _constant_names(self) -> set[str]:
        result = set(getattr(self.module, "__constants__", ()))
        for c in self.python.__mro__:
            for name, annotation in vars(c).get("__annotations__", {}).items():
                text = annotation if isinstance(annotation, str) else ""
                if (
                    typing.get_origin(annotation) is typing.Final
                    or annotation is typing.Final
                    or "Final" in text.partition("[")[0]
                ):
                    result.add(name)
        return result

    def annotations(self) -> dict[str, Type]:
        """The types that the module's class declares."""
        result: dict[str, Type] = {}
        if self.is_library:
            return result
        for c in reversed(self.python.__mro__):
            if c is Module or c is object:
                continue
            for name, annotation in vars(c).get("__annotations__", {}).items():
                try:
                    result[name] = _evaluated(self.unit, annotation, self.resolver(c), None, ast.Pass())
                except (NoType, NameError, KeyError, SyntaxError, TypeError, RuntimeError):
                    continue  # an annotation that is no type of TorchScript: the value tells
        return result

    def resolver(self, c: type) -> Any:
        """What names in a class stand for."""
        return self.unit.resolvers.get(c) or names_of(c)

    def self_value(self) -> ModuleRef:
        """`self`."""
        return ModuleRef(self, "self", "self")

    def child(self, owner: ModuleRef, name: str) -> ModuleRef:
        """A submodule."""
        base = owner.text
        text = f"{base}.{name}" if is_identifier(name) else f"getattr({base}, {quoted(name)})"
        return ModuleRef(self.children[name], text, f"{owner.py}._modules[{name!r}]")

    def place_of(self, name: str) -> str | None:
        """Where an attribute of that name is kept."""
        if name in self.parameters:
            return "_parameters"
        if name in self.buffers:
            return "_buffers"
        return "_attributes" if name in self.attributes else None

    @property
    def keys(self) -> list[str] | None:
        """The names of the modules of a dictionary of them."""
        return list(self.children) if isinstance(self.module, ModuleDict) else None

    def items(self, owner: ModuleRef) -> Several | None:
        """The modules of a list or a dictionary of them, the parameters of a list; None for any other module."""
        if isinstance(self.module, (ModuleList, ModuleDict, Sequential)):
            return (
                Several(
                    [self.child(owner, n) for n in self.children],
                    self.keys or list(self.children),
                    "module list",
                )
                if self.keys is not None
                else Several([self.child(owner, n) for n in self.children], None, "module list")
            )
        if isinstance(self.module, (ParameterList, ParameterDict)):
            named = list(self.module._parameters)
            result: list[Value] = [self.read(owner, n) for n in named]
            return Several(
                result, named if isinstance(self.module, ParameterDict) else None, "parameter list"
            )
        return None

    def read(self, owner: ModuleRef, name: str) -> Simple:
        """An attribute that is kept."""
        t = self.attributes[name]
        if name in self.frozen:
            return self._frozen(name)
        if t == NONE:
            return Simple("None", "None", NONE, None)
        base = owner.text if owner.text.isidentifier() or owner.text.endswith(")") else f"({owner.text})"
        text = f"{base}.{name}" if is_identifier(name) else f"getattr({owner.text}, {quoted(name)})"
        if name == "training":
            return Simple(text, f"{owner.py}.training", BOOL)
        return Simple(text, f"{owner.py}.{self.place_of(name)}[{name!r}]", t)

    def _frozen(self, name: str) -> Simple:
        """An attribute as a constant of the code."""
        if name == "training":
            return self.unit.literal(self.module.training)  # type: ignore[no-any-return]
        value = getattr(self.module, name).detach()
        for k, constant in enumerate(self.unit.constants):  # noqa: B007  read after the loop
            if (
                constant._address() == value._address()
                and constant.shape == value.shape
                and constant.stride() == value.stride()
            ):
                break
        else:
            k = len(self.unit.constants)
            self.unit.constants.append(value)
        value = self.unit.constants[k]
        return Simple(f"CONSTANTS.c{k}", self.unit.bind(value, name), TENSOR, stable=True)

    def attribute(self, owner: ModuleRef, name: str) -> Value | str:
        """`owner.name`; a text that says why where there is none."""
        if name in self.children:
            return self.child(owner, name)
        if name == "_modules" and self.is_library:
            return Several(
                [self.child(owner, n) for n in self.children], list(self.children), "module dictionary"
            )
        if name == "_flat_weights" and self.is_library:
            return self._flat_weights(owner)
        if name in self.constants:
            return self.constant(name)
        if name in self.attributes:
            return self.read(owner, name)
        if name in self.hosts:
            return Host(self.hosts[name], name)
        if name in self.failed:
            return f"Module '{self.shown}' has no attribute '{name}' {self.failed[name]}"
        result = inspect.getattr_static(self.python, name, None)
        if isinstance(result, property):
            return Method(owner, "@" + name)
        if name in ("items", "keys", "values", "__getitem__") or inspect.isfunction(result):
            return Method(owner, name)
        if isinstance(result, (staticmethod, classmethod)):
            return Host(getattr(self.python, name), name)
        if isinstance(result, _SCALARS) and result is not None:
            return Host(result, name)
        return f"Module '{self.shown}' has no attribute '{name}'"

    def _flat_weights(self, owner: ModuleRef) -> Simple:
        """The weights of a recurrent layer, in a list."""
        result = [self.read(owner, n) for names in self.constants["_all_weights"] for n in names]
        text, py = (f"[{', '.join(getattr(v, part) for v in result)}]" for part in ("text", "py"))
        return Simple(text, py, List(TENSOR), items=result)

    def constant(self, name: str) -> Value:
        """A constant of the module."""
        value = self.constants[name]
        if isinstance(value, _SCALARS):
            return self.unit.literal(value)
        if isinstance(value, (list, tuple)) and any(isinstance(v, Module) for v in value):
            return Several([Host(v) for v in value])
        return self.unit.constant(value) or Host(value, name)

    def has(self, name: str) -> bool:
        """Whether there is a method of that name."""
        return self.python_method(name) is not None

    # --- methods ------------------------------
    def python_method(self, name: str) -> Any:
        """The function of Python that a method is; None where there is none."""
        if self.is_library:
            from ._layers import LAYERS

            for c in self.python.__mro__:
                if (c, name) in LAYERS:
                    return LAYERS[c, name]
                if name in vars(c):
                    break
        own = vars(self.module).get(name)
        if own is not None and callable(own) and not isinstance(own, Module):
            return getattr(own, "__func__", own)
        result = inspect.getattr_static(self.python, name, None)
        if isinstance(result, property):
            return result.fget
        return result if inspect.isfunction(result) or mark_of(result) else None

    def method_of(self, name: str) -> Any:
        """As `python_method`, for methods that the class itself has."""
        return self.python_method(name) if name not in vars(Module) else None

    def method(self, name: str, compiler: Any, node: ast.AST) -> Any:
        """A method, compiled."""
        entry = self.entries.get(name)
        if entry is None:
            entry = self._compiled(name, self.python_method(name), name)
        elif not entry.is_done:
            self._recursive(name, compiler, node)
        return entry

    def _recursive(self, name: str, compiler: Any, node: ast.AST) -> None:
        message = f"method '{self.shown}.{name}' is called recursively. Recursive calls are not supported"
        if compiler is None:
            raise RuntimeError(message)
        compiler.refuse(message, node)

    def _compiled(self, key: Any, function: Any, name: str, fixed: dict[str, Value] | None = None) -> Any:
        """A function as a method of the class; `fixed` are parameters that are known while it is compiled."""
        code = Code(function, self._resolver_of(function))
        entry = self.entries[key] = self.unit.signature(code, function, owner=self)
        entry.parameters = [p for p in entry.parameters if p.name not in (fixed or {})]
        entry.name, entry.method_name = f"{self.name}.{name}", name
        entry.py = f"_f_{self.short}_{name}"
        self.unit.compile(entry, code, self, fixed)
        return entry

    def _resolver_of(self, function: Any) -> Any:
        for c in self.python.__mro__:
            if c in self.unit.resolvers and function in vars(c).values():
                return _first_of(names_of(function), self.unit.resolvers[c])
        return None

    def specialised(
        self, name: str, args: list[Value], kwargs: dict[str, Value], compiler: Any, node: ast.AST
    ) -> Simple | None:
        """A call of a method of this library with a function among its arguments: the method is compiled for that function."""
        function = self.python_method(name)
        if not self.is_library:
            return None
        names = [p for p in inspect.signature(function).parameters][1:]
        by_name = {**dict(zip(names, args)), **kwargs}
        fixed = {n: v for n, v in by_name.items() if not isinstance(v, Simple)}
        key = (name, tuple((n, id(v.value) if isinstance(v, Host) else id(v)) for n, v in fixed.items()))
        entry = self.entries.get(key)
        if entry is None:
            own = self.unit.unique(f"{self.short}_{name}") if name in self.entries else name
            entry = self._compiled(key, function, own, fixed)
        bound, text = compiler.matched_call(
            entry, [], {n: v for n, v in by_name.items() if n not in fixed}, node, name
        )
        py = ", ".join(["self", *(v.py for v in bound)])
        return Simple(f"self.{entry.method_name}({text})", f"{entry.py}({py})", entry.returns)

    def super_method(self, after: type, name: str, compiler: Any, node: ast.AST) -> Any:
        """The method of that name of a class behind another one; None where there is none."""
        order = self.python.__mro__
        for c in order[order.index(after) + 1 :]:
            function = vars(c).get(name)
            if inspect.isfunction(function):
                key = (c, name)
                if key not in self.entries:
                    self._compiled(key, function, self.unit.unique(f"{c.__name__}_{name}"))
                entry = self.entries[key]
                if not entry.is_done:
                    self._recursive(name, compiler, node)
                return entry
        return None

    def compile_all(self) -> None:
        """`forward`, where there is one, and the exported methods."""
        for name in self.exported():
            self.method(name, None, ast.Pass())

    def exported(self) -> list[str]:
        """The methods that are compiled without being called."""
        result = []
        forward = self.python_method("forward")
        is_own = forward is not None and forward is not inspect.getattr_static(Module, "forward", None)
        if (
            is_own
            and mark_of(forward) is None
            and not isinstance(self.module, (ModuleList, ModuleDict, ParameterList, ParameterDict))
        ):
            result.append("forward")
        for c in self.python.__mro__:
            for name, member in vars(c).items():
                function = member.fget if isinstance(member, property) else member
                if is_exported(function) and name not in result and not isinstance(member, property):
                    result.append(name)
        return result

    # --- code ------------------------------
    def text(self) -> str:
        """The class as code."""
        lines = [
            f"class {self.short}(Module):",
            f"  __parameters__ = {_listed(self.parameters)}",
            f"  __buffers__ = {_listed(self.buffers)}",
        ]
        kinds = {n: t.text for n, t in self.attributes.items() if n not in self.frozen}
        kinds["_is_full_backward_hook"] = Optional(BOOL).text
        kinds |= {n: c.name for n, c in self.children.items()}
        for name, kind in kinds.items():
            lines.append(
                f"  {name} : {kind}" if is_identifier(name) else f"  __annotations__[{quoted(name)}] = {kind}"
            )
        for name, value in self.constants.items():
            if type(value) in (int, float, bool, str) and is_identifier(name) and name not in kinds:
                lines.append(f"  {name} : Final[{type(value).__name__}] = {constant_text(value)}")
        entries = {id(e): e for e in self.entries.values()}
        return "\n".join(lines) + "\n" + "".join(e.text for e in entries.values())


def _first_of(first: Any, second: Any) -> Any:
    def resolve(name: str) -> Any:
        result = first(name)
        return second(name) if result is MISSING else result

    return resolve


def _listed(names: list[str]) -> str:
    return "[" + "".join(f"{quoted(n)}, " for n in names) + "]"


def _is_constant(value: Any) -> bool:
    """Whether a layer of this library has it for good: a number, a text, or a tuple of such."""
    if isinstance(value, (tuple, list)):
        return all(_is_constant(v) for v in value)
    return isinstance(value, _SCALARS) or type(value).__name__ in ("dtype", "device", "memory_format")
