"""Hyperbolic functions and their inverses."""

from __future__ import annotations

from ._math_base import (
    INF,
    LAYOUT,
    NAN,
    Double,
    bits,
    expansion,
    horner,
    parts,
    poly,
    power_of_two,
    quick_two_sum,
    two_sum,
)
from ._math_coefficients import COEFFICIENTS
from ._math_explog import log_tail, near_power_of_two, reduce_by_ln2, split
from .expr import Expr, absolute, bitcast, copysign, fma, like, sqrt, where

# exp(x) / 2 is infinite beyond, and 2^(n - 2) is still finite.
LARGEST = {"float32": 89.6, "float64": 710.6}


@expansion
def tanh(x: Expr) -> Expr:
    """1 - 2 / (exp(2|x|) + 1), or a polynomial for small x.

    |x| = n·ln2/2 + r.  An error of exp(2|x|) counts for a third at most, and n is small before it counts for nothing, so in float32 one
    part of ln2 is enough.
    """
    a = absolute(x)
    z = x * x
    near = fma(x * z, horner(z, COEFFICIENTS["tanh", x.dtype]), x)
    bounded = where(a > 20.0, 20.0, a)
    shifter = LAYOUT[x.dtype].shifter
    shifted = fma(bounded, 2.0 * parts("log2e", x.dtype, 1)[0], shifter)
    n = shifted - shifter
    high, *low = parts("ln2", x.dtype, 1 if x.dtype == "float32" else 2)
    r = fma(n, -0.5 * high, bounded)
    for part in low:
        r = fma(n, -0.5 * part, r)
    c = [k * 2.0 ** (i + 1) for i, k in enumerate(COEFFICIENTS["exp", x.dtype])]
    square = r * r
    rising = fma(horner(square, c[1::2]), r, horner(square, c[0::2]))
    p = fma(square, rising, r)  # (exp(2r) - 1) / 2
    power = near_power_of_two(shifted)
    far = 1.0 - 1.0 / fma(power, p, fma(power, 0.5, 0.5))
    return copysign(where(a < 0.625, near, far), x)


def hyperbolic_parts(a: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    """For a = n·ln2 + r, a >= 0: sinh(r), cosh(r) - 1, 2^(n - 2), 2^(-n - 2)."""
    layout = LAYOUT[a.dtype]
    limit = LARGEST[a.dtype]
    shifted, r, low = reduce_by_ln2(where(a > limit, limit, a))
    z = r * r
    n = bits(shifted) - layout.bits(layout.shifter)
    rising = power_of_two(n + (layout.bias - 2), a.dtype)
    falling = where(a > 64.0, 0.0, power_of_two((layout.bias - 2) - n, a.dtype))
    return fma(r * z, poly(z, "sinh"), low) + r, z * poly(z, "cosh"), rising, falling


@expansion
def sinh(x: Expr) -> Expr:
    """sinh(n·ln2 + r) = sinh(n·ln2) cosh(r) + cosh(n·ln2) sinh(r)."""
    a = absolute(x)
    sinh_r, cosh_r1, rising, falling = hyperbolic_parts(a)
    sinh_n = quick_two_sum(rising, -falling)
    rest = fma(sinh_r, rising + falling, fma(cosh_r1, sinh_n.high, sinh_n.low))
    return where(a < 2.0 ** -(LAYOUT[x.dtype].mantissa // 2 + 1), x, copysign((sinh_n.high + rest) * 2.0, x))


@expansion
def cosh(x: Expr) -> Expr:
    """cosh(n·ln2 + r) = cosh(n·ln2) cosh(r) + sinh(n·ln2) sinh(r)."""
    sinh_r, cosh_r1, rising, falling = hyperbolic_parts(absolute(x))
    cosh_n = quick_two_sum(rising, falling)
    rest = fma(sinh_r, rising - falling, fma(cosh_r1, cosh_n.high, cosh_n.low))
    return (cosh_n.high + rest) * 2.0


def log_of_sum(u: Double, extra: Expr | float = 0.0) -> Expr:
    """log(u) + extra·ln2 for u >= 1/2 in two parts, below half the largest number."""
    layout = LAYOUT[u.high.dtype]
    n, m, exponent = split(bits(u.high), u.high.dtype)
    f = quick_two_sum(m - 1.0, u.low * bitcast(layout.bits(1.0) - exponent, m.dtype))
    high, low = parts("ln2", m.dtype, 2)
    n = n + extra
    return fma(n, high, f.high + log_tail(f.high, fma(n, low, f.low)))


def log_twice_or(a: Expr, u: Double) -> Expr:
    """log(2a) where a is so large that its square may overflow, else log(u)."""
    huge = a > 2.0 ** (LAYOUT[a.dtype].mantissa + 2)
    u = Double(where(huge, a * 0.5, u.high), where(huge, 0.0, u.low))
    return log_of_sum(u, where(huge, like(a, 2.0), 0.0))


@expansion
def asinh(x: Expr) -> Expr:
    """log(a + sqrt(a^2 + 1)), or a polynomial for small a = |x|."""
    a = absolute(x)
    z = x * x
    near = fma(x * z, poly(z, "asinh"), x)
    far = log_twice_or(a, quick_two_sum(sqrt(fma(a, a, 1.0)), a))
    return copysign(where(a < 0.53, near, where(a < INF, far, a)), x)


@expansion
def acosh(x: Expr) -> Expr:
    """log(1 + d + sqrt(d^2 + 2d)), d = x - 1."""
    d = x - 1.0
    inner = two_sum(sqrt(fma(d, d, d + d)), d)
    u = two_sum(inner.high, like(x, 1.0))
    y = log_twice_or(x, Double(u.high, u.low + inner.low))
    return where(x < INF, where(x < 1.0, NAN, y), x)


@expansion
def atanh(x: Expr) -> Expr:
    """log((1 + a) / (1 - a)) / 2, or a polynomial for small a = |x|."""
    a = absolute(x)
    z = x * x
    near = fma(x * z, poly(z, "atanh"), x)
    top, bottom = quick_two_sum(like(x, 1.0), a), 1.0 - a
    inverse = 1.0 / bottom
    q = top.high * inverse
    rest = (fma(-q, bottom, top.high) + top.low) * inverse
    far = where(a == 1.0, INF, log_of_sum(Double(q, rest)) * 0.5)
    return copysign(where(a < 0.5, near, where(a <= 1.0, far, NAN)), x)
