"""Kernels of element-wise functions on devices, with the rules that the CPU's have (`pointwise/cpu_fallback.py`)."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from ...codegen import functions as fn
from ...core.base.dtypes import by_name, dtype
from ...core.base.tensor import TensorBase
from ...core.call.copies import to_dtype
from ...core.make.create import empty_like, full
from ...core.tape.contexts import unrecorded
from ..declare.indexed import indexed
from ..declare.shapes import broadcast


def applied(kernel: Callable, kind: dtype, *operands: Any) -> Any:
    """What a kernel makes of operands in that dtype, broadcast, with the strides that a pointwise operation's result has."""
    with unrecorded():
        first = next(x for x in operands if isinstance(x, TensorBase) and not x.is_cpu)
        tensors = [
            to_dtype(x.to(first.device), kind)
            if isinstance(x, TensorBase)
            else full((), x, dtype=kind, device=first.device)
            for x in operands
        ]
        shape = broadcast([tuple(t.shape) for t in tensors])
        tensors = [t.expand(shape) for t in tensors]
        result = kernel(shape, *tensors)
        if all(t.is_contiguous() for t in tensors):
            return result
        strides = functools.reduce(operator.add, [empty_like(t, device="meta") for t in tensors]).stride()
        lay = lambda r: r.new_empty_strided(shape, strides).copy_(r)
        return tuple(map(lay, result)) if isinstance(result, tuple) else lay(result)


# --- integers ------------------------------
def _magnitude(x):
    """The absolute value as an unsigned number, which that of the least number fits, too."""
    return fn.bitcast(abs(x), "u" + x.dtype) if fn.is_signed(x.dtype) else x


def _common(at, a, b):
    return at.repeat((a, b), lambda a, b: b != 0, lambda a, b: (b, fn.rem(a, b)))[0]


@indexed(effort=32)
def gcd(at, x, y):
    """Euclid's algorithm."""
    return (fn.bitcast(_common(at, _magnitude(x[at]), _magnitude(y[at])), x.dtype),)


@indexed(effort=32)
def lcm(at, x, y):
    a, b = _magnitude(x[at]), _magnitude(y[at])
    result = fn.bitcast(a / _common(at, a, b) * b, x.dtype)
    return (abs(result),)


# --- the bits of floating-point numbers ------------------------------
@indexed()
def nextafter(at, x, y):
    """The integer that the bits are, one up or down."""
    value, other = x[at], y[at]
    width = {"float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}[x.dtype]
    integer = f"int{width}"
    bits = fn.bitcast(fn.cast(value, x.dtype), integer)
    away = (other > value) == (value > 0.0)
    stepped = bits + fn.where(away, fn.like(bits, 1), fn.like(bits, -1))
    least = fn.where(other < 0.0, fn.like(bits, (-1 << width - 1) | 1), fn.like(bits, 1))
    result = fn.bitcast(fn.where(value == 0.0, least, stepped), x.dtype)
    unknown = fn.isnan(value) | fn.isnan(other)
    result = fn.where(value == other, fn.cast(other, x.dtype), result)
    return (fn.where(unknown, fn.cast(value + other, x.dtype), result),)


@indexed(dtypes=(None, by_name["int32"]))
def frexp(at, x):
    value = x[at]
    wide = value.dtype == "float64"
    integer, shift, bias, least = ("int64", 52, 1022, 2.0**-1022) if wide else ("int32", 23, 126, 2.0**-126)
    ones = 2 * bias + 3  # the field of the exponent, full
    tiny = abs(value) < least
    bits = fn.bitcast(fn.where(tiny, value * 2.0**64, value), integer)
    field = (bits >> shift) & ones
    exponent = field - bias - fn.where(tiny, fn.like(bits, 64), fn.like(bits, 0))
    mantissa = fn.bitcast((bits & ~(ones << shift)) | (bias << shift), value.dtype)
    plain = (value == 0.0) | ~(abs(value) < float("inf"))
    return fn.where(plain, value, mantissa), fn.cast(fn.where(plain, fn.like(bits, 0), exponent), "int32")
