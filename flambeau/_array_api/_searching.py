"""Places of elements, elements at places, sets and order."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..core.base.dtypes import by_name
from ..core.base.tensor import TensorBase
from ._axes import axes_of
from ._dtypes import NUMBERS, common, flat, result_type

__all__ = [
    "argmax",
    "argmin",
    "argsort",
    "nonzero",
    "searchsorted",
    "sort",
    "take",
    "take_along_axis",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "where",
]


def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """The places of the largest elements along an axis, or in the flattened array.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.argmax(xp.asarray([[1, 9], [7, 3]]), axis=1)
    tensor([1, 0])
    """
    return _place(flat.argmax, x, axis, keepdims)


def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    """The places of the smallest elements along an axis, or in the flattened array.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.argmin(xp.asarray([[1, 9], [7, 3]]))
    tensor(0)
    """
    return _place(flat.argmin, x, axis, keepdims)


def _place(operation, x, axis, keepdims):
    if axis is None:
        result = operation(x.reshape(-1), 0)
        return result.reshape((1,) * x.ndim) if keepdims else result
    return operation(x, axis, keepdim=keepdims)


def nonzero(x: Any, /) -> tuple[Any, ...]:
    """The indices of the elements that are not zero, one array for each axis.

    ValueError for an array without axes.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().nonzero(flambeau.tensor([0, 5, 6]))
    (tensor([1, 2]),)
    """
    if x.ndim == 0:
        raise ValueError("nonzero(): an array of 0 dimensions has no indices")
    return tuple(flat.nonzero(x, as_tuple=True))


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Any:
    """Where the elements of `x2` would stand in the ascending `x1`, before ("left") or behind ("right") their equals.

    `sorter` holds indices that sort `x1`.  ValueError for another side.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.searchsorted(xp.asarray([1, 3, 5]), xp.asarray([3, 4]))
    tensor([1, 2])
    """
    if side not in ("left", "right"):
        raise ValueError(f'searchsorted(): side must be "left" or "right", got {side!r}')
    first, second = common("searchsorted", x1, x2)
    if sorter is not None:
        first = first[sorter]
    return flat.searchsorted(first, second, right=side == "right")


def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """The elements of `x1` where `condition` is true, those of `x2` elsewhere; arrays or numbers of one common dtype.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.where(xp.asarray([True, False]), xp.asarray([1, 2]), 0)
    tensor([1, 0])
    """
    if isinstance(x1, NUMBERS) and isinstance(x2, NUMBERS):
        x1 = flat.full((), x1, dtype=result_type(x1, x2), device=condition.device)
    return flat.where(condition, *common("where", x1, x2))


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The elements in order along an axis; NaN behind all numbers (before them, if descending).

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().sort(flambeau.tensor([3, 1, 2]), descending=True)
    tensor([3, 2, 1])
    """
    return flat.sort(x, dim=axis, descending=descending, stable=stable)[0]


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The indices that sort along an axis; equal elements stay in their order, if stable.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().argsort(flambeau.tensor([3, 1, 2]))
    tensor([1, 2, 0])
    """
    return flat.sort(x, dim=axis, descending=descending, stable=stable)[1]


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """The parts of `x` at `indices` (negative ones count from the end) along an axis, which an array of one dimension need not
    name.

    ValueError without an axis where there are several, IndexError for an index outside.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> xp.take(xp.asarray([[1, 2, 3], [4, 5, 6]]), xp.asarray([2, 0]), axis=1)
    tensor([[3, 1],
            [6, 4]])
    """
    if axis is None and x.ndim != 1:
        raise ValueError(f"take(): an array of {x.ndim} dimensions needs an axis")
    (axis,) = axes_of("take", 0 if axis is None else axis, x.ndim)
    return x[(*(slice(None),) * axis, indices.long())]


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    """The elements of `x` at `indices` (negative ones count from the end) along an axis, for each place along the others.

    >>> import flambeau
    >>> xp = flambeau.ones(1).__array_namespace__()
    >>> x = xp.asarray([[3, 1, 2], [6, 5, 4]])
    >>> xp.take_along_axis(x, xp.argsort(x, axis=1), axis=1)
    tensor([[1, 2, 3],
            [4, 5, 6]])
    """
    (axis,) = axes_of("take_along_axis", axis, x.ndim)
    places = indices.long()
    return flat.take_along_dim(x, flat.where(places < 0, places + x.shape[axis], places), axis)


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Any
    inverse_indices: Any


def unique_all(x: Any, /) -> UniqueAll:
    """The different elements in ascending order, where each first occurs, which of them each element is, and how often each
    occurs.

    NaN differs from NaN; 0 and -0 are one.  Complex numbers are ordered by real, then imaginary parts.

    >>> import flambeau
    >>> found = flambeau.ones(1).__array_namespace__().unique_all(flambeau.tensor([3, 1, 3]))
    >>> found.values, found.indices, found.inverse_indices, found.counts
    (tensor([1, 3]), tensor([1, 0]), tensor([1, 0, 1]), tensor([1, 2]))
    """
    elements = x.reshape(-1)
    order = _order(elements)
    ascending = elements[order]
    starts = flat.ones_like(
        ascending, dtype=by_name["bool"]
    )  # whether a place holds another element than that before
    starts[1:] = ascending[1:] != ascending[:-1]
    places = flat.nonzero(starts).reshape(-1)
    inverse = flat.empty_like(order)
    inverse[order] = flat.cumsum(starts, 0) - 1
    ends = flat.cat((places[1:], flat.full((min(1, len(order)),), len(order), device=x.device)))
    return UniqueAll(ascending[places], order[places], inverse.reshape(x.shape), ends - places)


def _order(elements: TensorBase) -> TensorBase:
    """The indices that sort elements, equal ones in their order."""
    if not elements.is_complex():
        return flat.sort(elements, dim=0, stable=True)[1]
    order = flat.sort(elements.imag, dim=0, stable=True)[1]
    return order[flat.sort(elements.real[order], dim=0, stable=True)[1]]


def unique_counts(x: Any, /) -> UniqueCounts:
    """The different elements in ascending order, and how often each occurs.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().unique_counts(flambeau.tensor([3, 1, 3])).counts
    tensor([1, 2])
    """
    result = unique_all(x)
    return UniqueCounts(result.values, result.counts)


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The different elements in ascending order, and which of them each element is.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().unique_inverse(flambeau.tensor([3, 1, 3])).inverse_indices
    tensor([1, 0, 1])
    """
    result = unique_all(x)
    return UniqueInverse(result.values, result.inverse_indices)


def unique_values(x: Any, /) -> Any:
    """The different elements in ascending order.

    >>> import flambeau
    >>> flambeau.ones(1).__array_namespace__().unique_values(flambeau.tensor([3, 1, 3]))
    tensor([1, 3])
    """
    return unique_all(x).values
