"""Dimensions put in another order, parts of tensors, and tensors joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.base import formats
from ..core.base.tensor import TensorBase
from ..core.make.create import arange
from ..operations.declare.registry import published
from .arithmetic import mixed
from .conversion import to_compressed, to_coordinates
from .patterns import Compressed, Coordinates
from .tensors import SparseTensor, overrides, refusal, sparse, values_of

_stack, _cat = published("")["stack"], published("")["cat"]

TURNED = {
    formats.sparse_csr: formats.sparse_csc,
    formats.sparse_csc: formats.sparse_csr,
    formats.sparse_bsr: formats.sparse_bsc,
    formats.sparse_bsc: formats.sparse_bsr,
}
COO = (formats.sparse_coo,)


def _dim(name: str, d: Any, ndim: int) -> int:
    if not -ndim <= d < max(ndim, 1):
        raise IndexError(
            f"{name}(): Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {d})"
        )
    return d % max(ndim, 1)


# --- order of dimensions ------------------------------
@overrides("permute")
def _permute(input: SparseTensor, *dims: Any) -> SparseTensor:
    """Sparse dimensions among themselves, dense ones among themselves."""
    order = tuple(dims[0]) if len(dims) == 1 and not isinstance(dims[0], int) else dims
    order = tuple(_dim("permute", d, input.ndim) for d in order)
    if sorted(order) != list(range(input.ndim)):
        raise RuntimeError(
            f"permute(): dims {list(order)} are not each dimension of a tensor of {input.ndim}, once"
        )
    pattern = input._pattern
    if type(pattern) is not Coordinates:
        n = pattern.batch
        swapped = (*range(n), n + 1, n, *range(n + 2, input.ndim))
        if order == tuple(range(input.ndim)):
            return input._as(values_of(input))
        if order != swapped:
            raise refusal("permute", (input,))
        values = values_of(input)
        size = tuple(pattern.size[d] for d in order)
        if pattern.block:
            values = values.transpose(n + 1, n + 2)
        turned = Compressed(TURNED[pattern.layout], pattern.starts, pattern.places, size, pattern.block[::-1])
        return sparse(turned, values)
    n = pattern.sparse_dim
    if any((d < n) != (k < n) for k, d in enumerate(order)):
        raise RuntimeError(
            f"permute(): transposing between sparse and dense dimensions is not supported: {list(order)} where the first {n} "
            "are sparse"
        )
    at = _stack([pattern.at[d] for d in order[:n]]) if n else pattern.at
    size = tuple(pattern.size[d] for d in order)
    still = pattern.coalesced and order[:n] == tuple(range(n))
    values = values_of(input).permute(0, *(d - n + 1 for d in order[n:]))
    return sparse(Coordinates(at, size, still), values)


@overrides("transpose", "swapaxes", "swapdims")
def _transpose(input: SparseTensor, dim0: int, dim1: int) -> SparseTensor:
    order = list(range(input.ndim))
    if order:
        a, b = _dim("transpose", dim0, input.ndim), _dim("transpose", dim1, input.ndim)
        order[a], order[b] = order[b], order[a]
    return _permute(input, order)


@overrides("t", "T")
def _t(input: SparseTensor) -> SparseTensor:
    if input.ndim > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but self is {input.ndim}D"
        )
    return _permute(input, tuple(reversed(range(input.ndim))))


@overrides("H", "adjoint")
def _h(input: SparseTensor) -> SparseTensor:
    return _t(input).conj() if input.is_complex() else _t(input)


@overrides("mT")
def _mt(input: SparseTensor) -> SparseTensor:
    return _transpose(input, -2, -1)


@overrides("transpose_", layouts=COO)
def _transpose_(input: SparseTensor, dim0: int, dim1: int) -> SparseTensor:
    return _turn_over(input, _transpose(input, dim0, dim1), "transpose_")


@overrides("t_", layouts=COO)
def _t_(input: SparseTensor) -> SparseTensor:
    return _turn_over(input, _t(input), "t_")


def _turn_over(input: SparseTensor, result: SparseTensor, who: str) -> SparseTensor:
    """Write in place what may have another shape."""
    if input.requires_grad:
        raise RuntimeError(f"{who}(): not in place for a sparse tensor that requires a gradient")
    input._take(result)
    return input._become(result, who)


# --- parts ------------------------------
@overrides("index_select", layouts=COO)
def _index_select(input: SparseTensor, dim: int, index: TensorBase) -> SparseTensor:
    """Each entry of `index` brings what is listed there; entries may be repeated."""
    dim, pattern = _dim("index_select", dim, input.ndim), input._pattern
    if index.ndim > 1 or index.dtype.name not in ("int32", "int64"):
        raise RuntimeError(
            f"index_select(): Index is supposed to be a vector of int32 or int64, got {index.dtype} of {list(index.shape)}"
        )
    index = index.reshape(-1).long()
    length, n = pattern.size[dim], pattern.sparse_dim
    if index.numel() and not (-length <= int(index.min()) and int(index.max()) < length):
        raise IndexError(
            f"index_select(): index contains {int(index.max())} that is out of range for the dimension {dim} of size {length}"
        )
    index = index + (index < 0) * length
    size = (*pattern.size[:dim], index.shape[0], *pattern.size[dim + 1 :])
    if dim >= n:
        return sparse(pattern.sized(size), values_of(input).index_select(dim - n + 1, index))
    # Both sides sorted by their number: entry k of the index meets the places from first[k] to last[k].
    row, order = pattern.at[dim].sort(stable=True)
    search = published("")["searchsorted"]
    first, last = search(row, index), search(row, index, right=True)
    counts = last - first
    which = arange(index.shape[0], device=index.device).repeat_interleave(counts)
    ahead = (counts.cumsum(0) - counts).index_select(0, which)
    place = order.index_select(
        0, first.index_select(0, which) + arange(which.shape[0], device=index.device) - ahead
    )
    at = pattern.at.index_select(1, place)
    at[dim] = which
    return sparse(Coordinates(at, size, False), values_of(input).index_select(0, place))


@overrides("narrow", "narrow_copy", layouts=COO)
def _narrow(input: SparseTensor, dim: int, start: Any, length: int) -> SparseTensor:
    dim = _dim("narrow", dim, input.ndim)
    start = int(start)
    start = start + input.shape[dim] if start < 0 else start
    if length < 0 or start < 0 or start + length > input.shape[dim]:
        raise RuntimeError(
            f"narrow(): start ({start}) + length ({length}) exceeds dimension size ({input.shape[dim]})."
        )
    return _slice(input, dim, start, start + length, 1)


def _slice(input: SparseTensor, dim: int, start: int, stop: int, step: int) -> SparseTensor:
    pattern = input._pattern
    n, count = pattern.sparse_dim, max(0, -(-(stop - start) // step))
    size = (*pattern.size[:dim], count, *pattern.size[dim + 1 :])
    if dim >= n:
        cut: list[Any] = [slice(None)] * (dim - n + 1)
        return sparse(pattern.sized(size), values_of(input)[(*cut, slice(start, stop, step))])
    row = pattern.at[dim]
    within = (row >= start) & (row < stop)
    if step > 1:
        within &= (row - start).remainder(step) == 0
    inside = within.nonzero().reshape(-1)
    at = pattern.at.index_select(1, inside)
    at[dim] = (at[dim] - start).div(step, rounding_mode="floor")
    return sparse(Coordinates(at, size, pattern.coalesced), values_of(input).index_select(0, inside))


@overrides("select")
def _select(input: SparseTensor, dim: int, index: int) -> TensorBase:
    """Without that dimension; a dense tensor where no sparse one is left."""
    dim = _dim("select", dim, input.ndim)
    length = input.shape[dim]
    if not -length <= index < length:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension {dim}"
        )
    index = int(index) % length
    pattern, values = input._pattern, values_of(input)
    if type(pattern) is not Coordinates:
        n = pattern.batch
        if dim < n:
            cut = (*[slice(None)] * dim, index)
            size = (*pattern.size[:dim], *pattern.size[dim + 1 :])
            part = Compressed(pattern.layout, pattern.starts[cut], pattern.places[cut], size, pattern.block)
            return sparse(part, values[cut])
        return _select(to_coordinates(input), dim, index)
    n = pattern.sparse_dim
    size = (*pattern.size[:dim], *pattern.size[dim + 1 :])
    if dim >= n:
        return sparse(pattern.sized(size), values.select(dim - n + 1, index))
    matching = (pattern.at[dim] == index).nonzero().reshape(-1)
    values = values.index_select(0, matching)
    if n == 1:
        return values.sum(0)
    at = pattern.at.index_select(1, matching)
    left = _cat([at[:dim], at[dim + 1 :]])
    return sparse(Coordinates(left, size, pattern.coalesced), values)


@overrides("unbind")
def _unbind(input: SparseTensor, dim: int = 0) -> tuple:
    return tuple(_select(input, dim, k) for k in range(input.shape[_dim("unbind", dim, input.ndim)]))


@overrides("__getitem__")
def _getitem(input: SparseTensor, key: Any) -> TensorBase:
    """Numbers, slices with positive steps, None, and vectors of integers for tensors in coordinates."""
    keys = list(key) if isinstance(key, tuple) else [key]
    used = len([k for k in keys if k is not None and k is not Ellipsis])
    if used > input.ndim:
        raise IndexError(f"too many indices for tensor of dimension {input.ndim}")
    if Ellipsis in [k for k in keys if not isinstance(k, TensorBase)]:
        spot = next(k for k, x in enumerate(keys) if x is Ellipsis)
        keys[spot : spot + 1] = [slice(None)] * (input.ndim - used)
    x: Any = input
    dim = 0
    for k in keys:
        if k is None:
            x = x.unsqueeze(dim)
            dim += 1
        elif isinstance(k, slice):
            start, stop, step = k.indices(x.shape[dim])
            if step < 1:
                raise ValueError(f"step must be greater than zero, got {step}")
            if (start, stop, step) != (0, x.shape[dim], 1):
                if not isinstance(x, SparseTensor):
                    x = x[(*[slice(None)] * dim, k)]
                elif type(x._pattern) is not Coordinates:
                    raise refusal("__getitem__", (x,))
                else:
                    x = _slice(x, dim, start, max(start, stop), step)
            dim += 1
        elif isinstance(k, (TensorBase, list)) and not (isinstance(k, TensorBase) and k.ndim == 0):
            index = k if isinstance(k, TensorBase) else input._held.new_tensor(k).long()
            if index.dtype.name in ("bool", "uint8"):
                index = index.nonzero().reshape(-1)
            x = x.index_select(dim, index)
            dim += 1
        else:
            x = x.select(dim, int(k))
    return x


# --- dimensions of one ------------------------------
@overrides("unsqueeze", layouts=COO)
def _unsqueeze(input: SparseTensor, dim: int) -> SparseTensor:
    dim = _dim("unsqueeze", dim, input.ndim + 1)
    pattern, n = input._pattern, input.sparse_dim()
    size = (*pattern.size[:dim], 1, *pattern.size[dim:])
    if dim > n:
        return sparse(pattern.sized(size), values_of(input).unsqueeze(dim - n + 1))
    at = _cat([pattern.at[:dim], pattern.at.new_zeros([1, pattern.at.shape[1]]), pattern.at[dim:]])
    return sparse(Coordinates(at, size, pattern.coalesced), values_of(input))


@overrides("squeeze", layouts=COO)
def _squeeze(input: SparseTensor, dim: Any = None) -> SparseTensor:
    wanted = (
        range(input.ndim)
        if dim is None
        else [_dim("squeeze", d, input.ndim) for d in ((dim,) if isinstance(dim, int) else dim)]
    )
    gone = {d for d in wanted if input.shape[d] == 1}
    pattern, n = input._pattern, input.sparse_dim()
    rows = [pattern.at[d] for d in range(n) if d not in gone]
    at = _stack(rows) if rows else pattern.at[:0]
    values = values_of(input)
    for d in sorted((d for d in gone if d >= n), reverse=True):
        values = values.squeeze(d - n + 1)
    size = tuple(length for d, length in enumerate(pattern.size) if d not in gone)
    return sparse(Coordinates(at, size, pattern.coalesced), values)


# --- joined ------------------------------
@overrides("cat", "concat", "concatenate")
def _cat_sparse(tensors: Sequence[Any], dim: int = 0) -> SparseTensor:
    parts = list(tensors)
    layouts = {x.layout for x in parts}
    if len(layouts) > 1:
        a, b = next((parts[0], x) for x in parts if x.layout is not parts[0].layout)
        raise mixed("cat", a, b)
    first = parts[0]
    dim = _dim("cat", dim, first.ndim)
    for x in parts:
        if x.ndim != first.ndim or any(
            a != b for d, (a, b) in enumerate(zip(x.shape, first.shape)) if d != dim
        ):
            raise RuntimeError(
                f"cat(): Sizes of tensors must match except in dimension {dim}, got {list(first.shape)} and {list(x.shape)}"
            )
    if type(first._pattern) is not Coordinates:
        block = first._pattern.block or None
        joined = _cat_sparse([to_coordinates(x) for x in parts], dim)
        return to_compressed(joined, first.layout, block)
    n = first.sparse_dim()
    if any(x.sparse_dim() != n for x in parts):
        raise RuntimeError("cat(): expected sparse tensors of the same sparse_dim")
    size = list(first.shape)
    size[dim] = sum(x.shape[dim] for x in parts)
    if dim < n:
        moved, offset = [], 0
        for x in parts:
            at = x._pattern.at.clone()
            at[dim] += offset
            moved.append(at)
            offset += x.shape[dim]
        values = _cat([values_of(x) for x in parts])
        return sparse(Coordinates(_cat(moved, 1), size, False), values)
    widened, before = [], 0
    for x in parts:
        held = values_of(x)
        shape = list(held.shape)
        shape[dim - n + 1] = before
        left = held.new_zeros(shape)
        shape[dim - n + 1] = size[dim] - before - x.shape[dim]
        widened.append(_cat([left, held, held.new_zeros(shape)], dim - n + 1))
        before += x.shape[dim]
    return sparse(Coordinates(_cat([x._pattern.at for x in parts], 1), size, False), _cat(widened))


@overrides("stack", layouts=COO)
def _stack_sparse(tensors: Sequence[Any], dim: int = 0) -> SparseTensor:
    parts = list(tensors)
    for x in parts:
        if x.layout is not parts[0].layout:
            raise mixed("stack", parts[0], x)
    if parts[0].layout is not formats.sparse_coo:
        raise refusal("stack", parts)
    return _cat_sparse([_unsqueeze(x, dim) for x in parts], dim)
