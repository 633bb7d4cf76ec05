"""Reductions and normalisations of the elements where a mask is true: the others count as what changes nothing.

Every function takes `mask` (bool, broadcast against the input; None for all elements).  A row without a true element gives the
value of an empty one: 0 for a sum, 1 for a product, NaN for a mean, the lowest value of the dtype for a maximum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from ...core.base.dtypes import by_name, dtype
from ...core.base.tensor import TensorBase
from ...core.base.typeinfo import iinfo
from ..declare.dtype_groups import ALL, COMPLEX, FLOATING, NUMBERS, NUMERIC
from ..declare.host import holds
from ..declare.registry import library
from ..declare.results import category
from ..declare.shapes import wrapped as _wrapped
from ..pointwise import arithmetic as a
from . import reductions, scans
from .norms import vector_norm
from .softmax import logsumexp as _logsumexp

FLOAT32, INT64 = by_name["float32"], by_name["int64"]


def _dims(dim: Any, input: TensorBase) -> tuple[int, ...]:
    """The dimensions to reduce, counted from the front; all without `dim`."""
    if dim is None or dim == ():
        return tuple(range(input.ndim))
    given = (dim,) if isinstance(dim, int) else tuple(dim)
    result = tuple(_wrapped(d, input, "masked") for d in given)
    if len(set(result)) != len(result):
        raise RuntimeError(f"masked: dim {list(given)} appears multiple times in the list of dims")
    return result if input.ndim else ()


def _filled(input: TensorBase, mask: TensorBase | None, value: Any) -> TensorBase:
    """The input with `value` where the mask is not true."""
    if mask is None:
        return input
    if mask.dtype.name != "bool":
        raise RuntimeError(f"masked: mask must be a bool tensor, got {mask.dtype}")
    if mask.ndim > input.ndim:
        raise IndexError(
            f"masked: expected a mask that broadcasts to the input, got mask of shape {list(mask.shape)} for input of shape "
            f"{list(input.shape)}"
        )
    return input.masked_fill(~mask, value)


def _widened(input: TensorBase, given: dtype | None) -> TensorBase:
    """In the dtype given, or int64 for integers and bools."""
    if given is None:
        given = INT64 if category(input.dtype) < 2 else input.dtype
    return input.to(given)


def _as(input: TensorBase, given: dtype | None) -> TensorBase:
    return input if given is None else input.to(given)


def _lowest(d: dtype) -> Any:
    return _limit(d, "min", -math.inf)


def _limit(d: dtype, name: str, infinite: float) -> Any:
    if category(d) == 0:
        return name == "max"
    return getattr(iinfo(d), name) if category(d) == 1 else infinite


def _enter(function: Callable, **facts: Any) -> Callable:
    name = f"masked.{function.__name__}"
    return library("masked", name, name=name, composite=True, **facts)(function)


def _over(op: Any, x: TensorBase, dim: Any, keepdim: bool) -> TensorBase:
    dims = _dims(dim, x)
    return op(x, dims, bool(keepdim)) if dims else op(x)


@_enter
def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):  # noqa: A001
    """Σ input over `dim`, of the elements where `mask` is true.

    Shape:
        input: any; mask: a shape that broadcasts to it; result: without `dim`, or with size 1 there under
            `keepdim`

    Raises:
        RuntimeError: the mask is not bool
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> flambeau.masked.sum(flambeau.tensor([1, 2, 4]), mask=flambeau.tensor([True, False, True]))
    tensor(5)
    """
    return _over(reductions.sum_, _widened(_filled(input, mask, 0), dtype), dim, keepdim)


@partial(_enter, autocast="float32")
def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Π input over `dim`, of the elements where `mask` is true.

    Shape:
        input: any; mask: a shape that broadcasts to it; result: without `dim`, or with size 1 there under
            `keepdim`

    Raises:
        RuntimeError: the mask is not bool

    >>> import flambeau
    >>> flambeau.masked.prod(flambeau.tensor([2, 3, 4]), mask=flambeau.tensor([True, False, True]))
    tensor(8)
    """
    x = _widened(_filled(input, mask, 1), dtype)
    dims = _dims(dim, x)
    for d in sorted(dims, reverse=True):
        x = reductions.prod(x, d, bool(keepdim))
    return x if dims else reductions.prod(x)


@partial(_enter, dtypes=NUMBERS)
def cumsum(input, dim, *, dtype=None, mask=None):
    """Σ input up to each place along `dim`, of the elements where `mask` is true.
    It is in the dtype of the input.

    Shape:
        input: any; mask: a shape that broadcasts to it; the result has the input's

    Raises:
        RuntimeError: the mask is not bool

    >>> import flambeau
    >>> flambeau.masked.cumsum(flambeau.tensor([1, 2, 4]), 0, mask=flambeau.tensor([True, False, True]))
    tensor([1, 1, 5])
    """
    return scans.cumsum(_filled(input, mask, 0), dim, dtype=dtype or input.dtype)


@partial(_enter, dtypes=NUMBERS)
def cumprod(input, dim, *, dtype=None, mask=None):
    """Π input up to each place along `dim`, of the elements where `mask` is true.
    It is in the dtype of the input.

    Shape:
        input: any; mask: a shape that broadcasts to it; the result has the input's

    Raises:
        RuntimeError: the mask is not bool

    >>> import flambeau
    >>> flambeau.masked.cumprod(flambeau.tensor([2, 3, 4]), 0, mask=flambeau.tensor([True, False, True]))
    tensor([2, 2, 8])
    """
    return scans.cumprod(_filled(input, mask, 1), dim, dtype=dtype or input.dtype)


@partial(_enter, dtypes=ALL)
def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """max(input) over `dim`, of the elements where `mask` is true.

    Shape:
        input: any; mask: a shape that broadcasts to it; result: without `dim`, or with size 1 there under
            `keepdim`

    Raises:
        RuntimeError: the mask is not bool

    >>> import flambeau
    >>> flambeau.masked.amax(flambeau.tensor([1, 2, 4]), mask=flambeau.tensor([True, True, False]))
    tensor(2)
    """
    x = _as(input, dtype)
    return _over(reductions.amax, _filled(x, mask, _lowest(x.dtype)), dim, keepdim)


@partial(_enter, dtypes=ALL)
def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """min(input) over `dim`, of the elements where `mask` is true.

    Shape:
        input: any; mask: a shape that broadcasts to it; result: without `dim`, or with size 1 there under
            `keepdim`

    Raises:
        RuntimeError: the mask is not bool

    >>> import flambeau
    >>> flambeau.masked.amin(flambeau.tensor([1, 2, 4]), mask=flambeau.tensor([False, True, True]))
    tensor(2)
    """
    x = _as(input, dtype)
    return _over(reductions.amin, _filled(x, mask, _limit(x.dtype, "max", math.inf)), dim, keepdim)


@partial(_enter, dtypes=NUMERIC)
def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """argmax(input) of the elements where `mask` is true, along `dim` or in the flattened tensor.
    It is in the dtype of the input, as PyTorch has it.

    Shape:
        input: any; mask: a shape that broadcasts to it; result: without `dim`, or with size 1 there under
            `keepdim`

    Raises:
        RuntimeError: the mask is not bool

    >>> import flambeau
    >>> flambeau.masked.argmax(flambeau.tensor([1, 2, 4]), 0, mask=flambeau.tensor([True, True, False]))
    tensor(1)
    """
    x = _as(input, dtype)
    return reductions.argmax(_filled(x, mask, _lowest(x.dtype)), dim, bool(keepdim)).to(x.dtype)


@partial(_enter, dtypes=NUMERIC)
def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """argmin(input) of the elements where `mask` is true, along `dim` or in the flattened tensor.
    It is in the dtype of the input, as PyTorch has it.

    Shape:
        input: any; mask: a shape that broadcasts to it; result: without `dim`, or with size 1 there under
            `keepdim`

    Raises:
        RuntimeError: the mask is not bool

    >>> import flambeau
    >>> flambeau.masked.argmin(flambeau.tensor([1, 2, 4]), 0, mask=flambeau.tensor([False, True, True]))
    tensor(1)
    """
    x = _as(input, dtype)
    return reductions.argmin(_filled(x, mask, _limit(x.dtype, "max", math.inf)), dim, bool(keepdim)).to(
        x.dtype
    )


def _count(x: TensorBase, dim: Any, keepdim: bool, mask: TensorBase | None) -> TensorBase:
    """How many elements each row has, in the dtype of `x`."""
    return sum(x.new_ones(x.shape), dim, keepdim=keepdim, mask=mask)


@partial(_enter, dtypes=FLOATING | COMPLEX)
def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Σ input / n over `dim`, of the n elements where `mask` is true.  ValueError unless the result's
    dtype is a floating-point or complex one.

    Shape:
        input: any; mask: a shape that broadcasts to it; result: without `dim`, or with size 1 there under
            `keepdim`

    Raises:
        RuntimeError: the mask is not bool
        ValueError: the result's dtype is neither floating-point nor complex

    >>> import flambeau
    >>> flambeau.masked.mean(flambeau.tensor([1.0, 2.0, 4.0]), mask=flambeau.tensor([True, True, False]))
    tensor(1.5000)
    """
    x = _as(input, dtype)
    if category(x.dtype) < 2:
        raise ValueError(
            "masked.mean(): Could not infer output dtype. dtype must be either a floating point or complex dtype. Got: "
            f"{x.dtype}"
        )
    return sum(x, dim, keepdim=keepdim, mask=mask) / _count(x, dim, keepdim, mask)


@partial(_enter, dtypes=ALL)
def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """The median along `dim` (None: the first), element ⌊(n - 1) / 2⌋ of the n true ones in order; NaN for a row without a true element.

    Of integers by way of float32.  ValueError for a row of integers without a true element, for NaN where the mask is true, and
    for complex numbers.

    >>> import flambeau
    >>> flambeau.masked.median(flambeau.tensor([1.0, 9.0, 4.0, 2.0]), mask=flambeau.tensor([True, False, True, True]))
    tensor(2.)
    """
    if input.is_complex():
        raise ValueError(f"masked.median(): expects real numbers, got {input.dtype}")
    whole = category(input.dtype) < 2
    x = input.to(FLOAT32) if whole else _as(input, dtype)
    unknown = x.detach().isnan()
    if not holds(~(unknown if mask is None else unknown & mask)):
        raise ValueError("masked.median(): input must not hold NaN, which marks what the mask leaves out")
    result = _filled(x, mask, math.nan).nanmedian(_dims(dim, x)[0] if x.ndim else 0, keepdim).values
    if not whole:
        return result
    if not holds(~result.isnan()):
        raise ValueError(f"masked.median(): a row of {input.dtype} has no true element, and no median")
    return result.to(input.dtype if dtype is None else dtype)


@_enter
def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """log Σ exp(input) over `dim`, without overflow; of integers cut to an integer, as PyTorch has it.

    Shape:
        input: any; mask: a shape that broadcasts to it; result: without `dim`, or with size 1 there under
            `keepdim`

    Raises:
        RuntimeError: the mask is not bool

    >>> import flambeau
    >>> flambeau.masked.logsumexp(flambeau.tensor([1.0, 1.0, 9.0]), 0, mask=flambeau.tensor([True, True, False]))
    tensor(1.6931)
    """
    x = _as(input, dtype)
    filled = _filled(x, mask, _lowest(x.dtype))
    filled = filled if category(x.dtype) > 1 else filled.to(FLOAT32)
    return _logsumexp(filled, _dims(dim, x), keepdim).to(x.dtype)


@partial(_enter, dtypes=FLOATING | COMPLEX)
def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """log(exp(input) + exp(other)), with a mask for each.

    Shape:
        input, other: shapes that broadcast; the result has the shape they broadcast to

    Raises:
        RuntimeError: a mask is not bool

    >>> import flambeau
    >>> x = flambeau.tensor([1.0, 1.0])
    >>> flambeau.masked.logaddexp(x, x, other_mask=flambeau.tensor([True, False]))
    tensor([1.6931, 1.0000])
    """
    from ..pointwise.elementary import logaddexp as of_all

    x, y = _as(input, dtype), _as(other, dtype)
    return of_all(_filled(x, input_mask, -math.inf), _filled(y, other_mask, -math.inf))


@partial(_enter, dtypes=FLOATING | COMPLEX)
def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """(Σ |input|^ord)^(1/ord) over `dim`, of the elements where `mask` is true.

    Shape:
        input: any; mask: a shape that broadcasts to it; result: without `dim`, or with size 1 there under
            `keepdim`

    Raises:
        RuntimeError: the mask is not bool

    >>> import flambeau
    >>> flambeau.masked.norm(flambeau.tensor([3.0, 9.0, 4.0]), 2, 0, mask=flambeau.tensor([True, False, True]))
    tensor(5.)
    """
    order = float(ord) if ord is not None else 2.0
    x = _filled(_as(input, dtype), mask, math.inf if order < 0 else 0)
    return vector_norm(x, order, _dims(dim, x) or None, bool(keepdim))


def _spread(input, dim, unbiased, correction, keepdim, dtype, mask):
    x = _as(input, dtype)
    x = x if category(x.dtype) > 1 else x.to(FLOAT32)
    free = correction if correction is not None else int(unbiased is None or unbiased)
    count = _count(x, dim, True, mask)
    deviations = _filled(x - sum(x, dim, keepdim=True, mask=mask) / count, mask, 0)
    squares = deviations * (deviations.conj() if x.is_complex() else deviations)
    total = sum(squares, dim, keepdim=keepdim)
    count = count.real if x.is_complex() else count  # the result is complex too, as PyTorch has it
    count = count if keepdim else count.reshape(total.shape)
    return total / (count - free).clamp(min=0)


@_enter
def var(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """Σ (input - mean)² / (n - correction) over `dim`, of the n elements where `mask` is true.
    The correction is 1 by default.

    Shape:
        input: any; mask: a shape that broadcasts to it; result: without `dim`, or with size 1 there under
            `keepdim`

    Raises:
        RuntimeError: the mask is not bool

    >>> import flambeau
    >>> flambeau.masked.var(flambeau.tensor([1.0, 9.0, 3.0]), 0, mask=flambeau.tensor([True, False, True]))
    tensor(2.)
    """
    return _spread(input, dim, unbiased, correction, keepdim, dtype, mask)


@_enter
def std(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """√(Σ (input - mean)² / (n - correction)) over `dim`, the root of `var`.

    Shape:
        input: any; mask: a shape that broadcasts to it; result: without `dim`, or with size 1 there under
            `keepdim`

    Raises:
        RuntimeError: the mask is not bool

    >>> import flambeau
    >>> flambeau.masked.std(flambeau.tensor([1.0, 9.0, 3.0]), 0, mask=flambeau.tensor([True, False, True]))
    tensor(1.4142)
    """
    return _spread(input, dim, unbiased, correction, keepdim, dtype, mask).sqrt()


@partial(_enter, dtypes=ALL)
def softmax(input, dim, *, dtype=None, mask=None):
    """exp(input) / Σ exp(input) along `dim`, of the elements where `mask` is true; 0 elsewhere.

    Shape:
        input: any; mask: a shape that broadcasts to it; the result has the input's

    Raises:
        RuntimeError: the mask is not bool

    >>> import flambeau
    >>> flambeau.masked.softmax(flambeau.tensor([0.0, 0.0, 9.0]), 0, mask=flambeau.tensor([True, True, False]))
    tensor([0.5000, 0.5000, 0.0000])
    """
    return _filled(_floating(input, dtype), mask, -math.inf).softmax(dim)


@partial(_enter, dtypes=ALL)
def log_softmax(input, dim, *, dtype=None, mask=None):
    """input - log Σ exp(input) along `dim`, of the elements where `mask` is true; -inf elsewhere.

    Shape:
        input: any; mask: a shape that broadcasts to it; the result has the input's

    Raises:
        RuntimeError: the mask is not bool

    >>> import flambeau
    >>> flambeau.masked.log_softmax(flambeau.tensor([0.0, 0.0, 9.0]), 0, mask=flambeau.tensor([True, True, False]))
    tensor([-0.6931, -0.6931,    -inf])
    """
    return _filled(_floating(input, dtype), mask, -math.inf).log_softmax(dim)


@partial(_enter, dtypes=ALL)
def softmin(input, dim, *, dtype=None, mask=None):
    """exp(-input) / Σ exp(-input) along `dim`, of the elements where `mask` is true; 0 elsewhere.

    Shape:
        input: any; mask: a shape that broadcasts to it; the result has the input's

    Raises:
        RuntimeError: the mask is not bool

    >>> import flambeau
    >>> flambeau.masked.softmin(flambeau.tensor([0.0, 0.0, 9.0]), 0, mask=flambeau.tensor([True, True, False]))
    tensor([0.5000, 0.5000, 0.0000])
    """
    return (-_filled(_floating(input, dtype), mask, math.inf)).softmax(dim)


def _floating(input: TensorBase, given: dtype | None) -> TensorBase:
    x = _as(input, given)
    return x if category(x.dtype) > 1 else x.to(FLOAT32)


@partial(_enter, dtypes=FLOATING | COMPLEX)
def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """input / max(norm(input, ord, dim), eps).

    Shape:
        input: any; mask: a shape that broadcasts to it; the result has the input's

    Raises:
        RuntimeError: the mask is not bool

    >>> import flambeau
    >>> flambeau.masked.normalize(flambeau.tensor([3.0, 9.0, 4.0]), 2.0, 0, mask=flambeau.tensor([True, False, True]))
    tensor([0.6000, 0.0000, 0.8000])
    """
    x = _filled(_as(input, dtype), mask, 0)
    return x / a.clamp(norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask), min=eps)
