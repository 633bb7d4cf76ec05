"""Histograms by NumPy, of numbers and of points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.base.dtypes import by_name
from ...core.base.memory import require
from ...core.base.tensor import TensorBase
from ...core.make.bridge import from_numpy
from ...core.places.join import stack
from ...core.tape.contexts import unrecorded
from ..declare import checks
from ..declare.dtype_groups import WIDE
from ..declare.host import Result, array, computed
from ..declare.registry import leaf, library
from ..declare.results import accepts_out, named_result
from ..on_device import ordering

histogram_result = named_result("histogram", "hist", "bin_edges")
histogramdd_result = named_result("histogramdd", "hist", "bin_edges")


def _checked(who: str, input: TensorBase, weight: TensorBase | None) -> None:
    if input.dtype.name not in ("float32", "float64"):
        raise NotImplementedError(f'{who}(): "{who}" not implemented for {input.dtype}')
    if weight is not None and weight.dtype != input.dtype:
        raise RuntimeError(
            f"{who}(): if weight tensor is provided, input and weight should have the same dtype"
        )


def _bins(who: str, input: TensorBase, bins: Any, low_high: Sequence[float] | None) -> int:
    """How many bins there are, given as their number or by their edges."""
    if isinstance(bins, TensorBase):
        checks.rank(who, "bins", bins, 1)
        if bins.dtype != input.dtype:
            raise RuntimeError(f"{who}(): expected bins of the input's dtype {input.dtype}, got {bins.dtype}")
        if bins.numel() < 2:
            raise RuntimeError(f"{who}(): expected bins to have at least two edges, got {bins.numel()}")
        return bins.shape[0] - 1
    if not isinstance(bins, int):
        raise TypeError(f"{who}(): bins must be an int or a tensor, not {type(bins).__name__}")
    if bins <= 0:
        raise RuntimeError(f"{who}(): bins must be > 0, but got {bins}")
    if low_high is not None and low_high[0] > low_high[1]:
        raise RuntimeError(f"{who}(): max must be larger than min, got {low_high[0]} and {low_high[1]}")
    return bins


def _edges(who: str, values: Any, bins: Any, low_high: Sequence[float] | None) -> Any:
    """The ends of the bins: given as an array, or equally far from each other over the range or over the values."""
    import numpy as np

    if not isinstance(bins, int):
        return bins
    low, high = (
        low_high if low_high is not None else (values.min(), values.max()) if values.size else (0.0, 1.0)
    )
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"{who}(): range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"{who}(): max must be larger than min, got {low} and {high}")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, bins + 1, dtype=values.dtype)


def _upper_bound(edges: Any, values: Any) -> Any:
    """How many edges come before the first that is larger, by bisection as in C++, which does not mind unsorted edges."""
    import numpy as np

    first, length = np.zeros(values.shape, np.int64), np.full(values.shape, len(edges))
    while (length > 0).any():
        half = length >> 1
        middle = first + half
        larger = values < edges[np.minimum(middle, len(edges) - 1)]
        on, beyond = (length > 0) & larger, (length > 0) & ~larger
        first = np.where(beyond, middle + 1, first)
        length = np.where(on, half, np.where(beyond, length - half - 1, length))
    return first


def _counted(points: Any, edges: list, weights: Any) -> Any:
    """How many points, or what weight of them, each box holds; the last one of each dimension is closed."""
    import numpy as np

    sizes = [len(e) - 1 for e in edges]
    inside = np.ones(len(points), bool)
    place = np.zeros(len(points), np.int64)
    for k, e in enumerate(edges):
        x = points[:, k]
        inside &= (x >= e[0]) & (x <= e[-1])
        place = place * sizes[k] + np.minimum(_upper_bound(e, x) - 1, sizes[k] - 1)
    require(8 * math.prod(sizes))
    kept = None if weights is None else weights[inside]
    return np.bincount(place[inside], kept, math.prod(sizes)).reshape(sizes)


def _on_device(
    input: TensorBase, weight: TensorBase | None, bins: list, limits: list, counts: list, density: bool
) -> tuple:
    """The same where all but the ends of the ranges stays on the device."""
    wide = by_name["float64"]
    with unrecorded():
        points = input.detach().reshape(-1, len(bins))
        edges: list[TensorBase] = []
        place = inside = points.new_empty(0)
        for k, (given, limit, size) in enumerate(zip(bins, limits, counts)):
            x = points.select(1, k).contiguous()
            if isinstance(given, TensorBase):
                edge = given.to(input.device)
            else:
                ends = x[:0] if limit is not None or not len(x) else stack([x.min(), x.max()])  # two numbers
                edge = from_numpy(_edges("histogramdd", array(ends.cpu()), given, limit)).to(input.device)
            within = (x >= edge[0]) & (x <= edge[-1])
            at = (ordering.search(edge.to(x.dtype), x, True) - 1).clamp(max=size - 1)
            place = place * size + at if k else at
            inside = inside & within if k else within
            edges.append(edge)
        require(8 * math.prod(counts))
        weights = None if weight is None else weight.detach().reshape(-1).to(wide)
        result = (
            ordering.counts(place.masked_fill(~inside, -1), math.prod(counts), weights)
            .reshape(counts)
            .to(wide)
        )
        if density:
            total = result.sum()
            for k, e in enumerate(edges):
                result = result / e.diff().to(wide).reshape([-1 if d == k else 1 for d in range(len(counts))])
            result = result / total
        return result.to(input.dtype), *(e.to(input.dtype).clone() for e in edges)


@library(
    "search",
    "histogramdd",
    differentiable=False,
    composite=True,
    dtypes=WIDE,
    gives="(Tensor hist, Tensor[] bin_edges)",
)
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

    Shape:
        input: (*, D); hist: (bins₁, …, bins_D); bin_edges: D tensors (binsₖ + 1,)

    Raises:
        RuntimeError: `bins` has not one entry for each coordinate

    >>> import flambeau
    >>> points = flambeau.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 0.2]])
    >>> flambeau.histogramdd(points, [2, 2]).hist
    tensor([[0., 1.],
            [2., 0.]])
    """
    _checked("histogramdd", input, weight)
    if input.ndim < 2:
        raise RuntimeError(
            f"histogramdd(): input tensor should have at least 2 dimensions, but got {input.ndim}"
        )
    if weight is not None and tuple(weight.shape) != tuple(input.shape[:-1]):
        raise RuntimeError(
            f"histogramdd(): expected weight to have the input's shape but for its last dimension, {list(input.shape[:-1])}, got "
            f"{list(weight.shape)}"
        )
    n = input.shape[-1]
    each = list(bins) if isinstance(bins, (list, tuple)) else [bins] * n
    if len(each) != n:
        raise RuntimeError(
            f"histogramdd(): expected {n} sequences of bin edges or numbers of bins, but got {len(each)}"
        )
    if range is not None and len(range) != 2 * n:
        raise RuntimeError(
            f"histogramdd(): expected range to have {2 * n} elements, two for each coordinate, got {len(range)}"
        )
    limits = [None] * n if range is None else list(zip(range[::2], range[1::2]))
    counts = [_bins("histogramdd", input, b, r) for b, r in zip(each, limits)]
    hist, *edges = histogram_of_points(input, weight, each, limits, counts, density)
    return histogramdd_result(hist, tuple(edges))


@leaf("search", results=(), label="NotImplemented", underived=True, differentiable=False)
def histogram_of_points(
    input: TensorBase, weight: TensorBase | None, bins: list, limits: list, counts: list, density: bool
) -> tuple:
    """How many points, or what weight of them, each box holds, and the edges of each coordinate, of which there are `counts` and one."""
    if not (input.is_cpu or input.is_meta):
        return _on_device(input, weight, bins, limits, counts, density)
    rules = [Result(counts, input.dtype), *(Result((k + 1,), input.dtype) for k in counts)]

    def count(points: Any, weights: Any, *each: Any) -> Any:
        import numpy as np

        points = points.reshape(-1, len(each))
        edges = [_edges("histogramdd", points[:, k], b, r) for k, (b, r) in enumerate(zip(each, limits))]
        result = _counted(points, edges, None if weights is None else weights.reshape(-1))
        total = result.sum()
        if density:
            for k, e in enumerate(edges):
                result = result / np.diff(e).reshape([-1 if d == k else 1 for d in np.arange(len(each))])
            result = result / total
        return result, *edges

    return computed(rules, count, input, weight, *bins)


@library(
    "search",
    "histogram",
    "Tensor.histogram",
    differentiable=False,
    composite=True,
    dtypes=WIDE,
    gives=histogram_result,
)
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

    The input may have any shape; the results are (bins,) and (bins + 1,).

    `bins` is their number, over `range` or from the smallest to the largest element, or the edges.

    >>> import flambeau
    >>> flambeau.histogram(flambeau.tensor([1., 2., 1.]), 2, range=(0., 4.)).hist
    tensor([2., 1.])
    """
    result = histogramdd(
        input.reshape(-1, 1),
        [bins],
        range=range,
        weight=None if weight is None else weight.reshape(-1),
        density=density,
    )
    return histogram_result(result.hist, result.bin_edges[0])
