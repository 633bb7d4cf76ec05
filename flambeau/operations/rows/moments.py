"""Variances and standard deviations, alone or with the mean."""

from __future__ import annotations

import math

from ...codegen import functions as fn
from ...codegen import kernels as kn
from ...core.base.tensor import TensorBase
from ..declare.examples import of_call
from ..declare.pointwise import COMPLEX, FLOATING
from ..declare.registry import library, register
from ..declare.rows import reduction
from .reductions import count, mean, restore, wide


def deviations(x, origin):
    """Σ (x - mean)² in float64, as PyTorch's is, from differences with an element of the row (shifted data: Chan, Golub
    and LeVeque, The American Statistician 37, 1983).

    Its difference from the mean, squared, is at most n times the variance: nothing cancels that float64 would miss.
    """
    if fn.is_complex(x.dtype):  # deviations add up over the parts
        return deviations(fn.real(x), fn.real(origin)) + deviations(fn.imag(x), fn.imag(origin))
    delta = wide(x) - wide(origin)
    total, squares = kn.sum(delta), kn.sum(delta * delta)
    result = fn.maximum(squares - total * (total / fn.cast(kn.length(), total.dtype)), fn.like(total, 0.0))
    endless = (squares == math.inf) & (fn.absolute(total) < math.inf)
    return fn.where(endless, squares, result)


def _over(deviations, correction):
    free = fn.cast(kn.length(), "float64") - fn.cast(correction, "float64")
    return deviations / fn.maximum(free, fn.like(free, 0.0))


@reduction(places=("_var",), dtypes=FLOATING | COMPLEX, name="variance", origin="origin")
def variance(input, origin, *, correction=1.0):
    """Sum of squared deviations over n - correction."""
    return fn.cast(_over(deviations(input, origin), correction), fn.part(input.dtype))


@variance.derivative
def _(grad, input, sizes, dims, keepdim, correction):
    scale = 2.0 / _free(count(sizes, dims) - correction)
    return (restore(grad, sizes, dims, keepdim) * scale * (input - input.mean(dims, True)),)


def _free(n: float) -> float:
    return n if n > 0 else (0.0 if n == 0 else n) or float("nan")


@reduction(places=("_std",), dtypes=FLOATING | COMPLEX, name="deviation", origin="origin")
def deviation(input, origin, *, correction=1.0):
    """Root of the variance."""
    return fn.cast(fn.sqrt(_over(deviations(input, origin), correction)), fn.part(input.dtype))


@deviation.derivative
def _(grad, input, out, sizes, dims, keepdim, correction):
    g = grad / (out * _free(count(sizes, dims) - correction)).masked_fill(out == 0, math.inf)
    return (restore(g, sizes, dims, keepdim) * (input - input.mean(dims, True)),)


@reduction(places=("_var_mean",), dtypes=FLOATING | COMPLEX, name="variance_and_mean", origin="origin")
def variance_and_mean(input, origin, *, correction=1.0):
    """Variance and mean in one walk."""
    variance = fn.cast(_over(deviations(input, origin), correction), fn.part(input.dtype))
    return variance, fn.cast(kn.mean(wide(input)), input.dtype)


@variance_and_mean.derivative
def _(grads, input, sizes, dims, keepdim, correction):
    n = count(sizes, dims)
    result = None
    if grads[0] is not None:
        scale = 2.0 / _free(n - correction)
        result = restore(grads[0], sizes, dims, keepdim) * scale * (input - input.mean(dims, True))
    if grads[1] is not None:
        from_mean = (restore(grads[1], sizes, dims, keepdim) / n).expand(sizes)
        result = from_mean if result is None else result + from_mean
    return (result,)


# --- as users call them ------------------------------
def _correction(dim, unbiased, correction):
    """The three spellings of how many degrees of freedom are lost: dim may hold `unbiased` in the oldest one."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    return dim, float(correction)


def _spread(name: str, op, doc: str):
    def function(
        input, dim=None, unbiased: bool | None = None, keepdim: bool = False, *, correction=None, out=None
    ) -> TensorBase:
        dim, free = _correction(dim, unbiased, correction)
        return op.over((input,), dim, keepdim, params=(free,), out=out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{doc}

Shape:
    input: any; result: without `dim` (all by default), or with size 1 there under `keepdim`

Raises:
    IndexError: `dim` is out of range
    NotImplementedError: the dtype is neither floating-point nor complex""" + of_call(
        f"{name}(flambeau.tensor([1.0, 2.0, 3.0]))", "tensor(1.)"
    )
    register(name, "composite", function, forwards=True, dtypes=FLOATING | COMPLEX)
    return function


var = _spread(
    "var",
    variance,
    "Σ (x - mean)² / (n - correction) over `dim`: the variance, with a correction of 1 by default.",
)

std = _spread(
    "std",
    deviation,
    "√(Σ (x - mean)² / (n - correction)) over `dim`: the standard deviation, the root of `var`.",
)


@library("composite", dtypes=FLOATING | COMPLEX)
def var_mean(
    input, dim=None, unbiased: bool | None = None, keepdim: bool = False, *, correction=None
) -> tuple[TensorBase, TensorBase]:
    """Σ (x - mean)² / (n - correction) and the mean over `dim`; correction is 1 unless it is given.

    Shape:
        input: any; results: without `dim` (all by default), or with size 1 there under `keepdim`

    Raises:
        IndexError: `dim` is out of range
        NotImplementedError: the dtype is neither floating-point nor complex

    >>> import flambeau
    >>> flambeau.var_mean(flambeau.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    dim, free = _correction(dim, unbiased, correction)
    return variance_and_mean.over((input,), dim, keepdim, params=(free,))


@library("composite", dtypes=FLOATING | COMPLEX)
def std_mean(
    input, dim=None, unbiased: bool | None = None, keepdim: bool = False, *, correction=None
) -> tuple[TensorBase, TensorBase]:
    """√(Σ (x - mean)² / (n - correction)) and the mean over `dim`; correction is 1 unless it is given.

    Shape:
        input: any; results: without `dim` (all by default), or with size 1 there under `keepdim`

    Raises:
        IndexError: `dim` is out of range
        NotImplementedError: the dtype is neither floating-point nor complex

    >>> import flambeau
    >>> flambeau.std_mean(flambeau.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    dim, free = _correction(dim, unbiased, correction)
    return deviation.over((input,), dim, keepdim, params=(free,)), mean(input, dim, keepdim)
