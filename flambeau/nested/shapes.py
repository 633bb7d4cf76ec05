"""Views, cuts and joins of nested tensors."""

from __future__ import annotations

import math
from typing import Any

from ..core.base.tensor import TensorBase
from ..operations.declare.registry import REGISTRY, published
from .jagged import NestedTensor, jagged, methods, overrides
from .padding import packed, rows
from .pointwise import same_cut, shapes_of, wrapped
from .raggedness import NestedInt, raggedness

_cat, _stack = published("")["cat"], published("")["stack"]


def inner(name: str, x: NestedTensor, dim: int, what: str = "") -> int:
    """The dimension of the values that is `dim` of the whole; RuntimeError for those of the batch and of the sequences.

    >>> import flambeau
    >>> from flambeau.nested.shapes import inner
    >>> x = flambeau.nested.nested_tensor([flambeau.ones(1, 4), flambeau.ones(2, 4)], layout=flambeau.jagged)
    >>> inner("select", x, -1)
    1
    """
    result = x._dim(name, dim)
    if result == x._ragged_idx:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim{what}")
    if result == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0{what}")
    return result - 1


def _parts(input: NestedTensor) -> tuple[TensorBase, ...]:
    """The sequences, as views."""
    r, dim = input.ragged, input._ragged_idx - 1
    total = input._elements.shape[dim]
    if not r.gaps(total):
        return tuple(input._elements.split(r.sizes, dim))
    return tuple(input._elements.narrow(dim, a, n) for a, n in zip(r.starts, r.sizes))


@overrides(methods.unbind)
def _unbind(func: Any, input: NestedTensor, dim: int = 0) -> tuple[TensorBase, ...]:
    if input._dim("unbind", dim) != 0:
        raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
    return _parts(input)


def batches(input: NestedTensor, which: list[int]) -> NestedTensor:
    """Some of the sequences, in that order.

    >>> import flambeau
    >>> from flambeau.nested.shapes import batches
    >>> batches(flambeau.nested.nested_tensor([[1.], [2., 3.]], layout=flambeau.jagged), [1, 0]).values()
    tensor([2., 3., 1.])
    """
    r, dim = input.ragged, input._ragged_idx - 1
    if which and which == list(range(which[0], which[-1] + 1)) and not r.gaps(input._elements.shape[dim]):
        first, last = r.starts[which[0]], r.starts[which[-1]] + r.sizes[which[-1]]
        values = input._elements.narrow(dim, first, last - first)
    elif which:
        values = _cat([input._elements.narrow(dim, r.starts[b], r.sizes[b]) for b in which], dim)
    else:
        values = input._elements.narrow(dim, 0, 0)
    return jagged(values, r.part(which), dim + 1)


@overrides(methods.select)
def _select(func: Any, input: NestedTensor, dim: int, index: int) -> Any:
    result = input._dim("select", dim)
    if result == 0:
        return _sequence(input, index, "select")
    at = inner("select", input, dim)
    return jagged(
        input._elements.select(at, index), input.ragged, input._ragged_idx - (result < input._ragged_idx)
    )


def _sequence(input: NestedTensor, index: int, name: str) -> TensorBase:
    r, n = input.ragged, input.ragged.batch
    if not -n <= index < n:
        raise IndexError(f"{name}(): index {index} is out of bounds for dimension 0 with size {n}")
    return input._elements.narrow(input._ragged_idx - 1, r.starts[index], r.sizes[index])


@overrides(methods.__getitem__)
def _getitem(func: Any, input: NestedTensor, key: Any) -> Any:
    """A sequence, or part of one, for an int in front; else some sequences, and places of the dense dimensions."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if any(k is Ellipsis for k in keys):
        at = next(i for i, k in enumerate(keys) if k is Ellipsis)
        named = sum(k is not None for k in keys) - 1
        keys[at : at + 1] = [slice(None)] * (input.ndim - named)
    if not keys:
        return input
    first, rest = keys[0], keys[1:]
    if isinstance(first, int) and not isinstance(first, bool):
        result = _sequence(input, first, "__getitem__")
        return result[tuple(rest)] if rest else result
    if isinstance(first, slice):
        if first != slice(None):
            input = batches(input, list(range(input.ragged.batch))[first])
    elif isinstance(first, TensorBase) and first.ndim == 1 and not isinstance(first, NestedTensor):
        input = batches(input, _listed(first, input.ragged.batch))
    elif isinstance(first, list) and all(isinstance(k, int) for k in first):
        return _getitem(func, input, (input._elements.new_tensor(first).long(), *rest))
    else:
        raise NotImplementedError(
            f"__getitem__(): a nested tensor of layout flambeau.jagged cannot be indexed by {type(first).__name__} along its batch; "
            "index values(), or the parts that unbind() gives"
        )
    return _of_places(input, rest)


def _listed(index: TensorBase, batch: int) -> list[int]:
    if index.dtype.name == "bool":
        if index.shape[0] != batch:
            raise IndexError(
                f"__getitem__(): a mask of shape {tuple(index.shape)} does not fit {batch} sequences"
            )
        index = index.nonzero().reshape(-1)
    result = [int(k) for k in index.tolist()]
    for k in result:
        if not -batch <= k < batch:
            raise IndexError(f"__getitem__(): index {k} is out of bounds for dimension 0 with size {batch}")
    return [k % batch for k in result]


def _of_places(input: NestedTensor, keys: list) -> NestedTensor:
    """Indexing of the dimensions behind the batch; all of each sequence is kept."""
    if (
        not keys
        or all(k == slice(None) for k in keys if k is not None and isinstance(k, slice))
        and all(isinstance(k, slice) for k in keys)
    ):
        return input
    dim, now = 1, 1  # of the input, of the result
    ragged = input._ragged_idx
    for k in keys:
        if k is None:
            now += 1
            continue
        if dim == input._ragged_idx:
            if k != slice(None):
                raise RuntimeError("__getitem__(): not supported for NestedTensor on ragged dim")
            ragged = now
        elif not isinstance(k, (int, slice)):
            raise NotImplementedError(
                f"__getitem__(): a nested tensor of layout flambeau.jagged cannot be indexed by {type(k).__name__}; index values()"
            )
        now += not isinstance(k, int)
        dim += 1
    if dim <= input._ragged_idx:
        ragged = input._ragged_idx + now - dim
    return jagged(input._elements[tuple(keys)], input.ragged, ragged)


@overrides(methods.index_select)
def _index_select(func: Any, input: NestedTensor, dim: int, index: TensorBase) -> NestedTensor:
    if input._dim("index_select", dim) == 0:
        return batches(input, _listed(index, input.ragged.batch))
    return wrapped(func(input._elements, inner("index_select", input, dim), index), input)


@overrides(methods.narrow)
def _narrow(func: Any, input: NestedTensor, dim: int, start: int, length: int) -> NestedTensor:
    if input._dim("narrow", dim) == 0:
        n = input.ragged.batch
        first = start + n if start < 0 else start
        if length < 0 or not 0 <= first <= n - length:
            raise RuntimeError(f"narrow(): start ({start}) + length ({length}) exceeds dimension size ({n}).")
        return batches(input, list(range(first, first + length)))
    return wrapped(func(input._elements, inner("narrow", input, dim), start, length), input)


@overrides(methods.split, methods.split_with_sizes, methods.chunk, methods.unsafe_split, methods.unsafe_chunk)
def _cut(
    func: Any, input: NestedTensor, how: Any = None, dim: int = 0, **spelled: Any
) -> tuple[NestedTensor, ...]:
    """`split`, `chunk` and kin: of the batch, or of a dense dimension."""
    name = func.__name__
    how = next(iter(spelled.values()), how)  # `chunks`, `split_size`, `split_sizes` …
    if input._dim(name, dim) == 0:
        numbers = input.ragged.offsets.new_tensor(list(range(input.ragged.batch)))
        return tuple(batches(input, x.tolist()) for x in func(numbers, how))
    return tuple(wrapped(x, input) for x in func(input._elements, how, inner(name, input, dim)))


@overrides(methods.transpose, methods.swapaxes, methods.swapdims)
def _transpose(func: Any, input: NestedTensor, dim0: int, dim1: int) -> NestedTensor:
    a, b = input._dim(func.__name__, dim0), input._dim(func.__name__, dim1)
    if a == b:
        return input
    if 0 in (a, b):
        raise RuntimeError(f"{func.__name__}(): not supported for NestedTensor on dim=0")
    r = input._ragged_idx
    return jagged(input._elements.transpose(a - 1, b - 1), input.ragged, b if r == a else a if r == b else r)


@overrides(methods.permute)
def _permute(func: Any, input: NestedTensor, *dims: Any) -> NestedTensor:
    order_dims = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    order = [input._dim("permute", d) for d in order_dims]
    if sorted(order) != list(range(input.ndim)):
        raise RuntimeError(f"permute(): {list(order_dims)} is no order of {input.ndim} dimensions")
    if order[0] != 0:
        raise RuntimeError("permute(): not supported for NestedTensor on dim=0, which must stay in front")
    return jagged(
        input._elements.permute([d - 1 for d in order[1:]]), input.ragged, order.index(input._ragged_idx)
    )


@overrides(REGISTRY["mT"].function)
def _swapped_last(func: Any, input: NestedTensor) -> NestedTensor:
    return _transpose(func, input, -2, -1)


@overrides(methods.unsqueeze)
def _unsqueeze(func: Any, input: NestedTensor, dim: int) -> NestedTensor:
    n = input.ndim + 1
    if not -n <= dim < n:
        raise IndexError(
            f"unsqueeze(): Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"
        )
    at = dim % n
    if at == 0:
        raise RuntimeError("unsqueeze(): not supported for NestedTensor on dim=0")
    return jagged(
        input._elements.unsqueeze(at - 1), input.ragged, input._ragged_idx + (at <= input._ragged_idx)
    )


@overrides(methods.squeeze)
def _squeeze(func: Any, input: NestedTensor, dim: Any = None) -> NestedTensor:
    if dim is None:
        raise RuntimeError(
            "squeeze(): For nested tensors, squeeze without the dim argument is not supported at the moment"
        )
    for d in sorted(
        (input._dim("squeeze", d) for d in (dim if isinstance(dim, tuple) else (dim,))), reverse=True
    ):
        at = inner("squeeze", input, d)
        if input._elements.shape[at] == 1:
            input = jagged(
                input._elements.squeeze(at), input.ragged, input._ragged_idx - (d < input._ragged_idx)
            )
    return input


@overrides(methods.view, methods.reshape)
def _view(func: Any, input: NestedTensor, *sizes: Any) -> Any:
    """Other sizes on each side of the ragged dimension, which stays one."""
    name = func.__name__
    if len(sizes) == 1 and not isinstance(sizes[0], (int, NestedInt)):
        if not isinstance(sizes[0], (tuple, list)):
            return wrapped(func(input._elements, sizes[0]), input)  # another dtype
        sizes = tuple(sizes[0])
    r, shape, values = input._ragged_idx, input.shape, input._elements
    at = next((d for d, n in enumerate(sizes) if isinstance(n, NestedInt)), None)
    if at is None and len(sizes) > r and sizes[r] == -1:
        at = r
    refused = RuntimeError(f"{name}(): cannot view shape {tuple(shape)} as {tuple(sizes)}")
    if at is None or at == 0 or sizes[0] not in (-1, shape[0]):
        raise refused
    if isinstance(sizes[at], NestedInt) and sizes[at] != shape[r]:
        raise refused
    before, after = list(sizes[1:at]), list(sizes[at + 1 :])
    for wanted, there in ((before, values.shape[: r - 1]), (after, values.shape[r:])):
        if any(isinstance(n, NestedInt) for n in wanted) or wanted.count(-1) > 1:
            raise refused
        if -1 in wanted:
            product = math.prod(n for n in wanted if n != -1)
            if not product or math.prod(there) % product:
                raise refused
            wanted[wanted.index(-1)] = math.prod(there) // product
        if math.prod(wanted) != math.prod(there):
            raise refused
    return jagged(func(values, (*before, values.shape[r - 1], *after)), input.ragged, at)


@overrides(methods.flatten)
def _flatten(func: Any, input: NestedTensor, start_dim: int = 0, end_dim: int = -1) -> Any:
    a, b = input._dim("flatten", start_dim), input._dim("flatten", end_dim)
    if a > b:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    r = input._ragged_idx
    if a == b:
        return input
    if a == 0 or a <= r <= b:
        raise RuntimeError(
            f"flatten(): not supported for NestedTensor over the batch or the ragged dimension, got dimensions {a} to {b} of "
            f"{tuple(input.shape)}"
        )
    return jagged(input._elements.flatten(a - 1, b - 1), input.ragged, r - (b - a) * (b < r))


@overrides(methods.unflatten)
def _unflatten(func: Any, input: NestedTensor, dim: int, sizes: Any) -> NestedTensor:
    at = inner("unflatten", input, dim)
    result = input._elements.unflatten(at, sizes)
    more = result.ndim - input._elements.ndim
    return jagged(result, input.ragged, input._ragged_idx + more * (at + 1 < input._ragged_idx))


@overrides(methods.expand, methods.broadcast_to)
def _expand(func: Any, input: NestedTensor, *sizes: Any) -> NestedTensor:
    if len(sizes) == 1 and not isinstance(sizes[0], (int, NestedInt)):
        sizes = tuple(sizes[0])
    shape, r = input.shape, input._ragged_idx
    if len(sizes) != len(shape) or sizes[0] not in (-1, shape[0]) or sizes[r] not in (-1, shape[r]):
        raise RuntimeError(f"{func.__name__}(): cannot expand shape {tuple(shape)} -> {tuple(sizes)}")
    inner_sizes = [-1 if d == r else n for d, n in enumerate(sizes) if d]
    return jagged(input._elements.expand(*inner_sizes), input.ragged, r)


@overrides(methods.expand_as)
def _expand_as(func: Any, input: Any, other: Any) -> NestedTensor:
    if not isinstance(other, NestedTensor):
        raise RuntimeError(f"expand_as(): cannot expand shape {tuple(input.shape)} -> {tuple(other.shape)}")
    if isinstance(input, NestedTensor):
        return _expand(func, input, *other.shape)
    from .pointwise import beside

    target = packed(other)
    return wrapped(beside(target, input, "expand_as").expand_as(target._elements), target)


@overrides(methods.view_as, methods.reshape_as)
def _as_other(func: Any, input: Any, other: Any) -> Any:
    """`view_as`, `reshape_as`."""
    return input.reshape(other.shape) if func.__name__ == "reshape_as" else input.view(other.shape)


def _nested_all(name: str, tensors: Any) -> list[NestedTensor]:
    result = list(tensors)
    for k, x in enumerate(result):
        if not isinstance(x, NestedTensor):
            raise RuntimeError(f"{name}(): expected all tensors nested, got a dense one at place {k}")
    return result


@overrides(_cat)
def _join(func: Any, tensors: Any, dim: int = 0) -> NestedTensor:
    """Along a dense dimension of the same sequences, or one batch after another."""
    parts = _nested_all("cat", tensors)
    first = parts[0]
    at = first._dim("cat", dim)
    if at == 0:
        r = first._ragged_idx
        if any(x._ragged_idx != r or x.ndim != first.ndim for x in parts):
            raise RuntimeError(f"cat(): shapes {shapes_of(*parts)} do not fit")
        joined = _cat([packed(x)._elements for x in parts], r - 1)
        sizes = [n for x in parts for n in x.ragged.sizes]
        return jagged(joined, raggedness(first.ragged._ends_of(sizes), None, None), r)
    at = inner("cat", first, at)
    if any(not same_cut(first, x) for x in parts):
        raise RuntimeError(f"cat(): expected tensors of the same sequences, got shapes {shapes_of(*parts)}")
    return wrapped(_cat([x._elements for x in parts], at), first)


@overrides(_stack)
def _stacked(func: Any, tensors: Any, dim: int = 0) -> NestedTensor:
    parts = _nested_all("stack", tensors)
    first = parts[0]
    n = first.ndim + 1
    at = dim + n if dim < 0 else dim
    if not 0 < at < n or any(not same_cut(first, x) or x.ndim != first.ndim for x in parts):
        raise RuntimeError(
            f"stack(): expected tensors of the same sequences and a dim in [1, {n - 1}], got dim {dim} and shapes {shapes_of(*parts)}"
        )
    result = _stack([x._elements for x in parts], at - 1)
    return jagged(result, first.ragged, first._ragged_idx + (at <= first._ragged_idx))


@overrides(methods.index_put, methods.index_put_)
def _index_put(func: Any, input: NestedTensor, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Write elements: `indices` name batches, places in their sequences, and, where given, what lies behind."""
    r, at = input.ragged, input._ragged_idx
    if len(indices) <= at or any(not isinstance(x, TensorBase) or x.is_floating_point() for x in indices):
        raise RuntimeError(
            f"{func.__name__}(): expected integer indices of the dimensions 0 to {at} of {tuple(input.shape)}, got {len(indices)}"
        )
    batch, place = indices[0], indices[at]
    for x, most, dim in (
        (batch, r.batch, 0),
        (place, r.counts()[batch] if _within(batch, r.batch) else 0, at),
    ):
        if not bool(((x >= 0) & (x < most)).all()):
            raise IndexError(
                f"{func.__name__}(): indices are out of bounds for dimension {dim} of {tuple(input.shape)}"
            )
    rows_of = r._tensor(r.starts)[batch] + place
    inner_indices = (*indices[1:at], rows_of, *indices[at + 1 :])
    values = values._elements if isinstance(values, NestedTensor) else values
    result = func(input._elements, inner_indices, values, accumulate)
    return input if result is input._elements else wrapped(result, input)


def _within(x: TensorBase, n: int) -> bool:
    return bool(((x >= 0) & (x < n)).all())


@overrides(methods.masked_select)
def _masked_select(func: Any, input: Any, mask: Any) -> TensorBase:
    """Elements where the mask is true: a nested tensor of them for a nested tensor (B, *), as PyTorch has it."""
    if not (isinstance(input, NestedTensor) and isinstance(mask, NestedTensor) and same_cut(input, mask)):
        raise RuntimeError(
            f"masked_select(): expected a nested tensor and a mask of the same sequences, got {shapes_of(input, mask)}"
        )
    if input.ndim != 2 or mask.ndim != 2:
        raise RuntimeError("masked_select only support 2-D selections currently")
    seen = rows(mask)
    result = rows(input).masked_select(seen)
    ends = seen.new_zeros(seen.shape[0] + 1).long()
    ends[1:] = seen.cumsum(0)
    packed_ends = input.ragged.packed().offsets
    return jagged(result, raggedness(ends[packed_ends], None, None), 1)
