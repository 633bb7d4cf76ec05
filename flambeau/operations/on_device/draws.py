"""Numbers of distributions on devices: the loops of `core/make/draws.c`, a thread an element.

Element i reads the same Philox stream as on the CPU, the blocks of the counters (reserved, k · 2⁴⁸ + i + 1), and takes the same
decisions, so that numbers are those of the CPU but for the last place of an exponential or a logarithm.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from ...codegen import functions as fn
from ...codegen import philox
from ...codegen.expr import Expr
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.make.create import empty
from ...core.make.literal import tensor
from ...core.make.random import _reserve_there
from ...core.tape.contexts import unrecorded
from ..declare.indexed import Indexed, indexed
from . import ordering

FLOAT64, INT64 = by_name["float64"], by_name["int64"]
TRIES = 1000
STRIPS, EDGE = 256, 3.6541528853610088
SMALL, MANY, FEW, MOST = 16, 1e8, 24.0, 200
HALF_LOG_2PI = 0.91893853320467274178
LARGEST = 1.7976931348623157e308  # DBL_MAX
LEAST = {"float32": 2.0**-126, "float64": 2.0**-1022}
WIDE_INDICES = 1 << 40  # `most` of a launch whose parameters are 64 bits of a stream


# --- tables ------------------------------
@functools.cache
def _tables(place: Any) -> tuple[TensorBase, ...]:
    """Widths and heights of the ziggurat's strips and log k! with what Stirling's formula lacks; which places lie within a strip; and
    two zeros, which are added to the seed and to the counter where no CUDA graph has numbers for them.
    """
    bits, height = 2.0**52, math.exp(-0.5 * EDGE * EDGE)
    area = EDGE * height + math.sqrt(0.5 * math.pi) * math.erfc(EDGE / math.sqrt(2.0))
    base, x, before = area / height, EDGE, EDGE
    widths, heights, inside = [0.0] * STRIPS, [0.0] * STRIPS, [0] * STRIPS
    inside[0] = int(EDGE / base * bits)
    widths[0], widths[-1], heights[0], heights[-1] = base / bits, EDGE / bits, 1.0, height
    for k in range(STRIPS - 2, 0, -1):
        x = math.sqrt(-2.0 * math.log(area / x + math.exp(-0.5 * x * x)))
        inside[k + 1] = int(x / before * bits)
        before, heights[k], widths[k] = x, math.exp(-0.5 * x * x), x / bits
    factorials, rests = [0.0] * SMALL, [0.0] * SMALL
    for k in range(SMALL):
        factorials[k] = factorials[k - 1] + math.log(k) if k else 0.0
        rests[k] = factorials[k] - ((k + 0.5) * math.log(k + 1.0) - (k + 1.0) + HALF_LOG_2PI)
    numbers = tensor([*widths, *heights, *factorials, *rests], dtype=FLOAT64, device=place)
    return numbers, *(tensor(whole, dtype=INT64, device=place) for whole in (inside, [0, 0]))


# --- streams ------------------------------
class Stream:
    """The stream of one element: Philox's key and upper counter, and the tables."""

    def __init__(self, at: Any, numbers: Any, inside: Any, state: Any, key: Expr, first: Expr, element: Expr):
        self.at, self.numbers, self.inside = at, numbers, inside
        seed, offset = (state[(fn.const(k, at.integer),)] for k in range(2))
        self.key, self.first = fn.bitcast(key + seed, "uint64"), fn.bitcast(first + offset, "uint64")
        self.start = fn.bitcast(element, "uint64") + 1

    def block(self, place: Expr) -> tuple[Expr, ...]:
        """Four words, whole uint64, and the place of the next block."""
        words = philox.words(self.key, self.first, place)
        return (*(w & philox.LOW for w in words), place + (1 << 48))

    def table(self, begin: int, k: Expr) -> Expr:
        return self.numbers[(fn.cast(k, self.at.integer) + begin,)]


def _fraction(high: Expr, low: Expr) -> Expr:
    """In (0, 1), from 53 bits."""
    return (fn.cast(fn.cast((high << 32 | low) >> 11, "int64"), "float64") + 0.5) * 2.0**-53


def _short_fraction(word: Expr) -> Expr:
    """In (0, 1), from 32 bits."""
    return (fn.cast(fn.cast(word, "int64"), "float64") + 0.5) * 2.0**-32


def _once(at: Any, condition: Expr, state: Sequence[Expr], function: Callable) -> tuple[Expr, ...]:
    """The function of the state where the condition holds, else the state; nothing else is computed there."""
    step = lambda go, *s: (fn.const(False, "bool"), *function(*s))
    return at.repeat((condition, *state), lambda go, *_: go, step)[1:]


def _normal(s: Stream, words: tuple, going: Expr) -> tuple[Expr, Expr]:
    """A standard normal number from four words and the place after them (nothing unless `going`), and the place then."""
    at = s.at

    def step(going, x, tries, w0, w1, w2, w3, place):
        word = w0 << 32 | w1
        strip = fn.cast(word & (STRIPS - 1), "int64")
        spot = fn.cast(word >> 9 & 0xFFFFFFFFFFFFF, "int64")
        size = fn.cast(spot, "float64") * s.table(0, strip)
        sign = fn.where((word & 256) != 0, fn.like(x, -1.0), fn.like(x, 1.0))
        within = (spot < s.inside[(fn.cast(strip, at.integer),)]) | (tries == TRIES)
        tail = ~within & (strip == 0)

        def beyond(going, size, place):
            a0, a1, a2, a3, place = s.block(place)
            far, y = -fn.log(_fraction(a0, a1)) / EDGE, -fn.log(_fraction(a2, a3))
            return ~(y + y > far * far), EDGE + far, place

        _, far, place = at.repeat((tail, size, place), lambda going, *_: going, beyond)
        upper, lower = s.table(STRIPS, fn.where(strip > 0, strip - 1, strip)), s.table(STRIPS, strip)
        under = lower + _short_fraction(w2) * (upper - lower) < fn.exp(-0.5 * size * size)
        found = within | tail | under
        again = _once(at, ~found, (w0, w1, w2, w3, place), lambda *w: s.block(w[4]))
        return ~found, sign * fn.where(tail, far, size), tries + 1, *again

    result = at.repeat(
        (going, fn.const(0.0, "float64"), fn.const(0, "int64"), *words), lambda going, *_: going, step
    )
    return result[1], result[7]


# --- gamma ------------------------------
def _gamma_parts(s: Stream, shape: Expr, place: Expr, wide: bool) -> tuple[Expr, Expr, Expr]:
    """A gamma number but for exp of the second value, and where the stream is then (Marsaglia and Tsang 2000)."""
    at = s.at
    proper = (shape > 0.0) & (shape <= LARGEST)
    used = fn.where(proper, shape, fn.like(shape, 1.0))
    low = used < 1.0
    d = fn.where(low, used + 1.0, used) - 1.0 / 3.0
    c = 1.0 / fn.sqrt(9.0 * d)

    def step(going, v, spare, tries, place):
        words = s.block(place)
        u = _short_fraction(words[2])
        x, place = _normal(s, words, going)
        t = 1.0 + c * x
        v = t * t * t
        square = x * x
        result = (u < 1.0 - 0.0331 * square * square) | (fn.log(u) < 0.5 * square + d * (1.0 - v + fn.log(v)))
        return ~((t > 0.0) & result) & (tries < TRIES), v, words[3], tries + 1, place

    state = (proper, fn.const(1.0, "float64"), place, fn.const(0, "int64"), place)
    _, v, spare, _, place = at.repeat(state, lambda going, *_: going, step)
    u = _short_fraction(spare)
    if wide:
        again = lambda u, place: (lambda w: (_fraction(w[0], w[1]), w[4]))(s.block(place))
        u, place = _once(at, low, (u, place), again)
    exponent = fn.where(low, fn.log(u) / used, fn.like(u, 0.0))
    edge = fn.where(shape >= 0.0, shape, fn.like(shape, math.nan))
    return fn.where(proper, d * v, edge), fn.where(proper, exponent, fn.like(u, 0.0)), place


def _gamma(s: Stream, shape: Expr, place: Expr, wide: bool) -> tuple[Expr, Expr]:
    number, exponent, place = _gamma_parts(s, shape, place, wide)
    return fn.where(shape < 1.0, number * fn.exp(exponent), number), place


# --- Poisson and binomial ------------------------------
def _stirling_rest(s: Stream, k: Expr) -> Expr:
    inverse = 1.0 / (k + 1.0)
    square = inverse * inverse
    large = (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - square / 1680.0) * square) * square) * inverse
    small = s.table(2 * STRIPS + SMALL, fn.cast(fn.minimum(fn.maximum(k, 0.0), SMALL - 1.0), "int64"))
    return fn.where(k < float(SMALL), small, large)


def _log_factorial(s: Stream, k: Expr) -> Expr:
    small = s.table(2 * STRIPS, fn.cast(fn.minimum(fn.maximum(k, 0.0), SMALL - 1.0), "int64"))
    large = (k + 0.5) * fn.log(k + 1.0) - (k + 1.0) + HALF_LOG_2PI + _stirling_rest(s, k)
    return fn.where(k < float(SMALL), small, large)


def _nearly_normal(s: Stream, place: Expr, mean: Expr, variance: Expr, skew: Expr, going: Expr) -> Expr:
    z, _ = _normal(s, s.block(place), going)
    return fn.floor(mean + fn.sqrt(variance) * z + (z * z - 1.0) * skew / 6.0 + 0.5)


def _inverted(s: Stream, place: Expr, first: Expr, most: Expr, rise: Callable, going: Expr) -> Expr:
    """The first count whose cumulative probability reaches a fraction; term k is term k - 1 times `rise(k)`."""
    words = s.block(place)
    u = _fraction(words[0], words[1])

    def step(k, term, total):
        k = k + 1.0
        term = term * rise(k)
        return k, term, total + term

    last = fn.minimum(most, MOST - 1.0)
    holds = lambda k, term, total: going & (k < last) & (u > total)
    return s.at.repeat((fn.const(0.0, "float64"), first, first), holds, step)[0]


def _poisson(s: Stream, place: Expr, rate: Expr, going: Expr) -> Expr:
    """By inversion, PTRS of Hörmann 1993, or nearly normal."""
    at = s.at
    few, huge = rate < FEW, rate >= MANY
    small = fn.where(few, rate, fn.like(rate, 1.0))
    inverted = _inverted(
        s, place, fn.exp(-small), small * 0.0 + MOST, lambda k: small * (1.0 / k), going & few
    )
    middle = fn.where(few | huge, fn.like(rate, 100.0), rate)
    root = fn.sqrt(middle)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inverse, inside = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2.0)
    logarithm = fn.log(middle)

    def step(again, k, tries, place):
        w0, w1, w2, w3, place = s.block(place)
        u, v = _fraction(w0, w1) - 0.5, _fraction(w2, w3)
        us = 0.5 - abs(u)
        k = fn.floor((2.0 * a / us + b) * u + middle + 0.43)
        early = (us >= 0.07) & (v <= inside)
        never = (k < 0.0) | ((us < 0.013) & (v > us))
        late = fn.log(v * inverse / (a / (us * us) + b)) <= k * logarithm - middle - _log_factorial(s, k)
        return ~(early | (~never & late)) & (tries < TRIES - 1), k, tries + 1, place

    k = at.repeat(
        (going & ~few & ~huge, fn.floor(middle), fn.const(0, "int64"), place), lambda again, *_: again, step
    )[1]
    k = fn.where(k < 0.0, fn.floor(middle), k)
    finite = fn.where(huge & (rate <= LARGEST), rate, fn.like(rate, 1e8))
    normal = _nearly_normal(s, place, finite, finite, finite * 0.0 + 1.0, going & huge)
    result = fn.where(few, inverted, fn.where(huge, normal, k))
    return fn.where(rate > LARGEST, rate, result)


def _fewer_successes(s: Stream, place: Expr, n: Expr, p: Expr, going: Expr) -> Expr:
    """Of a chance of one half at most: by inversion, BTRS of Hörmann 1993, or nearly normal."""
    at = s.at
    mean, q = n * p, 1.0 - p
    ratio, variance = p / q, mean * q
    tiny, huge = p < 1e-15, variance >= MANY
    few = ~tiny & ~huge & (mean < FEW)
    many = ~tiny & ~huge & ~few
    by_rate = fn.minimum(_poisson(s, place, mean, going & tiny), n)
    normal = _nearly_normal(s, place, mean, variance, 1.0 - 2.0 * p, going & huge)
    normal = fn.minimum(fn.maximum(normal, 0.0), n)
    rise = lambda k: ratio * (n - k + 1.0) * (1.0 / k)
    inverted = _inverted(s, place, fn.exp(n * fn.log1p(-p)), n, rise, going & few)
    deviation = fn.sqrt(variance)
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    inside, alpha = 0.92 - 4.2 / b, (2.83 + 5.1 / b) * deviation
    mode = fn.floor((n + 1.0) * p)
    at_mode = (mode + 0.5) * fn.log((mode + 1.0) / (ratio * (n - mode + 1.0)))
    at_mode = at_mode + _stirling_rest(s, mode) + _stirling_rest(s, n - mode)

    def step(again, k, tries, place):
        w0, w1, w2, w3, place = s.block(place)
        u, v = _fraction(w0, w1) - 0.5, _fraction(w2, w3)
        us = 0.5 - abs(u)
        k = fn.floor((2.0 * a / us + b) * u + (mean + 0.5))
        early = (us >= 0.07) & (v <= inside)
        out = (k < 0.0) | (k > n)
        left = n - k + 1.0
        bound = (
            at_mode + (n + 1.0) * fn.log1p((k - mode) / left) + (k + 0.5) * fn.log(left * ratio / (k + 1.0))
        )
        bound = bound - _stirling_rest(s, k) - _stirling_rest(s, n - k)
        late = fn.log(v * alpha / (a / (us * us) + b)) <= bound
        result = early | (~out & late)
        last = tries >= TRIES - 1
        return ~result & ~last, fn.where(result, k, fn.where(last, mode, k)), tries + 1, place

    k = at.repeat((going & many, mode, fn.const(0, "int64"), place), lambda again, *_: again, step)[1]
    return fn.where(tiny, by_rate, fn.where(huge, normal, fn.where(few, inverted, k)))


def _binomial(s: Stream, n: Expr, p: Expr) -> Expr:
    unknown = fn.isnan(n) | fn.isnan(p)
    none = (p <= 0.0) | (n <= 0.0)
    all = (p >= 1.0) | (n > LARGEST)
    going = ~unknown & ~none & ~all
    trials = fn.where(going, fn.floor(n), fn.like(n, 1.0))
    chance = fn.where(going, p, fn.like(p, 0.5))
    turned = chance > 0.5
    k = _fewer_successes(s, s.start, trials, fn.where(turned, 1.0 - chance, chance), going)
    result = fn.where(turned, trials - k, k)
    result = fn.where(none, fn.like(n, 0.0), fn.where(all, n, result))
    return fn.where(unknown, fn.like(n, math.nan), result)


def _von_mises(s: Stream, concentration: Expr, place: Expr) -> Expr:
    proper = (concentration >= 0.0) & ~fn.isnan(place)
    words = s.block(s.start)
    flat, narrow = concentration < 1e-12, concentration > MANY
    between = proper & ~flat & ~narrow
    uniform = (2.0 * _fraction(words[0], words[1]) - 1.0) * math.pi
    normal = _normal(s, words, proper & narrow)[0] / fn.sqrt(
        fn.where(narrow, concentration, fn.like(place, 1.0))
    )
    given = fn.where(between, concentration, fn.like(concentration, 1.0))
    tau = 1.0 + fn.sqrt(1.0 + 4.0 * given * given)
    rho = (tau - fn.sqrt(2.0 * tau)) / (2.0 * given)
    excess = fn.where(given < 1e-4, 1.0 / given + given - 1.0, (1.0 - rho) * (1.0 - rho) / (2.0 * rho))

    def step(going, angle, tries, w0, w1, w2, w3, next):
        half = fn.sin(0.5 * math.pi * _short_fraction(w0))
        low = 2.0 * half * half
        lack = excess * low / (excess + 2.0 - low)
        u, c = _short_fraction(w1), given * (excess + lack)
        result = (c * (2.0 - c) > u) | (fn.log(c / u) + 1.0 >= c)
        made = 2.0 * fn.asin(fn.minimum(fn.sqrt(0.5 * lack), 1.0))
        made = fn.where((w2 & 1) != 0, -made, made)
        again = _once(s.at, ~result, (w0, w1, w2, w3, next), lambda *w: s.block(w[4]))
        return ~result & (tries < TRIES - 1), fn.where(result, made, angle), tries + 1, *again

    angle = s.at.repeat(
        (between, fn.const(0.0, "float64"), fn.const(0, "int64"), *words), lambda going, *_: going, step
    )[1]
    angle = fn.where(flat, uniform, fn.where(narrow, normal, angle))
    angle = fn.fmod(angle + place + math.pi, fn.like(angle, 2.0 * math.pi))
    angle = fn.where(angle < 0.0, angle + 2.0 * math.pi, angle) - math.pi
    return fn.where(proper, angle, fn.like(angle, math.nan))


# --- kernels ------------------------------
def _clamped(x: Expr, least: float, most: float) -> Expr:
    """`x`, NaN too, within bounds."""
    return fn.where(x < least, fn.like(x, least), fn.where(x > most, fn.like(x, most), x))


def _kernel(function: Callable, operands: int, results: Sequence = (None,)) -> Indexed:
    """A kernel of a function of a stream and float64 numbers, for which `wide` says whether they were float64 before."""

    def one(at, x, numbers, inside, state, *, key, first):
        s = Stream(at, numbers, inside, state, key, first, fn.cast(at[0], "int64"))
        return function(s, fn.cast(x[at], "float64"), wide=x.dtype == "float64")

    def two(at, x, y, numbers, inside, state, *, key, first):
        s = Stream(at, numbers, inside, state, key, first, fn.cast(at[0], "int64"))
        return function(s, *(fn.cast(v[at], "float64") for v in (x, y)), wide=x.dtype == "float64")

    body = one if operands == 1 else two
    body.__name__, body.__doc__ = function.__name__, function.__doc__
    return indexed(dtypes=results, effort=200)(body)


def _draw_gamma(s, shape, *, wide):
    x, _ = _gamma(s, shape, s.start, wide)
    return (_clamped(x, LEAST["float64" if wide else "float32"], math.inf),)


def _draw_gamma_parts(s, shape, *, wide):
    return _gamma_parts(s, shape, s.start, wide)[:2]


def _draw_beta(s, a, b, *, wide):
    first, first_exponent, place = _gamma_parts(s, a, s.start, wide)
    second, second_exponent, _ = _gamma_parts(s, b, place, wide)
    ahead = (fn.log(first) + first_exponent) - (fn.log(second) + second_exponent)
    down = fn.exp(-abs(ahead))
    low = (a < 1.0) | (b < 1.0)
    one = fn.like(down, 1.0)
    x = fn.where(low, fn.where(ahead > 0.0, one, down) / (1.0 + down), first / (first + second))
    rest = fn.where(low, fn.where(ahead > 0.0, down, one) / (1.0 + down), second / (first + second))
    least, most = LEAST["float64" if wide else "float32"], 1.0 - (2.0**-53 if wide else 2.0**-24)
    return _clamped(x, least, most), _clamped(rest, least, most)


def _draw_poisson(s, rate, *, wide):
    return (_poisson(s, s.start, rate, rate >= 0.0),)


def _draw_binomial(s, n, p, *, wide):
    return (_binomial(s, n, p),)


def _draw_negative_binomial(s, count, odds, *, wide):
    x, place = _gamma(s, count, s.start, wide)
    x = x * odds
    proper = x >= 0.0
    rate = fn.where(proper, x, fn.like(x, 0.0))
    return (fn.where(proper, _poisson(s, place, rate, proper), fn.like(x, math.nan)),)


def _draw_von_mises(s, concentration, place, *, wide):
    return (_von_mises(s, concentration, place),)


def _draw_fraction(s, x, *, wide):
    words = s.block(s.start)
    return (_fraction(words[0], words[1]),)


_gammas = _kernel(_draw_gamma, 1)
_parts = _kernel(_draw_gamma_parts, 1, (FLOAT64, FLOAT64))
_betas = _kernel(_draw_beta, 2, (None, None))
_poissons = _kernel(_draw_poisson, 1)
_binomials = _kernel(_draw_binomial, 2)
_negative_binomials = _kernel(_draw_negative_binomial, 2)
_angles = _kernel(_draw_von_mises, 2)
_fractions = _kernel(_draw_fraction, 1, (FLOAT64,))


def _drawn(kernel: Indexed, generator: Any, *operands: TensorBase) -> Any:
    """What a kernel draws for operands of one shape, from one counter of the device's generator."""
    first = operands[0]
    if not first.numel():
        made = [empty(first.shape, dtype=d or first.dtype, device=first.device) for d in kernel.dtypes]
        return made[0] if len(made) == 1 else tuple(made)
    with unrecorded():
        *start, state = _reserve_there(generator, 1, first, kernel.name.removeprefix("_draw_"))
        key, counter = (n - (1 << 64) if n >> 63 else n for n in start)
        flat = [x.detach().reshape(-1) for x in operands]
        numbers, inside, zeros = _tables(first.device)
        tables = numbers, inside, zeros if state is None else state
        made = kernel(flat[0].shape, *flat, *tables, key=key, first=counter, most=WIDE_INDICES)
        return (
            tuple(m.reshape(first.shape) for m in made)
            if isinstance(made, tuple)
            else made.reshape(first.shape)
        )


def gamma(shape: TensorBase, generator: Any = None) -> TensorBase:
    return _drawn(_gammas, generator, shape)


def beta(a: TensorBase, b: TensorBase, generator: Any = None) -> tuple[TensorBase, TensorBase]:
    return _drawn(_betas, generator, a, b)


def poisson(rate: TensorBase, generator: Any = None) -> TensorBase | None:
    """None where a rate is negative or NaN."""
    made = _drawn(_poissons, generator, rate)
    return made if bool((rate.detach() >= 0).all()) else None


def binomial(count: TensorBase, prob: TensorBase, generator: Any = None) -> TensorBase:
    return _drawn(_binomials, generator, count, prob)


def negative_binomial(count: TensorBase, odds: TensorBase, generator: Any = None) -> TensorBase:
    return _drawn(_negative_binomials, generator, count, odds)


def von_mises(concentration: TensorBase, place: TensorBase, generator: Any = None) -> TensorBase:
    return _drawn(_angles, generator, concentration, place)


def dirichlet(concentration: TensorBase, generator: Any = None) -> TensorBase:
    """Rows of Dirichlet numbers; the logarithms of gamma numbers are compared where one may be too small."""
    number, exponent = _drawn(_parts, generator, concentration)
    if not number.numel():
        return concentration.new_empty(concentration.shape)
    with unrecorded():
        small = (concentration.detach() < 1.0).any(-1, True)
        number = (number.log() + exponent).where(small, number)
        top = number.amax(-1, True)
        number = (number - top).exp().where(small, number / top)
        least = LEAST[concentration.dtype.name]
        result = number / number.sum(-1, True)
        return result.where(~(result < least), result.new_full((), least)).to(concentration.dtype)


def choose(weights: TensorBase, each: int, generator: Any = None) -> TensorBase | str:
    """Places in rows of weights, `each` of a row; "weight" where one is no weight, "nothing" where a row has none above 0."""
    with unrecorded():
        wide = weights.detach().to(FLOAT64)
        if not bool(((wide >= 0.0) & (wide <= LARGEST)).all()):
            return "weight"
        sums = wide.cumsum(-1)
        total = sums.narrow(-1, sums.shape[-1] - 1, 1)
        if not bool((total > 0.0).all()):
            return "nothing"
        rows = wide.new_empty((*weights.shape[:-1], each))
        sought = _drawn(_fractions, generator, rows) * total
        last = (wide.shape[-1] - 1) - (wide > 0.0).flip(-1).to(INT64).argmax(-1, True)
        return ordering.search(sums, sought, True).minimum(last)


# --- how gamma and beta numbers move with their parameters ------------------------------
HUGE_SHAPE = 1e12


@functools.cache
def _rule(place: Any) -> TensorBase:
    """Nodes and weights of Gauss and Legendre's rule on [0, 1], of 32 points."""
    count, nodes, weights = 32, [], []
    for k in range(count):
        x, slope = math.cos(math.pi * (k + 0.75) / (count + 0.5)), 1.0
        for _ in range(20):
            p, before = x, 1.0
            for n in range(2, count + 1):
                p, before = ((2 * n - 1) * x * p - (n - 1) * before) / n, p
            slope = count * (x * p - before) / (x * x - 1.0)
            x -= p / slope
        nodes.append(0.5 * (1.0 - x))
        weights.append(1.0 / ((1.0 - x * x) * slope * slope))
    return tensor([nodes, weights], dtype=FLOAT64, device=place)


FADED = -42.0  # exp of it is below the rounding of what is summed


def _digamma(x: Expr) -> Expr:
    """Of positive numbers, whose rounding is that of float64."""
    return fn.digamma(x)


def _end(at: Any, scale: Expr, fall: Callable, going: Expr) -> Expr:
    """Where a function that decreases from 0 has fallen far enough: doubled from its scale, then halved once."""
    double = lambda k, low, s: (k + 1.0, s, s * 2.0)
    holds = lambda k, low, s: going & (k < 60.0) & (fall(s) > FADED)
    _, low, s = at.repeat((scale * 0.0, scale * 0.0, scale), holds, double)
    half = 0.5 * (low + s)
    return fn.where(fall(half) <= FADED, half, s)


def _integral(at: Any, rule: Any, end: Expr, term: Callable, going: Expr) -> Expr:
    def step(k, total):
        node, weight = rule[(at.number(0), k)], rule[(at.number(1), k)]
        return k + 1, total + weight * term(end * node)

    zero = at.number(0)
    return at.repeat((zero, end * 0.0), lambda k, _: going & (k < 32), step)[1]


@indexed(effort=200)
def _gamma_gradients(at, shapes, numbers, rule):
    shape, x = fn.cast(shapes[at], "float64"), fn.cast(numbers[at], "float64")
    wrong = ~(shape > 0.0) | ~(x >= 0.0) | (shape > LARGEST) | (x > LARGEST)
    plain = ~wrong & (x > 0.0) & (shape <= HUGE_SHAPE)
    a, t = fn.where(plain, shape, fn.like(x, 1.0)), fn.where(plain, x, fn.like(x, 1.0))
    series = plain & (t <= a + 1.0) & (a < 30.0)

    def step(going, n, term, by_shape, total):
        term = term * (t / (a + n))
        by_shape = by_shape + 1.0 / (a + n)
        total = total + term * by_shape
        done = (term * abs(by_shape) < 1e-17 * abs(total)) & (n > t - a)
        return ~done & (n < 499.0), n + 1.0, term, by_shape, total

    term, by_shape = 1.0 / a, _digamma(a + 1.0) - fn.log(t)
    one = t * 0.0 + 1.0
    summed = at.repeat((series, one, term, by_shape, term * by_shape), lambda going, *_: going, step)[4]
    level = fn.log(t) - _digamma(a)
    scale = 4.0 / (fn.sqrt(a) + abs(t - a))
    sign = fn.where(t <= a, fn.like(t, -1.0), fn.like(t, 1.0))
    fall = lambda s: sign * a * s - t * fn.expm1(sign * s)
    left = plain & ~series
    end = _end(at, scale, fall, left)
    integral = _integral(at, rule, end, lambda s: sign * (level + sign * s) * fn.exp(fall(s)), left)
    result = t * fn.where(series, summed, end * integral)
    result = fn.where(shape > HUGE_SHAPE, 0.5 * (1.0 + x / shape), result)
    result = fn.where(x == 0.0, fn.like(x, 0.0), result)
    return (fn.where(wrong, fn.like(x, math.nan), result),)


@indexed(effort=200)
def _beta_gradients(at, numbers, first, second, rule):
    x, a, b = (fn.cast(v[at], "float64") for v in (numbers, first, second))
    rest, total = 1.0 - x, a + b
    wrong = ~(a > 0.0) | ~(b > 0.0) | ~(x >= 0.0) | ~(rest >= 0.0) | (total > LARGEST)
    huge = (a > HUGE_SHAPE) & (b > HUGE_SHAPE)
    plain = ~wrong & (x > 0.0) & ~huge
    x, rest, a, b = (fn.where(plain, v, fn.like(v, 0.5)) for v in (x, rest, a, b))
    total = a + b
    below = x * total <= a
    swapped = fn.where(
        below, fn.cast((a < 1.0) & (x > 0.5), "int32"), fn.cast((b < 1.0) & (rest > 0.5), "int32")
    )
    below = below ^ (swapped != 0)
    center = _digamma(a) - _digamma(total)
    lower, upper = plain & below & (a < 1.0), plain & ~below & (b < 1.0)
    series = lower | upper
    base, factor = fn.where(below, a, b), fn.where(below, x, rest)
    # the derivative of each term by a: that of the numerator, and below, where a is in the denominator, that too
    inside = fn.where(below, fn.like(a, 1.0), fn.like(a, 0.0))

    def step(going, n, term, by_a, summed):
        term = term * ((total + n) / (base + 1.0 + n) * factor)
        by_a = by_a + 1.0 / (total + n) - inside / (base + 1.0 + n)
        summed = summed + term * by_a
        done = (term * (abs(by_a) + 1.0) < 1e-17 * abs(summed)) & ((total + n) * factor < base + 1.0 + n)
        return ~done & (n < 9999.0), n + 1.0, term, by_a, summed

    by_a = fn.where(below, fn.log(x) - _digamma(a + 1.0) + _digamma(total), fn.log(x) - center)
    zero = x * 0.0
    summed = at.repeat((series, zero, zero + 1.0, by_a, by_a), lambda going, *_: going, step)[4]
    by_series = fn.where(below, -x / a * summed, x / b * summed)
    level = fn.log(x) - center
    scale = 4.0 / (fn.sqrt(total * x * rest) + abs(x * total - a))
    more = lambda d: fn.log1p(factor * fn.expm1(-d))
    fall = lambda d: -base * d - total * more(d)
    left = plain & ~series
    end = _end(at, scale, fall, left)

    def term(d):
        m = more(d)
        lean = fn.where(below, -(level - d - m), level - m)
        return lean * fn.exp(-base * d - total * m)

    result = fn.where(series, by_series, x * end * _integral(at, rule, end, term, left))
    given = fn.cast(numbers[at], "float64")
    result = fn.where(huge, given / fn.cast(first[at], "float64"), result)
    result = fn.where(given == 0.0, fn.like(result, 0.0), result)
    return (fn.where(wrong, fn.like(result, math.nan), result),)


def gamma_gradient(shape: TensorBase, number: TensorBase) -> TensorBase:
    with unrecorded():
        return _gamma_gradients(shape.shape, shape, number, _rule(shape.device))


def beta_gradient(x: TensorBase, a: TensorBase, b: TensorBase) -> TensorBase:
    with unrecorded():
        return _beta_gradients(x.shape, x, a, b, _rule(x.device))
