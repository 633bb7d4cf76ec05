"""Types of TorchScript: what annotations mean, which are subtypes of which, and how they are written."""

from __future__ import annotations

import ast
import enum
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..._tensor import Tensor
from ...core.base.dtypes import device as Device
from ...core.base.dtypes import dtype as DType
from ...core.base.formats import layout, memory_format
from ...core.call.types import SchemaType
from ...futures import Future


class Type(NamedTuple):
    """A type: its kind, the types in brackets, the qualified name of a class, and the names of the items of an operation's results."""

    kind: str
    inner: tuple[Type, ...] = ()
    name: str = ""
    fields: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """As code writes it."""
        if self.name:
            return self.name
        if self.kind == "Tuple":
            return f"Tuple[{', '.join(t.text for t in self.inner) if self.inner else '()'}]"
        if self.inner:
            return f"{self.kind}[{', '.join(t.text for t in self.inner)}]"
        return self.kind

    def __str__(self) -> str:
        if self.kind == "Dict":
            return f"Dict({self.inner[0]}, {self.inner[1]})"
        if self.kind == "Tuple":
            return f"Tuple[{', '.join(map(str, self.inner))}]"
        if self.inner and not self.name:
            return f"{self.kind}[{', '.join(map(str, self.inner))}]"
        return self.name or self.kind

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Type)
            and self.kind == other.kind
            and self.inner == other.inner
            and self.name == other.name
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.inner, self.name))

    @property
    def unwrapped(self) -> Type:
        """What is there where an optional value is."""
        return self.inner[0] if self.kind == "Optional" else self


TENSOR, INT, FLOAT, BOOL, STR = Type("Tensor"), Type("int"), Type("float"), Type("bool"), Type("str")
COMPLEX, NONE, DEVICE, ANY, NUMBER = (
    Type("complex"),
    Type("NoneType"),
    Type("Device"),
    Type("Any"),
    Type("number"),
)
GENERATOR = Type("Generator")
NUMBERS = (INT, FLOAT, COMPLEX)


def List(inner: Type) -> Type:
    return Type("List", (inner,))


def Dict(key: Type, value: Type) -> Type:
    return Type("Dict", (key, value))


def Tuple(*inner: Type) -> Type:
    return Type("Tuple", inner)


def Optional(inner: Type) -> Type:
    return inner if inner.kind in ("Optional", "NoneType", "Any") else Type("Optional", (inner,))


def Union(*members: Type) -> Type:
    """One of several; an Optional where there are two, one of them None."""
    flat: list[Type] = []
    for m in members:
        parts = (*m.inner, NONE) if m.kind == "Optional" else m.inner if m.kind == "Union" else (m,)
        flat += [p for p in parts if p not in flat]
    flat = [t for t in flat if not any(t != o and is_subtype(t, o) for o in flat)]
    if NONE in flat:
        rest = [t for t in flat if t != NONE]
        if not rest:
            return NONE
        if len(rest) == 1:
            return Optional(rest[0])
    return flat[0] if len(flat) == 1 else Type("Union", tuple(flat))


def members_of(t: Type) -> tuple[Type, ...]:
    """The types that a value of a union may be of."""
    if t.kind == "Optional":
        return (t.inner[0], NONE)
    return t.inner if t.kind == "Union" else (t,)


INTERFACES: dict[str, Callable[[Type], bool]] = {}  # by name: whether a class has its methods


def is_subtype(a: Type, b: Type) -> bool:
    """Whether every value of `a` is one of `b`."""
    if a == b or b.kind == "Any":
        return True
    if a.kind in ("Optional", "Union"):
        return all(is_subtype(m, b) for m in members_of(a))
    if b.kind in ("Optional", "Union"):
        return any(is_subtype(a, m) for m in members_of(b))
    if b == NUMBER:
        return a in NUMBERS
    if b.kind == "Tuple" and a.kind == "Tuple":
        if b.name and b.name != a.name:
            return False
        return len(a.inner) == len(b.inner) and all(map(is_subtype, a.inner, b.inner))
    if b.kind == "interface":
        return INTERFACES[b.name](a)
    if a.kind == b.kind == "Future":
        return is_subtype(a.inner[0], b.inner[0])
    return False


def unified(a: Type, b: Type) -> Type | None:
    """The type of a value that is of one or the other; None where there is none."""
    if is_subtype(a, b):
        return b
    if is_subtype(b, a):
        return a
    if a == NONE or b == NONE:
        return Optional(b if a == NONE else a)
    if a.kind == "Optional" or b.kind == "Optional":
        result = unified(a.unwrapped, b.unwrapped)
        return None if result is None else Optional(result)
    if a.kind == b.kind == "Tuple" and len(a.inner) == len(b.inner) and a.name == b.name:
        parts = [unified(x, y) for x, y in zip(a.inner, b.inner)]
        return None if None in parts else Type("Tuple", tuple(p for p in parts if p is not None), a.name)
    return None


# --- schemas ------------------------------
_BASES = {
    "SymInt": INT,
    "ScalarType": INT,
    "Layout": INT,
    "MemoryFormat": INT,
    "double": FLOAT,
    "SymBool": BOOL,
    "Scalar": NUMBER,
}


def of_schema(t: SchemaType) -> Type:
    """A type of a schema of ATen."""
    if t.base == "(":
        result = Tuple(*map(of_schema, t.members))
    elif t.members:
        result = Type(t.base, tuple(map(of_schema, t.members)))
    else:
        result = _BASES.get(t.base, Type(t.base))
    for part in t.form.replace("[]", "["):
        result = List(result) if part == "[" else Optional(result)
    return result


def results_of(returns: Sequence[Any]) -> Type:
    """What a schema's results are: one, a tuple of them with their names, or None."""
    if not returns:
        return NONE
    if len(returns) == 1:
        return of_schema(returns[0].type)
    fields = tuple(r.name for r in returns) if all(r.name for r in returns) else ()
    return Type("Tuple", tuple(of_schema(r.type) for r in returns), "", fields)


def parsed(node: ast.expr) -> Type:
    """A type as code writes it, of which nothing is looked up."""
    if isinstance(node, ast.Constant) and node.value is None:
        return NONE
    if isinstance(node, ast.Name):
        return Type(node.id)
    assert isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return Type(node.value.id, tuple(map(parsed, inner)))


def bound(pattern: Type, actual: Type, type_vars: dict[str, Type]) -> bool:
    """Whether a type fits one with variables (lower-case letters), whose values are entered into `type_vars`."""
    if len(pattern.kind) == 1 and pattern.kind.islower():
        if pattern.kind in type_vars:
            return is_subtype(actual, type_vars[pattern.kind])
        type_vars[pattern.kind] = actual
        return True
    if not any(_has_variables(p) for p in pattern.inner):
        return is_subtype(actual, pattern)
    if pattern.kind == "Optional":
        return actual == NONE or bound(pattern.inner[0], actual.unwrapped, type_vars)
    if pattern.kind != actual.kind or len(pattern.inner) != len(actual.inner):
        return False
    return all(bound(p, g, type_vars) for p, g in zip(pattern.inner, actual.inner))


def _has_variables(t: Type) -> bool:
    return (len(t.kind) == 1 and t.kind.islower()) or any(map(_has_variables, t.inner))


def filled(pattern: Type, type_vars: dict[str, Type]) -> Type:
    """A type with values in place of variables."""
    if pattern.kind in type_vars:
        return type_vars[pattern.kind]
    return (
        pattern._replace(inner=tuple(filled(p, type_vars) for p in pattern.inner))
        if pattern.inner
        else pattern
    )


# --- annotations ------------------------------
_BY_ANNOTATION: dict[Any, Type] = {
    int: INT,
    float: FLOAT,
    bool: BOOL,
    str: STR,
    complex: COMPLEX,
    None: NONE,
    type(None): NONE,
    Device: DEVICE,
    DType: INT,
    layout: INT,
    memory_format: INT,
    Any: ANY,
}
_BARE = {
    list: "List",
    typing.List: "List",  # noqa: UP006
    tuple: "Tuple",
    typing.Tuple: "Tuple",  # noqa: UP006
    dict: "Dict",
    typing.Dict: "Dict",  # noqa: UP006
    typing.Optional: "Optional",
    typing.Union: "Union",
    Future: "Future",
}
_EXAMPLES = {
    "List": "List[int]",
    "Tuple": "Tuple[int, int]",
    "Dict": "Dict[str, int]",
    "Optional": "Optional[int]",
}


class NoType(Exception):
    """An annotation that TorchScript has no type for; the message says why."""


def of_annotation(a: Any, of_class: Callable[[type], Type | None]) -> Type:
    """The type that an annotation means; `of_class` knows classes of programs.  NoType where there is none."""
    if isinstance(a, Type):
        return a
    try:
        if a in _BY_ANNOTATION:
            return _BY_ANNOTATION[a]
        bare = _BARE.get(a)
    except TypeError:
        raise NoType(f"Unknown type annotation: '{a!r}'") from None
    if bare is not None:
        example = f", e.g. {_EXAMPLES[bare]}" if bare in _EXAMPLES else ""
        raise NoType(
            f"Attempted to use {bare} without a contained type. Please add a contained type{example}"
        )
    if isinstance(a, type) and issubclass(a, Tensor):
        return TENSOR
    origin, inside = typing.get_origin(a), typing.get_args(a)
    if origin is not None:
        return _compound(a, origin, inside, of_class)
    if isinstance(a, type):
        if a.__name__ == "Generator" and hasattr(a, "manual_seed"):
            return GENERATOR
        result = of_class(a)
        if result is not None:
            return result
    raise NoType(f"Unknown type name '{getattr(a, '__qualname__', None) or a!r}'")


def _compound(a: Any, origin: Any, inside: tuple[Any, ...], of_class: Any) -> Type:
    if origin in (typing.Union, types.UnionType):
        return Union(*(of_annotation(i, of_class) for i in inside))
    if origin is list:
        return List(of_annotation(inside[0], of_class))
    if origin is dict:
        key, value = (of_annotation(i, of_class) for i in inside)
        if key not in (INT, FLOAT, COMPLEX, STR, BOOL, DEVICE, TENSOR) and key.kind != "enum":
            raise NoType(
                f"Cannot create dict for key type '{key}', only int, float, complex, Tensor, device and string keys are supported"
            )
        return Dict(key, value)
    if origin is tuple:
        if len(inside) == 2 and inside[1] is Ellipsis:
            raise NoType("A tuple of any length is no type of TorchScript: use List")
        return Tuple(*(of_annotation(i, of_class) for i in inside if i != ()))
    if origin is typing.Final:
        return of_annotation(inside[0], of_class)
    if origin is typing.Annotated:
        return of_annotation(inside[0], of_class)
    if isinstance(origin, type) and issubclass(origin, Future):
        return Type("Future", (of_annotation(inside[0], of_class),))
    raise NoType(f"Unknown type constructor {getattr(origin, '__name__', origin)} in '{a}'")


def of_value(x: Any, of_class: Callable[[type], Type | None]) -> Type:
    """The type of a value of Python; NoType where TorchScript has none."""
    if isinstance(x, Tensor):
        return TENSOR
    if isinstance(x, (DType, layout, memory_format)):
        return INT
    for kind in (bool, int, float, complex, str):
        if type(x) is kind:
            return _BY_ANNOTATION[kind]
    if x is None:
        return NONE
    if isinstance(x, Device):
        return DEVICE
    if isinstance(x, enum.Enum) or hasattr(type(x), "_fields"):
        result = of_class(type(x))
        if result is not None:
            return result
    if isinstance(x, tuple):
        return Tuple(*(of_value(v, of_class) for v in x))
    if isinstance(x, (list, dict)):
        return _of_container(x, of_class)
    result = of_class(type(x))
    if result is None:
        raise NoType(f"Could not infer type of an object of class {type(x).__name__}")
    return result


def _of_container(x: Any, of_class: Any) -> Type:
    name = type(x).__name__
    if not len(x):
        raise NoType(
            f"{name.title()} inferred to be empty: annotate its type, as `{'List[int]' if name == 'list' else 'Dict[str, int]'}`"
        )

    def common(values: Any, what: str) -> Type:
        result: Type | None = None
        for v in values:
            t = of_value(v, of_class)
            both = t if result is None else unified(result, t)
            if both is None:
                raise NoType(f"{what} of several types: {result} and {t}")
            result = both
        assert result is not None
        return result

    if isinstance(x, list):
        return List(common(x, "a list"))
    return Dict(common(x.keys(), "keys"), common(x.values(), "values"))
