"""ONNX forms of the functions that SciPy computes here: series, recurrences, integrals whose trapezoidal sums converge at once.

They are computed in float64, and rounded to the dtype of the result.  What has n terms is one more dimension of n elements.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...codegen import expr as ex
from ..declare.onnx import onnx_form
from ..declare.registry import REGISTRY
from .integers import nextafter
from .special import (
    airy_ai,
    bessel_j0,
    bessel_j1,
    bessel_y0,
    bessel_y1,
    erfcx,
    igamma,
    igammac,
    log_ndtr,
    ndtri,
    polygamma,
    spherical_bessel_j0,
    zeta,
)

GAMMA = 0.57721566490153286


def _wide(g: Any, *given: Any) -> list[Any]:
    """Operands in float64, broadcast to one shape."""
    shape = g.results[0].shape
    made = []
    for x in given:
        x = g.cast(x, "float64").of(x.shape) if hasattr(x, "floating") else g.number(x, "float64")
        made.append(g.expand(x, shape))
    return made


def _row(g: Any, numbers: Any) -> Any:
    return g.constant(np.asarray(numbers, np.float64), "float64")


def _summed(g: Any, terms: Any) -> Any:
    return g.reduce("ReduceSum", terms, [-1])


def _end(g: Any, found: Any) -> Any:
    return g.cast(found, g.results[0].dtype)


# --- polynomials ------------------------------
def _polynomial(rule: Any) -> Any:
    """By the recurrence of the declaration, in a loop up to the largest degree."""

    def form(g: Any, input: Any, n: Any) -> Any:
        shape = g.results[0].shape
        if 0 in shape:
            return g.expand(g.number(0, g.results[0].dtype), shape)
        x, degree = _wide(g, input, n)
        degree = g.express(lambda d: ex.trunc(d), degree)
        x = g.express(lambda v: 2 * v - 1, x) if rule.shifted else x
        most = g.cast(g.reduce("ReduceMax", g.reshape(degree.of(()), [math.prod(shape)]), [0]), "int64")
        before, here = g.expand(g.number(1, "float64"), shape), g.express(rule.first, x).of(shape)
        found = g.Where(g.Equal(degree, 0), before, here).of(shape)

        def turn(number: Any, states: Any) -> list[Any]:
            before, here, found = states
            k = g.Add(g.cast(number, "float64"), 1)
            new = g.express(rule.step, x, k, here, before)
            return [here, new, g.Where(g.Equal(degree, g.Add(k, 1)), new, found)]

        *_, found = g.loop(g.Max(g.Sub(most, 1), 0), [before, here, found], turn)
        return _end(g, g.Where(g.Less(degree, 0), g.number(0, "float64"), found))

    return form


for _name, _entry in list(REGISTRY.items()):
    if "recurrence" in _entry.details:
        onnx_form(_name)(_polynomial(_entry.details["recurrence"]))


# --- Bessel functions ------------------------------
_SMALL = 25.0  # up to where J and Y are sums over the circle; then by Hankel's expansion
_POINTS = 128
_ANGLES = (np.arange(_POINTS) + 0.5) * (2 * math.pi / _POINTS)


def _circle(g: Any, x: Any, function: str, weights: Any) -> Any:
    """The mean over the circle of weights · function(x · sin θ)."""
    at = g.Mul(g.unsqueeze(x, [x.rank]), _row(g, np.sin(_ANGLES)))
    return _summed(g, g.Mul(g.op(function, at), _row(g, np.asarray(weights) / _POINTS)))


def _hankel(g: Any, x: Any, order: int, turned: bool) -> Any:
    """√(2 / πx) · (P · cos χ - Q · sin χ), or with sine and cosine exchanged for Y (DLMF 10.17)."""
    square, p, q, a = 4 * order * order, [1.0], [], 1.0
    for k in range(1, 10):
        a *= (square - (2 * k - 1) ** 2) / (k * 8)
        (p if k % 2 == 0 else q).append(a * (-1) ** (k // 2))

    def found(v: Any) -> Any:
        inverse = 1.0 / v
        squared = inverse * inverse
        even, odd = ex.like(v, p[-1]), ex.like(v, q[-1])
        for c in p[-2::-1]:
            even = even * squared + c
        for c in q[-2::-1]:
            odd = odd * squared + c
        odd = odd * inverse
        angle = v - (order / 2 + 0.25) * math.pi
        sine, cosine = ex.call("sin", angle), ex.call("cos", angle)
        wave = even * sine + odd * cosine if turned else even * cosine - odd * sine
        return ex.sqrt((2 / math.pi) / v) * wave

    return g.express(found, x)


def _j(g: Any, size: Any, order: int) -> Any:
    """J of numbers that are not negative."""
    inside = g.Min(size, _SMALL).of(size.shape)
    near = _circle(g, inside, "Sin" if order else "Cos", np.sin(_ANGLES) if order else np.ones(_POINTS))
    far = _hankel(g, g.Max(size, _SMALL), order, False)
    return g.Where(g.LessOrEqual(size, _SMALL), near, far)


@onnx_form(bessel_j0)
def _(g: Any, input: Any) -> Any:
    (x,) = _wide(g, input)
    return _end(g, _j(g, g.Abs(x).of(x.shape), 0))


@onnx_form(bessel_j1)
def _(g: Any, input: Any) -> Any:
    (x,) = _wide(g, input)
    return _end(g, g.Mul(g.Sign(x), _j(g, g.Abs(x).of(x.shape), 1)))


def _y(g: Any, input: Any, order: int) -> Any:
    """Neumann's series (Abramowitz and Stegun 9.1.88), its Bessel functions summed under one mean over the circle."""
    (x,) = _wide(g, input)
    k = np.arange(1, 40)[:, None]
    if order == 0:
        weights = ((-1.0) ** k * np.cos(2 * k * _ANGLES) / k).sum(0)
    else:
        weights = ((-1.0) ** k * (2 * k + 1) / (k * (k + 1)) * np.sin((2 * k + 1) * _ANGLES)).sum(0)
    inside = g.Min(g.Max(x, 1e-300), _SMALL).of(x.shape)
    series = _circle(g, inside, "Sin" if order else "Cos", weights)
    log = g.Add(g.Log(g.Mul(inside, 0.5)), GAMMA - order)
    near = g.Mul(g.Sub(g.Mul(log, _j(g, inside, order)), g.Mul(series, 1.0 if order else 2.0)), 2 / math.pi)
    if order:
        near = g.Sub(near, g.Div(g.Mul(_j(g, inside, 0), 2 / math.pi), inside))
    far = _hankel(g, g.Max(x, _SMALL), order, True)
    found = g.Where(g.LessOrEqual(x, _SMALL), near, far)
    found = g.Where(g.Equal(x, 0), g.number(-math.inf, "float64"), found)
    return _end(g, g.Where(g.Less(x, 0), g.number(math.nan, "float64"), found))


@onnx_form(bessel_y0)
def _(g: Any, input: Any) -> Any:
    return _y(g, input, 0)


@onnx_form(bessel_y1)
def _(g: Any, input: Any) -> Any:
    return _y(g, input, 1)


@onnx_form(spherical_bessel_j0)
def _(g: Any, input: Any) -> Any:
    (x,) = _wide(g, input)
    safe = g.Where(g.Equal(x, 0), g.number(1, "float64"), x)
    found = g.Where(g.Equal(x, 0), g.number(1, "float64"), g.Div(g.Sin(safe), safe))
    return _end(g, g.Where(g.IsInf(x), g.number(0, "float64"), found))


def _i(g: Any, x: Any, order: int) -> Any:
    """exp(-|x|) · I(x): the mean over the circle of exp(|x| · (cos θ - 1)) · cos(order · θ), or for large ones the expansion."""
    size = g.Abs(x).of(x.shape)
    inside = g.Min(size, 60.0)
    exponent = g.Mul(g.unsqueeze(inside, [x.rank]), _row(g, np.cos(_ANGLES) - 1))
    near = _summed(g, g.Mul(g.Exp(exponent), _row(g, np.cos(order * _ANGLES) / _POINTS)))
    square, terms, a = 4 * order * order, [1.0], 1.0
    for k in range(1, 8):
        a *= -(square - (2 * k - 1) ** 2) / (k * 8)
        terms.append(a)

    def far(v: Any) -> Any:
        inverse, found = 1.0 / v, ex.like(v, terms[-1])
        for c in terms[-2::-1]:
            found = found * inverse + c
        return found / ex.sqrt(v * (2 * math.pi))

    found = g.Where(g.LessOrEqual(size, 60.0), near, g.express(far, g.Max(size, 60.0)))
    return g.Mul(found, g.Sign(x)) if order else found


def _declare_i(name: str, order: int, scaled: bool) -> None:
    def form(g: Any, input: Any) -> Any:
        (x,) = _wide(g, input)
        found = _i(g, x, order)
        return _end(g, found if scaled else g.Mul(found, g.Exp(g.Abs(x))))

    onnx_form(name)(form)


for _name, _order, _scaled in (
    ("i0", 0, False),
    ("i0e", 0, True),
    ("i1", 1, False),
    ("i1e", 1, True),
    ("modified_bessel_i0", 0, False),
    ("modified_bessel_i1", 1, False),
):
    _declare_i(_name, _order, _scaled)

_STEP = 1 / 16
_LINE = np.arange(0, 8.5, _STEP)


def _k_scaled(g: Any, x: Any, order: float) -> Any:
    """exp(x) · K(x) = ∫ exp(-x · (cosh t - 1)) · cosh(order · t) dt over t > 0 (DLMF 10.32), for x of 1 and more; t = u / √x."""
    root = g.unsqueeze(g.Sqrt(x), [x.rank])
    half = g.Exp(g.Div(_row(g, _LINE / 2), root))
    inverse = g.Reciprocal(half)
    sine = g.Sub(half, inverse)  # 2 sinh(t / 2), whose square is 2 cosh t - 2
    exponent = g.Mul(g.Mul(g.unsqueeze(x, [x.rank]), g.Mul(sine, sine)), -0.5)
    both = g.Add(g.Pow(half, g.number(2 * order, "float64")), g.Pow(inverse, g.number(2 * order, "float64")))
    weights = np.full(len(_LINE), _STEP / 2)
    weights[0] /= 2
    total = _summed(g, g.Mul(g.Mul(g.Exp(exponent), both), _row(g, weights)))
    return g.Div(total, g.Sqrt(x))


def _k_small(g: Any, x: Any, order: int) -> Any:
    """K of small numbers by its series (DLMF 10.31)."""

    def found(v: Any) -> Any:
        quarter, log = v * v * 0.25, ex.call("log", v * 0.5)
        total = ex.like(v, 0.0)
        for k in range(8, -1, -1):
            harmonic = sum(1 / j for j in range(1, k + 1))
            if order == 0:
                share = 1 / math.factorial(k) ** 2
                total = total * quarter + (harmonic - GAMMA) * share - log * share
            else:
                share = 1 / (math.factorial(k) * math.factorial(k + 1))
                both = 2 * harmonic + 1 / (k + 1) - 2 * GAMMA
                total = total * quarter + log * share - both * (0.5 * share)
        return total if order == 0 else 1.0 / v + total * v * 0.5

    return g.express(found, x)


def _declare_k(name: str, order: int, scaled: bool) -> None:
    def form(g: Any, input: Any) -> Any:
        (x,) = _wide(g, input)
        small = g.Min(g.Max(x, 1e-300), 1.0).of(x.shape)
        near = _k_small(g, small, order)
        large = g.Min(g.Max(x, 1.0), 1e300).of(x.shape)
        far = _k_scaled(g, large, order)
        if scaled:
            near = g.Mul(near, g.Exp(small))
        else:
            far = g.Mul(far, g.Exp(g.Neg(large)))
        found = g.Where(g.LessOrEqual(x, 1.0), near, far)
        found = g.Where(g.Equal(x, 0), g.number(math.inf, "float64"), found)
        return _end(g, g.Where(g.Less(x, 0), g.number(math.nan, "float64"), found))

    onnx_form(name)(form)


for _name, _order, _scaled in (
    ("modified_bessel_k0", 0, False),
    ("modified_bessel_k1", 1, False),
    ("scaled_modified_bessel_k0", 0, True),
    ("scaled_modified_bessel_k1", 1, True),
):
    _declare_k(_name, _order, _scaled)


@onnx_form(airy_ai)
def _(g: Any, input: Any) -> Any:
    """Its Maclaurin series within (-8, 3), K of order 1/3 above, waves below (DLMF 9.4, 9.6, 9.7)."""
    (x,) = _wide(g, input)
    inside = g.Min(g.Max(x, -8.0), 3.0)

    def series(v: Any) -> Any:
        cube = v * v * v
        f, h = ex.like(v, 1.0), ex.like(v, 1.0)
        for k in range(40, 0, -1):
            f = 1.0 + f * cube * (1 / ((3 * k - 1) * (3 * k)))
            h = 1.0 + h * cube * (1 / ((3 * k) * (3 * k + 1)))
        return f * (3 ** (-2 / 3) / math.gamma(2 / 3)) - h * v * (3 ** (-1 / 3) / math.gamma(1 / 3))

    large = g.Min(g.Max(x, 3.0), 200.0)
    zeta = g.Mul(g.Mul(large, g.Sqrt(large)), 2 / 3).of(x.shape)
    decay = g.Mul(g.Mul(_k_scaled(g, zeta, 1 / 3), g.Exp(g.Neg(zeta))), g.Sqrt(g.Mul(large, 1 / 3)))
    above = g.Mul(decay, 1 / math.pi)
    u, even, odd = [1.0], [], []
    for k in range(1, 12):
        u.append(u[-1] * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1)))
    even, odd = u[0::2], u[1::2]

    def waves(v: Any) -> Any:
        root = ex.sqrt(v)
        at = v * root * (2 / 3)
        inverse = 1.0 / at
        squared = -(inverse * inverse)
        p, q = ex.like(v, even[-1]), ex.like(v, odd[-1])
        for c in even[-2::-1]:
            p = p * squared + c
        for c in odd[-2::-1]:
            q = q * squared + c
        angle = at - math.pi / 4
        wave = p * ex.call("cos", angle) + q * inverse * ex.call("sin", angle)
        return wave / (ex.sqrt(root) * math.sqrt(math.pi))

    below = g.express(waves, g.Max(g.Neg(x), 8.0))
    found = g.Where(g.Greater(x, 3.0), above, g.express(series, inside))
    return _end(g, g.Where(g.Less(x, -8.0), below, found))


# --- zeta and gamma functions ------------------------------
_TERMS = 32
_BERNOULLI = [1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6]


def _zeta(g: Any, x: Any, q: Any) -> Any:
    """Σ (q + k)⁻ˣ: some terms, and Euler and Maclaurin's remainder (DLMF 25.11.5)."""
    steps = g.Add(g.unsqueeze(q, [q.rank]), _row(g, np.arange(_TERMS)))
    total = _summed(g, g.Pow(steps, g.unsqueeze(g.Neg(x), [x.rank])))

    def rest(s: Any, a: Any) -> Any:
        power = ex.call("pow", a, -s)
        found, factor = a * power / (s - 1.0) + 0.5 * power, s * power / a
        for k, b in enumerate(_BERNOULLI):
            found = found + factor * (b / math.factorial(2 * k + 2))
            factor = factor * (s + float(2 * k + 1)) * (s + float(2 * k + 2)) / (a * a)
        return found

    found = g.Add(total, g.express(rest, x, g.Add(q, float(_TERMS))))
    whole = g.Equal(q, g.Floor(q))
    pole = g.And(g.LessOrEqual(q, 0), whole)
    odd = g.And(g.And(g.Less(q, 0), g.Not(whole)), g.Not(g.Equal(x, g.Floor(x))))
    nan, endless = g.number(math.nan, "float64"), g.number(math.inf, "float64")
    found = g.Where(odd, nan, g.Where(pole, endless, found))
    return g.Where(g.Equal(x, 1), endless, g.Where(g.Less(x, 1), nan, found))


@onnx_form(zeta)
def _(g: Any, input: Any, other: Any) -> Any:
    return _end(g, _zeta(g, *_wide(g, input, other)))


@onnx_form(polygamma)
def _(g: Any, n: int, input: Any, **_: Any) -> Any:
    (x,) = _wide(g, input)
    if n == 0:
        return _end(g, g.express(lambda v: ex.call("digamma", v), x))
    order = g.expand(g.number(n + 1, "float64"), x.shape)
    return _end(g, g.Mul(_zeta(g, order, x), (-1.0) ** (n + 1) * math.factorial(n)))


def _igamma(g: Any, input: Any, other: Any, upper: bool) -> Any:
    """The share of Γ(a) below, or above, x: a series for x < a + 1, a continued fraction beyond (DLMF 8.7, 8.9)."""
    a, x = _wide(g, input, other)
    fine = g.And(g.Greater(a, 0), g.Greater(x, 0))
    one = g.number(1, "float64")
    a1, x1 = g.Where(fine, a, one), g.Min(g.Where(fine, x, one), 1e15)
    log = g.express(lambda p, v: p * ex.call("log", v) - v - ex.call("lgamma", p), a1, x1)
    by_series = g.Less(x1, g.Add(a1, 1))
    near = g.Where(by_series, x1, one)
    ratio = g.Div(g.unsqueeze(near, [x.rank]), g.Add(g.unsqueeze(a1, [a.rank]), _row(g, np.arange(1, 257))))
    terms = g.Exp(g.CumSum(g.Log(ratio), g.number(-1, "int64")))
    series = g.Div(g.Mul(g.Exp(log), g.Add(_summed(g, terms), 1)), a1)

    def fraction(p: Any, v: Any) -> Any:
        found = ex.like(v, 0.0)
        for k in range(60, 0, -1):
            found = (p - float(k)) * float(k) / (v + (2.0 * k + 1.0) - p + found)
        return 1.0 / (v + 1.0 - p + found)

    tail = g.Mul(g.Exp(log), g.express(fraction, a1, g.Where(by_series, g.Add(a1, 2), x1)))
    below = g.Where(by_series, series, g.Sub(one, tail))
    above = g.Where(by_series, g.Sub(one, series), tail)
    found = above if upper else below
    zero, nan = g.number(0, "float64"), g.number(math.nan, "float64")
    at_zero, far = (one, zero) if upper else (zero, one)
    found = g.Where(g.Equal(x, 0), at_zero, found)
    found = g.Where(g.Equal(a, 0), g.Where(g.Greater(x, 0), far, nan), found)
    return _end(g, g.Where(g.Or(g.Less(a, 0), g.Less(x, 0)), nan, found))


@onnx_form(igamma)
def _(g: Any, input: Any, other: Any) -> Any:
    return _igamma(g, input, other, False)


@onnx_form(igammac)
def _(g: Any, input: Any, other: Any) -> Any:
    return _igamma(g, input, other, True)


# --- of the normal distribution ------------------------------
def _erfcx(x: Any) -> Any:
    """exp(x²) · erfc(x), from 1 on by a continued fraction."""
    large, fraction = ex.maximum(x, 1.0), ex.like(x, 0.0)
    for k in range(40, 0, -1):
        fraction = (k / 2) / (large + fraction)
    tail = 1.0 / ((large + fraction) * math.sqrt(math.pi))
    small = ex.minimum(x, 1.0)
    return ex.where(x > 1.0, tail, ex.call("exp", small * small) * (1.0 - ex.call("erf", small)))


def _single(g: Any, x: Any) -> Any:
    """In float32, in which runtimes have erf."""
    return g.cast(x, "float32").of(x.shape)


@onnx_form(erfcx)
def _(g: Any, x: Any) -> Any:
    return _end(g, g.express(_erfcx, _single(g, x)))


@onnx_form(log_ndtr)
def _(g: Any, x: Any) -> Any:
    def found(v: Any) -> Any:
        t = v * (-1 / math.sqrt(2))
        below = ex.call("log", _erfcx(ex.maximum(t, 0.0)) * 0.5) - t * t
        return ex.where(v < 0, below, ex.call("log1p", -0.5 * ex.call("erfc", -t)))

    return _end(g, g.express(found, _single(g, x)))


_CENTRE = (
    [
        -39.69683028665376,
        220.9460984245205,
        -275.9285104469687,
        138.3577518672690,
        -30.66479806614716,
        2.506628277459239,
    ],
    [-54.47609879822406, 161.5858368580409, -155.6989798598866, 66.80131188771972, -13.28068155288572, 1.0],
)
_TAIL = (
    [
        -0.007784894002430293,
        -0.3223964580411365,
        -2.400758277161838,
        -2.549732539343734,
        4.374664141464968,
        2.938163982698783,
    ],
    [0.007784695709041462, 0.3224671290700398, 2.445134137142996, 3.754408661907416, 1.0],
)


@onnx_form(ndtri)
def _(g: Any, x: Any) -> Any:
    """Acklam's rational approximations, to 1.2e-9."""

    def quotient(t: Any, parts: Any) -> Any:
        top, bottom = (ex.like(t, p[0]) for p in parts)
        for c in parts[0][1:]:
            top = top * t + c
        for c in parts[1][1:]:
            bottom = bottom * t + c
        return top / bottom

    def found(p: Any) -> Any:
        share = ex.where(p > 0.5, 1.0 - p, p)
        inner = ex.where(share > 0.0, share, ex.like(p, 0.25))
        tail = quotient(ex.sqrt(-2.0 * ex.call("log", inner)), _TAIL)
        q = p - 0.5
        centre = q * quotient(q * q, _CENTRE)
        wings = ex.where(p > 0.5, -tail, tail)
        value = ex.where(share < 0.02425, wings, centre)
        value = ex.where(p == 0.0, ex.like(p, -math.inf), ex.where(p == 1.0, ex.like(p, math.inf), value))
        return ex.where((p >= 0.0) & (p <= 1.0), value, ex.like(p, math.nan))

    return _end(g, g.express(found, *_wide(g, x)))


@onnx_form(nextafter)
def _(g: Any, input: Any, other: Any) -> Any:
    """A step of just over half a unit in the last place is rounded to the next number (Rump, Zimmermann, Boldo and Melquiond 2009)."""
    if g.results[0].dtype != "float32":
        return NotImplemented
    shape = g.results[0].shape
    x, y = (g.expand(v, shape) for v in (input, other))
    half = 2.0**-24
    size = g.Add(g.Mul(g.Abs(x), half * (1 + 2 * half)), 2.0**-149)
    found = g.Where(g.Greater(y, x), g.Add(x, size), g.Sub(x, size))
    return g.Where(g.Equal(x, y), y, g.Where(g.IsNaN(y), y, found))
