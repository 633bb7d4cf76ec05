"""Circular functions and their inverses."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from . import expr as ex
from ._math_base import (
    INF,
    LAYOUT,
    NAN,
    bits,
    constant,
    expansion,
    horner,
    parts,
    poly,
    quick_two_sum,
    times,
    two_sum,
)
from ._math_coefficients import COEFFICIENTS, TWO_OVER_PI
from .expr import Expr, absolute, bitcast, cast, copysign, fma, like, rarely, sqrt, where


class Angle(NamedTuple):
    """x = quarters·pi/2 + r + low, |r| <= pi/4; only the lowest two bits of `quarters` mean something."""

    quarters: Expr
    r: Expr
    low: Expr


# --- range reduction ------------------------------
MODERATE = {"float32": 1e5, "float64": 1e8}  # up to here three parts of pi/2 are enough


def moderate_angle(x: Expr) -> Angle:
    """Cody and Waite's reduction; with fused multiply-adds the first difference is exact.  `low` is 0."""
    shifter = LAYOUT[x.dtype].shifter
    shifted = fma(x, parts("2/pi", x.dtype, 1)[0], shifter)
    n = shifted - shifter
    first, second, third = parts("pi/2", x.dtype, 3)
    r = fma(n, -third, fma(n, -second, fma(n, -first, x)))
    return Angle(bits(shifted), r, like(x, 0.0))


def exact_angle(x: Expr) -> Angle:
    """The same, keeping what rounding takes from r."""
    shifter = LAYOUT[x.dtype].shifter
    shifted = fma(x, parts("2/pi", x.dtype, 1)[0], shifter)
    n = shifted - shifter
    first, second, third = parts("pi/2", x.dtype, 3)
    product = n * second
    rest = two_sum(fma(n, -first, x), -product)
    angle = quick_two_sum(rest.high, rest.low - fma(n, third, fma(n, second, -product)))
    return Angle(bits(shifted), angle.high, angle.low)


def any_angle(x: Expr) -> Angle:
    """|x| = m·2^e times those bits of 2/pi that decide the product modulo 4, in words of 32 bits.

    M. Payne and R. Hanek, "Radian reduction for trigonometric functions", ACM SIGNUM Newsletter 18, 1983.
    """
    layout = LAYOUT[x.dtype]
    wide = x.dtype == "float64"
    count = 6 if wide else 3  # words for the quarters, what may cancel, and the result
    pattern = cast(bitcast(absolute(x), layout.unsigned), "uint64")
    mantissa = (pattern & ((1 << layout.mantissa) - 1)) | (1 << layout.mantissa)
    padding = 64  # zero bits before 2/pi's, so that no position is negative
    position = (pattern >> layout.mantissa) + (padding - layout.bias - layout.mantissa - 2)
    words = window(position, count, 1 + (padding + layout.bias - layout.mantissa) // 32)
    product = multiplied(words, [mantissa >> 32, mantissa & 0xFFFFFFFF] if wide else [mantissa])

    fraction = [(a << 2 | b >> 30) & 0xFFFFFFFF for a, b in zip(product, product[1:])]  # of a quarter turn
    negative = fraction[0] >= 1 << 31  # the nearest quarter is the next one
    fraction = [where(negative, a ^ 0xFFFFFFFF, a) for a in fraction]
    quarters = cast((product[0] >> 30) + cast(negative, "uint64"), layout.integer)

    def number(word: Expr, unit: int) -> Expr:
        """A word of so few bits that it is exact as a float, times 2^unit."""
        return cast(cast(word, layout.integer), x.dtype) * 2.0**unit

    both = fraction[0] << 32 | fraction[1]
    if wide:
        chunks = [
            number(both >> 32, -32),
            number(both & 0xFFFFFFFF, -64),
            number(fraction[2], -96) + number(fraction[3], -128),
        ]
    else:
        chunks = [number(both >> 40, -24), number((both >> 16) & 0xFFFFFF, -48), number(both & 0xFFFF, -64)]
    top = quick_two_sum(chunks[0], chunks[1])
    angle = times(quick_two_sum(top.high, top.low + chunks[2]), constant("pi/2", x))
    r = angle.high + angle.low
    low = angle.low - (r - angle.high)
    backwards = (bits(x) < 0) ^ negative
    quarters = where(bits(x) < 0, -quarters, quarters)
    return Angle(quarters, where(backwards, -r, r), where(backwards, -low, low))


def window(position: Expr, count: int, first_words: int) -> list[Expr]:
    """`count` words of 64 zeros and then the bits of 2/pi, from a bit position in the first `first_words`."""
    total = first_words + count
    digits = TWO_OVER_PI >> (1280 - (total * 32 - 64))
    words = [ex.const(digits >> (32 * (total - 1 - k)) & 0xFFFFFFFF, "uint64") for k in range(total)]
    stages = (first_words - 1).bit_length()
    for stage in reversed(range(stages)):  # move left by half of what is left, or not
        moved = (position & (32 << stage)) != 0
        words = [where(moved, b, a) for a, b in zip(words, words[1 << stage :] + [words[-1]] * (1 << stage))]
        words = words[: count + (1 << stage)]
    shift = position & 31
    return [(((a << 32) | b) << shift) >> 32 for a, b in zip(words, words[1 : count + 1])]


def multiplied(words: list[Expr], factor: list[Expr]) -> list[Expr]:
    """words times factor, both of 32-bit words with the highest first, as many low words as `words` has."""
    columns: list[list[Expr]] = [[] for _ in words]
    for i, a in enumerate(reversed(words)):
        for j, b in enumerate(reversed(factor)):
            if i + j < len(words):
                product = a * b
                columns[i + j].append(product & 0xFFFFFFFF)
                if i + j + 1 < len(words):
                    columns[i + j + 1].append(product >> 32)
    out, carry = [], None
    for column in columns:
        total = column[0] if carry is None else column[0] + carry
        for term in column[1:]:
            total = total + term
        out.append(total & 0xFFFFFFFF)
        carry = total >> 32
    return out[::-1]


def with_angle(
    x: Expr, function: Callable[[Angle], Expr], moderate: Callable[[Expr], Angle] = moderate_angle
) -> Expr:
    """function(angle) after the cheap reduction or, for huge x, the dear one."""
    huge = where(absolute(x) < INF, function(any_angle(x)), NAN)
    return rarely(~(absolute(x) < MODERATE[x.dtype]), huge, function(moderate(x)))


# --- sine, cosine, tangent ------------------------------
def wave(angle: Angle) -> Expr:
    """Sine of an angle; adding a quarter makes it the cosine."""
    r = angle.r
    z = r * r
    sine = copysign(fma(r * z, poly(z, "sin"), r), r)  # -0 stays -0
    cosine = fma(z * z, poly(z, "cos"), fma(z, -0.5, 1.0))
    quarters = angle.quarters
    layout = LAYOUT[r.dtype]
    sign = (quarters & 2) << (layout.mantissa + {"float32": 7, "float64": 10}[r.dtype])
    return bitcast(bits(where((quarters & 1) != 0, cosine, sine)) ^ sign, r.dtype)


@expansion
def sin(x: Expr) -> Expr:
    return with_angle(x, wave)


@expansion
def cos(x: Expr) -> Expr:
    return with_angle(x, lambda angle: wave(angle._replace(quarters=angle.quarters + 1)))


@expansion
def tan(x: Expr) -> Expr:
    """t = tan(r), or -1 / t in odd quarters."""

    def tangent(angle: Angle) -> Expr:
        r = angle.r
        z = r * r
        tail = fma(r * z, poly(z, "tan"), fma(angle.low, z, angle.low))
        t = r + tail
        low = tail - (t - r)
        q = -1.0 / t
        return where((angle.quarters & 1) != 0, fma(q * q, low, q), t)

    return where(x == 0.0, x, with_angle(x, tangent, exact_angle))


# --- inverses ------------------------------
@expansion
def atan(x: Expr) -> Expr:
    """Beyond 1: pi/2 - atan(1/x)."""
    a = absolute(x)
    far = a > 1.0
    t = where(far, 1.0 / a, a)
    z = t * t
    tail = t * z * horner(z, COEFFICIENTS["atan", z.dtype])
    high, low = parts("pi/2", x.dtype, 2)
    return copysign(where(far, (high - t) - (tail - low), t + tail), x)


@expansion
def atan2(y: Expr, x: Expr) -> Expr:
    """Angle of the point (x, y), C99's zeros and infinities included."""
    ax, ay = absolute(x), absolute(y)
    steep = ay > ax
    small, large = where(steep, ax, ay), where(steep, ay, ax)
    t = small / large
    t = where(small == large, where(large == 0.0, large, 1.0), t)
    z = t * t
    a = fma(t * z, horner(z, COEFFICIENTS["atan", z.dtype]), t)
    left = bits(x) < 0
    high, low = parts("pi/2", x.dtype, 2)
    axis = where(steep, high, where(left, like(x, 2 * high), 0.0))
    axis_low = where(steep, low, where(left, like(x, 2 * low), 0.0))
    a = (axis + where(steep ^ left, -a, a)) + axis_low
    return copysign(where(ex.isnan(x) | ex.isnan(y), NAN, a), y)


def _asin_parts(x: Expr) -> tuple[Expr, Expr, Expr]:
    """(|x| > 1/2, t, asin(t) - t) where t is |x| or, beyond 1/2, sqrt((1 - |x|) / 2)."""
    a = absolute(x)
    far = a > 0.5
    z = where(far, fma(a, -0.5, 0.5), a * a)
    t = where(far, sqrt(z), a)
    return far, t, t * z * poly(z, "asin")


@expansion
def asin(x: Expr) -> Expr:
    """Beyond 1/2: pi/2 - 2 asin(sqrt((1 - |x|) / 2))."""
    far, t, tail = _asin_parts(x)
    high, low = parts("pi/2", x.dtype, 2)
    rest = fma(t, -2.0, high)
    lost = fma(t, -2.0, high - rest)
    return copysign(where(far, rest - (fma(tail, 2.0, -low) - lost), t + tail), x)


@expansion
def acos(x: Expr) -> Expr:
    """pi/2 - asin(x); beyond 1/2: 2 asin(sqrt((1 - |x|) / 2)), taken from pi for negative x."""
    far, t, tail = _asin_parts(x)
    high, low = parts("pi/2", x.dtype, 2)
    negative = x < 0.0
    double = (t + tail) * 2.0
    outer = where(negative, fma(t, -2.0, 2 * high) - fma(tail, 2.0, -2 * low), double)
    inner = high - (copysign(t, x) - (low - copysign(tail, x)))
    return where(far, outer, inner)
