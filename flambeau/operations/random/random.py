"""Random tensors.

Numbers come in groups of 256 elements, in row-major order.  A group takes 64 consecutive counters of the generator's Philox
stream for float32 and narrower dtypes and for integers below 2^20: word w of its counter c gives element 64 w + c.  Float64
and wider integers take two words an element: the words 2 w and 2 w + 1 of its counter c, of 128, give element 128 w + c.
A tensor's numbers so depend on the generator's state and on its dtype alone, and shorter tensors hold the first numbers of
longer ones.  Generators of PyTorch's stream (`backends.random`) draw as PyTorch does: see `_from_mt19937`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from ...codegen import expr as ex
from ...codegen import functions as fn
from ...codegen import philox
from ...core import tape
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.call.destination import check_over
from ...core.make import mt19937
from ...core.make import random as generator
from ...core.make.create import empty, empty_like
from ...core.make.random import Generator, _reserve, _reserve_there
from ...core.tape.contexts import unrecorded
from ...core.views.views import view_as_real
from ..declare import checks
from ..declare.dtype_groups import ALL, COMPLEX, EVERY, FLOATING, NONE, NUMERIC
from ..declare.host import holds
from ..declare.pointwise import Pointwise
from ..declare.registry import leaf, library, register
from ..pointwise.copying import to_dtype
from ..rows.reductions import any_improbable
from . import sampled

GROUP = 256
FEW = 8  # up to so many groups on the host are drawn whole, and copied
NARROW = 1 << 20  # integers below it take one word
LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}
FLOAT16_BITS = {"float16": 11, "bfloat16": 8}  # what fits in [0, 1) without being rounded to 1


# --- kernels -----------------------------------------------------------------------------------------------------------
class Drawn(NamedTuple):
    """Operations that draw numbers."""

    per_counter: int
    every: Any
    first: Any  # what the first words give, which is all that a few elements are made of
    captured: Any  # `every`, where a CUDA graph's replays say what is added to the seed and to the counter


def _kernel(name: str, per_counter: int, draw: Callable, params: tuple[str, ...] = ()) -> Drawn:
    """Operations of `per_counter` results that are `draw(words, dtype, *params)` of the counter's words, and of the first alone."""
    state = [f"state{k}" for k in range(2 * philox.PIECES)]

    def words(like: ex.Expr, seed: Any, offset: Any, scalars: dict[str, ex.Expr]):
        given = list(scalars.values())
        key, first = philox.joined(given[:3]) + seed, philox.joined(given[3:6]) + offset
        drawn = draw(philox.words(key, fn.cast(fn.index(), "uint64") + first), like.dtype, *given[6:])
        return [fn.cast(d, like.dtype) for d in drawn]

    def body(like: ex.Expr, **scalars: ex.Expr):
        return words(like, 0, 0, scalars)

    def first_of_body(like: ex.Expr, **scalars: ex.Expr):
        return body(like, **scalars)[0]

    def captured_body(like: ex.Expr, seed: ex.Expr, offset: ex.Expr, **scalars: ex.Expr):
        return words(like, fn.bitcast(seed, "uint64"), fn.bitcast(offset, "uint64"), scalars)

    numbers = [*state, *params]
    every = Pointwise(name, body, ["like"], numbers, results=per_counter)
    first = Pointwise(f"{name}_first", first_of_body, ["like"], numbers)
    added = ["seed", "offset"]
    captured = Pointwise(
        f"{name}_captured", captured_body, ["like", *added], numbers, results=per_counter, raw=added
    )
    return Drawn(per_counter, *(p.make_op(differentiable=False) for p in (every, first, captured)))


def _uniform_words(words, dtype, low, span, bits):
    result = []
    for w in words:
        u = fn.floor(philox.fraction(philox.word(w), dtype) * bits) * (1.0 / bits)
        result.append(u * span + low)
    return result


def _wide_uniform_words(words, dtype, low, span, bits):
    return [philox.fraction(philox.both(words[k + 1], words[k]), dtype) * span + low for k in range(0, 4, 2)]


def _normal_words(words, dtype, mean, std):
    a, b, c, d = map(philox.word, words)
    return [z * std + mean for z in (*philox.normal_pair(a, b, dtype), *philox.normal_pair(c, d, dtype))]


def _wide_normal_words(words, dtype, mean, std):
    radius, angle = philox.both(words[1], words[0]), philox.both(words[3], words[2])
    return [z * std + mean for z in philox.normal_pair(radius, angle, dtype)]


def _exponential_words(words, dtype, rate):
    return [_exponential_of(philox.positive(philox.word(w), dtype), rate, 2.0**-25) for w in words]


def _wide_exponential_words(words, dtype, rate):
    result = (philox.positive(philox.both(words[k + 1], words[k]), dtype) for k in range(0, 4, 2))
    return [_exponential_of(u, rate, 2.0**-54) for u in result]


def _exponential_of(u, rate, least):
    """-log u, never 0, so that it may divide."""
    return fn.maximum(-fn.log(u), least) / rate


def _bernoulli_words(words, dtype, high, low, success):
    """`success` where the word is below p · 2^32, which comes in two halves; else 0."""
    limit = fn.cast(fn.cast(high, "int64"), "uint64") << 16 | fn.cast(fn.cast(low, "int64"), "uint64")
    return [fn.where((w & philox.LOW) < limit, success, fn.like(success, 0.0)) for w in words]


def _narrow_integer_words(words, dtype, span, low):
    reach = fn.cast(fn.cast(span, "int64"), "uint64")
    return [_shifted((w & philox.LOW) * reach >> 32, fn.cast(low, "int64")) for w in words]


def _wide_integer_words(words, dtype, *given):
    span, low = philox.joined(given[:3]), fn.bitcast(philox.joined(given[3:]), "int64")
    return [_shifted(philox.bounded(words[k + 1], words[k], span), low) for k in range(0, 4, 2)]


def _full_integer_words(words, dtype, *given):
    span, low = philox.joined(given[:3]), fn.bitcast(philox.joined(given[3:]), "int64")
    drawn = (philox.both(words[k + 1], words[k]) for k in range(0, 4, 2))
    return [_shifted(fn.where(span == 0, d, fn.rem(d, span)), low) for d in drawn]


def _shifted(drawn, low):
    return fn.bitcast(drawn, "int64") + low


_SIX = tuple(f"bound{k}" for k in range(6))
uniform_kernel = _kernel("random_uniform", 4, _uniform_words, ("low", "span", "bits"))
wide_uniform_kernel = _kernel("random_uniform64", 2, _wide_uniform_words, ("low", "span", "bits"))
normal_kernel = _kernel("random_normal", 4, _normal_words, ("mean", "std"))
wide_normal_kernel = _kernel("random_normal64", 2, _wide_normal_words, ("mean", "std"))
exponential_kernel = _kernel("random_exponential", 4, _exponential_words, ("rate",))
wide_exponential_kernel = _kernel("random_exponential64", 2, _wide_exponential_words, ("rate",))
bernoulli_kernel = _kernel("random_bernoulli", 4, _bernoulli_words, ("high", "low", "success"))
narrow_integer_kernel = _kernel("random_integer20", 4, _narrow_integer_words, ("span", "low"))
wide_integer_kernel = _kernel("random_integer32", 2, _wide_integer_words, _SIX)
full_integer_kernel = _kernel("random_integer64", 2, _full_integer_words, _SIX)


def _success(u: ex.Expr, p: ex.Expr) -> ex.Expr:
    return fn.where(u < p, fn.like(u, 1.0), fn.like(u, 0.0))


success = Pointwise("random_success", _success, ["u", "p"], []).make_op(differentiable=False)


def _draw(t: TensorBase, kernel: Drawn, generator: Generator | None, *params: float) -> None:
    """Write a contiguous tensor's elements, unrecorded; without elements, no numbers are drawn."""
    if t.is_meta:
        return
    n, per_counter = t.numel(), kernel.per_counter
    counters = GROUP // per_counter
    groups, rest = divmod(n, GROUP)
    if not t.is_cpu:
        return _draw_there(t, kernel, generator, *params)
    seed, first = _reserve(generator, (groups + (rest > 0)) * counters, t)
    key = philox.pieces(seed)
    if groups < FEW and rest:  # the call costs more than the numbers: one kernel, whatever is thrown away
        start = philox.pieces(first)
        if n <= counters:
            kernel.first(t, *key, *start, *params, out=t)
        else:
            buffer, parts = _scratch(t, per_counter, groups + 1)
            kernel.every(parts[0], *key, *start, *params, out=parts)
            t.view(-1).copy_(buffer[:n])
        return
    flat = t.view(-1)
    if groups:
        parts = flat[: groups * GROUP].view(groups, per_counter, counters).unbind(1)
        kernel.every(parts[0], *key, *philox.pieces(first), *params, out=parts)
    if rest:
        tail, parts = _scratch(t, per_counter, 1)
        kernel.every(parts[0], *key, *philox.pieces(first + groups * counters), *params, out=parts)
        (flat[groups * GROUP :] if groups else flat).copy_(tail[:rest])


def _draw_there(t: TensorBase, kernel: Drawn, generator: Generator | None, *params: float) -> None:
    """The same on the tensor's device: what is left of the last group is drawn whole, and copied."""
    counters = GROUP // kernel.per_counter
    groups, rest = divmod(t.numel(), GROUP)
    seed, first, state = _reserve_there(generator, (groups + (rest > 0)) * counters, t)
    flat = t.view(-1)
    tail = empty(GROUP, dtype=t.dtype, device=t.device) if rest else flat
    for buffer, count, start in (
        (flat[: groups * GROUP], groups, first),
        (tail, int(rest > 0), first + groups * counters),
    ):
        if count:
            parts = buffer.view(count, kernel.per_counter, counters).unbind(1)
            pieces = (*philox.pieces(seed), *philox.pieces(start))
            if state is None:
                kernel.every(parts[0], *pieces, *params, out=parts)
            else:
                added = (state[k].expand(parts[0].shape) for k in range(2))
                kernel.captured(parts[0], *added, *pieces, *params, out=parts)
    if rest:
        flat[groups * GROUP :].copy_(tail[:rest])


_scratches = threading.local()


def _scratch(t: TensorBase, per_counter: int, groups: int) -> tuple[TensorBase, tuple[TensorBase, ...]]:
    """Room on the host for groups of t's dtype, whole and by words; every thread has its own."""
    known: dict = _scratches.__dict__
    key = (t.dtype.name, per_counter, groups)
    result = known.get(key)
    if result is None:
        buffer = empty(groups * GROUP, dtype=t.dtype, device="cpu")
        result = known[key] = (buffer, buffer.view(groups, per_counter, GROUP // per_counter).unbind(1))
    return result


def _fill(
    t: TensorBase, who: str, draw: Callable[[TensorBase], None], dtype: str | None = None
) -> TensorBase:
    """Overwrite a tensor by what `draw` writes into a contiguous one; on the tape, its history ends here."""
    check_over(who, t)
    direct = t.is_contiguous() and dtype is None and not tape.tracked(t)
    if direct:
        draw(t)
        return t
    with unrecorded():
        drawn = empty(t.shape, dtype=by_name[dtype or t.dtype.name], device=t.device)
        draw(drawn)
    return t.copy_(drawn)


def _from_mt19937(t: TensorBase, who: str, own: Generator, kind: int, a: float = 0.0, b: float = 0.0, span: int = 0, low: int = 0,
             chances: TensorBase | None = None) -> TensorBase:  # fmt: skip
    """Overwrite a tensor by numbers of PyTorch's stream; on the tape, its history ends here."""
    check_over(who, t)
    made = mt19937.fill(t, own, kind, a, b, span, low, who, tape.tracked(t), chances)
    return t if made is None else t.copy_(made)


def _floating(t: TensorBase, who: str) -> None:
    if not t.is_floating_point():
        raise NotImplementedError(f"{who}(): not implemented for {t.dtype}: a floating-point dtype is needed")


# --- in place ----------------------------------------------------------------------------------------------------------
def uniform_(
    self: TensorBase,
    from_: float = 0.0,
    to: float = 1.0,
    *,
    generator: Generator | None = None,
    **named: float,
) -> TensorBase:
    """Overwrite with numbers that are uniform in [from, to).

    Real and imaginary parts of complex numbers are drawn alike.  RuntimeError where from > to, NotImplementedError for
    integer dtypes.

    Shape:
        self: any

    >>> import flambeau
    >>> x = flambeau.empty(1000).uniform_(2.0, 3.0)
    >>> x.min() >= 2, x.max() < 3
    (tensor(True), tensor(True))
    """
    low = named.pop("from", from_)
    if named:
        raise TypeError(f"uniform_() got an unexpected keyword argument '{next(iter(named))}'")
    if self.is_complex():
        uniform_(view_as_real(self), low, to, generator=generator)
        return self
    _floating(self, "uniform_")
    if not low <= to:
        raise RuntimeError(
            f"uniform_(): expects to return a [from, to) range, but found from={low} > to={to}"
        )
    if to - low > LARGEST.get(self.dtype.name, math.inf):
        raise RuntimeError(
            f"uniform_(): expects to - from to be a finite {self.dtype}, but found to={to} and from={low}"
        )
    if (own := mt19937.source(generator, self)) is not None:
        return _from_mt19937(self, "uniform_", own, mt19937.UNIFORM, low, to)
    kernel = wide_uniform_kernel if self.dtype.name == "float64" else uniform_kernel
    bits = 2.0 ** FLOAT16_BITS.get(self.dtype.name, 24)
    return _fill(self, "uniform_", lambda t: _draw(t, kernel, generator, low, to - low, bits))


def normal_(
    self: TensorBase, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> TensorBase:
    """Overwrite with normal numbers of that mean and standard deviation.

    Real and imaginary parts of complex numbers have half the variance each.  RuntimeError for a negative std,
    NotImplementedError for integer dtypes.

    Shape:
        self: any

    >>> import flambeau
    >>> x = flambeau.empty(10000).normal_(5.0, 2.0)
    >>> 4.8 < x.mean() < 5.2, 1.8 < x.std() < 2.2
    (tensor(True), tensor(True))
    """
    if not std >= 0:
        raise RuntimeError(f"normal_(): expects std >= 0.0, but found std {std}")
    if self.is_complex():
        normal_(view_as_real(self), mean, std / math.sqrt(2), generator=generator)
        return self
    _floating(self, "normal_")
    if (own := mt19937.source(generator, self)) is not None:
        return _from_mt19937(self, "normal_", own, mt19937.NORMAL, mean, std)
    kernel = wide_normal_kernel if self.dtype.name == "float64" else normal_kernel
    return _fill(self, "normal_", lambda t: _draw(t, kernel, generator, mean, std))


def exponential_(self: TensorBase, lambd: float = 1.0, *, generator: Generator | None = None) -> TensorBase:
    """Overwrite with exponentially distributed numbers x of density lambd · exp(-lambd · x), all above 0.

    Shape:
        self: any

    Raises:
        RuntimeError: `lambd` is not above 0
        NotImplementedError: the dtype is none of floats

    >>> import flambeau
    >>> flambeau.empty(1000).exponential_().min() > 0
    tensor(True)
    """
    _floating(self, "exponential_")
    if not lambd > 0:
        raise RuntimeError(f"exponential_(): expects lambda > 0.0, but found lambda={lambd}")
    if (own := mt19937.source(generator, self)) is not None:
        return _from_mt19937(self, "exponential_", own, mt19937.EXPONENTIAL, lambd)
    kernel = wide_exponential_kernel if self.dtype.name == "float64" else exponential_kernel
    return _fill(self, "exponential_", lambda t: _draw(t, kernel, generator, lambd))


def _from_uniform(self: TensorBase, who: str, generator: Generator | None, shape_of: Callable) -> TensorBase:
    """Overwrite with a function of numbers in (0, 1)."""
    wide = self.dtype.name == "float64" or not self.is_floating_point()
    kernel, dtype = (wide_exponential_kernel, "float64") if wide else (exponential_kernel, "float32")

    def draw(t: TensorBase) -> None:
        base = t if t.dtype.name == dtype else empty(t.shape, dtype=by_name[dtype], device=t.device)
        _draw(base, kernel, generator, 1.0)
        t.copy_(shape_of(base))

    return _fill(self, who, draw)


def geometric_(self: TensorBase, p: float, *, generator: Generator | None = None) -> TensorBase:
    """Overwrite with numbers k of P(k) = (1 - p)^(k - 1) · p, for p in (0, 1).
    They count trials up to the first success.

    Shape:
        self: any

    Raises:
        RuntimeError: `p` lies outside (0, 1)

    >>> import flambeau
    >>> flambeau.empty(1000).geometric_(0.5).min()
    tensor(1.)
    """
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_(): expects p to be in (0, 1), but got p={p}")
    if (own := mt19937.source(generator, self)) is not None:
        return _from_mt19937(self, "geometric_", own, mt19937.GEOMETRIC, p)
    scale = -1.0 / math.log1p(-p)
    return _from_uniform(self, "geometric_", generator, lambda e: e.mul_(scale).ceil_().clamp_(min=1.0))


def cauchy_(
    self: TensorBase, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
) -> TensorBase:
    """Overwrite with Cauchy numbers x of density sigma / (π (sigma² + (x - median)²)).

    Shape:
        self: any

    Raises:
        RuntimeError: `sigma` is not above 0
        NotImplementedError: the dtype is none of floats

    >>> import flambeau
    >>> abs(flambeau.empty(10000).cauchy_(3.0).median() - 3) < 0.2
    tensor(True)
    """
    _floating(self, "cauchy_")
    if not sigma > 0:
        raise RuntimeError(f"cauchy_(): expects sigma > 0.0, but found sigma={sigma}")
    if (own := mt19937.source(generator, self)) is not None:
        return _from_mt19937(self, "cauchy_", own, mt19937.CAUCHY, median, sigma)
    return _from_uniform(
        self,
        "cauchy_",
        generator,
        lambda e: e.neg_().exp_().mul_(math.pi).sub_(0.5 * math.pi).tan_().mul_(sigma).add_(median),
    )


def log_normal_(
    self: TensorBase, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
) -> TensorBase:
    """Overwrite with numbers exp(mean + std · n), n standard normal.

    Shape:
        self: any

    Raises:
        RuntimeError: `std` is not above 0
        NotImplementedError: the dtype is none of floats

    >>> import flambeau
    >>> flambeau.empty(1000).log_normal_().min() > 0
    tensor(True)
    """
    _floating(self, "log_normal_")
    if not std > 0:
        raise RuntimeError(f"log_normal_(): expects std > 0.0, but found std={std}")
    if (own := mt19937.source(generator, self)) is not None:
        return _from_mt19937(self, "log_normal_", own, mt19937.LOG_NORMAL, mean, std)
    kernel = wide_normal_kernel if self.dtype.name == "float64" else normal_kernel

    def draw(t: TensorBase) -> None:
        _draw(t, kernel, generator, mean, std)
        t.exp_()

    return _fill(self, "log_normal_", draw)


def _integers(t: TensorBase, generator: Generator | None, low: int, high: int) -> None:
    """Integers in [low, high) over a contiguous int32, int64 or floating-point tensor."""
    span = high - low
    if span <= NARROW and abs(low) < 1 << philox.PIECE:
        _draw(t, narrow_integer_kernel, generator, span, low)
    elif span < 1 << 32:
        _draw(t, wide_integer_kernel, generator, *philox.pieces(span), *philox.pieces(low))
    else:
        _draw(t, full_integer_kernel, generator, *philox.pieces(span), *philox.pieces(low))


LIMITS = {
    "bool": (0, 2),
    **{f"int{bits}": (-(1 << bits - 1), 1 << bits - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, 1 << bits) for bits in (8, 16, 32, 64)},
}
# What numbers are drawn as where no kernel draws them as elements of that dtype.
STAND_INS = {
    **dict.fromkeys(("bool", "uint8", "int8", "uint16", "int16"), "int32"),
    **dict.fromkeys(("uint32", "uint64"), "int64"),
}
WHOLE = {
    "float16": 1 << 11,
    "bfloat16": 1 << 8,
    "float32": 1 << 24,
    "float64": 1 << 53,
}  # integers up to it are exact


def _fill_integers(
    t: TensorBase, who: str, low: int, high: int, generator: Generator | None, unbounded: bool = False
) -> TensorBase:
    name = t.dtype.name
    if not low < high:
        raise RuntimeError(f"{who}(): expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if name not in LIMITS and name not in WHOLE:
        raise NotImplementedError(f"{who}(): \"{who}\" not implemented for '{name}'")
    least, most = LIMITS.get(name, (-(1 << 63), 1 << 63))
    for which, value in (("from", low), ("to - 1", high - 1)):
        if not least <= value < most:
            raise RuntimeError(f"{who}(): {which} is out of bounds for {t.dtype}, got {value}")
    if (own := mt19937.source(generator, t)) is not None:
        kind = mt19937.MODULUS if unbounded and name not in UNSIGNED else mt19937.RANGE
        if name in WHOLE and max(abs(low + 1), abs(high - 1)) > WHOLE[name]:
            low, high = _representable(t, low, high)
        span = (high - low) % (1 << 64)
        return _from_mt19937(
            t, who, own, kind, span=span, low=low if span else 0
        )  # all of 2^64 are the words as they are
    return _fill(t, who, lambda x: _integers(x, generator, low, high), STAND_INS.get(name))


def _representable(t: TensorBase, low: int, high: int) -> tuple[int, int]:
    """Ends beyond which numbers of a range would be rounded out of it, as PyTorch moves them inwards."""
    digits = WHOLE[t.dtype.name].bit_length() - 1

    def rounded(value: int) -> int:
        made = t.new_full((), value).item()
        return value if math.isinf(made) else int(made)

    def step(value: int) -> int:
        return 1 << abs(value).bit_length() - digits

    if (first := rounded(low + 1)) < low:
        low = first + step(low + 1)
    if (last := rounded(high - 1)) >= high:
        high = last - step(high - 1)
    if low >= high:
        raise RuntimeError(
            "random_(): expects 'from' casted to dtype to be less than 'to' casted to dtype, but got "
            f"from={low} >= to={high}"
        )
    return low, high


UNSIGNED = ("uint16", "uint32", "uint64")  # whose numbers PyTorch draws between bounds alone
_UNSAID: Any = object()


def random_(
    self: TensorBase,
    from_: int | None = None,
    to: int | None = _UNSAID,
    *,
    generator: Generator | None = None,
    **named: int,
) -> TensorBase:
    """Overwrite with integers: `random_(to)` in [0, to), `random_(from, to)` in [from, to).

    Without `to`, or where it is None, they go up to the dtype's largest integer that all smaller ones are exact with.
    RuntimeError where the range is empty or leaves the dtype.

    Shape:
        self: any

    >>> import flambeau
    >>> flambeau.empty(1000).random_(1, 4).unique()
    tensor([1., 2., 3.])
    """
    unbounded = from_ is None and to is _UNSAID and not named
    if from_ is not None and to is _UNSAID:
        from_, to = 0, from_
    low = named.pop("from", 0 if from_ is None else from_)
    if named:
        raise TypeError(f"random_() got an unexpected keyword argument '{next(iter(named))}'")
    name, beyond = self.dtype.name, to is None
    if to is None or to is _UNSAID:
        to = WHOLE[name] + 1 if name in WHOLE else LIMITS.get(name, (0, 1))[1]
    low, high = int(low), int(to)
    if low == -(1 << 63) and beyond and (own := mt19937.source(generator, self)) is not None:
        return _from_mt19937(self, "random_", own, mt19937.RANGE)  # words of 64 bits, as they are
    return _fill_integers(self, "random_", low, high, generator, unbounded)


@leaf("question", differentiable=False)
def draws_as_pytorch(like: TensorBase) -> bool:
    """Whether the default generator of a tensor's device draws PyTorch's stream."""
    return mt19937.source(None, like) is not None


def in_turn(generator: Generator | None = None) -> bool:
    """Whether a generator of the host draws PyTorch's stream."""
    return mt19937.source(generator, empty(0, device="cpu")) is not None


def new_seed(generator: Generator | None = None) -> int:
    """A seed drawn from a generator of the host: 63 bits."""
    return int(random_(empty((), dtype=by_name["int64"], device="cpu"), generator=generator).item())


def bernoulli_(self: TensorBase, p: Any = 0.5, *, generator: Generator | None = None) -> TensorBase:
    """Overwrite with 1 of probability p, a number or a tensor that broadcasts, else 0.

    RuntimeError where a number p lies outside [0, 1], or a tensor's does.

    Shape:
        self: any; p: a number, or a shape that broadcasts to it

    Raises:
        RuntimeError: `p` lies outside [0, 1]

    >>> import flambeau
    >>> flambeau.empty(3).bernoulli_(1.0)
    tensor([1., 1., 1.])
    """
    if isinstance(p, TensorBase):
        p = p.detach().expand(self.shape)
        if (own := mt19937.source(generator, self)) is not None:
            return _from_mt19937(
                self, "bernoulli_", own, mt19937.BERNOULLI, chances=_chances(p, "bernoulli_")
            )
        check_over("bernoulli_", self)
        drawn = _successes(p, generator, "bernoulli_")
        return self.copy_(drawn)
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_(): expects p to be in [0, 1], but got p={p}")
    return _draw_successes(self, p, 1, generator)


def _draw_successes(self: TensorBase, p: float, success: float, generator: Generator | None) -> TensorBase:
    """Overwrite with `success` of probability p, else 0."""
    limit = round(p * (1 << 32))
    if self.dtype.name not in LIMITS and self.dtype.name not in WHOLE:
        raise NotImplementedError(f"bernoulli_(): \"bernoulli_\" not implemented for '{self.dtype.name}'")
    if (own := mt19937.source(generator, self)) is not None:
        drawn = _from_mt19937(self, "bernoulli_", own, mt19937.BERNOULLI, p)
        return drawn if success == 1 else drawn.mul_(success)
    return _fill(
        self,
        "bernoulli_",
        lambda t: _draw(t, bernoulli_kernel, generator, limit >> 16, limit & 0xFFFF, success),
        STAND_INS.get(self.dtype.name),
    )


def _chances(p: TensorBase, who: str) -> TensorBase:
    """Probabilities, as float32 or, for float64, in that."""
    _floating(p, who)
    if not p.is_meta and any_improbable(p):
        raise RuntimeError(f"{who}(): Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
    return p if p.dtype.name == "float64" else to_dtype(p, by_name["float32"])


def _successes(p: TensorBase, generator: Generator | None, who: str) -> TensorBase:
    """1.0 with the probability that each element gives."""
    if (own := mt19937.source(generator, p)) is not None:
        return _from_mt19937(empty_like(p), who, own, mt19937.BERNOULLI, chances=_chances(p, who))
    _floating(p, who)
    if not p.is_meta and any_improbable(p):
        raise RuntimeError(f"{who}(): Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
    wide = p.dtype.name == "float64"
    u = empty(p.shape, dtype=by_name["float64" if wide else "float32"], device=p.device)
    _draw(u, wide_uniform_kernel if wide else uniform_kernel, generator, 0.0, 1.0, 2.0**24)
    return to_dtype(success(u, p, out=u), p.dtype)


for _function, _dtypes in (
    (uniform_, FLOATING | COMPLEX),
    (normal_, FLOATING | COMPLEX),
    (exponential_, FLOATING),
    (geometric_, EVERY),
    (cauchy_, FLOATING),
    (log_normal_, FLOATING),
    (random_, ALL),
    (bernoulli_, ALL),
):
    register(
        _function.__name__,
        "random",
        _function,
        places=(f"Tensor.{_function.__name__}",),
        differentiable=False,
        elementwise=True,
        dtypes=_dtypes,
    )


# --- new tensors ---------------------------------------------------------------------------------------------------------
def _made(who: str, size: tuple, options: dict[str, Any]) -> TensorBase:
    """An empty tensor; what `empty` objects to is said in the function's own name."""
    try:
        return empty(*size, **options)
    except (TypeError, RuntimeError) as error:
        raise type(error)(str(error).replace("empty()", f"{who}()")) from None


def _new(who: str, size: tuple, options: dict[str, Any], generator, fill: Callable) -> TensorBase:
    """What `rand` and `randn` share: the tensor, the numbers, then `out` and `requires_grad`."""
    requires = options.pop("requires_grad", False)
    out = options.pop("out", None)
    if out is not None and options.get("dtype") is None:
        options["dtype"] = out.dtype
    made = _made(who, size, options)
    if not made.is_complex():
        _floating(made, who)
    if out is not None and mt19937.source(generator, out) is not None:
        made = out.resize_(made.shape)  # as its elements lie in memory
    fill(made)
    if made is out:
        return out
    if out is not None:
        return out.resize_(made.shape).copy_(made)
    return made.requires_grad_() if requires else made


def rand(*size: Any, generator: Generator | None = None, **options: Any) -> TensorBase:
    """rand(*size, generator=None, out=None, dtype=None, requires_grad=False): numbers uniform in [0, 1).

    The default dtype unless another floating-point or complex one is given; NotImplementedError for integers.

    >>> import flambeau
    >>> _ = flambeau.manual_seed(0)
    >>> x = flambeau.rand(2, 3)
    >>> x.shape, bool(((x >= 0) & (x < 1)).all())
    (flambeau.Size([2, 3]), True)
    """
    return _new("rand", size, options, generator, lambda t: uniform_(t, generator=generator))


def randn(*size: Any, generator: Generator | None = None, **options: Any) -> TensorBase:
    """randn(*size, generator=None, out=None, dtype=None, requires_grad=False): standard normal numbers.

    The default dtype unless another floating-point or complex one is given (complex numbers have variance 1);
    NotImplementedError for integers.

    >>> import flambeau
    >>> _ = flambeau.manual_seed(0)
    >>> flambeau.randn(2, 3).shape
    flambeau.Size([2, 3])
    """
    return _new("randn", size, options, generator, lambda t: normal_(t, generator=generator))


def randint(*given: Any, generator: Generator | None = None, **options: Any) -> TensorBase:
    """randint(low=0, high, size, *, generator=None, out=None, dtype=int64): integers in [low, high).

    RuntimeError where low >= high or the dtype cannot hold them.

    >>> import flambeau
    >>> x = flambeau.randint(3, 10, (4,))
    >>> x.dtype, bool(((x >= 3) & (x < 10)).all())
    (flambeau.int64, True)
    """
    bounds, size = _bounds("randint", list(given), options)
    requires, out = options.pop("requires_grad", False), options.pop("out", None)
    if options.get("dtype") is None:
        options["dtype"] = by_name["int64"] if out is None else out.dtype
    made = _made("randint", (size,), options)
    if out is not None and mt19937.source(generator, out) is not None:
        return _fill_integers(out.resize_(made.shape), "random_", *bounds, generator)
    made = _fill_integers(made, "random_", *bounds, generator)
    if out is not None:
        return out.resize_(made.shape).copy_(made)
    return made.requires_grad_() if requires else made


def _bounds(who: str, given: list, options: dict[str, Any]) -> tuple[tuple[int, int], Any]:
    """(low, high) and the size, by position or by name; low may be left out."""
    size = options.pop("size", None)
    if size is None and given and isinstance(given[-1], (tuple, list)):
        size = given.pop()
    if "high" in options:
        high = options.pop("high")
        low = options.pop("low", given[0] if given else 0)
        given = given[1:]
    elif given:
        high = given.pop()
        low = options.pop("low", given.pop() if given else 0)
    else:
        raise TypeError(f'{who}() missing 1 required positional arguments: "high"')
    if given:
        raise TypeError(f"{who}() takes low, high and size, but more were given")
    if size is None and who == "randint":
        raise TypeError(f'{who}() missing 1 required positional arguments: "size"')
    for value in (low, high):
        if not hasattr(value, "__index__") and not isinstance(value, TensorBase):
            raise TypeError(f"{who}(): argument 'high' must be int, not {type(value).__name__}")
    return (int(low), int(high)), size


def _like(who: str, input: TensorBase, options: dict[str, Any]) -> TensorBase:
    if not isinstance(input, TensorBase):
        raise TypeError(f"{who}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    options.pop("requires_grad", None)
    try:
        return empty_like(input, **options)
    except (TypeError, RuntimeError) as error:
        raise type(error)(str(error).replace("empty_like()", f"{who}()")) from None


def rand_like(input: TensorBase, *, generator: Generator | None = None, **options: Any) -> TensorBase:
    """Numbers uniform in [0, 1), in the shape and, unless another is given, the dtype of `input`.

    Shape:
        input: any; the result has the same

    Raises:
        NotImplementedError: the dtype is neither floating-point nor complex

    >>> import flambeau
    >>> x = flambeau.rand_like(flambeau.zeros(2, 3))
    >>> x.shape, bool((x < 1).all())
    (flambeau.Size([2, 3]), True)
    """
    requires = options.pop("requires_grad", False)
    made = uniform_(_like("rand_like", input, options), generator=generator)
    return made.requires_grad_() if requires else made


def randn_like(input: TensorBase, *, generator: Generator | None = None, **options: Any) -> TensorBase:
    """Standard normal numbers, in the shape and, unless another is given, the dtype of `input`.

    Shape:
        input: any; the result has the same

    Raises:
        NotImplementedError: the dtype is neither floating-point nor complex

    >>> import flambeau
    >>> flambeau.randn_like(flambeau.zeros(2, 3)).shape
    flambeau.Size([2, 3])
    """
    requires = options.pop("requires_grad", False)
    made = normal_(_like("randn_like", input, options), generator=generator)
    return made.requires_grad_() if requires else made


def randint_like(
    input: TensorBase, *given: Any, generator: Generator | None = None, **options: Any
) -> TensorBase:
    """Integers in [low, high), in the shape and dtype of `input`: randint_like(input, low=0, high).

    Shape:
        input: any; the result has the same

    Raises:
        RuntimeError: there is no integer in [low, high)

    >>> import flambeau
    >>> flambeau.randint_like(flambeau.zeros(3), 7, 8)
    tensor([7., 7., 7.])
    """
    bounds, _ = _bounds("randint_like", list(given), options)
    requires = options.pop("requires_grad", False)
    made = _fill_integers(_like("randint_like", input, options), "random_", *bounds, generator)
    return made.requires_grad_() if requires else made


for _made_by in (rand, randn, randint, rand_like, randn_like, randint_like):
    globals()[_made_by.__name__] = register(  # other modules import the operation
        _made_by.__name__,
        "random",
        _made_by,
        places=(_made_by.__name__,),
        differentiable=False,
        like=_made_by in (rand_like, randn_like, randint_like),
        dtypes=ALL if _made_by in (randint, randint_like) else FLOATING | COMPLEX,
    )


@library("random", "normal", differentiable=False, reads_tensors=True)
def normal(mean: Any, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None,
           out: TensorBase | None = None, **options: Any) -> TensorBase:  # fmt: skip
    """Normal numbers whose mean and standard deviation are tensors, which broadcast, or numbers with a `size`, the shape of the result.

    RuntimeError where a standard deviation is negative.

    >>> import flambeau
    >>> flambeau.normal(flambeau.zeros(3), 0.0)
    tensor([0., 0., 0.])
    """
    if isinstance(mean, TensorBase) and isinstance(std, (int, float)) and size is not None:
        raise TypeError("normal(): argument 'size' goes with a mean and a std that are numbers")
    if isinstance(mean, TensorBase) or isinstance(std, TensorBase):
        checks.floating("normal", **({"mean": mean} if isinstance(mean, TensorBase) else {"std": std}))
        if isinstance(std, TensorBase) and not holds(std >= 0):
            raise RuntimeError("normal(): normal expects all elements of std >= 0.0")
        if not isinstance(std, TensorBase) and not std >= 0:
            raise RuntimeError(f"normal(): normal expects std >= 0.0, but found std {std}")
        with unrecorded():
            shape = mean + std * 0 if isinstance(mean, TensorBase) else std * 0 + mean
            _floating(shape, "normal")
            made = empty(shape.shape, dtype=shape.dtype, device=shape.device)
            if isinstance(std, TensorBase):
                made = normal_(made, generator=generator) * std + mean
            else:
                made = normal_(made, 0.0, std, generator=generator) + mean
    else:
        if size is None:
            raise TypeError('normal() missing 1 required positional arguments: "size"')
        requires = options.pop("requires_grad", False)
        made = normal_(_made("normal", (size,), options), mean, std, generator=generator)
        made = made.requires_grad_() if requires else made
    return made if out is None else out.resize_(made.shape).copy_(made)


def _bernoulli_like(input: TensorBase, p: float, success: float = 1.0) -> TensorBase:
    """`success` with chance p, else 0, in the input's shape, dtype and layout."""
    return _draw_successes(empty_like(input), p, success, None)


bernoulli_like = register(
    "bernoulli_like", "random", _bernoulli_like, places=(), differentiable=False, like=True
)


@leaf("random", "bernoulli", "Tensor.bernoulli", differentiable=False, elementwise=True)
def bernoulli(input: TensorBase, p: float | None = None, *, generator: Generator | None = None,
              out: TensorBase | None = None) -> TensorBase:  # fmt: skip
    """1 with the probability that the element of `input` gives (or `p`, where it is given), else 0, in input's dtype.

    RuntimeError where a probability lies outside [0, 1].  The gradient is 0.

    >>> import flambeau
    >>> flambeau.bernoulli(flambeau.tensor([0., 1.]))
    tensor([0., 1.])
    """
    if p is not None:
        made = bernoulli_(empty_like(input), p, generator=generator)
    else:
        made = _successes(input, generator, "bernoulli")
    return made if out is None else out.resize_(made.shape).copy_(made)


@bernoulli.derivative
def _bernoulli_gradient(grad: TensorBase) -> TensorBase:
    return grad.new_zeros(grad.shape)


@library("random", "multinomial", "Tensor.multinomial", differentiable=False, batching="sliced")
def multinomial(input: TensorBase, num_samples: int, replacement: bool = False, *, generator: Generator | None = None,
                out: TensorBase | None = None) -> TensorBase:  # fmt: skip
    """Indices (int64) drawn from each row of weights, which need not sum to 1: shape [num_samples] or [rows, num_samples].

    Without replacement, indices are those of the largest weight / exponential (Efraimidis and Spirakis, 2006).
    RuntimeError for negative, infinite or all-zero weights, and for more samples than there are to draw.

    >>> import flambeau
    >>> flambeau.multinomial(flambeau.tensor([0., 1., 0.]), 2, replacement=True)
    tensor([1, 1])
    """
    checks.rank("multinomial", "input", input, 1, 2)
    checks.dtypes("multinomial", checks.FLOATS, RuntimeError, input=input)
    checks.dtypes("multinomial", ("int64",), RuntimeError, out=out)
    if num_samples <= 0:
        raise RuntimeError(f"multinomial(): cannot sample n_sample <= 0 samples, got {num_samples}")
    if not replacement and num_samples > input.shape[-1]:
        raise RuntimeError(
            f"multinomial(): cannot sample n_sample > prob_dist.size(-1) samples without replacement: num_samples is {num_samples}, "
            f"the distribution has {input.shape[-1]} categories"
        )
    weights = to_dtype(
        input.detach(), by_name["float64"] if input.dtype.name == "float64" else by_name["float32"]
    )
    if mt19937.source(generator, input) is not None:
        replacement = replacement and num_samples > 1  # one sample is drawn as without replacement
        weights = weights if replacement else input.detach()
    if replacement:
        drawn = sampled.by(weights).choose(weights, num_samples, generator)
        if isinstance(drawn, str):
            _refuse_weights(drawn != "weight")
    else:
        if not holds((weights >= 0) & (weights < math.inf)):
            _refuse_weights(False)
        if not holds(weights.sum(-1) > 0):
            _refuse_weights(True)
        with unrecorded():
            drawn = (
                (weights / exponential_(empty_like(weights), generator=generator))
                .topk(num_samples, -1)
                .indices
            )
    return drawn if out is None else out.resize_(drawn.shape).copy_(drawn)


def _refuse_weights(nothing: bool) -> None:
    if nothing:
        raise RuntimeError("multinomial(): invalid multinomial distribution (sum of probabilities <= 0)")
    raise RuntimeError("multinomial(): probability tensor contains either `inf`, `nan` or element < 0")


for _name in "manual_seed seed initial_seed get_rng_state set_rng_state Generator default_generator".split():
    register(_name, "creation", getattr(generator, _name), places=(_name,), differentiable=False, dtypes=NONE)
register(
    "randperm",
    "random",
    generator.randperm,
    places=("randperm",),
    differentiable=False,
    batching="sliced",
    dtypes=NUMERIC,
)
