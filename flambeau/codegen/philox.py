"""Random numbers as expressions: Philox4x32-10 and the distributions that kernels draw from it.

Philox (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011) turns a 64-bit key and a counter
into four random 32-bit words, without any state.  A kernel whose `index` is the counter therefore gives the same numbers
for any number of threads, any vector width and on every device.

Words are kept in the lower halves of uint64 lanes, whose upper halves may hold anything: a round is then two 32 × 32 → 64
bit multiplications, two shifts and the exclusive ors, with no lane ever moved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from . import functions as fn
from .expr import Expr

MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
KEY_STEPS = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10
LOW = 0xFFFFFFFF
PIECE = 24  # bits of an integer that a scalar parameter carries exactly whatever the kernel's dtype
PIECES = 3


def pieces(value: int) -> tuple[int, int, int]:
    """A 64-bit integer as three parameters, the lowest bits first."""
    value &= (1 << 64) - 1
    return value & 0xFFFFFF, value >> PIECE & 0xFFFFFF, value >> 2 * PIECE


def joined(parts: Sequence[Expr]) -> Expr:
    """The uint64 that `pieces` took apart."""
    low, middle, high = (fn.cast(fn.cast(p, "int64"), "uint64") for p in parts)
    return low | middle << PIECE | high << 2 * PIECE


def words(key: Expr, counter: Expr, upper: Expr | None = None) -> tuple[Expr, Expr, Expr, Expr]:
    """The four words of a counter, as uint64 whose upper halves are to be ignored; `upper` are the counter's upper 64 bits."""
    c0, c1 = counter, counter >> 32
    c2 = c3 = fn.like(counter, 0)
    if upper is not None:
        c2, c3 = upper, upper >> 32
    k0, k1 = key, key >> 32
    for r in range(ROUNDS):
        p0 = (c0 & LOW) * MULTIPLIERS[0]
        p1 = (c2 & LOW) * MULTIPLIERS[1]
        c0, c2 = (p1 >> 32) ^ (c1 ^ (k0 + r * KEY_STEPS[0])), (p0 >> 32) ^ (c3 ^ (k1 + r * KEY_STEPS[1]))
        c1, c3 = p1, p0
    return c0, c1, c2, c3


def word(w: Expr) -> Expr:
    """The word itself, a uint32."""
    return fn.cast(w, "uint32")


def both(high: Expr, low: Expr) -> Expr:
    """Two words as a uint64."""
    return high << 32 | low & LOW


def fraction(bits: Expr, dtype: str) -> Expr:
    """Equally spaced in [0, 1): 24 bits of a uint32 as float32, 53 bits of a uint64 as float64."""
    if dtype == "float64":
        return fn.cast(fn.cast(bits >> 11, "int64"), dtype) * 2.0**-53
    return fn.cast(fn.cast(bits >> 8, "int32"), dtype) * 2.0**-24


def positive(bits: Expr, dtype: str) -> Expr:
    """In (0, 1], as fine near 0 as the bits allow: (bits + ½) / 2^32 as float32, / 2^53 as float64."""
    if dtype == "float64":
        return (fn.cast(fn.cast(bits >> 11, "int64"), dtype) + 0.5) * 2.0**-53
    high = fn.cast(fn.cast(bits >> 16, "int32"), dtype) * 65536.0
    return (high + (fn.cast(fn.cast(bits & 0xFFFF, "int32"), dtype) + 0.5)) * 2.0**-32


def _series(x: Expr, first: int, terms: int) -> Expr:
    """sin(½πx) (first 1) or cos(½πx) (first 0) on [-½, ½] by the Taylor series, whose next term is below the rounding."""
    angle, square = 0.5 * math.pi, x * x
    result: Any = None
    for k in reversed(range(terms)):
        power = 2 * k + first
        coefficient = (-1) ** k * angle**power / math.factorial(power)
        result = fn.like(x, coefficient) if result is None else fn.fma(result, square, coefficient)
    return result * x if first else result


def normal_pair(radius: Expr, angle: Expr, dtype: str) -> tuple[Expr, Expr]:
    """Two independent standard normal numbers from two words (uint32 for float32, uint64 for float64).

    Box and Muller, "A note on the generation of random normal deviates" (1958): √(-2 log u) times the cosine and the sine of
    a random angle.  The angle's first bit is the sign of both, its second exchanges them, the others place it within ±45°.
    """
    r = fn.sqrt(-2.0 * fn.log(positive(radius, dtype)))
    signed = "int64" if dtype == "float64" else "int32"
    width = 64 if dtype == "float64" else 32
    x = fn.cast(fn.bitcast(angle << 2, signed), dtype) * 2.0**-width
    sine, cosine = _series(x, 1, 9 if width == 64 else 5), _series(x, 0, 10 if width == 64 else 6)
    turned = fn.bitcast(angle << 1, signed) < 0
    r = fn.copysign(r, fn.bitcast(angle, dtype))
    return r * fn.where(turned, sine, cosine), r * fn.where(turned, cosine, sine)


def bounded(high: Expr, low: Expr, span: Expr) -> Expr:
    """In [0, span) for a uint64 span below 2^32, from two words: their 64 bits times the span, the product's upper half."""
    return ((high & LOW) * span + ((low & LOW) * span >> 32)) >> 32
