"""Functions of expressions that neither ONNX has, nor can be written without the bits of floats: written in those that it has.

Each takes expressions of one dtype and gives one, as `codegen.math.EXPANSIONS` do, and is good to some units in the last place of float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..codegen import expr as ex
from ..codegen.expr import Expr, call, like, where
from ..codegen.functions import LIFT

WRITTEN: dict[str, Callable[..., Expr]] = {}


def written(function: Callable[..., Expr]) -> Callable[..., Expr]:
    WRITTEN[function.__name__] = function
    return function


@written
def rsqrt(x: Expr) -> Expr:
    return 1.0 / ex.sqrt(x)


@written
def exp2(x: Expr) -> Expr:
    return call("pow", like(x, 2.0), x)


@written
def log2(x: Expr) -> Expr:
    return call("log", x) * (1 / math.log(2))


@written
def log10(x: Expr) -> Expr:
    return call("log", x) * (1 / math.log(10))


@written
def log1p(x: Expr) -> Expr:
    """log(1 + x), by what 1 + x was rounded to (Kahan)."""
    y = 1.0 + x
    exact = call("log", y) * (x / (y - 1.0))
    return where((y == 1.0) | (y == math.inf), where(y == 1.0, x, call("log", y)), exact)


@written
def expm1(x: Expr) -> Expr:
    """exp(x) - 1, by 2 · sinh(x / 2) · exp(x / 2) where that is small."""
    near = x * (1 + x * (0.5 + x * (1 / 6 + x * (1 / 24 + x * (1 / 120)))))
    return where(ex.absolute(x) < 0.05, near, call("exp", x) - 1.0)


@written
def erfc(x: Expr) -> Expr:
    """1 - erf(x); beyond 1.5, exp(-x²) by a continued fraction."""
    size = ex.absolute(x)
    fraction = like(x, 0.0)
    for k in range(24, 0, -1):
        fraction = (k / 2) / (size + fraction)
    tail = call("exp", -(size * size)) / ((size + fraction) * math.sqrt(math.pi))
    return where(size < 1.5, 1.0 - call("erf", x), where(x > 0, tail, 2.0 - tail))


@written
def hypot(x: Expr, y: Expr) -> Expr:
    """√(x² + y²), by the larger of both, so that nothing overflows; endless where one is."""
    a, b = ex.absolute(x), ex.absolute(y)
    large, small = ex.maximum(a, b), ex.minimum(a, b)
    share = small / where(large == 0, like(x, 1.0), large)
    result = large * ex.sqrt(1.0 + share * share)
    return where((a == math.inf) | (b == math.inf), like(x, math.inf), result)


@written
def cbrt(x: Expr) -> Expr:
    size = ex.absolute(x)
    root = call("pow", size, like(x, 1 / 3))
    return ex.copysign(where(size == 0, size, where(size == math.inf, size, root)), x)


@written
def fmod(x: Expr, y: Expr) -> Expr:
    return ex.make("rem", (x, y), x.dtype)


@written
def remainder(x: Expr, y: Expr) -> Expr:
    """Of the divisor's sign."""
    rest = ex.make("rem", (x, y), x.dtype)
    return where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


@written
def atan2(y: Expr, x: Expr) -> Expr:
    """The angle of (x, y), by the arctangent of the smaller part over the larger one."""
    a, b = ex.absolute(y), ex.absolute(x)
    large, small = ex.maximum(a, b), ex.minimum(a, b)
    both = (a == math.inf) & (b == math.inf)
    share = where(both, like(x, 1.0), small / where(large == 0, like(x, 1.0), large))
    angle = call("atan", share)
    angle = where(a > b, math.pi / 2 - angle, angle)
    below = ex.copysign(like(x, 1.0), x) < 0
    return ex.copysign(where(below, math.pi - angle, angle), y)


@written
def lifted_exp(x: Expr) -> Expr:
    """exp(x) · 2 ** LIFT, as `codegen` lifts it."""
    return call("exp", x) * 2.0 ** LIFT[x.dtype]


# --- by series ------------------------------
_STEPS = 8  # by which arguments are raised before Stirling's series


def _raised(x: Expr) -> tuple[Expr, Expr]:
    """Whether arguments are small, and then raised by `_STEPS`."""
    small = x < float(_STEPS)
    return small, where(small, x + float(_STEPS), x)


def _reflected(x: Expr) -> tuple[Expr, Expr]:
    """Whether arguments are below 1/2, and then 1 - x."""
    below = x < 0.5
    return below, where(below, 1.0 - x, x)


def _fraction(x: Expr) -> Expr:
    return x - ex.floor(x)


@written
def lgamma(x: Expr) -> Expr:
    """log |Γ(x)|: Stirling's series for raised arguments, the reflection formula below 1/2; near 1 and 2, where it is 0, by a series."""
    below, z = _reflected(x)
    small, raised = _raised(z)
    product = like(x, 1.0)
    for k in range(_STEPS):
        product = product * (z + float(k))
    inverse = 1.0 / raised
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260)))
    stirling = (raised - 0.5) * call("log", raised) - raised + (0.5 * math.log(2 * math.pi)) + series
    result = where(small, stirling - call("log", where(small, product, like(x, 1.0))), stirling)
    result = where(ex.absolute(z - 1.0) < 0.25, _near_one(z - 1.0), result)
    result = where(ex.absolute(z - 2.0) < 0.25, _near_one(z - 2.0) + call("log", z - 1.0), result)
    result = where(z == math.inf, like(x, math.inf), result)
    sine = ex.absolute(call("sin", _fraction(x) * math.pi))
    mirrored = (math.log(math.pi)) - call("log", sine) - result
    result = where(below, mirrored, result)
    return where(ex.absolute(x) == math.inf, like(x, math.inf), result)


_ZETA = [sum(n ** -float(k) for n in range(1, 4000)) + 4000.0 ** (1 - k) / (k - 1) for k in range(2, 20)]


def _near_one(t: Expr) -> Expr:
    """log Γ(1 + t) for |t| < 1/4: -γ·t + Σ ζ(k) · (-t)ᵏ / k."""
    result = like(t, 0.0)
    for k in range(19, 1, -1):
        result = t * (result + (_ZETA[k - 2] / k if k % 2 == 0 else -_ZETA[k - 2] / k))
    return t * (result - 0.57721566490153286)


@written
def digamma(x: Expr) -> Expr:
    """The derivative of log Γ; NaN at negative integers, endless at 0 with the sign of -x."""
    below, z = _reflected(x)
    small, raised = _raised(z)
    sums = like(x, 0.0)
    for k in range(_STEPS):
        sums = sums + 1.0 / (z + float(k))
    square = 1.0 / (raised * raised)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240))))
    result = call("log", raised) - 0.5 / raised - series
    result = where(small, result - sums, result)
    part = _fraction(x)
    angle = part * math.pi
    turned = result - math.pi * call("cos", angle) / call("sin", angle)
    result = where(below, where((part == 0) & (x < 0), like(x, math.nan), turned), result)
    return where(x == 0, -ex.copysign(like(x, math.inf), x), where(x == math.inf, x, result))


@written
def trigamma(x: Expr) -> Expr:
    """The second derivative of log Γ."""
    below, z = _reflected(x)
    small, raised = _raised(z)
    sums = like(x, 0.0)
    for k in range(_STEPS):
        sums = sums + 1.0 / ((z + float(k)) * (z + float(k)))
    inverse = 1.0 / raised
    square = inverse * inverse
    series = inverse * (1.0 + inverse * 0.5 + square * (1 / 6 - square * (1 / 30 - square * (1 / 42))))
    result = where(small, series + sums, series)
    sine = call("sin", _fraction(x) * math.pi) * (1 / math.pi)
    return where(below, 1.0 / (sine * sine) - result, result)


@written
def erfinv(x: Expr) -> Expr:
    """The inverse of erf: a rational guess, and Newton's steps on it."""
    w = -call("log", (1.0 - x) * (1.0 + x))
    a = 0.147
    first = 2 / (math.pi * a) - w * 0.5
    guess = ex.sqrt(ex.sqrt(first * first + w * (1 / a)) - first)
    for _ in range(3):
        miss = call("erf", guess) - ex.absolute(x)
        miss = where(guess > 1.5, (1.0 - ex.absolute(x)) - call("erfc", guess), miss)
        step = miss / ((2 / math.sqrt(math.pi)) * call("exp", -(guess * guess)))
        guess = guess - step / (1.0 + guess * step)
    result = where(ex.absolute(x) == 1.0, like(x, math.inf), guess)
    return ex.copysign(where(ex.absolute(x) > 1.0, like(x, math.nan), result), x)
