"""Softmax, its logarithm, and the logarithm of sums of exponentials."""

from __future__ import annotations

import math
import warnings

from ...codegen import functions as fn
from ...codegen import kernels as kn
from ...core import tape
from ...core.base.dtypes import dtype
from ...core.base.tensor import TensorBase
from ...core.call.operands import result_type
from ..declare.pointwise import FLOATING
from ..declare.registry import library
from ..declare.results import into
from ..declare.rows import reduction, row
from .reductions import restore


def shares(e, total):
    """e / total in two products, with the reciprocal in two parts: as good as a division, and three times as quick."""
    inverse = 1.0 / total
    return fn.fma(e, inverse, e * (fn.fma(-inverse, total, 1.0) * inverse))


def lowered(x):
    """What `lifted_exp` has lifted, or a sum of that, as it is."""
    return x * 2.0 ** -fn.LIFT[x.dtype]


def lifted_log(total):
    """log Σ exp of a sum of `lifted_exp`."""
    return fn.log(lowered(total))


@row(
    places=("softmax", "Tensor.softmax", "special.softmax"),
    name="softmax",
    reference="scipy.special.softmax",
    autocast=("fallthrough", "float32 unless dtype"),
    identity=-math.inf,
)
def softmax_of(input):
    """exp(input) / Σ exp(input) along `dim`, relative to the largest element, so that nothing overflows.

    >>> import flambeau
    >>> flambeau.softmax(flambeau.tensor([0.0, 1000.0, 1000.0]), dim=0)
    tensor([0.0000, 0.5000, 0.5000])
    """
    e = fn.lifted_exp(input - kn.peak(input))
    return shares(e, kn.sum(e))


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
    autocast=("fallthrough", "float32 unless dtype"),
    identity=-math.inf,
)
def log_softmax_of(input):
    """input - log Σ exp(input), relative to the largest element.

    >>> import flambeau
    >>> flambeau.log_softmax(flambeau.tensor([0.0, 1000.0, 1000.0]), dim=0)
    tensor([-1.0007e+03, -6.9315e-01, -6.9315e-01])
    """
    shifted = input - kn.peak(input)
    return shifted - lifted_log(kn.sum(fn.lifted_exp(shifted)))


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


def _softmax_backward_data(
    grad_output: TensorBase, output: TensorBase, dim: int, input_dtype: dtype
) -> TensorBase:
    """The gradient of softmax's input, from that of its output and the output, as libraries that write it by hand call it.

    >>> import flambeau
    >>> y = flambeau.tensor([1.0, 2.0]).softmax(0)
    >>> flambeau._softmax_backward_data(flambeau.ones(2), y, 0, flambeau.float32)
    tensor([0., 0.])
    """
    return softmax_backward.over((grad_output, output), dim).to(input_dtype)


def _log_softmax_backward_data(
    grad_output: TensorBase, output: TensorBase, dim: int, input_dtype: dtype
) -> TensorBase:
    """That of log_softmax's input."""
    return log_softmax_backward.over((grad_output, output), dim).to(input_dtype)


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
    if tape.tracked(grad, input):  # to be differentiated again: a NaN would come back from behind the mask
        input = input.masked_fill(none, 0.0)
    share = softmax_of.over((input,), dims)  # exp(input - out) loses the digits that a large out has not
    return (g * share.masked_fill(none, 0.0),)


@library(
    "composite",
    "logsumexp",
    "Tensor.logsumexp",
    "special.logsumexp",
    autocast=("fallthrough", "float32"),
    identity=-math.inf,
)
def logsumexp(input, dim, keepdim: bool = False, *, out=None) -> TensorBase:
    """log Σ exp(input) over `dim`, without overflow.

    Shape:
        input: any; result: without `dim`, or with size 1 there under `keepdim`

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.logsumexp(flambeau.tensor([1000.0, 1000.0]), 0)
    tensor(1000.6932)
    """
    if input.is_complex():
        top = input.real.detach().amax(dim, True)
        top = top.masked_fill(top.abs() == math.inf, 0.0)
        logs = (input - top).exp().sum(dim, keepdim).log()
        return into(out, logs + top.reshape(logs.shape), "logsumexp")
    x = input if input.is_floating_point() else input.to(result_type(input, 1.0))
    return log_sum_exp.over((x,), dim, keepdim, out=out)


# --- as `nn.functional` has them ------------------------------
def _implicit(name: str, ndim: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=3,
    )
    return 0 if ndim in (0, 1, 3) else 1


@library(
    "composite",
    "nn.functional.softmax",
    name="softmax_function",
    forwards=True,
    autocast=("fallthrough", "float32 unless dtype"),
    identity=-math.inf,
    dtypes=FLOATING,
)
def softmax(input: TensorBase, dim: int | None = None, _stacklevel: int = 3, dtype=None) -> TensorBase:
    """exp(input) / Σ exp(input) along `dim`; see `flambeau.softmax`.

    Shape:
        input: any; the result has the same

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.nn.functional.softmax(flambeau.tensor([[0.0, 0.0], [1.0, 1.0]]), dim=1)
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """
    dim = _implicit("softmax", input.ndim) if dim is None else dim
    return softmax_of(input, dim) if dtype is None else softmax_of(input, dim, dtype=dtype)


@library(
    "composite",
    "nn.functional.log_softmax",
    name="log_softmax_function",
    autocast=("fallthrough", "float32 unless dtype"),
    identity=-math.inf,
    dtypes=FLOATING,
)
def log_softmax(input: TensorBase, dim: int | None = None, _stacklevel: int = 3, dtype=None) -> TensorBase:
    """input - log Σ exp(input): the logarithm of the softmax along `dim`, without overflow.

    Shape:
        input: any; the result has the same

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.nn.functional.log_softmax(flambeau.tensor([[0.0, 0.0]]), dim=1)
    tensor([[-0.6931, -0.6931]])
    """
    dim = _implicit("log_softmax", input.ndim) if dim is None else dim
    return log_softmax_of(input, dim) if dtype is None else log_softmax_of(input, dim, dtype=dtype)


@library("composite", "nn.functional.softmin", autocast="composite", identity=math.inf, dtypes=FLOATING)
def softmin(input: TensorBase, dim: int | None = None, _stacklevel: int = 3, dtype=None) -> TensorBase:
    """exp(-input) / Σ exp(-input): softmax(-input) along `dim`.

    Shape:
        input: any; the result has the same

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.nn.functional.softmin(flambeau.tensor([0.0, 1.0]), dim=0)
    tensor([0.7311, 0.2689])
    """
    return softmax(-input, _implicit("softmin", input.ndim) if dim is None else dim, dtype=dtype)


@library("random", "nn.functional.gumbel_softmax", autocast="composite", composite=True)
def gumbel_softmax(
    logits: TensorBase, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> TensorBase:
    """softmax((logits + g) / tau) along `dim`, g = -log(-log u) for uniform u.
    It is a sample of the Gumbel-softmax distribution (Jang et al. 2017); `hard` gives one-hot vectors, with
    the gradient of the soft ones.  `eps` changes nothing.

    Shape:
        logits: any; the result has the same

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.nn.functional.gumbel_softmax(flambeau.zeros(3), hard=True).sum()
    tensor(1.)
    """
    noise = -logits.new_empty(logits.shape).exponential_().log()
    soft = softmax_of((logits + noise) / tau, dim)
    if not hard:
        return soft
    hot = soft.detach().mul(0.0).scatter(dim, soft.detach().argmax(dim, True), 1.0)
    return hot - soft.detach() + soft
