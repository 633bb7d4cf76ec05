"""From one layout to another, and to dense tensors and back.

All ways go by coordinates: those of elements, or of blocks where a layout holds blocks.
"""

from __future__ import annotations

import math
from typing import Any

from ..core import tape
from ..core.base import formats
from ..core.base.tensor import TensorBase
from ..core.lib.sparse import sparse_rows
from ..core.make.create import arange
from ..operations.declare.registry import published
from .patterns import (
    BLOCK_LAYOUTS,
    COLUMN_LAYOUTS,
    COMPRESSED,
    Compressed,
    Coordinates,
    where_they_are,
)
from .tensors import NAMES, SparseTensor, overrides, sparse, tiles, values_of

_operations = published("")
_stack, _cat = _operations["stack"], _operations["cat"]
FAST = frozenset(("float32", "float64"))  # what the loops of `core/lib/sparse/sparse_rows.pyx` are made for


# --- to dense ------------------------------
def to_dense(x: SparseTensor, dtype: Any = None, *, masked_grad: bool | None = None) -> TensorBase:
    """The same elements with all zeros; their gradient is that of the listed ones, or of all where `masked_grad` is False.

    >>> import flambeau
    >>> from flambeau.sparse.conversion import to_dense
    >>> to_dense(flambeau.eye(2).to_sparse_csr())
    tensor([[1., 0.],
            [0., 1.]])
    """
    if masked_grad is False and tape.tracked(x):
        result = _dense(x, x._held)
        # `tape.record`: the node hangs on a wrapper, which operations see as the tensors that it holds
        tape.record("ToDenseBackward", _all_of_it, (x,), result, (), (x,))
    else:
        result = _dense(x, values_of(x))
    return result if dtype is None else result.to(dtype)


def _all_of_it(grad: TensorBase, x: SparseTensor) -> tuple:
    pattern = x._pattern
    if type(pattern) is Coordinates:
        return (from_dense(grad, pattern.sparse_dim),)
    return (compressed_from_dense(grad, pattern.layout, pattern.block or None, pattern.dense_dim),)


def _dense(x: SparseTensor, values: TensorBase) -> TensorBase:
    pattern = x._pattern
    if type(pattern) is Coordinates:
        n = pattern.sparse_dim
        flat = values.new_zeros([math.prod(pattern.size[:n]), *pattern.size[n:]])
        return flat.index_add(0, pattern.keys(), values).reshape(pattern.size)
    n, (rows, columns) = pattern.batch, pattern.grid()
    grid = [*pattern.size[:n], rows, columns]
    rest = [*pattern.block, *pattern.size[n + 2 :]]
    at = Coordinates(pattern.coordinates(), grid, True).keys()
    flat = values.new_zeros([math.prod(grid), *rest])
    output = flat.index_add(0, at, values.reshape([at.shape[0], *rest])).reshape([*grid, *rest])
    if pattern.block:
        output = output.transpose(n + 1, n + 2)
    return output.reshape(pattern.size)


# --- from dense ------------------------------
def from_dense(x: TensorBase, sparse_dim: int) -> SparseTensor:
    """The elements that are not zero; those of the dimensions after the first `sparse_dim` together.

    Raises RuntimeError when `sparse_dim` is not in [0, x.ndim].

    >>> import flambeau
    >>> from flambeau.sparse.conversion import from_dense
    >>> x = from_dense(flambeau.tensor([[0.0, 0.0], [0.0, 2.0]]), 1)
    >>> x.indices(), x.values()
    (tensor([[1]]), tensor([[0., 2.]]))
    """
    if not 0 <= sparse_dim <= x.ndim:
        raise RuntimeError(f"to_sparse(): sparse_dim must be in [0, {x.ndim}], got {sparse_dim}")
    at = _listed(x, x.ndim - sparse_dim)
    values = x[tuple(at)] if sparse_dim else x.unsqueeze(0)
    return sparse(Coordinates(at, x.shape, True), values)


def _listed(x: TensorBase, together: int) -> TensorBase:
    """Where something is not zero, of elements of the last dimensions together: (dimensions, places)."""
    some = x.detach() != 0
    for _ in range(together):
        some = some.any(-1)
    return some.nonzero().T.contiguous()


def compressed_from_dense(
    x: TensorBase, layout: Any, block: tuple[int, ...] | None, dense_dim: int
) -> SparseTensor:
    """A dense tensor (batch …, rows, columns, dense …) in a compressed layout, with one number of elements in each batch.

    RuntimeError where numbers differ, or blocks do not fit.

    >>> import flambeau
    >>> from flambeau.sparse.conversion import compressed_from_dense
    >>> compressed_from_dense(flambeau.eye(2), flambeau.sparse_csc, None, 0).ccol_indices()
    tensor([0, 1, 2])
    """
    n = x.ndim - 2 - dense_dim
    who = f"to_{layout.name}"
    if n < 0 or dense_dim < 0:
        raise RuntimeError(
            f"{who}(): expected a tensor of at least 2 dimensions besides dense_dim={dense_dim}, got {x.ndim}"
        )
    block = _blocks(who, layout, block, x.shape[n : n + 2])
    frame = Compressed(layout, x.new_empty([*[0] * n, 1]), x, x.shape, block)
    apart = tiles(x, frame)
    at = _listed(apart, len(block) + dense_dim)
    return _compressed(who, layout, at, apart[tuple(at)], x.shape, n, block)


def _blocks(who: str, layout: Any, block: Any, matrix: tuple[int, ...]) -> tuple[int, ...]:
    if (layout in BLOCK_LAYOUTS) != (block is not None):
        needed = "is needed for" if block is None else "is not one of"
        raise RuntimeError(f"{who}(): blocksize {needed} the layout {layout}")
    if block is None:
        return ()
    block = tuple(block)
    if len(block) != 2 or min(block) < 1 or any(a % b for a, b in zip(matrix, block)):
        raise RuntimeError(
            f"{who}(): blocksize {block} must be two positive numbers that divide the matrix's shape {tuple(matrix)}"
        )
    return block


def _compressed(
    who: str, layout: Any, at: TensorBase, values: TensorBase, size: Any, n: int, block: tuple[int, ...]
) -> SparseTensor:
    """A compressed tensor of coordinates (batch …, row, column) of elements or blocks, sorted by these and distinct."""
    batch = tuple(size[:n])
    rows, columns = (a // b for a, b in zip(size[n : n + 2], block or (1, 1)))
    lines, line, place = rows, at[n], at[n + 1]
    if layout in COLUMN_LAYOUTS:
        turned = _stack([*at[:n], at[n + 1], at[n]])
        result, order, _ = where_they_are(sparse_rows.coalesced, turned, (*batch, columns, rows))
        if order is not None:
            values = values.index_select(0, order)
        at, lines, line, place = result, columns, result[n], result[n + 1]
    count = math.prod(batch)
    for d in reversed(range(n)):
        line = line + at[d] * (math.prod(batch[d + 1 :]) * lines)
    starts, _ = where_they_are(sparse_rows.by_rows, line.contiguous(), count * lines)
    listed = at.shape[1] // count if count else 0
    if n:
        each = arange(count + 1, device=starts.device) * lines
        if count and bool((starts.index_select(0, each) != arange(count + 1) * listed).any()):
            raise RuntimeError(f"{who}(): Expect the same number of specified elements per batch.")
        ends = starts[1:].reshape(count, lines) - (arange(count, device=starts.device) * listed).unsqueeze(1)
        starts = _cat([starts.new_zeros([count, 1]), ends], 1).reshape([*batch, lines + 1])
    pattern = Compressed(layout, starts, place.contiguous().reshape([*batch, listed]), size, block)
    return sparse(pattern, values.reshape([*batch, listed, *values.shape[1:]]))


# --- from sparse to sparse ------------------------------
def to_coordinates(x: SparseTensor) -> SparseTensor:
    """The same elements in coordinates.

    >>> import flambeau
    >>> from flambeau.sparse.conversion import to_coordinates
    >>> to_coordinates(flambeau.eye(2).to_sparse_csr()).indices()
    tensor([[0, 1],
            [0, 1]])
    """
    pattern = x._pattern
    if type(pattern) is Coordinates:
        return x
    at, n = pattern.coordinates(), pattern.batch
    rest = pattern.size[n + 2 :]
    values = values_of(x).reshape([at.shape[1], *pattern.block, *rest])
    if pattern.block:
        high, wide = pattern.block
        inside = arange(high * wide, device=at.device)
        row = at[n].unsqueeze(1) * high + inside.div(wide, rounding_mode="floor")
        column = at[n + 1].unsqueeze(1) * wide + inside.remainder(wide)
        ahead = [b.repeat_interleave(high * wide) for b in at[:n]]
        at = _stack([*ahead, row.reshape(-1), column.reshape(-1)])
        values = values.reshape([at.shape[1], *rest])
    return coalesce(
        sparse(Coordinates(at, pattern.size, False), values)
    )  # columns may be in any order, and repeated


def to_compressed(x: Any, layout: Any, block: Any) -> SparseTensor:
    """The same elements in a compressed layout.

    >>> import flambeau
    >>> from flambeau.sparse.conversion import to_compressed
    >>> to_compressed(flambeau.eye(2).to_sparse(), flambeau.sparse_csc, None).row_indices()
    tensor([0, 1])
    """
    who, source = f"to_{layout.name}", x._pattern
    if source.layout is layout and (block is None or tuple(block) == source.block):
        return x
    n = source.batch if type(source) is Compressed else source.sparse_dim - 2
    if n < 0:
        raise RuntimeError(
            f"{who}(): expected a tensor of at least 2 sparse dimensions, got {source.sparse_dim}"
        )
    block = _blocks(who, layout, block, source.size[n : n + 2])
    coalesced = coalesce(to_coordinates(x))
    at, values, size = coalesced._pattern.at, values_of(coalesced), coalesced._pattern.size
    if not block:
        return _compressed(who, layout, at, values, size, n, ())
    high, wide = block
    tile = _stack(
        [*at[:n], at[n].div(high, rounding_mode="floor"), at[n + 1].div(wide, rounding_mode="floor")]
    )
    grid = Coordinates(tile, (*size[:n], size[n] // high, size[n + 1] // wide), False)
    tiled = grid.sorted()[0].at
    inside = at[n].remainder(high) * wide + at[n + 1].remainder(wide)
    flat = values.new_zeros([tiled.shape[1] * high * wide, *values.shape[1:]])
    filled = flat.index_add(0, grid.group() * (high * wide) + inside, values)
    blocks = filled.reshape([tiled.shape[1], high, wide, *values.shape[1:]])
    return _compressed(who, layout, tiled, blocks, size, n, block)


def coalesce(x: SparseTensor) -> SparseTensor:
    """The same tensor in sorted coordinates, each once: values at the same place are added.

    >>> import flambeau
    >>> from flambeau.sparse.conversion import coalesce
    >>> coalesce(flambeau.sparse_coo_tensor([[1, 0, 1]], [1.0, 2.0, 3.0]))._values()
    tensor([2., 4.])
    """
    pattern = x._pattern
    if pattern.coalesced:
        return x
    sorted_pattern, order, starts = pattern.sorted()
    values = values_of(x)
    if order is None or starts is None:
        return sparse(Coordinates(sorted_pattern.at, pattern.size, True), values)
    if values.dtype.name in FAST and values.device.type == "cpu":
        result = sparse_rows.sum_runs(order, starts, values.detach().contiguous())
        if tape.tracked(values):
            # `tape.record`: an operand is a pattern of places, which is no argument that modes could be shown
            tape.record("CoalesceBackward", _to_each, (values,), result, (), (pattern,))
        return sparse(sorted_pattern, result)
    zeros = values.new_zeros([sorted_pattern.at.shape[1], *values.shape[1:]])
    return sparse(sorted_pattern, zeros.index_add(0, pattern.group(), values))


def _to_each(grad: TensorBase, pattern: Coordinates) -> tuple:
    return (grad.index_select(0, pattern.group()),)


# --- methods ------------------------------
def _sparse_of(
    x: TensorBase, sparse_dim: Any = None, layout: Any = None, blocksize: Any = None, dense_dim: Any = None
) -> SparseTensor:
    """What `to_sparse` makes of a tensor, dense or sparse."""
    if layout is None:
        layout = formats.sparse_coo
    if layout is formats.sparse_coo:
        if blocksize is not None:
            raise RuntimeError(
                f"to_sparse(): conversion from {NAMES[x.layout]} to Sparse with blocksize argument given is not supported"
            )
        if dense_dim is not None:
            raise RuntimeError("to_sparse(): dense_dim is for compressed layouts; give sparse_dim")
        if not isinstance(x, SparseTensor):
            return from_dense(x, x.ndim if sparse_dim is None else sparse_dim)
        result = to_coordinates(x)
        if sparse_dim not in (None, result.sparse_dim()):
            raise RuntimeError(
                f"to_sparse(): got sparse_dim={sparse_dim} for a tensor of {result.sparse_dim()}; conversion from "
                f"{NAMES[x.layout]} to Sparse with sparse_dim argument !=self.sparse_dim() is not supported"
            )
        return result
    if layout not in COMPRESSED:
        raise RuntimeError(f"to_sparse(): expected a sparse layout, got {layout}")
    if sparse_dim not in (None, 2):
        raise RuntimeError(f"to_sparse(): {layout} has 2 sparse dimensions, got sparse_dim={sparse_dim}")
    if not isinstance(x, SparseTensor):
        return compressed_from_dense(x, layout, blocksize, dense_dim or 0)
    if dense_dim not in (None, x.dense_dim()):
        raise RuntimeError(f"to_sparse(): got dense_dim={dense_dim} for a tensor of {x.dense_dim()}")
    return to_compressed(x, layout, blocksize)


def to_sparse(
    self: TensorBase,
    sparse_dim: int | None = None,
    *,
    layout: Any = None,
    blocksize: tuple[int, int] | None = None,
    dense_dim: int | None = None,
) -> SparseTensor:
    """The elements that are not zero as a sparse tensor.

    In coordinates, of the first `sparse_dim` dimensions (all); or in `layout`, in blocks of the shape `blocksize` where it
    has blocks, the last `dense_dim` dimensions (0) being those of each element and the two before them the matrix's.

    RuntimeError for what the layout has not.

    >>> import flambeau
    >>> flambeau.tensor([0.0, 2.0]).to_sparse().indices()
    tensor([[1]])
    """
    return _sparse_of(self, sparse_dim, layout, blocksize, dense_dim)


def to_sparse_coo(self: TensorBase) -> SparseTensor:
    """The elements that are not zero in coordinates.

    >>> import flambeau
    >>> flambeau.tensor([0.0, 2.0]).to_sparse_coo().values()
    tensor([2.])
    """
    return _sparse_of(self)


def to_sparse_csr(self: TensorBase, dense_dim: int | None = None) -> SparseTensor:
    """The elements that are not zero, row by row; matrices are the two dimensions before the last `dense_dim`.

    >>> import flambeau
    >>> flambeau.eye(2).to_sparse_csr().crow_indices()
    tensor([0, 1, 2])
    """
    return _sparse_of(self, None, formats.sparse_csr, None, dense_dim)


def to_sparse_csc(self: TensorBase, dense_dim: int | None = None) -> SparseTensor:
    """The elements that are not zero, column by column.

    >>> import flambeau
    >>> flambeau.eye(2).to_sparse_csc().ccol_indices()
    tensor([0, 1, 2])
    """
    return _sparse_of(self, None, formats.sparse_csc, None, dense_dim)


def to_sparse_bsr(self: TensorBase, blocksize: tuple[int, int], dense_dim: int | None = None) -> SparseTensor:
    """The blocks that are not zero, row by row.

    >>> import flambeau
    >>> flambeau.eye(2).to_sparse_bsr((1, 2)).values()
    tensor([[[1., 0.]],
    <BLANKLINE>
            [[0., 1.]]])
    """
    return _sparse_of(self, None, formats.sparse_bsr, blocksize, dense_dim)


def to_sparse_bsc(self: TensorBase, blocksize: tuple[int, int], dense_dim: int | None = None) -> SparseTensor:
    """The blocks that are not zero, column by column.

    >>> import flambeau
    >>> flambeau.eye(2).to_sparse_bsc((2, 1)).ccol_indices()
    tensor([0, 1, 2])
    """
    return _sparse_of(self, None, formats.sparse_bsc, blocksize, dense_dim)


@overrides("numpy", "__array__")
def _numpy(x: SparseTensor, *args: Any, **kwargs: Any) -> Any:
    """TypeError: an array lists all elements."""
    raise TypeError(
        f"numpy(): can't convert {NAMES[x.layout]} layout tensor to numpy. Use Tensor.to_dense() first."
    )


@overrides("__setitem__")
def _assign(x: SparseTensor, *args: Any) -> Any:
    raise TypeError(f"__setitem__(): Cannot assign to a sparse tensor, of layout {x.layout}")
