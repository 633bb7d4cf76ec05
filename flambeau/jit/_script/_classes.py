"""Classes of a program that are no modules: enumerations, named tuples, interfaces, and classes with methods."""

from __future__ import annotations

import ast
import enum
import inspect
from typing import Any

from ...nn.modules.module import Module
from .._text import is_identifier
from ._entries import Entry
from ._hosts import Parameter
from ._operators import constant_text
from ._source import MISSING, Code, NotSupportedError, names_of
from ._types import INTERFACES, TENSOR, Type, is_subtype
from ._values import Simple

INTERFACE = "__torch_script_interface__"


def class_type(unit: Any, c: type, compiler: Any, node: ast.AST) -> Type | None:
    """The type of a class, which is compiled here; None for one that is no type."""
    if c.__module__ == "builtins" or issubclass(c, (Module, BaseException)) or not isinstance(c, type):
        return None
    if issubclass(c, enum.Enum):
        return _enumeration(unit, c, compiler, node)
    if issubclass(c, tuple):
        return _named_tuple(unit, c, compiler, node) if hasattr(c, "_fields") else None
    if getattr(c, INTERFACE, False):
        return _interface(unit, c)
    try:
        inspect.getsource(c)
    except (OSError, TypeError):
        return None
    if issubclass(c, dict | list | int | float | str) or not any(
        inspect.isfunction(v) for v in vars(c).values()
    ):
        return None
    return ClassEntry(unit, c, compiler, node).type


def _wrong(compiler: Any, message: str, node: ast.AST) -> Any:
    if compiler is None:
        raise RuntimeError(message)
    compiler.refuse(message, node)


def _enumeration(unit: Any, c: type[enum.Enum], compiler: Any, node: ast.AST) -> Type:
    kinds = {type(m.value) for m in c}
    if len(kinds) != 1 or not kinds <= {int, float, str}:
        shown = ", ".join(sorted(k.__name__ for k in kinds))
        _wrong(
            compiler,
            f"Could not convert {c.__name__}: the values of an enumeration are all int, float or str, got {shown}",
            node,
        )
    name = unit.unique(c.__name__)
    made = unit.types[c] = Type("enum", (), f"__torch__.{name}")
    unit.enum_types[made.name] = c
    lines = [f"class {name}(Enum):", *(f"  {m.name} = {constant_text(m.value)}" for m in c)]
    unit.texts.append("\n".join(lines) + "\n")
    return made


def _named_tuple(unit: Any, c: Any, compiler: Any, node: ast.AST) -> Type:
    name = unit.unique(c.__name__)
    resolve = names_of(c)
    parameters = []
    defaults = getattr(c, "_field_defaults", {})
    for field in c._fields:
        annotation = getattr(c, "__annotations__", {}).get(field)
        t = TENSOR if annotation is None else _evaluated(unit, annotation, resolve, compiler, node)
        parameters.append(Parameter(field, t, defaults.get(field), field in defaults))
    made = unit.types[c] = Type(
        "Tuple", tuple(p.type for p in parameters), f"__torch__.{name}", tuple(c._fields)
    )
    entry = unit.named_tuples[made.name] = Entry(c.__name__, made.name, "", parameters, made)
    entry.is_done = True
    entry.python = c
    lines = [f"class {name}(NamedTuple):", *(f"  {p.name} : {p.type.text}" for p in parameters)]
    unit.texts.append("\n".join(lines) + "\n")
    return made


def _evaluated(unit: Any, annotation: Any, resolve: Any, compiler: Any, node: ast.AST) -> Type:
    """The type of an annotation of a class, which may be a text."""
    result = annotation
    forward = getattr(annotation, "__forward_arg__", None)
    if isinstance(annotation, str) or forward is not None:
        names = compiler.code.resolve if compiler is not None else resolve

        class Place:
            class code:  # noqa: N801
                pass

        def either(name: str) -> Any:
            first = resolve(name)
            return names(name) if first is MISSING else first

        Place.code.resolve = staticmethod(either)  # type: ignore[attr-defined]
        result = unit.evaluate(Place, ast.parse(forward or annotation, mode="eval").body)
    t: Type = unit.annotation(result, compiler, node)
    return t


def _interface(unit: Any, c: type) -> Type:
    """A class whose methods others have: any class with the same signatures is one."""
    name = f"__torch__.{unit.unique(c.__name__)}"
    made = unit.types[c] = Type("interface", (), name)
    methods = unit.interfaces[name] = {}
    for method, function in vars(c).items():
        if inspect.isfunction(function):
            code = Code(function)
            entry = unit.signature(code, function, None, skip=True)
            entry.returns, entry.is_done = entry.declared or TENSOR, True
            methods[method] = entry

    def fits(t: Type) -> bool:
        kind = unit.by_name.get(t.name)
        if kind is None or t.kind not in ("class", "module"):
            return False
        for method, wanted in methods.items():
            if not kind.has(method):
                return False
            own = kind.method(method, None, ast.Pass())
            if not is_subtype(own.returns, wanted.returns) or [p.type for p in own.parameters] != [
                p.type for p in wanted.parameters
            ]:
                return False
        return True

    INTERFACES[name] = fits
    lines = [f"class {name.rpartition('.')[2]}(Interface):"]
    for method, entry in methods.items():
        heads = ", ".join(["self", *(f"{p.name}: {p.type.text}" for p in entry.parameters)])
        lines += [f"  def {method}({heads}) -> {entry.returns.text}:", "    pass"]
    unit.texts.append("\n".join(lines) + "\n")
    return made


class ClassEntry:
    """A class with attributes and methods."""

    def __init__(self, unit: Any, c: type, compiler: Any, node: ast.AST) -> None:
        self.unit, self.python, self.node = unit, c, node
        bases = [b for b in c.__mro__[1:] if b is not object and b.__name__ != "Generic"]
        if bases:
            _wrong(
                compiler,
                f"Type '{c.__qualname__}' is not compiled: classes that derive from others "
                f"({bases[0].__name__}) are not supported in scripts",
                node,
            )
        self.resolve = unit.resolvers.get(c)
        self.short = unit.unique(c.__name__)
        self.name = f"__torch__.{self.short}"
        self.type = unit.types[c] = Type("class", (), self.name)
        unit.by_name[self.name] = self
        self.attributes: dict[str, Type] = {}
        self.constants: dict[str, Any] = {}
        self.entries: dict[str, Any] = {}
        self.defining = False
        for name, annotation in vars(c).get("__annotations__", {}).items():
            self.attributes[name] = _evaluated(unit, annotation, names_of(c), compiler, node)
        self.compile_all()

    def compile_all(self) -> None:
        """All methods: `__init__` first, which says what attributes there are."""
        if "__init__" in vars(self.python):
            self.defining = True
            self.method("__init__", None, self.node)
            self.defining = False
        for name, function in vars(self.python).items():
            if self._function(name) is not None and (not name.startswith("__") or name in _MAGIC):
                del function
                self.method(name, None, self.node)

    def _function(self, name: str) -> Any:
        result = vars(self.python).get(name)
        if isinstance(result, property):
            return result.fget
        return result if inspect.isfunction(result) else None

    def has(self, name: str) -> bool:
        """Whether there is a method of that name."""
        return self._function(name) is not None

    def is_property(self, name: str) -> bool:
        """Whether it is read as an attribute."""
        return isinstance(vars(self.python).get(name), property)

    def self_value(self) -> Simple:
        """`self`."""
        return Simple("self", "self", self.type, stable=True)

    def method(self, name: str, compiler: Any, node: ast.AST) -> Any:
        """A method, compiled."""
        entry = self.entries.get(name)
        if entry is None:
            function = self._function(name)
            if function is None and name == "__init__":
                raise NotSupportedError(
                    f"class {self.python.__name__} has no __init__, which makes its objects"
                )
            code = Code(function, self.resolve)
            entry = self.entries[name] = self.unit.signature(code, function, owner=self)
            entry.name, entry.py, entry.method_name = f"{self.name}.{name}", f"_f_{self.short}_{name}", name
            self.unit.compile(entry, code, self)
        elif not entry.is_done:
            _wrong(
                compiler, f"method '{name}' is called recursively. Recursive calls are not supported", node
            )
        return entry

    def text(self) -> str:
        """The class as code."""
        lines = [f"class {self.short}:"]
        for name, t in self.attributes.items():
            lines.append(
                f"  {name} : {t.text}" if is_identifier(name) else f'  __annotations__["{name}"] = {t.text}'
            )
        if not self.attributes and not self.entries:
            lines.append("  pass")
        return "\n".join(lines) + "\n" + "".join(e.text for e in self.entries.values())


_MAGIC = frozenset(
    "__add__ __sub__ __mul__ __truediv__ __floordiv__ __mod__ __pow__ __matmul__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __neg__ __len__ "
    "__call__ __getitem__ __setitem__ __delitem__ __contains__ __bool__ __str__ __abs__ __invert__ __int__ __float__ __enter__ __exit__ "
    "__and__ __or__ __xor__".split()
)
