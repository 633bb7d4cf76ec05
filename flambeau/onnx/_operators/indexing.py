"""Operators that read and write elements at places that tensors hold."""

from __future__ import annotations

from ..._tensor import Tensor
from ...core.base.dtypes import by_name
from .declare import Ints, fl, ints, operator


def _wrapped(indices: Tensor, size: int) -> Tensor:
    """Places counted from the beginning, in int64."""
    at = indices.to(by_name["int64"])
    return fl.where(at < 0, at + size, at)


@operator("Gather")
def gather(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    at = axis % data.ndim
    places = _wrapped(indices, data.shape[at])
    result = fl.index_select(data, at, places.reshape(-1))
    return fl.reshape(result, [*data.shape[:at], *indices.shape, *data.shape[at + 1 :]])


@operator("GatherElements")
def gather_elements(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    return fl.gather(data, axis, _wrapped(indices, data.shape[axis]))


@operator("GatherND")
def gather_nd(data: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Slices at places along the dimensions behind the first `batch_dims`, which go along with those of the indices."""
    depth = indices.shape[-1]
    places = [_wrapped(indices[..., k], data.shape[batch_dims + k]) for k in range(depth)]
    rest = indices.ndim - 1 - batch_dims
    batch = []
    for d in range(batch_dims):
        sizes = [1] * (batch_dims + rest)
        sizes[d] = data.shape[d]
        batch.append(fl.arange(data.shape[d]).reshape(sizes))
    return data[tuple([*batch, *places])]


_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@operator("ScatterElements")
def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    places = _wrapped(indices, data.shape[axis])
    if reduction == "none":
        return fl.scatter(data, axis, places, updates)
    return fl.scatter_reduce(data, axis, places, updates, _REDUCTIONS[reduction])


@operator("Scatter")
def scatter(data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0) -> Tensor:
    return fl.scatter(data, axis, _wrapped(indices, data.shape[axis]), updates)


@operator("ScatterND")
def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """The data with updates at places along its first dimensions, written, added, multiplied, or the larger or smaller of both."""
    depth = indices.shape[-1]
    places = [_wrapped(indices[..., k], data.shape[k]) for k in range(depth)]
    if reduction == "none":
        return fl.index_put(data, tuple(places), updates)
    rows, step = fl.zeros(indices.shape[:-1], dtype=by_name["int64"]), 1
    for k in reversed(range(depth)):
        rows = rows + places[k] * step
        step *= data.shape[k]
    flat = data.reshape([step, -1])
    rows_of_updates = updates.reshape([rows.numel(), -1])
    at = rows.reshape([-1, 1]).expand(rows_of_updates.shape)
    return fl.scatter_reduce(flat, 0, at, rows_of_updates, _REDUCTIONS[reduction]).reshape(data.shape)


@operator("Slice", since=10)
def slice_of(
    data: Tensor, starts: Ints, ends: Ints, axes: Ints | None = None, steps: Ints | None = None
) -> Tensor:
    """Elements from `starts` to before `ends`, in steps that may go backwards, along each of the axes."""
    first, last = ints(starts), ints(ends)
    dims = list(range(len(first))) if axes is None else ints(axes)
    each = [1] * len(dims) if steps is None else ints(steps)
    for d, a, b, step in zip(dims, first, last, each, strict=True):
        size = data.shape[d]
        begin, end = (n + size if n < 0 else n for n in (a, b))
        if step > 0:
            begin, end = (min(max(n, 0), size) for n in (begin, end))
            data = data[(slice(None),) * (d % data.ndim) + (slice(begin, max(begin, end), step),)]
        else:  # from the first element on where it begins before that, unlike a slice of Python
            begin, end = min(max(begin, 0), size - 1), min(max(end, -1), size - 1)
            data = fl.index_select(data, d, fl.arange(begin, end, step) if end < begin else fl.arange(0))
    return data


@operator("NonZero")
def non_zero(x: Tensor) -> Tensor:
    if x.ndim == 0:
        return fl.nonzero(x.reshape([1])).mT[:0] if not bool(x) else fl.zeros([0, 1], dtype=by_name["int64"])
    return fl.nonzero(x).mT


@operator("Compress", since=9)
def compress(input: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    """The elements, or slices along an axis, for which the condition holds."""
    if axis is None:
        input, axis = input.reshape([-1]), 0
    return fl.index_select(input, axis, fl.nonzero(condition[: input.shape[axis]]).reshape([-1]))


@operator("OneHot")
def one_hot(indices: Tensor, depth: Ints, values: Tensor, *, axis: int = -1) -> Tensor:
    """values[1] at each index along a new axis, values[0] elsewhere; an index outside of the depth has none."""
    count = int(depth.reshape([-1])[0]) if isinstance(depth, Tensor) else depth[0]
    at = fl.unsqueeze(indices, axis)
    wrapped = fl.where(at < 0, at + count, at)
    sizes = [1] * at.ndim
    sizes[axis] = count
    chosen = fl.arange(count).to(wrapped.dtype).reshape(sizes) == wrapped
    off, on = values[0], values[1]
    return fl.where(chosen, on, off)


@operator("Unique")
def unique(x: Tensor, *, axis: int | None = None, sorted: int = 1) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The different elements or slices, where each is found first, which one each was, and how often it stands."""
    rows = x.reshape([-1]) if axis is None else x
    dim = 0 if axis is None else axis
    values, inverse, counts = fl.unique(rows, sorted=True, return_inverse=True, return_counts=True, dim=dim)
    n = inverse.numel()
    first = fl.full([counts.numel()], n, dtype=by_name["int64"])
    first = fl.scatter_reduce(first, 0, inverse, fl.arange(n), "amin")
    if not sorted:
        order = fl.argsort(first)
        place = fl.argsort(order)
        values, first, counts = fl.index_select(values, dim, order), first[order], counts[order]
        inverse = place[inverse]
    return values, first, inverse, counts


@operator("TensorScatter")
def tensor_scatter(
    past_cache: Tensor,
    update: Tensor,
    write_indices: Tensor | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Tensor:
    """The cache with the update written along an axis from each batch's own place on, round about where that is circular."""
    at, size = axis % past_cache.ndim, past_cache.shape[axis]
    count = update.shape[at]
    begin = (
        fl.zeros([past_cache.shape[0]], dtype=by_name["int64"]) if write_indices is None else write_indices
    )
    places = begin.reshape([-1, 1]) + fl.arange(count)
    if mode == "circular":
        places = places.remainder(size)
    sizes = [1] * past_cache.ndim
    sizes[0], sizes[at] = places.shape
    return fl.scatter(past_cache, at, places.reshape(sizes).expand(update.shape), update)
