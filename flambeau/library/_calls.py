"""Calls by ATen's schemas, both ways: what `aten::name` with values computes here, and as what ATen a call of ours may be written.

Archives of programs (`jit`) name operations as ATen does.  An overload's arguments are those of the operation of that name here: by their
names, else by their places; what has no counterpart here (which library computes, pinned memory) may only say what is so anyway.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .._tensor import Tensor
from ..core.base import formats
from ..core.base.dtypes import by_name
from ..core.base.dtypes import device as Device
from ..core.base.dtypes import dtype as DType
from . import _aten
from ._aten_calls import OVERLOADS
from ._packets import DEFINED
from ._schema import Argument, FunctionSchema, parse_schema

# ATen's numbers of dtypes, layouts and memory formats, which archives have in their place.
_CODES = {
    "uint8": 0,
    "int8": 1,
    "int16": 2,
    "int32": 3,
    "int64": 4,
    "float16": 5,
    "float32": 6,
    "float64": 7,
    "complex32": 8,
    "complex64": 9,
    "complex128": 10,
    "bool": 11,
    "bfloat16": 15,
    "float8_e5m2": 23,
    "float8_e4m3fn": 24,
    "uint16": 27,
    "uint32": 28,
    "uint64": 29,
}
DTYPES: dict[int, DType] = {code: by_name[name] for name, code in _CODES.items() if name in by_name}
LAYOUTS = {0: formats.strided, 1: formats.sparse_coo, 2: formats.sparse_csr}
FORMATS = {
    0: formats.contiguous_format,
    1: formats.preserve_format,
    2: formats.channels_last,
    3: formats.channels_last_3d,
}
CODES: dict[Any, int] = {value: code for table in (DTYPES, LAYOUTS, FORMATS) for code, value in table.items()}
_TABLES: dict[str, dict[int, Any]] = {"ScalarType": DTYPES, "Layout": LAYOUTS, "MemoryFormat": FORMATS}
REDUCTIONS = ("none", "mean", "sum")
# Which library computes, and where memory lies: nothing of what comes out.
HINTS = frozenset(
    (
        "cudnn_enabled",
        "cudnn_enable",
        "benchmark",
        "deterministic",
        "allow_tf32",
        "pin_memory",
        "non_blocking",
        "path",
    )
)
ABSENT = object()


class Unfit(Exception):
    """A call that an overload does not take."""


# --- values ------------------------------
def kind_of(value: Any) -> type:
    """The class of a value; of what stands for a number while a program is traced, that of the number."""
    return getattr(type(value), "stands_for", type(value))


def is_tensor(value: Any) -> bool:
    """Whether it is a Tensor, and no number that one stands for."""
    return isinstance(value, Tensor)


def _number(value: Any, kinds: tuple[type, ...], loosely: bool) -> Any:
    kind = kind_of(value)
    if kind in kinds:
        return value
    if kind is int and float in kinds:
        return float(value) if type(value) is int else value
    if loosely and is_tensor(value) and value.numel() == 1:
        result = value.item()
        return int(result) if kinds == (int,) else float(result) if kinds == (float,) else result
    raise Unfit


_KINDS = {
    "int": (int,),
    "SymInt": (int,),
    "float": (float,),
    "double": (float,),
    "bool": (bool,),
    "SymBool": (bool,),
    "str": (str,),
    "complex": (complex, float, int),
    "Scalar": (int, float, bool, complex),
    "number": (int, float, bool, complex),
}


def fitted(value: Any, base: str, form: str, length: int | None, loosely: bool) -> Any:
    """The value as one of a schema's type; Unfit where it is none.  `loosely`: tensors of one element are numbers."""
    if form.endswith("?"):
        return None if value is None else fitted(value, base, form[:-1], length, loosely)
    if form.endswith("[]"):
        if isinstance(value, (list, tuple)):
            return [fitted(v, base, form[:-2], None, loosely) for v in value]
        if length is None or value is None:
            raise Unfit
        return [fitted(value, base, form[:-2], None, loosely)] * length
    if base == "Tensor":  # ATen makes tensors of numbers, with which operations here compute as they are
        if is_tensor(value) or (loosely and kind_of(value) in _KINDS["number"]):
            return value
        raise Unfit
    if base in _KINDS:
        return _number(value, _KINDS[base], loosely)
    if base in _TABLES:
        if type(value) is int and value in _TABLES[base]:
            return _TABLES[base][value]
        if value in _TABLES[base].values():
            return value
        raise Unfit
    if base == "Device":
        if isinstance(value, (Device, str)):
            return Device(value) if isinstance(value, str) else value
        raise Unfit
    if base == "Any":
        return value
    raise Unfit


def same(a: Any, b: Any) -> bool:
    if is_tensor(a) or is_tensor(b):
        return a is b
    if isinstance(a, (list, tuple)) or isinstance(b, (list, tuple)):
        both = isinstance(a, (list, tuple)) and isinstance(b, (list, tuple))
        return both and len(a) == len(b) and all(map(same, a, b))
    return kind_of(a) is type(a) and kind_of(b) is type(b) and (a is b or a == b)


# --- overloads ------------------------------
class Overload:
    """An overload of ATen, or of another namespace: its schema, and what computes it here."""

    def __init__(self, schema: FunctionSchema, function: Any, own: bool) -> None:
        self.schema, self.function, self.own = schema, function, own
        self.arguments: tuple[Argument, ...] = schema.arguments
        self.names = {a.name: k for k, a in enumerate(self.arguments)}

    @functools.cached_property
    def plan(self) -> list[Any]:
        """For each argument the parameter that it is here; `ABSENT` where there is none."""
        if not self.own:
            return [Target(a.name, k, False) for k, a in enumerate(self.arguments)]
        return _matched(self.arguments, _aten._parameters(self.function))

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any], loosely: bool = False) -> list[Any]:
        """The values in the schema's order, `ABSENT` for those left out; Unfit where they are no call of it."""
        if len(args) > len(self.arguments):
            raise Unfit
        values = [*args, *[ABSENT] * (len(self.arguments) - len(args))]
        for name, value in kwargs.items():
            k = self.names.get(name)
            if k is None or values[k] is not ABSENT:
                raise Unfit
            values[k] = value
        for k, (argument, value) in enumerate(zip(self.arguments, values)):
            if value is ABSENT:
                if not argument.defaulted:
                    raise Unfit
                continue
            if k < len(args) and argument.kwarg_only:
                raise Unfit
            t = argument.type
            if t.base == "Generator":
                if value is not None:
                    raise Unfit
                continue
            values[k] = fitted(value, t.base, t.form, t.length, loosely)
        return values

    def call(self, values: list[Any], out: Any = None) -> Any:
        """What it computes of values that `bind` gave, written to `out` where that is given."""
        args, kwargs = self.arranged(values, out)
        return self.function(*args, **kwargs)

    def arranged(self, values: list[Any], out: Any = None) -> tuple[list[Any], dict[str, Any]]:
        """Values that `bind` gave as arguments of the function."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {} if out is None else {"out": out}
        for argument, target, value in zip(self.arguments, self.plan, values):
            if value is ABSENT:
                if target is None or not target.differs:
                    continue
                value = argument.default_value
                if argument.type.base in _TABLES and value is not None:
                    value = _TABLES[argument.type.base][value]
            if target is None:
                _require_default(self, argument, value)
                continue
            if value == [] and argument.default_value == [] and not target.is_variadic:
                continue  # what is left out there is None here
            if target.reduces:
                value = REDUCTIONS[value]
            if target.is_variadic:
                args.extend(value if isinstance(value, list) and target.alone else [value])
            elif target.place == len(args) and not kwargs:
                args.append(value)
            elif value is None and target.drops_none:
                continue
            else:
                kwargs[target.name] = value
        return args, kwargs

    def prepared(self, args: Sequence[Any], kwargs: dict[str, Any], loosely: bool) -> Prepared | None:
        """The call for arguments of these classes, without looking at each again; None where it depends on the values."""
        positions = {a.name: k for k, a in enumerate(self.arguments[: len(args)])}
        parts: list[Part] = []
        named: list[tuple[str, Part]] = []
        for argument, target in zip(self.arguments, self.plan):
            key: Any = positions.get(argument.name, argument.name)
            if isinstance(key, str) and key not in kwargs:
                if target is None or not target.differs or argument.default_value == []:
                    continue
                value = argument.default_value
                table = _TABLES.get(argument.type.base)
                part = Part(None, None, value if table is None or value is None else table[value])
            else:
                passed = kwargs[key] if isinstance(key, str) else args[key]
                if passed == [] and argument.default_value == [] if isinstance(passed, list) else False:
                    continue
                if target is None and (argument.name in HINTS or passed is None):
                    continue
                if target is None or target.is_variadic or argument.type.base == "Generator":
                    return None
                part = Part(key, _converter(argument.type, passed, loosely), None)
                if target.drops_none and passed is None:
                    continue
            if target.reduces:
                part = part._replace(convert=REDUCTIONS.__getitem__)
                part = part if part.key is not None else Part(None, None, REDUCTIONS[part.value])
            if target.place == len(parts) and not named:
                parts.append(part)
            else:
                named.append((target.name, part))
        return Prepared(self.function, parts, named, len(args))


class Part(NamedTuple):
    """Where an argument of a prepared call comes from: a place or a name, or a value of its own."""

    key: int | str | None
    convert: Callable[[Any], Any] | None
    value: Any

    def take(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The argument of a call."""
        if self.key is None:
            return self.value
        value = kwargs[self.key] if isinstance(self.key, str) else args[self.key]
        return value if self.convert is None else self.convert(value)


class Prepared:
    """A call whose overload is chosen and whose arguments are in order."""

    __slots__ = ("function", "is_direct", "named", "parts")

    def __init__(self, function: Any, parts: list[Part], named: list[tuple[str, Part]], count: int) -> None:
        self.function, self.parts, self.named = function, parts, named
        keys = [p.key for p in parts]
        in_order = keys == list(range(count)) and not named
        self.is_direct = in_order and all(p.convert is None for p in parts)

    def settled(
        self, args: Sequence[Any], kwargs: dict[str, Any], varying: Sequence[int]
    ) -> Callable[..., Any]:
        """The call as a function of the arguments at the places `varying`; the others are for ever the same."""
        place = {k: at for at, k in enumerate(varying)}
        parts = [*self.parts, *(part for _, part in self.named)]
        if any(p.key in place and p.convert is not None for p in parts):
            return _call_with_all(self, args, kwargs, varying)
        fixed = [p.take(args, kwargs) for p in self.parts if p.key not in place]
        named = {n: p.take(args, kwargs) for n, p in self.named if p.key not in place}
        later = {n: place[p.key] for n, p in self.named if p.key in place}  # type: ignore[index]
        behind = iter(range(len(varying), len(varying) + len(fixed)))
        order = [place[p.key] if p.key in place else next(behind) for p in self.parts]  # type: ignore[index]
        if not later and order == list(range(len(varying) + len(fixed))):
            return (
                functools.partial(_behind, self.function, fixed, named) if fixed or named else self.function
            )
        return functools.partial(_ordered, self.function, fixed, named, order, later)

    def __call__(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if self.is_direct:
            return self.function(*args)
        call_args = [part.take(args, kwargs) for part in self.parts]
        if self.named:
            return self.function(*call_args, **{name: part.take(args, kwargs) for name, part in self.named})
        return self.function(*call_args)


def _behind(function: Any, rest: list[Any], named: dict[str, Any], *args: Any) -> Any:
    """A call with more arguments behind those that are given."""
    return function(*args, *rest, **named)


def _ordered(
    function: Any,
    fixed: list[Any],
    named: dict[str, Any],
    order: list[int],
    later: dict[str, int],
    *args: Any,
) -> Any:
    """A call whose arguments are in another order: that of `order` among those that are given and those that are fixed."""
    all_args = (*args, *fixed)
    if later:
        named = named | {n: args[k] for n, k in later.items()}
    return function(*[all_args[k] for k in order], **named)


def _call_with_all(
    prepared: Prepared, args: Sequence[Any], kwargs: dict[str, Any], varying: Sequence[int]
) -> Callable[..., Any]:
    """The call with what varies put among the other arguments."""
    template = list(args)

    def call(*call_args: Any) -> Any:
        all_args = template.copy()
        for k, value in zip(varying, call_args):
            all_args[k] = value
        return prepared(all_args, kwargs)

    return call


def _converter(kind: Any, value: Any, loosely: bool) -> Callable[[Any], Any] | None:
    """What makes values like this one those of a type; None where they are."""
    base, form, length = kind.base, kind.form, kind.length
    if value is None or (base == "Any"):
        return None
    listed = form.removesuffix("?").endswith("[]")
    if (
        listed != isinstance(value, (list, tuple))
        or (loosely and base != "Tensor")
        or base in _TABLES
        or base == "Device"
    ):
        return lambda v: fitted(v, base, form, length, loosely)
    if not listed and base in _KINDS and type(value) not in _KINDS[base]:
        return lambda v: fitted(v, base, form, length, loosely)
    return None


class Target:
    """The parameter that an argument is."""

    def __init__(self, name: str, place: int, differs: bool) -> None:
        self.name, self.place, self.differs = name, place, differs
        self.is_variadic = self.reduces = self.drops_none = False
        self.alone = True  # the only argument that a parameter for many takes


def _require_default(overload: Overload, argument: Argument, value: Any) -> None:
    declared = argument.default_value if argument.defaulted else None
    if value is None or argument.name in HINTS or (argument.defaulted and value == declared):
        return
    if argument.type.base == "Layout" and value is formats.strided:
        return
    raise NotImplementedError(
        f"{overload.schema.name}(): argument {argument.name!r} must be {declared!r} here, got {value!r}"
    )


def _is_alike(parameter: inspect.Parameter, argument: Argument) -> bool:
    """Whether a parameter may be an argument of another name: not by its default."""
    if parameter.name == "inplace":
        return False
    return parameter.default in (parameter.empty, None) or (type(parameter.default) is bool) == (
        argument.type.base == "bool"
    )


def _matched(arguments: Sequence[Argument], signature: inspect.Signature) -> list[Any]:
    """The parameter for each argument: of its name, else the one at its place where neither has another match."""
    parameters = list(signature.parameters.values())
    by_name = {p.name: p for p in parameters}
    wanted = {a.name for a in arguments}
    more = any(p.kind is p.VAR_KEYWORD for p in parameters)
    result: list[Any] = []
    many = next((k for k, p in enumerate(parameters) if p.kind is p.VAR_POSITIONAL), None)
    for k, argument in enumerate(arguments):
        p = by_name.get(argument.name) or by_name.get(argument.name + "_")
        if p is None and not argument.kwarg_only and k < len(parameters):
            at = parameters[k]
            fits = at.name not in wanted and at.kind is not at.KEYWORD_ONLY and _is_alike(at, argument)
            p = at if fits else None
            p = None if p is not None and p.kind is p.VAR_KEYWORD else p
        if p is None and many is not None and k > many and not argument.kwarg_only:
            p = parameters[many]
        if p is None and more and argument.kwarg_only:
            target = Target(argument.name, -1, False)
            target.drops_none = True
            result.append(target)
            continue
        if p is None:
            result.append(None)
            continue
        place = parameters.index(p) if p.kind is not p.KEYWORD_ONLY else -1
        own = None if p.default is p.empty else p.default
        differs = argument.defaulted and not same(own, argument.default_value)
        target = Target(p.name, place, differs and argument.default_value is not None)
        target.is_variadic = p.kind is p.VAR_POSITIONAL
        target.reduces = argument.name == "reduction" and argument.type.base == "int" and isinstance(own, str)
        result.append(target)
    variadic = [t for t in result if t is not None and t.is_variadic]
    for target in variadic:
        target.alone = len(variadic) == 1 and "[" in arguments[result.index(target)].type.form
    return result


@functools.cache
def texts() -> dict[str, list[str]]:
    """ATen's schemas by name."""
    result: dict[str, list[str]] = {}
    for line in (Path(__file__).parent / "aten_schemas.txt").read_text().splitlines():
        result.setdefault(line.partition("(")[0].partition(".")[0], []).append(line)
    return result


@functools.cache
def _declared(name: str) -> tuple[Overload, ...]:
    """The overloads of ATen of an operation that is declared here, those with arguments of their own first."""
    own = [
        Overload(parse_schema("aten::" + text), function, False) for text, function in OVERLOADS.get(name, ())
    ]
    op = _aten.names().get(name)
    if op is None:
        return tuple(own)
    result = (Overload(parse_schema("aten::" + text), op, True) for text in texts().get(name, ()))
    return (*own, *(overload for overload in result if is_covered(overload)))


def is_covered(overload: Overload) -> bool:
    """Whether every argument that must be given is a parameter here, and the other way round."""
    for argument, target in zip(overload.arguments, overload.plan):
        if target is None and not argument.defaulted and argument.name not in HINTS:
            return False
    reached = {t.name for t in overload.plan if t is not None}
    by_position = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    signature = _aten._parameters(overload.function)
    return all(
        p.name in reached or p.default is not p.empty or p.kind not in by_position
        for p in signature.parameters.values()
    )


def overloads(namespace: str, name: str) -> tuple[Overload, ...]:
    """The overloads of a name: those that programs have added or that are ATen's steps, then those declared here."""
    declared = _declared(name) if namespace == "aten" else ()
    if namespace == "aten" and not declared:
        from . import _aten_core  # noqa: F401  which defines its operations, none of which is declared
    added = DEFINED.get(namespace, {}).get(name, {})
    return tuple(Overload(op._schema, op, False) for op in added.values()) + declared


def choice(
    candidates: Sequence[Overload], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Overload, list[Any], bool]:
    """The first overload that takes the arguments, they in its order, and whether tensors stand for numbers; Unfit where none does."""
    for loosely in (False, True):
        for overload in candidates:
            try:
                return overload, overload.bind(args, kwargs, loosely), loosely
            except Unfit:
                continue
    raise Unfit
