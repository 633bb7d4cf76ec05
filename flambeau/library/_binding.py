"""Arguments and results beside a schema: what does not plainly fit is converted as PyTorch does, or refused with the place named."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ..core.base.dtypes import by_name, device
from ..core.base.tensor import TensorBase
from ..core.call import custom
from ..core.call.types import BASES, SchemaType
from ._schema import Argument, FunctionSchema

_KINDS = {
    "Tensor": "Tensor",
    "int": "int",
    "SymInt": "int",
    "float": "float",
    "double": "float",
    "bool": "bool",
    "str": "str",
    "Scalar": "number",
    "number": "number",
    "ScalarType": "ScalarType",
    "Device": "Device",
}


def kind_of(declared: SchemaType) -> int:
    """The kind by which `core/call/custom.pyx` knows a type; 0 for one that it does not look at."""
    base = custom.BASES.get(_KINDS.get(declared.base, ""), 0)
    if not base or declared.form not in ("", "?", "[]", "[]?", "?[]"):
        return 0
    listed = custom.IS_LISTED if "[]" in declared.form else 0
    none = custom.MAY_BE_NONE if declared.form in ("?", "[]?") else 0
    return base | listed | none | (custom.ELEMENTS_MAY_BE_NONE if declared.form == "?[]" else 0)


ALIASES = {
    theirs: by_name[ours]
    for theirs, ours in {
        "byte": "uint8",
        "char": "int8",
        "short": "int16",
        "int": "int32",
        "long": "int64",
        "half": "float16",
        "float": "float32",
        "double": "float64",
        "cfloat": "complex64",
        "cdouble": "complex128",
    }.items()
}


class Unfit(Exception):
    """A value that no parameter of that type takes."""


def _integer(x: Any) -> int:
    if isinstance(x, TensorBase):
        if x.numel() != 1 or x.is_complex():
            raise Unfit
        return int(x)
    result = operator.index(x)
    if not -(1 << 63) <= result < 1 << 63:
        raise Unfit
    return result


def _number(x: Any) -> Any:
    if isinstance(x, int | float | complex):
        return x
    if not isinstance(x, TensorBase) and hasattr(x, "dtype") and getattr(x, "ndim", 1) == 0:
        return x.item()
    raise Unfit


def _floating(x: Any) -> float:
    x = x.item() if isinstance(x, TensorBase) and x.numel() == 1 else _number(x)
    if isinstance(x, complex):
        raise Unfit
    return float(x)


def _truth(x: Any) -> bool:
    if isinstance(x, bool | int) or (isinstance(x, TensorBase) and x.numel() == 1):
        return bool(x)
    if type(x).__module__ == "numpy" and type(x).__name__ in ("bool_", "bool"):
        return bool(x)
    raise Unfit


def _text(x: Any) -> str:
    if isinstance(x, str):
        return x
    raise Unfit


def _tensor(x: Any) -> TensorBase:
    if isinstance(x, TensorBase):
        return x
    raise Unfit


def _device(x: Any) -> device:
    if isinstance(x, device | str | int) and not isinstance(x, bool):
        return device(x)
    raise Unfit


CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "Tensor": _tensor,
    "int": _integer,
    "SymInt": _integer,
    "float": _floating,
    "double": _floating,
    "complex": lambda x: complex(_number(x)),
    "bool": _truth,
    "SymBool": _truth,
    "str": _text,
    "Scalar": _number,
    "number": _number,
    "Device": _device,
}


def converted(declared: SchemaType, value: Any) -> Any:
    """A value as a parameter of that type takes it; Unfit where it takes none such."""
    form = declared.form
    if value is None:
        if form.endswith("?") or (declared.base == "Tensor" and not form) or declared.base not in CONVERSIONS:
            return None
        raise Unfit
    if form.endswith("?"):
        return converted(SchemaType(declared.base, form[:-1], declared.length, declared.members), value)
    if form.endswith("[]"):
        inner = SchemaType(declared.base, form[:-2], None, declared.members)
        if declared.length is not None and not isinstance(value, list | tuple):
            return [converted(inner, value)] * declared.length
        if isinstance(value, TensorBase) or not isinstance(value, list | tuple):
            raise Unfit
        return [converted(inner, x) for x in value]
    conversion = CONVERSIONS.get(declared.base)
    if conversion is None:
        return value
    try:
        return conversion(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise Unfit from None


def default_of(argument: Argument) -> Any:
    """What an argument is that was left out."""
    value = argument.default_value
    if isinstance(value, str) and argument.type.base == "ScalarType":
        return ALIASES.get(value) or by_name[value]
    if isinstance(value, str) and argument.type.base == "Device":
        return device(value)
    return value


_MISSING: Any = object()


class Binder:
    """Brings the arguments of calls into the form that a schema says."""

    def __init__(self, schema: FunctionSchema) -> None:
        self.schema = schema
        self.kinds = tuple(kind_of(a.type) for a in schema.arguments)
        self.count = sum(not a.kwarg_only for a in schema.arguments)  # may be given by position
        self.places = {a.name: k for k, a in enumerate(schema.arguments)}
        self.defaults = [default_of(a) if a.defaulted else _MISSING for a in schema.arguments]
        self.named_defaults = {
            a.name: default_of(a) for a in schema.arguments if a.kwarg_only and a.defaulted
        }

    def bind(self, args: tuple, named: dict[str, Any]) -> tuple[tuple, dict[str, Any] | None]:
        """The arguments by position, as far as any was given, and those by name alone; RuntimeError where they do not fit."""
        count, places, schema = self.count, self.places, self.schema
        last = len(args)
        if last > count and not schema.is_vararg:
            raise RuntimeError(
                f"{schema.name}() takes {count} positional argument(s) but {last} was/were given.  Declaration: {schema}"
            )
        values = [*args[:count], *[_MISSING] * (len(places) - min(last, count))]
        for name, value in named.items():
            k = places.get(name, -1)
            if k < 0:
                raise RuntimeError(
                    f"Unknown keyword argument '{name}' for operator '{schema.name}'. Schema: {schema}"
                )
            if values[k] is not _MISSING:
                raise RuntimeError(
                    f"Argument '{name}' specified both as positional and keyword argument. Schema: {schema}"
                )
            values[k] = value
            if last <= k < count:
                last = k + 1
        by_name: dict[str, Any] = {}
        for k, value in enumerate(values):
            if value is _MISSING:
                if self.defaults[k] is _MISSING:
                    raise RuntimeError(
                        f"{schema.name}() is missing value for argument '{schema.arguments[k].name}'. Declaration: {schema}"
                    )
                if k < count:
                    values[k] = self.defaults[k]
                continue
            if not custom.fits_as_is(self.kinds[k], value):
                value = values[k] = self.converted(k, value)
            if k >= count:
                by_name[schema.arguments[k].name] = value
        return (*values[: min(last, count)], *args[count:]), by_name or None

    def converted(self, k: int, value: Any) -> Any:
        """A value as the argument at that place takes it; RuntimeError where it takes none such."""
        argument = self.schema.arguments[k]
        try:
            return converted(argument.type, value)
        except Unfit:
            raise RuntimeError(
                f"{self.schema.name}() Expected a value of type '{argument.type}' for argument '{argument.name}' but instead found type "
                f"'{type(value).__name__}'.\nPosition: {k}\nValue: {value!r}\nDeclaration: {self.schema}"
            ) from None

    def complete(self, args: tuple, named: dict[str, Any] | None) -> tuple[tuple, dict[str, Any]]:
        """The arguments and, for those that were left out, their defaults."""
        if len(args) < self.count:
            args = (*args, *self.defaults[len(args) : self.count])
        return args, {**self.named_defaults, **named} if named else self.named_defaults.copy()


def _one_result(declared: SchemaType, value: Any) -> Any:
    """A result as its type says; Unfit for another."""
    if declared.base == "Tensor" and not declared.form:
        if value is None or isinstance(value, TensorBase):
            return value
        raise Unfit
    if BASES.get(declared.base) == "int" and not declared.form and isinstance(value, bool | float):
        if isinstance(value, bool):
            return int(value)
        raise Unfit
    return converted(declared, value)


def as_results(schema: FunctionSchema, result: Any, who: str) -> Any:
    """What a kernel returned, as the schema says; RuntimeError (TypeError for no sequence where several are due) for anything else."""
    returns = schema.returns
    try:
        if len(returns) == 1:
            return _one_result(returns[0].type, result)
        if not isinstance(result, tuple | list):
            raise TypeError(
                f"{who} returned a value of type '{type(result).__name__}' where the schema {schema} says {len(returns)} results: Object "
                f"of type '{type(result).__name__}' is not an instance of 'sequence'"
            )
        if len(result) != len(returns):
            raise RuntimeError(
                f"{who} returned {len(result)} values where the schema {schema} says {len(returns)} results"
            )
        return tuple(_one_result(t.type, x) for t, x in zip(returns, result, strict=True))
    except Unfit:
        kind = type(result).__name__
        if isinstance(result, tuple | list):
            kind += f" of {', '.join(type(x).__name__ for x in result)}"
        wanted = ", ".join(f"'{t.type}'" for t in returns)
        raise RuntimeError(
            f"{who} returned a value of type '{kind}' where the schema {schema} says {wanted}: Unable to cast {result!r}"
        ) from None
