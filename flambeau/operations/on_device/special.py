"""Special functions on devices, element by element, in float64 whatever the dtype.

The CPU's are SciPy's, of other formulas, so bits differ in the last places.  Here functions are power series where these have few
terms, and elsewhere integrals over the whole line of what falls like exp(-v²), by the trapezoidal rule, which is then exact to the
rounding (L. Trefethen, J. Weideman, "The exponentially convergent trapezoidal rule", 2014).  Equations are those of the DLMF.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from ...codegen import functions as fn
from ...codegen.expr import Expr
from ..declare.indexed import Indexed, indexed

EULER = 0.57721566490153286061
TINY = 1e-19  # of terms that change no sum
STEP, NODES = (
    0.28,
    26,
)  # of the trapezoidal rule: exp(-v²) and exp(-0.85 v²) are below the rounding at the end


def _wide(x: Expr) -> Expr:
    return fn.cast(x, "float64")


def _element(function: Callable) -> Indexed:
    """The kernel of a function of `at` and of float64 numbers."""

    def one(at, x):
        return (function(at, _wide(x[at])),)

    def two(at, x, y):
        return (function(at, _wide(x[at]), _wide(y[at])),)

    body = one if function.__code__.co_argcount == 2 else two
    body.__name__, body.__doc__ = function.__name__, function.__doc__
    return indexed(effort=100)(body)


def _line(at: Any, x: Expr, function: Callable) -> tuple[Expr, Expr]:
    """∫ exp(-v²) f(v²) dv over the line, of a function that gives real and imaginary part."""

    def step(k, real, imag):
        v = k * STEP
        square = v * v
        weight = fn.where(k == 0.0, fn.like(k, STEP), fn.like(k, 2.0 * STEP)) * fn.exp(-square)
        a, b = function(square)
        return k + 1.0, real + weight * a, imag + weight * b

    zero = x * 0.0
    return at.repeat((zero, zero, zero), lambda k, real, imag: k < float(NODES), step)[1:]


def _series(at: Any, x: Expr, order: int, sign: float) -> tuple[Expr, Expr]:
    """Σ tₖ and Σ hₖ tₖ for tₖ = (±x²/4)ᵏ / (k! (k + order)!), where hₖ is Hₖ or, of order 1, Hₖ + Hₖ₊₁."""
    quarter = x * x * (0.25 * sign)

    def step(k, term, harmonic, total, weighed):
        following = term * quarter / (k * (k + float(order)))
        h = harmonic + 1.0 / k if order == 0 else harmonic + 1.0 / k + 1.0 / (k + 1.0)
        return k + 1.0, following, h, total + following, weighed + following * h

    one, first = x * 0.0 + 1.0, x * 0.0 + float(order)
    state = at.repeat(
        (one, one, first, one, first), lambda k, term, *_: (abs(term) > TINY) & (k < 300.0), step
    )
    return state[3], state[4]


# --- Bessel functions ------------------------------
EDGE_I, EDGE_J, EDGE_K = 24.0, 5.0, 2.0  # up to which the power series serve


def _growing(at: Any, x: Expr, order: int, scaled: bool) -> Expr:
    """I of order 0 or 1, or exp(-|x|) times it: DLMF 10.25.2 and 10.40.1."""
    size = abs(x)
    near, far = fn.minimum(size, EDGE_I), fn.minimum(fn.maximum(size, EDGE_I), 1e300)
    total, _ = _series(at, near, order, 1.0)
    small = total * near * 0.5 if order else total

    def step(k, term, total):
        term = term * ((2.0 * k - 1.0) * (2.0 * k - 1.0) - 4.0 * order) / (8.0 * k * far)
        return k + 1.0, term, total + term

    one = x * 0.0 + 1.0
    state = at.repeat((one, one, one), lambda k, term, _: (abs(term) > TINY) & (k < 45.0), step)
    large = state[2] / fn.sqrt(2.0 * math.pi * far)
    fall = fn.exp(-size)
    if scaled:
        result = fn.where(size <= EDGE_I, small * fall, fn.where(size < math.inf, large, fn.like(x, 0.0)))
    else:
        rise = fn.exp(size * 0.5)  # in two steps, the first of which does not overflow before the result does
        result = fn.where(size <= EDGE_I, small, fn.where(size < math.inf, large * rise * rise, size))
    result = fn.where(x < 0.0, -result, result) if order else result
    return fn.where(fn.isnan(x), x, result)


def _hankel(at: Any, x: Expr, order: int) -> tuple[Expr, Expr]:
    """J and Y of large x, by K at -ix: DLMF 10.27.8 and 10.32.8."""

    def root(square):  # √(2 + i v²/x)
        b = square / x
        modulus = fn.sqrt(4.0 + b * b)
        a = fn.sqrt((modulus + 2.0) * 0.5)
        return a, b / (2.0 * a), modulus

    def reciprocal(square):
        a, b, modulus = root(square)
        return a / modulus, -b / modulus

    def weighed(square):
        a, b, _ = root(square)
        return square * a, square * b

    real, imag = _line(at, x, weighed if order else reciprocal)
    scale = (2.0 / math.pi) / fn.sqrt(x)
    c, s = fn.cos(x) * math.sqrt(0.5), fn.sin(x) * math.sqrt(0.5)
    turn = (s - c, -(s + c)) if order else (c + s, s - c)  # exp(i (x - 3π/4)) and exp(i (x - π/4))
    return scale * (turn[0] * real - turn[1] * imag), scale * (turn[0] * imag + turn[1] * real)


def _first_kind(at: Any, x: Expr, order: int) -> Expr:
    """J: DLMF 10.2.2."""
    size = abs(x)
    near, far = fn.minimum(size, EDGE_J), fn.maximum(size, EDGE_J)
    total, _ = _series(at, near, order, -1.0)
    small = total * near * 0.5 if order else total
    result = fn.where(size <= EDGE_J, small, _hankel(at, far, order)[0])
    result = fn.where(size < math.inf, result, fn.like(x, 0.0))
    result = fn.where(x < 0.0, -result, result) if order else result
    return fn.where(fn.isnan(x), x, result)


def _second_kind(at: Any, x: Expr, order: int) -> Expr:
    """Y: DLMF 10.8.1 and 10.8.2."""
    near, far = fn.maximum(fn.minimum(x, EDGE_J), 1e-300), fn.maximum(x, EDGE_J)
    total, weighed = _series(at, near, order, -1.0)
    half, log = near * 0.5, fn.log(near * 0.5)
    if order:
        gammas = weighed - total * (2.0 * EULER)  # of ψ(k + 1) + ψ(k + 2)
        small = (2.0 * log * half * total - half * gammas - 2.0 / near) / math.pi
    else:
        small = ((log + EULER) * total - weighed) * (2.0 / math.pi)
    result = fn.where(x <= EDGE_J, small, _hankel(at, far, order)[1])
    result = fn.where(x < math.inf, result, fn.like(x, 0.0))
    return _of_positive(x, result, -math.inf)


def _falling(at: Any, x: Expr, order: int, scaled: bool) -> Expr:
    """K, or exp(x) times it: DLMF 10.31.1, 10.31.2 and 10.32.8."""
    near, far = fn.maximum(fn.minimum(x, EDGE_K), 1e-300), fn.maximum(x, EDGE_K)
    total, weighed = _series(at, near, order, 1.0)
    log = fn.log(near * 0.5)
    if order:
        small = 1.0 / near + log * total * near * 0.5 - near * 0.25 * (weighed - total * (2.0 * EULER))
        large, _ = _line(at, far, lambda square: (square * fn.sqrt(2.0 + square / far), square * 0.0))
    else:
        small = weighed - (log + EULER) * total
        large, _ = _line(at, far, lambda square: (1.0 / fn.sqrt(2.0 + square / far), square * 0.0))
    large = large / fn.sqrt(far)
    if scaled:
        result = fn.where(x <= EDGE_K, small * fn.exp(near), large)
    else:
        result = fn.where(x <= EDGE_K, small, large * fn.exp(-far))
    return _of_positive(x, fn.where(x < math.inf, result, fn.like(x, 0.0)), math.inf)


def _of_positive(x: Expr, result: Expr, at_zero: float) -> Expr:
    """The result where x > 0, the limit at 0, NaN elsewhere."""
    return fn.where(x > 0.0, result, fn.where(x == 0.0, fn.like(x, at_zero), fn.like(x, math.nan)))


def i0(at, x):
    return _growing(at, x, 0, False)


def i0e(at, x):
    return _growing(at, x, 0, True)


def i1(at, x):
    return _growing(at, x, 1, False)


def i1e(at, x):
    return _growing(at, x, 1, True)


def j0(at, x):
    return _first_kind(at, x, 0)


def j1(at, x):
    return _first_kind(at, x, 1)


def y0(at, x):
    return _second_kind(at, x, 0)


def y1(at, x):
    return _second_kind(at, x, 1)


def k0(at, x):
    return _falling(at, x, 0, False)


def k1(at, x):
    return _falling(at, x, 1, False)


def k0e(at, x):
    return _falling(at, x, 0, True)


def k1e(at, x):
    return _falling(at, x, 1, True)


def spherical_bessel_j0(at, x):
    square = x * x
    near = 1.0 - square * (1.0 / 6.0 - square * (1.0 / 120.0 - square / 5040.0))
    far = fn.where(abs(x) < math.inf, fn.sin(x) / x, fn.like(x, 0.0))
    return fn.where(abs(x) < 0.02, near, fn.where(fn.isnan(x), x, far))


def airy_ai(at, x):
    """DLMF 9.4.1, 9.5.7 with t = i√x + s, and 9.2.14 for x < 0."""
    near = fn.minimum(fn.maximum(x, -4.5), 2.5)
    cube = near * near * near

    def step(k, f, g, first, second):
        f = f * cube / ((3.0 * k - 1.0) * (3.0 * k))
        g = g * cube / ((3.0 * k) * (3.0 * k + 1.0))
        return k + 1.0, f, g, first + f, second + g

    one = x * 0.0 + 1.0
    state = at.repeat((one, one, near, one, near), lambda k, *_: k < 26.0, step)
    series = state[3] * (3.0 ** (-2 / 3) / math.gamma(2 / 3)) - state[4] * (
        3.0 ** (-1 / 3) / math.gamma(1 / 3)
    )

    far = fn.maximum(abs(x), 2.5)
    root, decay = fn.sqrt(far), far * fn.sqrt(far) * (2.0 / 3.0)
    fourth = 1.0 / fn.sqrt(root)  # t = v / far^(1/4)
    third = fourth * fourth * fourth / 3.0
    real, _ = _line(at, x, lambda square: (fn.cos(square * fn.sqrt(square) * third), square * 0.0))
    positive = fn.exp(-decay) * fourth * real / (2.0 * math.pi)
    tilt = math.pi / 6.0  # of √z for z = |x| exp(iπ/3)

    def turned(square):
        size = fn.exp(square * (1.0 - math.cos(tilt))) * fn.cos(square * fn.sqrt(square) * third)
        angle = square * math.sin(tilt)
        return size * fn.cos(angle), -size * fn.sin(angle)

    real, imag = _line(at, x, turned)
    phase = math.pi / 3.0 - decay
    negative = (fn.cos(phase) * real - fn.sin(phase) * imag) * fourth / math.pi
    result = fn.where(x > 2.5, positive, fn.where(x < -4.5, negative, series))
    result = fn.where(abs(x) < math.inf, result, fn.like(x, 0.0))
    return fn.where(fn.isnan(x), x, result)


# --- tails of the normal distribution ------------------------------
def erfcx(at, x):
    """exp(x²) erfc(x); of large x by DLMF 7.7.2."""
    far = fn.maximum(x, 2.0)
    square = far * far
    tail = _line(at, x, lambda v: (1.0 / (square + v), v * 0.0))[0] * far / math.pi
    tail = fn.where(far < 1e100, tail, 1.0 / (far * math.sqrt(math.pi)))
    near = fn.minimum(x, 2.0)
    high = near * near
    low = fn.fma(near, near, -high)
    grown = fn.exp(high)
    direct = fn.where(grown < math.inf, grown * (1.0 + low), grown) * fn.erfc(near)
    return fn.where(fn.isnan(x), x, fn.where(x < 2.0, direct, tail))


def log_ndtr(at, x):
    t = x * -math.sqrt(0.5)
    far = fn.log(erfcx(at, t) * 0.5) - t * t
    return fn.where(x < -1.0, far, fn.log1p(fn.erfc(-t) * -0.5))


def ndtri(at, p):
    """By Newton's method for log ndtr, which is concave: from the left each step stays there."""
    lower = fn.where(p > 0.5, 1.0 - p, p)
    inside = fn.where(lower > 0.0, lower, fn.like(p, 0.5))
    wanted = fn.log(inside)

    def step(k, y, change):
        slope = math.sqrt(2.0 / math.pi) / erfcx(at, y * -math.sqrt(0.5))
        change = (wanted - log_ndtr(at, y)) / slope
        return k + 1.0, y + change, change

    start = -fn.sqrt(-2.0 * wanted)
    holds = lambda k, y, change: (k < 60.0) & (abs(change) > 1e-16 * (1.0 + abs(y)))
    y = at.repeat((p * 0.0, start, p * 0.0 + 1.0), holds, step)[1]
    y = fn.where(lower == 0.5, y * 0.0, fn.where(lower == 0.0, fn.like(p, -math.inf), y))
    y = fn.where(p > 0.5, -y, y)
    return fn.where((p >= 0.0) & (p <= 1.0), y, fn.like(p, math.nan))


# --- gamma functions ------------------------------
def _bernoulli(count: int) -> list[Fraction]:
    """B₀ to B of that number."""
    result = [Fraction(1)]
    for m in range(1, count + 1):
        result.append(-sum(math.comb(m + 1, k) * result[k] for k in range(m)) / Fraction(m + 1))
    return result


TAIL = [float(b / math.factorial(k)) for k, b in enumerate(_bernoulli(24)) if k and k % 2 == 0]


def zeta(at, s, q):
    """By Euler and Maclaurin's formula, DLMF 25.11.28."""

    def step(k, a, total):
        return k + 1.0, a + 1.0, total + fn.pow(a, -s)

    _, w, total = at.repeat(
        (s * 0.0, q, s * 0.0), lambda k, a, _: (k < 10.0) | ((a <= 10.0) & (k < 1e6)), step
    )
    last = fn.pow(w, -s)
    result = total + w * last / (s - 1.0) + 0.5 * last
    rising, power = s, last / w
    for j, factor in enumerate(TAIL):
        result = result + rising * power * factor
        rising = rising * (s + (2.0 * j + 1.0)) * (s + (2.0 * j + 2.0))
        power = power / (w * w)
    whole = fn.floor(q) == q
    wrong = (s < 1.0) | fn.isnan(s) | fn.isnan(q) | ((q <= 0.0) & ~whole & (fn.floor(s) != s))
    pole = (s == 1.0) | ((q <= 0.0) & whole)
    result = fn.where(pole, fn.like(s, math.inf), result)
    return fn.where(wrong, fn.like(s, math.nan), result)


def _incomplete(at: Any, a: Expr, x: Expr, upper: bool) -> Expr:
    """DLMF 8.7.1 where x < a + 1, else 8.9.2 by Lentz's method."""
    inside = (a > 0.0) & (x > 0.0) & (a < math.inf) & (x < math.inf)
    shape, place = fn.where(inside, a, fn.like(a, 1.0)), fn.where(inside, x, fn.like(x, 1.0))
    series = place < shape + 1.0
    density = fn.exp(shape * fn.log(place) - place - fn.lgamma(shape + 1.0))
    one, small = a * 0.0 + 1.0, 1e-300

    def rise(n, term, total):
        term = term * place / (shape + n)
        return n + 1.0, term, total + term

    most = lambda n: n < 1e6
    below = at.repeat((one, one, one), lambda n, term, total: series & (term > TINY * total) & most(n), rise)[
        2
    ]

    def safe(v):
        return fn.where(abs(v) < small, fn.like(v, small), v)

    def fall(n, b, c, d, total, change):
        factor, b = -n * (n - shape), b + 2.0
        d = 1.0 / safe(factor * d + b)
        c = safe(b + factor / c)
        return n + 1.0, b, c, d, total * (c * d), c * d

    first = place + 1.0 - shape
    d = 1.0 / safe(first)
    holds = lambda n, b, c, d, total, change: ~series & (abs(change - 1.0) > 1e-16) & most(n)
    above = at.repeat((one, first, one / small, d, d, one * 2.0), holds, fall)[4]
    p, q = density * below, density * shape * above
    result = fn.where(series, 1.0 - p, q) if upper else fn.where(series, p, 1.0 - q)
    none, all = (1.0, 0.0) if upper else (0.0, 1.0)
    wrong = (
        (a < 0.0)
        | (x < 0.0)
        | fn.isnan(a)
        | fn.isnan(x)
        | ((a == 0.0) & (x == 0.0))
        | ((a == math.inf) & (x == math.inf))
    )
    edge = fn.where((x == 0.0) | (a == math.inf), fn.like(a, none), fn.like(a, all))
    return fn.where(wrong, fn.like(a, math.nan), fn.where(inside, result, edge))


def igamma(at, a, x):
    return _incomplete(at, a, x, False)


def igammac(at, a, x):
    return _incomplete(at, a, x, True)


KERNELS = {
    function.__name__: _element(function)
    for function in (
        *(i0, i0e, i1, i1e, j0, j1, y0, y1, k0, k1, k0e, k1e, spherical_bessel_j0, airy_ai),
        *(erfcx, ndtri, log_ndtr, zeta, igamma, igammac),
    )
}


@indexed(static=("n",), effort=100)
def _polygamma(at, x, *, n):
    """DLMF 5.15.2 and 25.11.12."""
    x = _wide(x[at])
    return (zeta(at, fn.like(x, n + 1.0), x) * ((-1.0) ** (n + 1) * math.gamma(n + 1.0)),)


def polygamma(n: int) -> Callable:
    return lambda shape, x: _polygamma(shape, x, n=n)


# --- polynomials ------------------------------
def recurrence(function: Any) -> Indexed:
    """The kernel of a `Recurrence` (`pointwise/special.py`), in the dtype of its operand, as on the CPU."""

    def body(at, x, n):
        x, degree = x[at], fn.trunc(n[at])
        x = 2 * x - 1 if function.shifted else x
        one = fn.like(x, 1.0)

        def step(k, here, before):
            return k + 1.0, function.step(x, k, here, before), here

        first = function.first(x)
        here = at.repeat((one, first, one), lambda k, *_: k < degree, step)[1]
        return (fn.where(degree < 0.0, fn.like(x, 0.0), fn.where(degree == 0.0, one, here)),)

    body.__name__ = "recurrence"
    return indexed(effort=100)(body)
