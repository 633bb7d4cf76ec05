"""Histograms by NumPy, of numbers and of points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.base.tensor import TensorBase
from ...core.call.copies import to_dtype
from ..declare.arrays import array, tensor
from ..declare.registry import library
from ..declare.results import accepts_out, named_result

histogram_result = named_result("histogram", "hist", "bin_edges")
histogramdd_result = named_result("histogramdd", "hist", "bin_edges")


def _checked(who: str, input: TensorBase, weight: TensorBase | None) -> None:
    if input.dtype.name not in ("float32", "float64"):
        raise NotImplementedError(f'{who}(): "{who}" not implemented for {input.dtype}')
    if weight is not None and weight.dtype != input.dtype:
        raise RuntimeError(
            f"{who}(): if weight tensor is provided, input and weight should have the same dtype"
        )


def _edges(who: str, values: Any, bins: Any, low_high: Sequence[float] | None) -> Any:
    """The ends of the bins: given as a tensor, or equally far from each other over the range or over the values."""
    import numpy as np

    if isinstance(bins, TensorBase):
        return array(bins)
    if not isinstance(bins, int):
        raise TypeError(f"{who}(): bins must be an int or a tensor, not {type(bins).__name__}")
    if bins <= 0:
        raise RuntimeError(f"{who}(): bins must be > 0, but got {bins}")
    low, high = (
        low_high if low_high is not None else (values.min(), values.max()) if values.size else (0.0, 0.0)
    )
    if low > high:
        raise RuntimeError(f"{who}(): max must be larger than min, got {low} and {high}")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, bins + 1, dtype=values.dtype)


@library("search", "histogramdd", differentiable=False)
def histogramdd(
    input: TensorBase,
    bins: Any,
    *,
    range: Sequence[float] | None = None,
    weight: TensorBase | None = None,
    density: bool = False,
) -> tuple:
    """How many points (rows of the last dimension), or what weight of them, each box of a grid holds.

    `bins` is a number, one for each coordinate, or the edges for each; `range` the least and the largest edge of each
    coordinate one after another.
    """
    import numpy as np

    _checked("histogramdd", input, weight)
    if input.ndim < 2:
        raise RuntimeError(
            f"histogramdd(): input tensor should have at least 2 dimensions, but got {input.ndim}"
        )
    points = array(input).reshape(-1, input.shape[-1])
    n = points.shape[1]
    each = list(bins) if isinstance(bins, (list, tuple)) else [bins] * n
    if len(each) != n:
        raise RuntimeError(
            f"histogramdd(): expected {n} sequences of bin edges or numbers of bins, but got {len(each)}"
        )
    limits = [None] * n if range is None else list(zip(range[::2], range[1::2]))
    edges = [_edges("histogramdd", points[:, k], b, r) for k, (b, r) in enumerate(zip(each, limits))]
    weights = None if weight is None else array(weight).reshape(-1)
    found, _ = np.histogramdd(points, edges, weights=weights, density=density)
    return histogramdd_result(to_dtype(tensor(found), input.dtype), tuple(tensor(e) for e in edges))


@library("search", "histogram", "Tensor.histogram", differentiable=False)
@accepts_out
def histogram(
    input: TensorBase,
    bins: Any,
    *,
    range: Sequence[float] | None = None,
    weight: TensorBase | None = None,
    density: bool = False,
) -> tuple:
    """How many elements, or what weight of them, lie in each bin, and the edges of the bins; the last bin is closed.

    `bins` is their number, over `range` or from the smallest to the largest element, or the edges.

    >>> import flambeau
    >>> flambeau.histogram(flambeau.tensor([1., 2., 1.]), 2, range=(0., 4.)).hist
    tensor([2., 1.])
    """
    found = histogramdd(
        input.reshape(-1, 1),
        [bins],
        range=range,
        weight=None if weight is None else weight.reshape(-1),
        density=density,
    )
    return histogram_result(found.hist, found.bin_edges[0])
