"""The limits of dtypes: `finfo` for floating-point numbers, `iinfo` for integers."""

from __future__ import annotations

from typing import Any

from . import display
from .dtypes import dtype as dtype_class
from .dtypes import get_default_dtype

_FLOATS = {  # bits, bits of the significand after the point, largest number, smallest normal number, decimal resolution
    "float16": (16, 10, 65504.0, 2.0**-14, 1e-3),
    "bfloat16": (16, 7, (2 - 2.0**-7) * 2.0**127, 2.0**-126, 1e-2),
    "float32": (32, 23, (2 - 2.0**-23) * 2.0**127, 2.0**-126, 1e-6),
    "float64": (64, 52, (2 - 2.0**-52) * 2.0**1023, 2.0**-1022, 1e-15),
    "float8_e4m3fn": (8, 3, 448.0, 2.0**-6, 1.0),
    "float8_e5m2": (8, 2, 57344.0, 2.0**-14, 1.0),
    "float8_e4m3fnuz": (8, 3, 240.0, 2.0**-7, 1.0),
    "float8_e5m2fnuz": (8, 2, 57344.0, 2.0**-15, 1.0),
    "float8_e8m0fnu": (8, 0, 2.0**127, 2.0**-127, 1.0),
}
_PARTS = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
_INTEGERS = {f"{sign}int{bits}": (bits, sign == "") for sign in ("", "u") for bits in (8, 16, 32, 64)}


_PYTHON = {float: "float64", complex: "complex128", int: "int64", bool: "bool"}


def _name(function: str, dtype: Any) -> str:
    if isinstance(dtype, type) and dtype in _PYTHON:
        return _PYTHON[dtype]
    if not isinstance(dtype, dtype_class):
        raise TypeError(
            f"{function}(): argument 'type' must be {display.public('dtype')}, not {type(dtype).__name__}"
        )
    return str(dtype).rpartition(".")[2]


class _Info:
    """What the two have in common: they are equal when of the same kind and dtype."""

    dtype: str  # the dtype's name
    bits: int

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.dtype == self.dtype

    __hash__ = None  # type: ignore[assignment]


class finfo(_Info):
    """The limits of a floating-point dtype, or of the parts of a complex one; without `dtype`, of the default
    dtype.

    Attributes: `bits`; `eps`, from 1 to the next larger number; `max` and `min`, the largest finite number
    and its negative (of float8_e8m0fnu, which has no signs, the smallest number); `smallest_normal` (also
    called `tiny`), the smallest positive number of full precision;
    `resolution`, the power of ten that the precision is worth; `dtype`, the name of the dtype.

    Raises TypeError for an integer dtype, bool, or anything that is not a dtype.

    >>> import flambeau
    >>> flambeau.finfo(flambeau.float32).eps
    1.1920928955078125e-07
    >>> flambeau.finfo(flambeau.float16).max
    65504.0
    """

    def __init__(self, type: Any = None) -> None:
        name = _name("finfo", get_default_dtype() if type is None else type)
        name = _PARTS.get(name, name)
        if name not in _FLOATS:
            raise TypeError(
                f"finfo() requires a floating point input type, got {type}. Use iinfo for integers"
            )
        self.dtype = name
        self.bits, fraction, self.max, self.smallest_normal, self.resolution = _FLOATS[name]
        self.eps = 2.0**-fraction
        self.min = self.smallest_normal if name == "float8_e8m0fnu" else -self.max
        self.tiny = self.smallest_normal

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        return f"finfo({', '.join(f'{n}={getattr(self, n):g}' for n in names)}, dtype={self.dtype})"


class iinfo(_Info):
    """The limits of an integer dtype.

    Attributes: `bits`; `min` and `max`, the smallest and the largest number; `dtype`, the name of the dtype.

    Raises TypeError for bool, a floating-point or complex dtype, or anything that is not a dtype.

    >>> import flambeau
    >>> flambeau.iinfo(flambeau.int8)
    iinfo(min=-128, max=127, dtype=int8)
    """

    def __init__(self, type: Any) -> None:
        name = _name("iinfo", type)
        if name not in _INTEGERS:
            raise TypeError(
                f"iinfo() requires an integer input type, got {type}. Use finfo for floating point"
            )
        self.dtype = name
        self.bits, signed = _INTEGERS[name]
        self.min = -(2 ** (self.bits - 1)) if signed else 0
        self.max = 2 ** (self.bits - 1) - 1 if signed else 2**self.bits - 1

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
