"""Error functions, gamma functions."""

from __future__ import annotations

from ._math_base import COEFFICIENTS, expansion, horner, poly, quick_two_sum, two_sum
from ._math_explog import near_power_of_two, reduce_by_ln2, scaled
from .expr import Expr, absolute, copysign, fma, like, where


@expansion
def erf(x: Expr) -> Expr:
    """x + x·P(x^2) for |x| < 1; beyond, 1 - exp(-Q(|x|))."""
    a = absolute(x)
    z = x * x
    near = fma(x, poly(z, "erf"), x)
    limit = {"float32": 3.93, "float64": 5.93}[x.dtype]  # 1 from here
    shifted, r, _ = reduce_by_ln2(-poly(where(a > limit, limit, a), "erf_far"))
    p = fma(r * r, poly(r, "exp"), r)
    power = near_power_of_two(shifted)
    return where(a < 1.0, near, copysign(fma(-power, p, 1.0 - power), x))


@expansion
def erfc(x: Expr) -> Expr:
    """1 - erf(x) for |x| < 0.65; else exp(-a^2)·(5/4 + P((a - 2) / (a + 2))) / (1 + 2a), a = |x|; M. Shepherd and J. Laframboise, "Chebyshev approximation of
    (1 + 2x) exp(x^2) erfc(x)", Mathematics of Computation 36, 1981."""
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
    y = scaled(q + fma(q, p, q_low), shifted)
    near = 1.0 - fma(x, poly(x * x, "erf"), x)
    return where(absolute(x) < 0.65, near, where(x < 0.0, 2.0 - y, y))
