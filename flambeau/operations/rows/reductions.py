"""Reductions and row functions: one declaration each, blocks, stages and kernels follow."""

from __future__ import annotations

import math

from ...codegen import functions as fn
from ...codegen import kernels as kn
from ...core.views.strided import spread
from ..declare.pointwise import COMPLEX, EVERY, FLOATING, NUMERIC
from ..declare.rows import reduction, row, widened


def restore(value, sizes, dims, keepdim):
    """A reduced tensor with its dimensions back (as size 1), so that it broadcasts against the input."""
    if keepdim or not sizes:
        return value
    return value.reshape([1 if d in dims else n for d, n in enumerate(sizes)])


def count(sizes, dims) -> int:
    """How many elements a row has."""
    return math.prod(sizes[d] for d in dims) if sizes else 1


def wide(x):
    """In float64 where it is float32: for what is worth the double width."""
    return fn.cast(x, {"float32": "float64", "complex64": "complex128"}.get(x.dtype, x.dtype))


@reduction(places=("sum", "Tensor.sum"), name="sum", accumulate=widened, reference="numpy.sum", dtypes=EVERY)
def sum_(input):
    """Sum over `dim` (an int, a tuple, or None for all); integers and bools give int64.

    Long rows are summed in blocks, so the result has the same bits for any number of threads.

    >>> import flambeau
    >>> flambeau.tensor([[1., 2.], [3., 4.]]).sum(0)
    tensor([4., 6.])
    """
    return kn.sum(input)


@sum_.derivative
def _(grad, sizes, dims, keepdim):
    return (spread(grad, sizes, dims, keepdim),)


@reduction(places=("mean", "Tensor.mean"), dtypes=FLOATING | COMPLEX, reference="numpy.mean")
def mean(input):
    """Arithmetic mean over `dim`; floating-point dtypes only."""
    return kn.mean(input)


@mean.derivative
def _(grad, sizes, dims, keepdim):
    n = count(sizes, dims)
    return (spread(grad * (1.0 / n if n else float("nan")), sizes, dims, keepdim),)


@reduction(
    places=("amax", "Tensor.amax"),
    reference="numpy.max",
    empty="Expected reduction dim to have non-zero size.",
)
def amax(input):
    """Largest element over `dim`; equal ones share the gradient."""
    return kn.max(input) if input.dtype != "bool" else kn.any(input)


@reduction(
    places=("amin", "Tensor.amin"),
    reference="numpy.min",
    empty="Expected reduction dim to have non-zero size.",
)
def amin(input):
    """Smallest element over `dim`; equal ones share the gradient."""
    return kn.min(input) if input.dtype != "bool" else kn.all(input)


def _shared(grad, input, out, sizes, dims, keepdim):
    hit = input == restore(out, sizes, dims, keepdim)
    share = hit.to(grad.dtype)
    return (restore(grad, sizes, dims, keepdim) * (share / share.sum(dims, True)),)


amax.derivative(_shared)
amin.derivative(_shared)


@reduction(
    places=("_argmax",),
    fields=("values", "indices"),
    name="max",
    empty="Expected reduction dim to have non-zero size.",
)
def max_with_index(input):
    """Largest element and where it first stands."""
    return kn.max_index(fn.cast(input, "uint8") if input.dtype == "bool" else input)


@reduction(
    places=("_argmin",),
    fields=("values", "indices"),
    name="min",
    empty="Expected reduction dim to have non-zero size.",
)
def min_with_index(input):
    """Smallest element and where it first stands."""
    return kn.min_index(fn.cast(input, "uint8") if input.dtype == "bool" else input)


@reduction(reference="numpy.argmax", dtypes=NUMERIC, empty="Expected reduction dim to have non-zero size.")
def argmax(input):
    """Where the largest element stands (the first of equal ones), along `dim` or in the flattened tensor
    (int64).
    """
    return kn.max_index(input)[1]


@reduction(reference="numpy.argmin", dtypes=NUMERIC, empty="Expected reduction dim to have non-zero size.")
def argmin(input):
    """Where the smallest element stands (the first of equal ones), along `dim` or in the flattened tensor
    (int64).
    """
    return kn.min_index(input)[1]


def _to_place(grads, out1, sizes, dims, keepdim):
    grad, where = grads[0], out1
    if not sizes:
        return (grad,)
    if not keepdim:
        grad, where = grad.unsqueeze(dims[0]), where.unsqueeze(dims[0])
    return (grad.new_zeros(sizes).scatter(dims[0], where, grad),)


max_with_index.derivative(_to_place)
min_with_index.derivative(_to_place)


@reduction(places=("any", "Tensor.any"), name="any", reference="numpy.any", dtypes=EVERY, literal_dims=True)
def any_(input):
    """Whether any element is not zero, over `dim` (bool; uint8 for uint8)."""
    found = kn.any(input)
    return fn.cast(found, "uint8") if input.dtype == "uint8" else found


@reduction(places=("all", "Tensor.all"), name="all", reference="numpy.all", dtypes=EVERY, literal_dims=True)
def all_(input):
    """Whether all elements are not zero, over `dim` (bool; uint8 for uint8)."""
    found = kn.all(input)
    return fn.cast(found, "uint8") if input.dtype == "uint8" else found


@reduction(places=("count_nonzero", "Tensor.count_nonzero"), reference="numpy.count_nonzero", dtypes=EVERY)
def count_nonzero(input):
    """How many elements are not zero, over `dim` (int64)."""
    return kn.sum(fn.cast(fn.cast(input, "bool"), "int64"))


@reduction(places=("_prod",), accumulate=widened, name="product", reference="numpy.prod", dtypes=EVERY)
def product(input):
    """Product of a row."""
    return fn.cast(kn.prod(wide(input)), input.dtype)


def squared_length(x):
    """|x|²."""
    return fn.real(x) * fn.real(x) + fn.imag(x) * fn.imag(x) if fn.is_complex(x.dtype) else x * x


@reduction(places=("_norm2",), dtypes=FLOATING | COMPLEX, name="norm2")
def norm2(input):
    """Root of the sum of squares."""
    return fn.sqrt(kn.sum(squared_length(input)))


@norm2.derivative
def _(grad, input, out, sizes, dims, keepdim):
    length, g = restore(out, sizes, dims, keepdim), restore(grad, sizes, dims, keepdim)
    return ((input * (g / length)).masked_fill(length == 0, 0.0),)


def _deviations(x, origin):
    """Σ (x - mean)² in float64, as PyTorch's is, from differences with an element of the row (shifted data: Chan, Golub
    and LeVeque, The American Statistician 37, 1983).

    Its difference from the mean, squared, is at most n times the variance: nothing cancels that float64 would miss.
    """
    if fn.is_complex(x.dtype):  # deviations add up over the parts
        return _deviations(fn.real(x), fn.real(origin)) + _deviations(fn.imag(x), fn.imag(origin))
    delta = wide(x) - wide(origin)
    total, squares = kn.sum(delta), kn.sum(delta * delta)
    found = fn.maximum(squares - total * (total / fn.cast(kn.length(), total.dtype)), fn.like(total, 0.0))
    endless = (squares == math.inf) & (fn.absolute(total) < math.inf)
    return fn.where(endless, squares, found)


def _over(deviations, correction):
    free = fn.cast(kn.length(), "float64") - fn.cast(correction, "float64")
    return deviations / fn.maximum(free, fn.like(free, 0.0))


@reduction(places=("_var",), dtypes=FLOATING | COMPLEX, name="variance", origin="origin")
def variance(input, origin, *, correction=1.0):
    """Sum of squared deviations over n - correction."""
    return fn.cast(_over(_deviations(input, origin), correction), fn.part(input.dtype))


@variance.derivative
def _(grad, input, sizes, dims, keepdim, correction):
    scale = 2.0 / _free(count(sizes, dims) - correction)
    return (restore(grad, sizes, dims, keepdim) * scale * (input - input.mean(dims, True)),)


def _free(n: float) -> float:
    return n if n > 0 else (0.0 if n == 0 else n) or float("nan")


@reduction(places=("_std",), dtypes=FLOATING | COMPLEX, name="deviation", origin="origin")
def deviation(input, origin, *, correction=1.0):
    """Root of the variance."""
    return fn.cast(fn.sqrt(_over(_deviations(input, origin), correction)), fn.part(input.dtype))


@deviation.derivative
def _(grad, input, out, sizes, dims, keepdim, correction):
    g = (grad / (out * _free(count(sizes, dims) - correction))).masked_fill(out == 0, 0.0)
    return (restore(g, sizes, dims, keepdim) * (input - input.mean(dims, True)),)


@reduction(places=("_var_mean",), dtypes=FLOATING | COMPLEX, name="variance_and_mean", origin="origin")
def variance_and_mean(input, origin, *, correction=1.0):
    """Variance and mean in one walk."""
    variance = fn.cast(_over(_deviations(input, origin), correction), fn.part(input.dtype))
    return variance, fn.cast(kn.mean(wide(input)), input.dtype)


@variance_and_mean.derivative
def _(grads, input, sizes, dims, keepdim, correction):
    n = count(sizes, dims)
    found = None
    if grads[0] is not None:
        scale = 2.0 / _free(n - correction)
        found = restore(grads[0], sizes, dims, keepdim) * scale * (input - input.mean(dims, True))
    if grads[1] is not None:
        from_mean = (restore(grads[1], sizes, dims, keepdim) / n).expand(sizes)
        found = from_mean if found is None else found + from_mean
    return (found,)


def merge_logsumexp(a, b):
    """Maximum and sum of exponentials relative to it."""
    (max_a, sum_a), (max_b, sum_b) = a, b
    top = fn.maximum(max_a, max_b)
    safe = fn.where(fn.absolute(top) == math.inf, fn.like(top, 0.0), top)
    return top, sum_a * fn.exp(max_a - safe) + sum_b * fn.exp(max_b - safe)


@reduction(places=("_logsumexp",), dtypes=FLOATING, name="log_sum_exp", reference="scipy.special.logsumexp")
def log_sum_exp(input):
    """log Σ exp, relative to the largest element."""
    top = kn.max(input)
    safe = fn.where(fn.absolute(top) == math.inf, fn.like(top, 0.0), top)
    return fn.log(kn.sum(fn.exp(input - safe))) + safe


@log_sum_exp.derivative
def _(grad, input, out, sizes, dims, keepdim):
    g, none = restore(grad, sizes, dims, keepdim), restore(out, sizes, dims, keepdim) == -math.inf
    share = softmax_of.over((input,), dims)  # exp(input - out) loses the digits that a large out has not
    return (g * share.masked_fill(none, 0.0),)


# --- row functions ------------------------------
@row(
    places=("softmax", "Tensor.softmax", "special.softmax"), name="softmax", reference="scipy.special.softmax"
)
def softmax_of(input):
    """Exponentials of a row, relative to its largest element, divided by their sum."""
    e = fn.exp(input - kn.max(input))
    return e / kn.sum(e)


@row(places=(), name="softmax_backward")
def softmax_backward(g, y):
    """y · (g - Σ g · y)."""
    return y * (g - kn.sum(g * y))


@softmax_backward.derivative
def _(grad, g, y, dims):
    to_y = grad * (g - (g * y).sum(dims, True)) - g * (grad * y).sum(dims, True)
    return softmax_backward.over((grad, y), dims), to_y


@softmax_of.derivative
def _(grad, out, dims):
    return (softmax_backward.over((grad, out), dims),)


@row(
    places=("log_softmax", "Tensor.log_softmax", "special.log_softmax"),
    name="log_softmax",
    reference="scipy.special.log_softmax",
)
def log_softmax_of(input):
    """input - log Σ exp(input), relative to the largest element."""
    shifted = input - kn.max(input)
    return shifted - fn.log(kn.sum(fn.exp(shifted)))


@row(places=(), name="log_softmax_backward")
def log_softmax_backward(g, y):
    """g - exp(y) · Σ g."""
    return g - fn.exp(y) * kn.sum(g)


@log_softmax_backward.derivative
def _(grad, g, y, dims):
    p = y.exp()
    return grad - (grad * p).sum(dims, True), -(grad * p * g.sum(dims, True))


@log_softmax_of.derivative
def _(grad, out, dims):
    return (log_softmax_backward.over((grad, out), dims),)
