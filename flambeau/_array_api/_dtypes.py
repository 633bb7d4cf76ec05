"""Data types of the standard: their kinds, how they are promoted, and what that makes of the arguments of a function."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from ..core.base import typeinfo
from ..core.base.dtypes import by_name, dtype, get_default_dtype, promote_types
from ..core.base.tensor import TensorBase
from ..operations.declare.registry import published

__all__ = ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]

flat = SimpleNamespace(**published(""))  # the operations of the flat namespace, PyTorch's names and semantics

KINDS = {  # in the order of the standard
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "integral": ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
KINDS["numeric"] = KINDS["integral"] + KINDS["real floating"] + KINDS["complex floating"]
KIND_OF = {
    by_name[name]: kind for kind in ("bool", "real floating", "complex floating") for name in KINDS[kind]
} | {by_name[name]: kind for kind in ("signed integer", "unsigned integer") for name in KINDS[kind]}
NAMES = {kind: frozenset(by_name[name] for name in names) for kind, names in KINDS.items()}
NUMBERS = (bool, int, float, complex)
COMPLEX_OF = {by_name["float32"]: by_name["complex64"], by_name["float64"]: by_name["complex128"]}
REAL_OF = {whole: part for part, whole in COMPLEX_OF.items()}


def default_complex() -> dtype:
    """The dtype of complex Python numbers."""
    return COMPLEX_OF.get(get_default_dtype(), by_name["complex64"])


def _of_integers(a: dtype, b: dtype) -> dtype | None:
    """The smallest dtype that holds what two of integers hold; None where only larger ones would."""
    signed, unsigned = (a, b) if KIND_OF[b] == "unsigned integer" else (b, a)
    if KIND_OF[a] == KIND_OF[b]:
        return a if a.itemsize >= b.itemsize else b
    bits = 8 * max(signed.itemsize, 2 * unsigned.itemsize)
    return by_name.get(f"int{bits}")


def _joined(a: dtype, b: dtype) -> dtype | None:
    """What two dtypes promote to by the tables of the standard; None where it leaves that open."""
    if a == b:
        return a
    if a in NAMES["integral"] and b in NAMES["integral"]:
        return _of_integers(a, b)
    if NAMES["integral"].isdisjoint((a, b)) and NAMES["bool"].isdisjoint((a, b)):
        return promote_types(a, b)
    return None


def _with_number(result: dtype | None, number: complex) -> dtype:
    """The dtype in which arrays of dtype `found` and a Python number meet: that of the arrays, if it has numbers of the kind."""
    if isinstance(number, bool):
        return by_name["bool"] if result is None else result
    if isinstance(number, int):
        return by_name["int64"] if result in (None, by_name["bool"]) else result
    floating = result is not None and (result.is_floating_point or result.is_complex)
    if isinstance(number, float):
        return result if floating else get_default_dtype()  # type: ignore[return-value]
    if floating:
        return COMPLEX_OF.get(result, result)  # type: ignore[arg-type, return-value]
    return default_complex()


def result_type(*arrays_and_dtypes: Any) -> dtype:
    """The dtype that arrays, dtypes and Python numbers are promoted to; shapes do not matter.

    Where the standard leaves the answer open (integers with floats, bool with numbers) it is PyTorch's, as it is for numbers
    alone.  ValueError without arguments; TypeError for what is neither array, dtype nor number, and for uint64 with a signed
    integer.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.result_type(xp.ones(3, dtype=xp.float32), xp.asarray(1.0, dtype=xp.float64))
    flambeau.float64
    >>> xp.result_type(xp.uint16, xp.int8), xp.result_type(xp.uint8, 1)
    (flambeau.int32, flambeau.uint8)
    """
    if not arrays_and_dtypes:
        raise ValueError("result_type(): at least one array or dtype is required")
    numbers, result = [], None
    for given in arrays_and_dtypes:
        if isinstance(given, TensorBase):
            given = given.dtype
        if isinstance(given, dtype):
            if result is None or result == given:
                result = given
                continue
            joined = _joined(result, given)
            if joined is None and result in NAMES["integral"] and given in NAMES["integral"]:
                raise TypeError(f"result_type(): {result} and {given} have no common integer dtype")
            result = promote_types(result, given) if joined is None else joined
        elif isinstance(given, NUMBERS):
            numbers.append(given)
        else:
            raise TypeError(
                f"result_type(): expected arrays, dtypes and Python numbers, got {type(given).__name__}"
            )
    for number in numbers:
        result = _with_number(result, number)
    return result  # type: ignore[return-value]


def common(function: str, *arrays: Any) -> list[Any]:
    """Arrays and numbers as arrays of their common dtype; `function` is named in errors."""
    where = None
    for x in arrays:
        if isinstance(x, TensorBase):
            where = x
        elif not isinstance(x, NUMBERS):
            raise TypeError(f"{function}(): expected arrays or Python numbers, got {type(x).__name__}")
    if where is None:
        raise TypeError(f"{function}(): at least one argument must be an array")
    if all(isinstance(x, TensorBase) and x.dtype == where.dtype for x in arrays):
        return list(arrays)
    to = result_type(*arrays)
    return [
        x.to(to) if isinstance(x, TensorBase) else flat.full((), x, dtype=to, device=where.device)
        for x in arrays
    ]


def all_arrays(function: str, arrays: Iterable[Any]) -> list[Any]:
    """A sequence of arrays, each of the common dtype."""
    listed = list(arrays)
    for x in listed:
        if not isinstance(x, TensorBase):
            raise TypeError(f"{function}(): expected arrays, got {type(x).__name__}")
    return common(function, *listed)


def accumulating(of: dtype) -> dtype:
    """The dtype in which `sum` and `prod` add up: integers in 64 bits of their own sign."""
    if KIND_OF.get(of) == "unsigned integer":
        return by_name["uint64"]
    return by_name["int64"] if KIND_OF.get(of) == "signed integer" else of


def astype(x: Any, dtype: dtype, /, *, copy: bool = True, device: Any = None) -> Any:
    """`x` with its elements cast to `dtype`; a new array, unless `copy` is false and nothing changes.

    TypeError for a complex array and a dtype that is not complex.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.astype(xp.asarray([1.5, -2.5]), xp.int8)
    tensor([ 1, -2], dtype=flambeau.int8)
    """
    if x.is_complex() and not dtype.is_complex:
        raise TypeError(f"astype(): a complex array has no {dtype} elements; take `real` or `abs` of it")
    return x.to(device=x.device if device is None else device, dtype=dtype, copy=copy)


def can_cast(from_: Any, to: dtype, /) -> bool:
    """Whether the promotion of `from_` (an array or a dtype) with `to` is `to`; False where the standard does not say.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.can_cast(xp.int8, xp.int16), xp.can_cast(xp.float64, xp.float32)
    (True, False)
    """
    source = from_.dtype if isinstance(from_, TensorBase) else from_
    for given in (source, to):
        if not isinstance(given, dtype):
            raise TypeError(f"can_cast(): expected an array or a dtype, got {type(given).__name__}")
    return _joined(source, to) == to


class finfo(typeinfo.finfo):
    """The limits of a floating-point dtype, or of the parts of a complex one, given as a dtype or an array.

    Attributes: `bits`, `eps`, `max`, `min`, `smallest_normal`, and `dtype`, which is a dtype.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.finfo(xp.complex64).dtype, xp.finfo(xp.float32).bits
    (flambeau.float32, 32)
    """

    def __init__(self, type: Any, /) -> None:
        super().__init__(type.dtype if isinstance(type, TensorBase) else type)
        self.dtype = by_name[self.dtype]


class iinfo(typeinfo.iinfo):
    """The limits of an integer dtype, given as a dtype or an array.

    Attributes: `bits`, `max`, `min`, and `dtype`, which is a dtype.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.iinfo(xp.uint16).max
    65535
    """

    def __init__(self, type: Any, /) -> None:
        super().__init__(type.dtype if isinstance(type, TensorBase) else type)
        self.dtype = by_name[self.dtype]


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether `dtype` is of a kind: a dtype, "bool", "signed integer", "unsigned integer", "integral", "real floating",
    "complex floating", "numeric", or a tuple of such.

    TypeError for other kinds of objects, ValueError for other names.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.isdtype(xp.float32, "real floating"), xp.isdtype(xp.int8, ("bool", xp.int16))
    (True, False)
    """
    if not isinstance(dtype, _dtype_class):
        raise TypeError(f"isdtype(): argument 'dtype' must be a dtype, not {type(dtype).__name__}")
    if isinstance(kind, builtins.tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, _dtype_class):
        return dtype == kind
    if not isinstance(kind, str):
        raise TypeError(
            f"isdtype(): argument 'kind' must be a dtype, a str or a tuple, not {type(kind).__name__}"
        )
    if kind not in NAMES:
        raise ValueError(f"isdtype(): unrecognized kind {kind!r}; the kinds are {', '.join(KINDS)}")
    return dtype in NAMES[kind]


_dtype_class = dtype
