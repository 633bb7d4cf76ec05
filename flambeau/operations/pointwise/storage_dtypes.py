"""float8: how a byte becomes a number and a number the nearest byte, in integer arithmetic, the same bits everywhere.

Formats: OCP 8-bit Floating Point Specification (e4m3fn, e5m2) and Microscaling Formats (e8m0fnu); the `fnuz` ones have no infinity,
no negative zero, and one NaN at its place.  Ties go to the even byte.  What is too large becomes the largest number in e4m3fn,
as in PyTorch, infinity in e5m2, and NaN in the others.  Numbers of other dtypes are rounded to float32 first.
"""

from __future__ import annotations

from collections.abc import Callable

from ...codegen import functions as fn
from ...codegen.expr import Expr, bitcast
from ...core.base.dtypes import by_name
from ...core.call.pointwise import set_conversion
from ..declare.pointwise import EVERY, pointwise

#          bits of the fraction, bias of the exponent
FORMATS = {
    "float8_e4m3fn": (3, 7),
    "float8_e5m2": (2, 15),
    "float8_e4m3fnuz": (3, 8),
    "float8_e5m2fnuz": (2, 16),
    "float8_e8m0fnu": (0, 127),
}
NAN = 0x7FC00000  # float32's bits
INFINITY = 0x7F800000


def _number(byte: Expr, name: str) -> Expr:
    """The float32 that a byte stands for."""
    fraction, bias = FORMATS[name]
    bits = fn.cast(byte, "uint32")
    if name == "float8_e8m0fnu":  # 2**-127 is a subnormal float32
        result = fn.where(bits == 0, fn.like(bits, 1 << 22), bits << fn.like(bits, 23))
        return bitcast(fn.where(bits == 255, fn.like(bits, NAN), result), "float32")
    rest = bits & 127
    normal = (rest << fn.like(bits, 23 - fraction)) + ((127 - bias) << 23)
    small = bitcast(fn.cast(rest, "float32") * 2.0 ** (1 - bias - fraction), "uint32")
    result = fn.where(rest < 1 << fraction, small, normal)
    if name == "float8_e5m2":
        result = fn.where(rest == 124, fn.like(bits, INFINITY), result)
    if name.endswith("fnuz"):
        strange = bits == 128
    else:
        strange = rest == 127 if name == "float8_e4m3fn" else rest > 124
    sign = (bits & 128) << fn.like(bits, 24)
    return bitcast(fn.where(strange, fn.like(bits, NAN), result) | sign, "float32")


def _byte(x: Expr, name: str) -> Expr:
    """The byte of the number nearest to a float32."""
    fraction, bias = FORMATS[name]
    bits = bitcast(x, "uint32")
    sign, size = (bits >> 24) & 128, bits & 0x7FFFFFFF
    if name == "float8_e8m0fnu":  # a power of two: the exponent, rounded by the fraction
        exponent, rest = size >> 23, size & 0x7FFFFF
        up = (rest > 1 << 22) | ((rest == 1 << 22) & (exponent > 0))
        result = fn.where(up & (exponent < 255), exponent + 1, exponent)
        return fn.cast(result, "uint8")
    shift = 23 - fraction
    even = (size >> shift) & 1
    normal = (size - ((127 - bias) << 23) + ((1 << (shift - 1)) - 1) + even) >> shift
    least = 2.0 ** (
        24 - bias - fraction
    )  # a sum with it is rounded at the last place of the smallest numbers
    small = bitcast(bitcast(size, "float32") + least, "uint32") - bitcast(fn.like(x, least), "uint32")
    result = fn.where(size < (128 - bias) << 23, small, normal)
    nan = size > INFINITY
    if name.endswith("fnuz"):
        result = fn.where(
            nan | (result > 127), fn.like(bits, 128), fn.where(result == 0, result, result | sign)
        )
    else:
        largest = fn.like(bits, 126 if name == "float8_e4m3fn" else 124)
        result = fn.where(nan, fn.like(bits, 127), fn.where(result > largest, largest, result)) | sign
    return fn.cast(result, "uint8")


def _declare(name: str) -> None:
    def decoded(input: Expr) -> Expr:
        return _number(input, name)

    def encoded(input: Expr) -> Expr:
        return _byte(fn.cast(input, "float32"), name)

    declared: list = []
    for body, verb, dtypes in ((decoded, "from", frozenset(("uint8",))), (encoded, "to", EVERY)):
        make: Callable = pointwise(
            name=f"{verb}_{name}",
            places=(f"_{verb}_{name}",),
            in_place=False,
            differentiable=False,
            dtypes=dtypes,
        )
        declared.append(make(body))
        declared[-1].__doc__ = f"What `to` computes {verb} {name}, over its bytes."
    set_conversion(by_name[name], *declared)


for _name in FORMATS:
    _declare(_name)
