"""Exponentials, logarithms, powers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from . import expr as ex
from ._math_base import (
    INF,
    LAYOUT,
    NAN,
    Double,
    bits,
    clamp,
    constant,
    expansion,
    parts,
    plus,
    poly,
    power_of_two,
    quick_two_sum,
    times,
)
from .expr import Expr, absolute, bitcast, copysign, fma, like, rarely, rint, where
from .functions import LIFT


# --- exponentials ------------------------------
class Reduced(NamedTuple):
    """x = n·ln2 + r + low, |r| <= ln2/2."""

    shifted: Expr  # n + shifter: n stands in the lowest bits
    r: Expr
    low: Expr


def reduce_by_ln2(x: Expr) -> Reduced:
    """|x| below 2000; Cody and Waite, "Software Manual for the Elementary Functions", 1980, chapter 6."""
    shifter = LAYOUT[x.dtype].shifter
    high, low = parts("ln2", x.dtype, 2)
    shifted = fma(x, parts("log2e", x.dtype, 1)[0], shifter)
    n = shifted - shifter
    first = fma(n, -high, x)
    r = fma(n, -low, first)
    return Reduced(shifted, r, fma(n, -low, first - r))


def scaled(p: Expr, shifted: Expr) -> Expr:
    """p·2^n for any n, rounded once where the result is subnormal."""
    layout = LAYOUT[p.dtype]
    both = bits(shifted) - (layout.bits(layout.shifter) - 2 * layout.bias)  # n plus twice the bias
    half = bitcast(bitcast(both, layout.unsigned) >> 1, layout.integer)
    return p * power_of_two(half, p.dtype) * power_of_two(both - half, p.dtype)


def near_power_of_two(shifted: Expr) -> Expr:
    """2^n for n that stays within the exponent's range."""
    layout = LAYOUT[shifted.dtype]
    return bitcast((bits(shifted) << layout.mantissa) + layout.bits(1.0), shifted.dtype)


EXP_RANGE = {"float32": (-104.0, 89.0), "float64": (-746.0, 710.0)}  # outside: 0, infinity
EXP_NORMAL = {"float32": 87.0, "float64": 708.0}  # where |x| is less, exp(x) is normal


@expansion
def exp(x: Expr) -> Expr:
    shifted, r, _ = reduce_by_ln2(x)
    p = fma(r * r, poly(r, "exp"), r)
    power = near_power_of_two(shifted)
    return rarely(
        absolute(x) >= EXP_NORMAL[x.dtype],
        power_of_any(x, p, shifted, EXP_RANGE[x.dtype]),
        fma(power, p, power),
    )


def power_of_any(x: Expr, p: Expr, shifted: Expr, limits: tuple[float, float]) -> Expr:
    """(1 + p)·2^n, which is 0 where x is below the limits and infinite above them."""
    lowest, highest = limits
    vanishes = x < lowest
    # Computed of 0 there: products that underflow take some processors a hundred cycles.
    y = scaled(where(vanishes, 0.0, p) + 1.0, where(vanishes, LAYOUT[x.dtype].shifter, shifted))
    return where(vanishes, 0.0, where(x > highest, INF, y))


@expansion
def lifted_exp(x: Expr) -> Expr:
    """exp(x)·2^LIFT for x <= 0: never subnormal, so that what divides it by a sum of its like rounds once; 0 where exp(x) is."""
    layout = LAYOUT[x.dtype]
    lowest = EXP_RANGE[x.dtype][0]
    shifted, r, _ = reduce_by_ln2(where(x < lowest, lowest, x))
    power = bitcast((bits(shifted) << layout.mantissa) + layout.bits(2.0 ** LIFT[x.dtype]), x.dtype)
    return where(x < lowest, 0.0, fma(power, fma(r * r, poly(r, "exp"), r), power))


@expansion
def exp2(x: Expr) -> Expr:
    layout = LAYOUT[x.dtype]
    shifted = x + layout.shifter
    r = x - (shifted - layout.shifter)
    p = fma(r, poly(r, "exp2"), 1.0)
    limits = (-layout.bias - layout.mantissa - 2.0, layout.bias + 2.0)
    return rarely(
        absolute(x) >= layout.bias - 1.0,
        power_of_any(x, p - 1.0, shifted, limits),  # p - 1 is exact
        near_power_of_two(shifted) * p,
    )


@expansion
def expm1(x: Expr) -> Expr:
    """2^n·(exp(r) - 1) + (2^n - 1), all halved so that 2^n stays finite."""
    shifted, r, low = reduce_by_ln2(clamp(x, -40.0, EXP_RANGE[x.dtype][1]))
    layout = LAYOUT[x.dtype]
    half = bitcast((bits(shifted) << layout.mantissa) + layout.bits(0.5), x.dtype)
    p = fma(r * r, poly(r, "expm1"), low) + r
    y = fma(half, p, half - 0.5) * 2.0
    return where(absolute(x) < 2.0**-layout.mantissa, x, y)


@expansion
def sigmoid(x: Expr) -> Expr:
    """1 / (1 + exp(-x)), or exp(x) where exp(-x) may be infinite and the result subnormal."""
    shifted, r, _ = reduce_by_ln2(-where(x > 40.0, 40.0, x))
    p = fma(r * r, poly(r, "exp"), r)
    power = near_power_of_two(shifted)
    rounded = power + 1.0
    bottom = fma(power, p, rounded)
    lost = fma(power, p, rounded - bottom)
    inverse = 1.0 / bottom
    correction = fma(-lost, inverse, fma(-bottom, inverse, 1.0))
    return rarely(x < EXP_RANGE[x.dtype][0] * 0.75, exp(x), fma(inverse, correction, inverse))


# --- logarithms ------------------------------
def irregular(x: Expr) -> Expr:
    """Not a positive normal number: zero, negative, subnormal, infinite or NaN."""
    layout = LAYOUT[x.dtype]
    offset = bitcast(bits(x) - layout.bits(layout.tiny), layout.unsigned)
    return offset >= layout.bits(INF) - layout.bits(layout.tiny)


def bits_of_any(x: Expr) -> Expr:
    """x's bits; a positive subnormal number is given as a normal one with an exponent below the range."""
    layout = LAYOUT[x.dtype]
    step = layout.mantissa + 1
    normalised = bits(x * 2.0**step) - (step << layout.mantissa)
    return where(x < layout.tiny, normalised, bits(x))


def wide_bits(x: Expr) -> Expr:
    """The same, for numbers that are seldom irregular."""
    return rarely(irregular(x), bits_of_any(x), bits(x))


class Split(NamedTuple):
    """x = 2^n·m, m in [sqrt(1/2), sqrt(2))."""

    n: Expr  # as a float
    m: Expr
    exponent: Expr  # n in place of the exponent bits


def split(pattern: Expr, dtype: str) -> Split:
    layout = LAYOUT[dtype]
    low = layout.bits(layout.round(0.5**0.5))
    offset = pattern - low
    fraction = (1 << layout.mantissa) - 1
    m = bitcast((offset & fraction) + low, dtype)
    shifter = layout.shifter
    n = bitcast((offset >> layout.mantissa) + layout.bits(shifter), dtype) - shifter
    return Split(n, m, offset & ~fraction)


def log_tail(f: Expr, addend) -> Expr:
    """log(1 + f) - f + addend, for sqrt(1/2) <= 1 + f <= sqrt(2)."""
    square = f * f
    if f.dtype == "float32":
        return fma(square, fma(f, poly(f, "log"), -0.5), addend)
    s = f / (f + 2.0)  # Sun's fdlibm, e_log.c: with s one needs half as many coefficients
    z = s * s
    return fma(square, -0.5, fma(s, fma(square, 0.5, z * poly(z, "log_ratio")), addend))


def log_limits(x: Expr, regular: Expr, positive: Expr) -> Expr:
    """`regular`, a logarithm of positive normal numbers, put right for others; `positive` is that of subnormal ones and infinity."""
    return rarely(irregular(x), where(x > 0.0, positive, where(x == 0.0, like(x, -INF), NAN)), regular)


def log_of(x: Expr, logarithm: Callable[[Expr], Expr]) -> Expr:
    """A logarithm of x, given as a function of the bits of a positive normal number.

    It is computed anew behind a branch for subnormal ones, of which there are few: values that come together again after a branch
    hold registers all the while.
    """
    subnormal = (x > 0.0) & (x < LAYOUT[x.dtype].tiny)
    return log_limits(x, logarithm(bits(x)), rarely(subnormal, logarithm(bits_of_any(x)), x))


def regular_log(x: Expr, pattern: Expr | None = None) -> Expr:
    """log(x) of a positive normal number, or of one whose bits are given by `wide_bits`."""
    n, m, _ = split(bits(x) if pattern is None else pattern, x.dtype)
    high, low = parts("ln2", x.dtype, 2)
    f = m - 1.0
    return fma(n, high, f + log_tail(f, n * low))


@expansion
def log(x: Expr) -> Expr:
    return log_of(x, lambda pattern: regular_log(x, pattern))


@expansion
def log1p(x: Expr) -> Expr:
    """log(u + c), where u + c is 1 + x without rounding."""
    layout = LAYOUT[x.dtype]
    u = x + 1.0
    back = u - 1.0
    c = (1.0 - (u - back)) + (x - back)
    n, m, exponent = split(bits(u), x.dtype)
    shrink = where(x < 2.0 ** (layout.mantissa + 2), bitcast(layout.bits(1.0) - exponent, x.dtype), 0.0)
    f = fma(c, shrink, m - 1.0)
    high, low = parts("ln2", x.dtype, 2)
    y = fma(n, high, f + log_tail(f, n * low))
    return copysign(log_limits(u, y, u), x)


def _log_base(x: Expr, of_2: tuple[float, ...], of_e: tuple[float, ...]) -> Expr:
    """n·log(2) + log(m)·log(e) in another base, whose log(2) and log(e) are given in two parts each."""

    def logarithm(pattern: Expr) -> Expr:
        n, m, _ = split(pattern, x.dtype)
        f = m - 1.0
        tail = log_tail(f, 0.0)
        y = fma(f, of_e[0], fma(f, of_e[1], fma(tail, of_e[0], n * of_2[1] if of_2[1] else 0.0)))
        return fma(n, of_2[0], y)

    return log_of(x, logarithm)


@expansion
def log2(x: Expr) -> Expr:
    return _log_base(x, (1.0, 0.0), parts("log2e", x.dtype, 2))


@expansion
def log10(x: Expr) -> Expr:
    return _log_base(x, parts("log10_2", x.dtype, 2), parts("log10e", x.dtype, 2))


# --- powers ------------------------------
def log2_double(x: Expr) -> Double:
    """log2(x) to half as many bits again as the dtype has, for x > 0.

    log2(m) = s·(2/ln2 + s²·(2/(3 ln2) + s²·P(s²))), s = (m - 1) / (m + 1).
    """
    n, m, _ = split(wide_bits(x), x.dtype)
    top, bottom = m - 1.0, m + 1.0
    bottom_low = m - (bottom - 1.0)
    inverse = 1.0 / bottom
    s = top * inverse
    s = Double(s, (fma(-s, bottom, top) - s * bottom_low) * inverse)
    z = times(s, s)
    third = constant("2/(3 ln2)", x)
    inner = quick_two_sum(third.high, z.high * poly(z.high, "pow"))
    inner = Double(inner.high, inner.low + third.low)
    logarithm = times(s, plus(constant("2/ln2", x), times(z, inner)))
    high, low = quick_two_sum(n, logarithm.high)
    return Double(high, low + logarithm.low)


@expansion
def pow(x: Expr, y: Expr) -> Expr:
    """2^(y·log2|x|), with the product in twofold precision; C99's special cases."""
    layout = LAYOUT[x.dtype]
    a = absolute(x)
    logarithm = log2_double(a)
    high = y * logarithm.high
    low = fma(y, logarithm.high, -high) + y * logarithm.low
    bound = layout.bias + layout.mantissa + 4.0
    low = where(absolute(high) < bound, low, 0.0)
    high = clamp(high, -bound, bound)
    shifted = high + layout.shifter
    r = (high - (shifted - layout.shifter)) + low
    y_infinite = absolute(y) == INF
    power = scaled(fma(r, poly(r, "exp2"), 1.0), shifted)

    extreme = (a == 0.0) | (a == INF) | y_infinite
    value = where(extreme, where((a > 1.0) ^ (y > 0.0), like(x, 0.0), INF), power)
    value = where(y_infinite & (a == 1.0), 1.0, value)
    half = y * 0.5
    odd = (rint(y) == y) & (rint(half) != half)
    value = where((bits(x) < 0) & odd, -value, value)
    value = where((x < 0.0) & (x > -INF) & (rint(y) != y), NAN, value)
    value = where(ex.isnan(x) | ex.isnan(y), NAN, value)
    value = where((y == 0.0) | (x == 1.0), 1.0, value)
    return rarely(irregular(x) | ~(absolute(y) < INF), value, power)
