"""Complex arithmetic and functions written in real numbers.

Bodies, derivatives and folds speak of complex expressions; `written_out` turns a kernel into one that only reads
and makes pairs (`real`, `imag`, `pair`).  Values on branch cuts and at infinities follow C99, Annex G; most formulas
are W. Kahan's, Branch cuts for complex elementary functions (1987).

>>> from flambeau.codegen import expr as ex
>>> z = ex.input(0, "complex64")
>>> parts_only([ex.absolute(z)])
[call:hypot(real(in0), imag(in0))]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from . import expr as ex
from .expr import Expr, absolute, call, copysign, like, where
from .kernels import FoldRule, Pointwise, Row, state


class Pair(NamedTuple):
    """A complex value: real part and imaginary part."""

    re: Expr
    im: Expr


FORMULAS: dict[str, Callable[..., Pair]] = {}


def formula(function: Callable[..., Pair]) -> Callable[..., Pair]:
    FORMULAS[function.__name__.rstrip("_")] = function
    return function


# --- arithmetic ------------------------------
def is_real(z: Pair) -> bool:
    """Whether the value is a real number that was converted."""
    return z.im.op == "const" and z.im.value == 0


def scaled(z: Pair, factor: Expr | float) -> Pair:
    return Pair(z.re * factor, z.im * factor)


def chosen(condition: Expr, a: Pair, b: Pair) -> Pair:
    return Pair(where(condition, a.re, b.re), where(condition, a.im, b.im))


@formula
def add(a: Pair, b: Pair) -> Pair:
    return Pair(a.re + b.re, a.im if is_real(b) else b.im if is_real(a) else a.im + b.im)


@formula
def sub(a: Pair, b: Pair) -> Pair:
    return Pair(a.re - b.re, a.im if is_real(b) else -b.im if is_real(a) else a.im - b.im)


@formula
def neg(z: Pair) -> Pair:
    return Pair(-z.re, -z.im)


@formula
def mul(a: Pair, b: Pair) -> Pair:
    if is_real(a):
        return scaled(b, a.re)
    if is_real(b):
        return scaled(a, b.re)
    return Pair(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


@formula
def div(a: Pair, b: Pair) -> Pair:
    """With the ratio of the divisor's smaller part to its larger one, so that no square overflows (Smith, 1962)."""
    if is_real(b):
        return Pair(a.re / b.re, a.im / b.re)
    wide = absolute(b.re) >= absolute(b.im)
    large, small = where(wide, b.re, b.im), where(wide, b.im, b.re)
    ratio = small / large
    length = large + small * ratio
    quotient = Pair(
        where(wide, a.re + a.im * ratio, a.re * ratio + a.im) / length,
        where(wide, a.im - a.re * ratio, a.im * ratio - a.re) / length,
    )
    zero = absolute(b.re)
    return chosen((b.re == 0) & (b.im == 0), Pair(a.re / zero, a.im / zero), quotient)


def times_i(z: Pair) -> Pair:
    return Pair(-z.im, z.re)


def over_i(z: Pair) -> Pair:
    return Pair(z.im, -z.re)


def plus_one(z: Pair) -> Pair:
    return Pair(z.re + 1.0, z.im)


def from_one(z: Pair) -> Pair:
    """1 - z; the imaginary part keeps its zero's sign."""
    return Pair(1.0 - z.re, -z.im)


def size_of(z: Pair) -> Expr:
    return call("hypot", z.re, z.im)


# --- powers and logarithms ------------------------------
def endless(x: Expr) -> Expr:
    """Neither finite nor NaN."""
    return absolute(x) == math.inf


def unmeasured(x: Expr) -> Expr:
    """Infinite or NaN: an angle without a sine."""
    return ~(absolute(x) < math.inf)


@formula
def exp(z: Pair) -> Pair:
    """A real result stays real, also where it is infinite; 0 and ∞ need no angle."""
    length, lost = call("exp", z.re), endless(z.re) & unmeasured(z.im)
    return Pair(
        where(lost, length, length * call("cos", z.im)),
        where(
            (z.im == 0) | lost & (length == 0), copysign(like(z.im, 0.0), z.im), length * call("sin", z.im)
        ),
    )


@formula
def exp2(z: Pair) -> Pair:
    return exp(scaled(z, math.log(2.0)))


@formula
def expm1(z: Pair) -> Pair:
    """Of infinite and NaN parts as the array API standard has it: as `exp`, where no angle is needed."""
    half = call("sin", z.im * 0.5)
    grown, lost = call("expm1", z.re), endless(z.re) & (unmeasured(z.im) | (z.re < 0))
    return Pair(
        where(lost, grown, grown * call("cos", z.im) - half * half * 2.0),
        where(
            (z.im == 0) | unmeasured(z.im) & (z.re == -math.inf),
            copysign(like(z.im, 0.0), z.im),
            call("exp", z.re) * call("sin", z.im),
        ),
    )


@formula
def log(z: Pair) -> Pair:
    """Near the unit circle, log |z| comes from |z|² - 1."""
    x, y, length = absolute(z.re), absolute(z.im), size_of(z)
    large, small = ex.maximum(x, y), ex.minimum(x, y)
    near = call("log1p", (large - 1.0) * (large + 1.0) + small * small) * 0.5
    return Pair(where((length > 0.5) & (length < 2.0), near, call("log", length)), call("atan2", z.im, z.re))


@formula
def log2(z: Pair) -> Pair:
    return scaled(log(z), 1.0 / math.log(2.0))


@formula
def log10(z: Pair) -> Pair:
    return scaled(log(z), 1.0 / math.log(10.0))


@formula
def log1p(z: Pair) -> Pair:
    near = call("log1p", z.re * (z.re + 2.0) + z.im * z.im) * 0.5
    small = absolute(z.re) + absolute(z.im) < 0.5
    far = log(plus_one(z))
    return Pair(where(small, near, far.re), far.im)


@formula
def sqrt(z: Pair) -> Pair:
    """The root in the right half-plane, from t = √((|x| + |z|) / 2)."""
    t = ex.sqrt(absolute(z.re) * 0.5 + size_of(z) * 0.5)
    other = absolute(z.im) / (t * 2.0)
    right = z.re >= 0.0
    root = Pair(where(right, t, other), copysign(where(right, other, t), z.im))
    root = chosen((z.re == 0) & (z.im == 0), Pair(absolute(z.re), z.im), root)
    infinite = absolute(z.im) == math.inf
    return chosen(infinite, Pair(absolute(z.im), z.im), root)


@formula
def rsqrt(z: Pair) -> Pair:
    one = Pair(like(z.re, 1.0), like(z.re, 0.0))
    return div(one, sqrt(z))


def infinite_product(a: Pair, b: Pair) -> Pair:
    """The product, infinite where a factor or a term is though both parts come out as NaN (C99, G.5.1)."""
    product = mul(a, b)
    terms = (a.re * b.re, a.im * b.im, a.re * b.im, a.im * b.re)
    endless_a, endless_b = endless(a.re) | endless(a.im), endless(b.re) | endless(b.im)
    some = (
        endless_a | endless_b | endless(terms[0]) | endless(terms[1]) | endless(terms[2]) | endless(terms[3])
    )

    def boxed(x: Expr, whole: Expr) -> Expr:
        """The direction of a part; of an infinite number's parts the infinite ones alone count."""
        unit = copysign(where(endless(x), like(x, 1.0), 0.0), x)
        return where(whole, unit, where(ex.isnan(x), copysign(like(x, 0.0), x), x))

    directions = mul(
        Pair(boxed(a.re, endless_a), boxed(a.im, endless_a)),
        Pair(boxed(b.re, endless_b), boxed(b.im, endless_b)),
    )
    lost = ex.isnan(product.re) & ex.isnan(product.im) & some
    return Pair(*(ex.rarely(lost, d * math.inf, p) for d, p in zip(directions, product)))


@formula
def pow_(a: Pair, b: Pair) -> Pair:
    """exp(b log a); 0 to the power 0 is 1."""
    one = Pair(like(a.re, 1.0), like(a.re, 0.0))
    power = exp(infinite_product(b, log(a)))
    return chosen((a.re == 0) & (a.im == 0) & (b.re == 0) & (b.im == 0), one, power)


@formula
def sigmoid(z: Pair) -> Pair:
    one = Pair(like(z.re, 1.0), like(z.re, 0.0))
    return div(one, plus_one(exp(neg(z))))


# --- circular and hyperbolic functions ------------------------------
@formula
def sinh(z: Pair) -> Pair:
    lost = unmeasured(z.im)
    grown = call("sinh", z.re) * call("cos", z.im)
    return Pair(
        where(lost & endless(z.re), math.inf, where(lost & (z.re == 0), z.re, grown)),
        where(z.im == 0, z.im, call("cosh", z.re) * call("sin", z.im)),
    )


@formula
def cosh(z: Pair) -> Pair:
    lost = endless(z.re) & unmeasured(z.im)
    nothing = like(z.re, 0.0)
    zero = copysign(nothing, z.re) * copysign(like(z.re, 1.0), z.im)
    zero = where(unmeasured(z.im), nothing, where(ex.isnan(z.re), z.im, zero))
    return Pair(
        where(lost, math.inf, call("cosh", z.re) * call("cos", z.im)),
        where((z.re == 0) | (z.im == 0), zero, call("sinh", z.re) * call("sin", z.im)),
    )


@formula
def tanh(z: Pair) -> Pair:
    t, s = call("tan", z.im), call("sinh", z.re)
    slope = t * t + 1.0
    below = slope * (s * s) + 1.0
    near = Pair(
        where(z.re == 0, z.re, slope * ex.sqrt(s * s + 1.0) * s / below), where(z.im == 0, z.im, t / below)
    )
    fallen = call("exp", absolute(z.re) * -2.0) * 4.0
    lost = unmeasured(z.im)
    far = Pair(
        where(lost & ~endless(z.re), math.nan, copysign(like(z.re, 1.0), z.re)),
        where(
            (z.im == 0) | lost & endless(z.re),
            copysign(like(z.re, 0.0), z.im),
            fallen * call("sin", z.im) * call("cos", z.im),
        ),
    )
    return chosen(absolute(z.re) > (9.0 if z.re.dtype == "float32" else 20.0), far, near)


@formula
def sin(z: Pair) -> Pair:
    return over_i(sinh(times_i(z)))


@formula
def cos(z: Pair) -> Pair:
    return cosh(times_i(z))


@formula
def tan(z: Pair) -> Pair:
    return over_i(tanh(times_i(z)))


def _roots(z: Pair) -> tuple[Pair, Pair]:
    return sqrt(from_one(z)), sqrt(plus_one(z))


def _imag_of_product(a: Pair, b: Pair) -> Expr:
    """Im(ā · b)."""
    return a.re * b.im - a.im * b.re


def is_far(z: Pair) -> Expr:
    """Whether 1 is nothing beside z²; also of infinite numbers."""
    bound = 2.0 ** (14 if z.re.dtype == "float32" else 29)
    return (absolute(z.re) > bound) | (absolute(z.im) > bound)


def afar(z: Pair, there: Pair, here: Pair) -> Pair:
    """`there` where z is far, else `here`."""
    return Pair(*(ex.rarely(is_far(z), a, b) for a, b in zip(there, here)))


def log_twice(z: Pair) -> Expr:
    """log |2z|, also where |z| overflows."""
    return call("log", call("hypot", z.re * 0.25, z.im * 0.25)) + math.log(8.0)


@formula
def asin(z: Pair) -> Pair:
    minus, plus = _roots(z)
    product = minus.re * plus.re - minus.im * plus.im
    here = Pair(
        where(z.re == 0, z.re, call("atan2", z.re, product)), call("asinh", _imag_of_product(minus, plus))
    )
    there = Pair(call("atan2", z.re, absolute(z.im)), copysign(log_twice(z), z.im))
    return afar(z, there, here)


@formula
def acos(z: Pair) -> Pair:
    minus, plus = _roots(z)
    here = Pair(
        where(z.re == 0, math.pi / 2, call("atan2", minus.re, plus.re) * 2.0),
        call("asinh", _imag_of_product(plus, minus)),
    )
    there = Pair(call("atan2", absolute(z.im), z.re), -copysign(log_twice(z), z.im))
    return afar(z, there, here)


@formula
def acosh(z: Pair) -> Pair:
    minus, plus = sqrt(Pair(z.re - 1.0, z.im)), sqrt(plus_one(z))
    across = minus.re * plus.re + minus.im * plus.im
    right = copysign(like(z.re, math.pi / 2), z.im)
    here = Pair(call("asinh", across), where(z.re == 0, right, call("atan2", minus.im, plus.re) * 2.0))
    return afar(z, Pair(log_twice(z), call("atan2", z.im, z.re)), here)


@formula
def atanh(z: Pair) -> Pair:
    x, y = absolute(z.re), z.im
    away = (1.0 - x) * (1.0 - x) + y * y
    grown = call("log1p", x * 4.0 / away) * 0.25
    beside = (call("log", call("hypot", y, like(y, 2.0))) - call("log", absolute(y))) * 0.5  # of 1
    here = Pair(
        where(x == 0, z.re, copysign(where(x == 1.0, beside, grown), z.re)),
        call("atan2", y * 2.0, (1.0 - x) * (x + 1.0) - y * y) * 0.5,
    )
    length = size_of(Pair(z.re * 0.25, y * 0.25))
    infinite = endless(z.re) | endless(y)
    inverse = where(infinite, copysign(like(y, 0.0), z.re), z.re * 0.0625 / length / length)
    half = call("atan2", y * 0.5 / length, length * -4.0) * 0.5
    angle = where(infinite & ~ex.isnan(y), copysign(like(y, math.pi / 2), y), half)
    there = Pair(inverse, angle)
    return afar(z, there, here)


@formula
def asinh(z: Pair) -> Pair:
    return times_i(asin(over_i(z)))


@formula
def atan(z: Pair) -> Pair:
    return over_i(atanh(times_i(z)))


# --- kernels ------------------------------
def written_out(kernel: Pointwise | Row) -> Pointwise | Row:
    """The kernel with all complex arithmetic in real numbers; the kernel itself where it has none."""
    outputs = parts_only(kernel.outputs)
    return kernel._replace(outputs=tuple(outputs))


def parts_only(roots: Sequence[Expr]) -> list[Expr]:
    """The expressions over real numbers and pairs alone."""
    result: dict[int, Expr | Pair] = {}
    some = False
    for e in ex.walk(roots):
        some = some or ex.is_complex(e.dtype) or (e.op in ("fold", "prefix") and _complex_rule(e.value))
        result[id(e)] = _one(e, [result[id(a)] for a in e.args]) if some else e
    return [ex.pair(*v) if isinstance(v, Pair) else v for v in (result[id(r)] for r in roots)]


def _one(e: Expr, args: list[Any]) -> Expr | Pair:
    if e.op in ("fold", "prefix") and _complex_rule(e.value):
        return _fold(e, args)
    if ex.is_complex(e.dtype):
        return _complex(e, args)
    if not any(isinstance(a, Pair) for a in args):
        return ex.remade(e, tuple(args)) if e.args else e
    z = args[0]
    if e.op in ("real", "imag"):
        return z.re if e.op == "real" else z.im
    if e.op == "abs":
        return size_of(z)
    if e.op == "eq":
        return (z.re == args[1].re) & (z.im == args[1].im)
    if e.op == "ne":
        return (z.re != args[1].re) | (z.im != args[1].im)
    raise TypeError(f"{e.op} is not defined for complex numbers")


def _complex(e: Expr, args: list[Any]) -> Pair:
    if not e.args:
        return Pair(ex.real(e), ex.imag(e))
    if e.op == "pair":
        return Pair(*args)
    if e.op in ("select", "rarely"):
        return chosen(*args)
    if e.op == "cast":
        return Pair(*(ex.cast(p, ex.PARTS[e.dtype]) for p in args[0]))
    name = e.op.removeprefix("call:")
    if name not in FORMULAS:
        raise TypeError(f"{name} is not defined for complex numbers")
    return FORMULAS[name](*args)


def _complex_rule(rule: FoldRule) -> bool:
    return any(ex.is_complex(s.dtype) for s in rule.combine)


def _fold(e: Expr, args: list[Expr | Pair]) -> Expr | Pair:
    """A fold whose states are the parts of the complex ones."""
    rule = e.value
    places, count = [], 0
    for s in rule.combine:
        places.append(count)
        count += 2 if ex.is_complex(s.dtype) else 1
    n = len(rule.combine)
    replace = {}
    for root in rule.combine:
        for s in ex.walk([root]):
            if s.op == "state":
                k = places[s.value % n] + (count if s.value >= n else 0)
                if ex.is_complex(s.dtype):
                    replace[s] = ex.pair(state(k, ex.part(s.dtype)), state(k + 1, ex.part(s.dtype)))
                else:
                    replace[s] = state(k, s.dtype)
    combine = _flat(parts_only(ex.substitute(list(rule.combine), replace)))
    made = FoldRule(tuple(_flat(rule.init)), tuple(combine), 0)
    elements = tuple(_flat(args))
    first = places[rule.which]

    def member(k: int) -> Expr:
        return ex.make(e.op, elements, combine[k].dtype, made._replace(which=k))

    return Pair(member(first), member(first + 1)) if ex.is_complex(e.dtype) else member(first)


def _flat(values: Sequence[Expr | Pair]) -> list[Expr]:
    flat: list[Expr] = []
    for v in values:
        if isinstance(v, Pair):
            flat += v
        else:
            flat += [ex.real(v), ex.imag(v)] if ex.is_complex(v.dtype) else [v]
    return flat
