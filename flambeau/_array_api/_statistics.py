"""Sums, extremes, moments, and questions about all elements."""

from __future__ import annotations

from typing import Any

from ..core.base.dtypes import by_name, dtype
from ._axes import axes_of, reduced, reduced_along_one
from ._dtypes import accumulating, common, flat

__all__ = [
    "all",
    "any",
    "count_nonzero",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]


def max(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """The largest elements over axes (all for None); NaN where one is NaN.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.max(xp.asarray([[1, 5], [7, 3]]), axis=1)
    tensor([5, 7])
    """
    return reduced(flat.amax, x, axis, keepdims)


def min(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """The smallest elements over axes (all for None); NaN where one is NaN.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.min(xp.asarray([[1, 5], [7, 3]]), axis=1)
    tensor([1, 3])
    """
    return reduced(flat.amin, x, axis, keepdims)


def sum(x: Any, /, *, axis: Any = None, dtype: dtype | None = None, keepdims: bool = False) -> Any:
    """Sums over axes; integers in int64 or uint64, as they have a sign or not, unless a dtype is given.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.sum(xp.asarray([200, 100], dtype=xp.uint8))
    tensor(300, dtype=flambeau.uint64)
    """
    return reduced(flat.sum, x, axis, keepdims, dtype=accumulating(x.dtype) if dtype is None else dtype)


def prod(x: Any, /, *, axis: Any = None, dtype: dtype | None = None, keepdims: bool = False) -> Any:
    """Products over axes; integers in int64 or uint64, as they have a sign or not, unless a dtype is given.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.prod(xp.ones((2, 3, 4)) * 2, axis=(0, 2))
    tensor([256., 256., 256.])
    """
    made = accumulating(x.dtype) if dtype is None else dtype
    return reduced_along_one(flat.prod, x, axis, keepdims, dtype=made)


def mean(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Arithmetic means over axes.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.mean(xp.asarray([[1.0, 2.0], [3.0, 6.0]]), axis=0)
    tensor([2., 4.])
    """
    return reduced(flat.mean, x, axis, keepdims)


def std(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """Standard deviations over axes: roots of sums of squared deviations divided by their number less `correction`.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.std(xp.asarray([1.0, 3.0]))
    tensor(1.)
    """
    return reduced(flat.std, x, axis, keepdims, correction=correction)


def var(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """Variances over axes: sums of squared deviations divided by their number less `correction`.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.var(xp.asarray([1.0, 3.0]), correction=1)
    tensor(2.)
    """
    return reduced(flat.var, x, axis, keepdims, correction=correction)


def all(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether all elements over axes are true (not zero); a bool array.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.all(xp.asarray([[1, 0], [2, 3]]), axis=1)
    tensor([False,  True])
    """
    return reduced(flat.all, x.bool(), axis, keepdims)


def any(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether any element over axes is true (not zero); a bool array.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.any(xp.asarray([[0, 0], [2, 3]]), axis=1)
    tensor([False,  True])
    """
    return reduced(flat.any, x.bool(), axis, keepdims)


def count_nonzero(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """How many elements over axes are not zero, as int64.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.count_nonzero(xp.asarray([[0, 1], [2, 3]]), axis=0)
    tensor([1, 2])
    """
    return reduced(flat.sum, x.bool(), axis, keepdims, dtype=by_name["int64"])


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: dtype | None = None, include_initial: bool = False
) -> Any:
    """Sums of the elements up to each, along `axis`, which an array of one dimension need not name.

    `include_initial` puts the sum of none before.  ValueError for other arrays without an axis.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.cumulative_sum(xp.asarray([1, 2, 3]), include_initial=True)
    tensor([0, 1, 3, 6])
    """
    return _cumulative("cumulative_sum", flat.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: dtype | None = None, include_initial: bool = False
) -> Any:
    """Products of the elements up to each, along `axis`, which an array of one dimension need not name.

    `include_initial` puts the product of none before.  ValueError for other arrays without an axis.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.cumulative_prod(xp.asarray([2, 3, 4]))
    tensor([ 2,  6, 24])
    """
    return _cumulative("cumulative_prod", flat.cumprod, 1, x, axis, dtype, include_initial)


def _cumulative(name, operation, of_none, x, axis, dtype, include_initial):
    if axis is None and x.ndim != 1 or x.ndim == 0:
        raise ValueError(f"{name}(): an array of {x.ndim} dimensions needs an axis of its own")
    (axis,) = axes_of(name, 0 if axis is None else axis, x.ndim)
    result = operation(x, axis, dtype=accumulating(x.dtype) if dtype is None else dtype)
    if include_initial:
        shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        first = flat.full(shape, of_none, dtype=result.dtype, device=x.device)
        result = flat.cat((first, result), axis)
    return result


def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along `axis`, taken `n` times, of `x` with what is put before and behind it.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.diff(xp.asarray([1, 4, 9]), prepend=xp.asarray([0]))
    tensor([1, 3, 5])
    """
    (axis,) = axes_of("diff", axis, x.ndim)
    parts = common("diff", *(part for part in (prepend, x, append) if part is not None))
    whole = flat.cat(parts, axis) if len(parts) > 1 else x
    return flat.diff(whole, n=n, dim=axis)
