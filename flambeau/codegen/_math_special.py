"""Error functions, gamma functions."""

from __future__ import annotations

import math
from typing import NamedTuple

from ._math_base import (
    COEFFICIENTS,
    INF,
    LAYOUT,
    NAN,
    Double,
    constant,
    expansion,
    horner,
    parts,
    poly,
    quick_two_sum,
    times,
    two_sum,
)
from ._math_explog import log, log2_double, near_power_of_two, reduce_by_ln2, regular_log, scaled
from .expr import Expr, absolute, call, copysign, fma, like, rarely, rint, sqrt, where


# --- error functions ------------------------------
@expansion
def erf(x: Expr) -> Expr:
    """x + x·P(x^2) for |x| < 1; beyond, 1 - R(|x|)^4 in float32 and 1 - exp(-Q(|x|)) in float64."""
    a = absolute(x)
    z = x * x
    near = fma(x, poly(z, "erf"), x)
    limit = {"float32": 3.93, "float64": 5.93}[x.dtype]  # 1 from here
    inside = where(a > limit, limit, a)
    if x.dtype == "float32":
        square = poly(inside, "erf_root")
        square = square * square
        return where(a < 1.0, near, copysign(fma(-square, square, 1.0), x))
    shifted, r, _ = reduce_by_ln2(-poly(inside, "erf_far"))
    p = fma(r * r, poly(r, "exp"), r)
    power = near_power_of_two(shifted)
    return where(a < 1.0, near, copysign(fma(-power, p, 1.0 - power), x))


@expansion
def erfc(x: Expr) -> Expr:
    """1 - erf(x) for |x| < 0.65; else exp(-a^2)·(5/4 + P((a - 2) / (a + 2))) / (1 + 2a), a = |x|.

    M. Shepherd and J. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc(x)", Mathematics of
    Computation 36, 1981.
    """
    a = absolute(x)
    limit = {"float32": 10.2, "float64": 27.5}[x.dtype]  # 0 from here
    a = where(a > limit, limit, a)
    t = (a - 2.0) / (a + 2.0)
    top = quick_two_sum(like(x, 1.25), poly(t, "erfc"))
    bottom = two_sum(a + a, like(x, 1.0))
    inverse = 1.0 / bottom.high
    q = top.high * inverse
    q_low = (fma(-q, bottom.high, top.high) + (top.low - q * bottom.low)) * inverse
    square = a * a
    shifted, r, low = reduce_by_ln2(-square)
    r = r + (low - fma(a, a, -square))
    p = fma(r * r, poly(r, "expm1"), r)
    y = scaled(q + fma(q, p, fma(q_low, p, q_low)), shifted)
    near = 1.0 - fma(x, poly(x * x, "erf"), x)
    return where(absolute(x) < 0.65, near, where(x < 0.0, 2.0 - y, y))


@expansion
def erfinv(x: Expr) -> Expr:
    """x·P(-log(1 - x^2)), in other variables near |x| = 1.

    M. Giles, "Approximating the erfinv function", GPU Computing Gems, 2010.
    """
    w = regular_log(fma(-x, x, 1.0))
    near = fma(x, horner(-3.0 - w, COEFFICIENTS["erfinv", x.dtype]), x)
    root = sqrt(-w)
    far = fma(x, horner(root - 3.0, COEFFICIENTS["erfinv_far", x.dtype]), x * 2.0)
    if x.dtype == "float64":
        end = fma(x, horner(root - 5.0, COEFFICIENTS["erfinv_end", x.dtype]), x * 4.0)
        far = where(root > 4.0, end, far)
    a = absolute(x)
    far = where(a < 1.0, far, where(a == 1.0, like(x, INF), NAN))
    return copysign(rarely(~(w > -6.0) | ~(a < 1.0), far, near), x)


# --- gamma function ------------------------------
class Folded(NamedTuple):
    """Where x stands between integers: its distance from the nearest one and from the nearest half."""

    distance: Expr
    from_half: Expr
    past_quarter: Expr


def folded(x: Expr) -> Folded:
    g = absolute(x - rint(x))
    return Folded(g, 0.5 - g, g > 0.25)


@expansion
def lgamma(x: Expr) -> Expr:
    """log|Gamma(x)|.

    Around 2 a polynomial, to which smaller arguments are moved; from 2.5 on Stirling's series in x - 1/2;
    for x < 0 the reflection formula, where the error is 2 ULP of the largest term rather than of a value
    near zero.
    """
    a = absolute(x)
    low, mid, far = a < 0.5, a < 1.5, a >= 2.5
    y = a - 0.5
    product = fma(a, a, a)
    logarithm = times(log2_double(where(far, y, where(low, product, a))), constant("ln2", x))

    d = where(low, a, where(mid, a - 1.0, a - 2.0))
    two = constant("digamma(2)", x)
    slope = quick_two_sum(two.high, d * poly(d, "lgamma"))
    polynomial = times(Double(d, like(x, 0.0)), Double(slope.high, slope.low + two.low))
    above = two_sum(polynomial.high, where(mid, -logarithm.high, 0.0))
    near = above.high + (above.low + (polynomial.low - where(mid, logarithm.low, 0.0)))

    less = two_sum(logarithm.high, like(x, -1.0))
    main = times(Double(y, like(x, 0.0)), Double(less.high, less.low + logarithm.low))
    rest = constant("log(2 pi)/2", x)
    inverse = 1.0 / y
    total = two_sum(main.high, rest.high)
    series = fma(inverse, poly(inverse * inverse, "lgamma_far"), rest.low)
    stirling = total.high + (total.low + (main.low + series))
    value = where(far, where(main.high < INF, stirling, INF), near)

    place = folded(x)
    t = where(place.past_quarter, place.from_half, place.distance) * parts("pi", x.dtype, 1)[0]
    z = t * t
    cosine = fma(z * z, poly(z, "cos"), fma(z, -0.5, 1.0))
    sine = where(place.past_quarter, cosine, fma(t * z, poly(z, "sin"), t))
    reflected = where(a < 2.0**-60, value, -log(a * sine * parts("1/pi", x.dtype, 1)[0]) - value)
    reflected = where(sine == 0.0, INF, reflected)  # a pole, also where the value itself is past all numbers
    special = where(a == INF, INF, where(x == 0.0, INF, where(x < 0.0, reflected, value)))
    return rarely(~((x > 0.0) & (x < INF)), special, value)


@expansion
def digamma(x: Expr) -> Expr:
    """The derivative of lgamma.

    (x - x0)·P(x) on [1, 2.5], where x0 is its zero; one step down to [0, 1]; from 2.5 on log(y) and a
    series in 1/y^2, y = x - 1/2; for x < 0 the reflection formula, with an error of 2 ULP of its terms.
    """
    a = where(x < 0.0, 1.0 - x, x)
    low, far = a < 1.0, a >= 2.5
    inverse = 1.0 / where(far, a - 0.5, a)

    y = where(low, a + 1.0, a)
    root = constant("digamma root", x)
    d = quick_two_sum(y - root.high, -root.low)
    middle = constant("digamma(7/4) / (7/4 - root)", x)
    offset = y - 1.75
    slope = quick_two_sum(middle.high, offset * poly(offset, "digamma"))
    near = times(d, Double(slope.high, slope.low + middle.low))
    step = where(low, inverse, 0.0)
    step_low = where(low, fma(-inverse, a, 1.0) * inverse, 0.0)
    near_sum = (near.high - step) + (near.low - step_low)

    v = inverse * inverse
    value = where(far, fma(v, poly(v, "digamma_far"), regular_log(a - 0.5)), near_sum)

    place = folded(x)
    t = where(place.past_quarter, place.from_half, place.distance) * parts("pi", x.dtype, 1)[0]
    z = t * t
    tangent = fma(t * z, poly(z, "tan"), t)
    pi = parts("pi", x.dtype, 1)[0]
    cotangent = copysign(where(place.past_quarter, tangent * pi, pi / tangent), x - rint(x))
    reflected = where(rint(x) == x, NAN, value - cotangent)
    small = 2.0 ** (2 - LAYOUT[x.dtype].bias // 2)
    special = where(absolute(x) < small, -1.0 / x, where(x < 0.0, reflected, x))
    return rarely(~((x > small) & (x < INF)), special, value)


@expansion
def trigamma(x: Expr) -> Expr:
    """The derivative of digamma, to about 1e-6 in float32 and 1e-14 in float64, relatively.

    Eight steps up (DLMF 5.15.5), then the asymptotic series (DLMF 5.15.8); below 1/2 the reflection
    formula (DLMF 5.15.6).
    """
    below = x < 0.5
    y = where(below, 1.0 - x, x)
    steps = 1.0 / (y * y)
    for k in range(1, 8):
        steps = steps + 1.0 / ((y + float(k)) * (y + float(k)))
    inverse = 1.0 / (y + 8.0)
    v = inverse * inverse
    tail = like(x, 7.0 / 6.0)
    for bernoulli in (-691.0 / 2730.0, 5.0 / 66.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 1.0 / 6.0):
        tail = fma(tail, v, bernoulli)
    value = steps + (inverse + v * 0.5 + inverse * v * tail)
    sine = call("sin", (x - rint(x)) * math.pi)
    reflected = (math.pi * math.pi) / (sine * sine) - value
    return where(below, reflected, value)
