"""Where Python calls a program: arguments become what their types say, results what Python has."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from ..._tensor import Tensor
from ...core.base.dtypes import device as Device
from ...core.base.dtypes import dtype as DType
from ...core.base.formats import layout, memory_format
from ...futures import Future
from ...library._calls import CODES
from .._host import number
from .._objects import EnumValue, ScriptObject
from ._types import TENSOR, Type, members_of

_CODED = (DType, layout, memory_format)


class Unfit(Exception):
    """A value that a type does not take."""


def either(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., Any]:
    """An operation of lists and of texts."""
    return lambda owner, *args, **kwargs: (second if type(owner) is str else first)(owner, *args, **kwargs)


def tolist(x: Tensor, depth: int, kind: type) -> Any:
    """`x.tolist()` of a declared type; RuntimeError where it is of another one."""
    if x.dim() != depth:
        raise RuntimeError(
            f"Output annotation list dimension and runtime tensor dimension must match for tolist(): {depth} and {x.dim()}"
        )
    fits = {
        int: not (x.is_floating_point() or x.is_complex()),
        float: x.is_floating_point(),
        bool: x.dtype.name == "bool",
    }
    if not fits[kind]:
        raise RuntimeError(
            f"Output annotation element type and runtime tensor element type must match for tolist(): {kind.__name__}, {x.dtype}"
        )
    return x.tolist()


def original_of(module: Any) -> Any:
    """The module of Python that a scripted one was made of, for its methods that are left to Python."""
    original = module.__dict__.get("_original")
    if original is None:
        raise RuntimeError(
            "a method that is left to Python needs the module that was scripted, which archives do not hold"
        )
    return original


def interface_call(owner: Any, name: str, *args: Any) -> Any:
    """A call of a method of whatever class has it."""
    kind = owner.kind if isinstance(owner, ScriptObject) else owner.script_class
    return kind.methods[name](owner, *args)


def completed_future(value: Any) -> Future[Any]:
    """A future that has its value."""
    made: Future[Any] = Future()
    made.set_result(value)
    return made


class Check:
    """Whether a value is of a type, while a program runs."""

    def __init__(self, unit: Any, t: Type) -> None:
        self.unit, self.type = unit, t

    def __call__(self, x: Any) -> bool:
        return fits(x, self.type)


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "Tensor": lambda x: isinstance(x, Tensor),
    "int": lambda x: type(x) is int or isinstance(x, _CODED),
    "float": lambda x: type(x) is float,
    "bool": lambda x: type(x) is bool,
    "str": lambda x: type(x) is str,
    "complex": lambda x: type(x) is complex,
    "number": lambda x: type(x) in (int, float, complex),
    "NoneType": lambda x: x is None,
    "Device": lambda x: isinstance(x, Device),
    "Any": lambda x: True,
}


def fits(x: Any, t: Type) -> bool:
    """Whether a value of a program is of a type."""
    check = _CHECKS.get(t.kind)
    if check is not None:
        return check(x)
    if t.kind in ("Optional", "Union"):
        return any(fits(x, m) for m in members_of(t))
    if t.kind == "List":
        return isinstance(x, list) and all(fits(v, t.inner[0]) for v in x)
    if t.kind == "Dict":
        return isinstance(x, dict) and all(fits(k, t.inner[0]) and fits(v, t.inner[1]) for k, v in x.items())
    if t.kind == "Tuple":
        return isinstance(x, tuple) and len(x) == len(t.inner) and all(map(fits, x, t.inner))
    if t.kind == "enum":
        return isinstance(x, EnumValue) and x.kind.name == t.name
    return isinstance(x, ScriptObject) and x.kind.name == t.name


class Boundary:
    """What turns values of Python into those of a program, and back."""

    def __init__(self, unit: Any, program: Any) -> None:
        self.unit, self.program = unit, program

    def inwards(self, x: Any, t: Type) -> Any:
        """A value of Python as one of a type; Unfit where it is none."""
        kind = t.kind
        if kind == "Tensor":
            if isinstance(x, Tensor):
                return x
        elif kind == "int":
            if type(x) is int or isinstance(x, _CODED):
                return x
            if isinstance(x, Tensor) and x.numel() == 1 and not x.is_floating_point():
                return number(int, x)
        elif kind == "float":
            if type(x) in (float, int):
                return float(x)
            if isinstance(x, Tensor) and x.numel() == 1:
                return number(float, x)
        elif kind == "complex":
            if type(x) in (complex, float, int):
                return complex(x)
        elif kind in ("bool", "str", "NoneType", "Any", "number"):
            if _CHECKS[kind](x):
                return self.any(x) if kind == "Any" else x
        elif kind == "Device":
            if isinstance(x, (Device, str)):
                return Device(x) if isinstance(x, str) else x
        elif kind in ("Optional", "Union"):
            return self._member(x, t)
        else:
            return self._compound(x, t)
        raise Unfit

    def any(self, x: Any) -> Any:
        """A value for Any."""
        return self.unit_value(x) if isinstance(x, enum.Enum) else x

    def _member(self, x: Any, t: Type) -> Any:
        if x is None and any(m.kind == "NoneType" for m in members_of(t)):
            return None
        members = [m for m in members_of(t) if m.kind != "NoneType"]
        exact = [m for m in members if m.kind in _CHECKS and _CHECKS[m.kind](x)]
        for m in (*exact, *members):
            try:
                return self.inwards(x, m)
            except Unfit:
                continue
        raise Unfit

    def _compound(self, x: Any, t: Type) -> Any:
        kind = t.kind
        if kind == "List":
            if isinstance(x, (list, tuple)):
                return [self.inwards(v, t.inner[0]) for v in x]
        elif kind == "Dict":
            if isinstance(x, dict):
                return {self.inwards(k, t.inner[0]): self.inwards(v, t.inner[1]) for k, v in x.items()}
        elif kind == "Tuple":
            if isinstance(x, tuple) and len(x) == len(t.inner):
                items = [self.inwards(v, m) for v, m in zip(x, t.inner)]
                return self.find_class(t.name).tuple_class(*items) if t.name else tuple(items)
        elif kind == "enum":
            if isinstance(x, EnumValue):
                return x
            if isinstance(x, enum.Enum) and type(x) is self.unit.enum_types[t.name]:
                return self.unit_value(x)
        elif kind == "class":
            return self._object(x, t)
        elif kind == "Future":
            if isinstance(x, Future):
                return x
        elif kind in ("interface", "Generator"):
            return x
        raise Unfit

    def unit_value(self, x: enum.Enum) -> Any:
        """A member of an enumeration."""
        t = self.unit.types[type(x)]
        return self.find_class(t.name).members[x.name]

    def find_class(self, name: str) -> Any:
        """A class of the program."""
        return self.program.find(name.split("."))

    def _object(self, x: Any, t: Type) -> Any:
        """An object of Python, with its attributes copied; one of a program as it is."""
        if isinstance(x, ScriptObject):
            if x.kind.name == t.name:
                return x
            raise Unfit
        kind = self.unit.by_name[t.name]
        if type(x) is not kind.python:
            raise Unfit
        made = ScriptObject(self.find_class(t.name))
        for name, attribute in kind.attributes.items():
            made.values[name] = self.inwards(getattr(x, name), attribute)
        return made

    def outwards(self, x: Any) -> Any:
        """A value of a program as Python has it."""
        if isinstance(x, Tensor) or x is None or type(x) in (int, float, bool, str):
            return x
        if type(x) is list:
            return [self.outwards(v) for v in x]
        if type(x) is dict:
            return {k: self.outwards(v) for k, v in x.items()}
        if type(x) is tuple:
            return tuple(self.outwards(v) for v in x)
        if isinstance(x, _CODED):
            return CODES[x]
        if isinstance(x, EnumValue):
            kind = self.unit.enum_types.get(x.kind.name)
            return x if kind is None else kind[x.name]
        if isinstance(x, tuple):
            entry = self.unit.named_tuples.get(getattr(type(x), "script_name", ""))
            return x if entry is None else entry.python(*(self.outwards(v) for v in x))
        return x

    def wrong(self, entry: Any, shown: str, k: int, value: Any) -> RuntimeError:
        """What is said of an argument of another type."""
        p = entry.parameters[k]
        return RuntimeError(
            f"{shown}() Expected a value of type '{p.type}' for argument '{p.name}' but instead found type '{type(value).__name__}'.\n"
            f"Position: {k}\nValue: {value!r}\nDeclaration: {entry.declaration(shown)}"
        )


def public(
    entry: Any, function: Callable[..., Any], boundary: Boundary, is_method: bool
) -> Callable[..., Any]:
    """What Python calls: it looks at the arguments, and turns the result into Python's."""
    parameters = entry.parameters
    names = [p.name for p in parameters]
    kinds = [p.type for p in parameters]
    first = 1 if is_method else 0
    count = len(parameters) + first
    checked = [(k + first, TENSOR if kind == TENSOR else kind) for k, kind in enumerate(kinds)]
    turns = entry.returns.kind not in ("Tensor", "float", "bool", "str", "NoneType")
    shown = entry.shown

    def completed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if len(args) > count:
            raise RuntimeError(
                f"{shown}() expected at most {len(names)} argument(s) but received {len(args) - first} argument(s). Declaration: "
                f"{entry.declaration(shown)}"
            )
        filled = list(args)
        left = dict(kwargs)
        for p in parameters[len(args) - first :]:
            if p.name in left:
                filled.append(left.pop(p.name))
            elif p.defaulted:
                filled.append(p.default)
            else:
                raise RuntimeError(
                    f"{shown}() is missing value for argument '{p.name}'. Declaration: {entry.declaration(shown)}"
                )
        for name in left:
            if name in names:
                raise RuntimeError(f"{shown}() got multiple values for argument '{name}'")
            raise RuntimeError(
                f"Unknown keyword argument '{name}' for operator '{shown}'. Schema: {entry.declaration(shown)}"
            )
        return filled

    def call(*args: Any, **kwargs: Any) -> Any:
        call_args: Any = args
        if kwargs or len(args) != count:
            call_args = completed(args, kwargs)
        for k, kind in checked:
            if not (kind is TENSOR and isinstance(call_args[k], Tensor)):
                break
        else:
            result = function(*call_args)
            return boundary.outwards(result) if turns else result
        call_args = list(call_args)
        for k, kind in checked:
            try:
                call_args[k] = boundary.inwards(call_args[k], kind)
            except Unfit:
                raise boundary.wrong(entry, shown, k - first, call_args[k]) from None
        result = function(*call_args)
        return boundary.outwards(result) if turns else result

    if not is_method and 1 <= len(kinds) <= 2 and all(kind == TENSOR for kind in kinds):
        return _of_tensors(function, boundary, call, count, turns)
    if is_method and kinds == [TENSOR]:  # what layers take, without more

        def one(*args: Any, **kwargs: Any) -> Any:
            if len(args) == 2 and not kwargs and isinstance(args[1], Tensor):
                result = function(*args)
                return boundary.outwards(result) if turns else result
            return call(*args, **kwargs)

        return one
    return call


def _of_tensors(
    function: Callable[..., Any], boundary: Boundary, other: Callable[..., Any], count: int, turns: bool
) -> Callable[..., Any]:
    """A function of one tensor or two, without more; `other` takes any other call."""

    def one(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and isinstance(args[0], Tensor):
            result = function(*args)
            return boundary.outwards(result) if turns else result
        return other(*args, **kwargs)

    def two(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 2 and not kwargs and isinstance(args[0], Tensor) and isinstance(args[1], Tensor):
            result = function(*args)
            return boundary.outwards(result) if turns else result
        return other(*args, **kwargs)

    return one if count == 1 else two
