"""Sparse tensors of their parts."""

from __future__ import annotations

from typing import Any

from ..core.base.dtypes import by_name
from ..core.base.tensor import TensorBase
from ..core.make.create import arange, zeros
from ..core.make.literal import as_tensor
from ..operations.declare.registry import published
from .invariants import checked, checked_compressed, sizes, wanted
from .patterns import BLOCK_LAYOUTS, COLUMN_LAYOUTS, COMPRESSED, Compressed, Coordinates
from .tensors import SparseTensor, block_of, sparse

_operations = published("")


def in_coordinates(
    indices: Any,
    values: Any,
    size: Any,
    dtype: Any,
    device: Any,
    requires_grad: bool,
    check_invariants: bool | None,
    is_coalesced: bool | None,
) -> SparseTensor:
    """What `sparse_coo_tensor` makes; see there.

    Shape:
        indices: (sparse dimensions, nnz); values: (nnz, *dense dimensions)

    Raises:
        RuntimeError: the parts break a rule, which it names

    >>> import flambeau
    >>> flambeau.sparse_coo_tensor([[1]], [2.0], (3,)).to_dense()
    tensor([0., 2., 0.])
    """
    if values is None:
        if (size is None) == (indices is None):
            raise TypeError("sparse_coo_tensor(): indices and values are missing, or a size alone")
        size = sizes("sparse_coo_tensor", indices if size is None else size)
        places = zeros(len(size), 0, dtype=by_name["int64"], device=device or "cpu")
        made = sparse(Coordinates(places, size, True), zeros(0, dtype=dtype, device=device or "cpu"))
        return made.requires_grad_() if requires_grad else made
    values = as_tensor(values, dtype=dtype, device=device)
    indices = as_tensor(indices, device=values.device)
    if not indices.numel() and indices.is_floating_point():
        indices = indices.long()
    if indices.is_floating_point() or indices.is_complex() or indices.dtype.name == "bool":
        raise RuntimeError(f"sparse_coo_tensor(): indices must be integers, got {indices.dtype}")
    indices = indices.detach().long()
    look, strictly = wanted(check_invariants)
    size = checked(indices, values, size, look)
    made = sparse(Coordinates(indices, size, bool(is_coalesced)), values)
    if is_coalesced and strictly and not indices.is_meta:
        keys = made._pattern.keys()
        if not bool((keys[1:] > keys[:-1]).all()):
            raise RuntimeError(
                "sparse_coo_tensor(): cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"
            )
    return _leaf(made, requires_grad)


def compressed(
    who: str,
    layout: Any,
    starts: Any,
    places: Any,
    values: Any,
    size: Any,
    dtype: Any,
    device: Any,
    requires_grad: bool,
    check_invariants: bool | None,
) -> SparseTensor:
    """What `sparse_csr_tensor` and its kin make; see there.

    Shape:
        starts: (rows or columns + 1,); places: (nnz,); values: (nnz, *dense dimensions)

    Raises:
        RuntimeError: the parts break a rule, which it names

    >>> import flambeau
    >>> flambeau.sparse_csc_tensor([0, 0, 1], [1], [2.0]).to_dense()
    tensor([[0., 0.],
            [0., 2.]])
    """
    if layout not in COMPRESSED:
        raise RuntimeError(f"{who}() expected sparse compressed tensor layout but got {layout or 'none'}")
    values = as_tensor(values, dtype=dtype, device=device)
    starts, places = as_tensor(starts, device=values.device), as_tensor(places, device=values.device)
    starts, places = (
        x.long() if not x.numel() and x.is_floating_point() else x.detach() for x in (starts, places)
    )
    block = block_of(layout, starts.ndim, values)
    size = _smallest(layout, starts, places, values, block) if size is None else sizes(who, size)
    checked_compressed(who, layout, starts, places, values, size, block, *wanted(check_invariants))
    return _leaf(sparse(Compressed(layout, starts, places, size, block), values), requires_grad)


def _smallest(
    layout: Any, starts: TensorBase, places: TensorBase, values: TensorBase, block: tuple[int, ...]
) -> tuple[int, ...]:
    """The smallest size that holds these places."""
    n = starts.ndim - 1
    other = int(places.max().item()) + 1 if places.numel() else 0
    grid = [max(starts.shape[-1] - 1, 0) if starts.ndim else 0, max(other, 0)]
    if layout in COLUMN_LAYOUTS:
        grid.reverse()
    scale = block or (1, 1)
    return (
        *values.shape[:n],
        *(a * b for a, b in zip(grid, scale)),
        *values.shape[n + 1 + 2 * (layout in BLOCK_LAYOUTS) :],
    )


def _leaf(made: SparseTensor, requires_grad: bool) -> SparseTensor:
    """Made of constants where the tensor itself is to be a leaf."""
    if not requires_grad:
        return made
    return made.detach().requires_grad_()  # type: ignore[return-value]


def of_gradient(indices: TensorBase, values: TensorBase, size: Any) -> TensorBase:
    """A sparse tensor in coordinates of parts that fit.

    Shape:
        indices: (sparse dimensions, nnz); values: (nnz, *dense dimensions)

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.sparse.making import of_gradient
    >>> of_gradient(flambeau.tensor([[1]]), flambeau.ones(1), (2,)).layout
    flambeau.sparse_coo
    """
    return sparse(Coordinates(indices, size, False), values)


def of_gathered(grad: TensorBase, index: TensorBase, dim: int, size: Any) -> TensorBase:
    """A gradient (of index's shape) at the places that `index` chose along a dimension of a tensor of that size.

    Raises:
        IndexError: `dim` is out of range

    >>> import flambeau
    >>> from flambeau.sparse.making import of_gathered
    >>> of_gathered(flambeau.ones(1, 2), flambeau.tensor([[2, 0]]), 1, (1, 3)).to_dense()
    tensor([[1., 0., 1.]])
    """
    at = list(_operations["unravel_index"](arange(index.numel(), device=index.device), tuple(index.shape)))
    at[dim] = index.reshape(-1)
    return sparse(Coordinates(_operations["stack"](at), size, False), grad.reshape(-1))


def nothing_like(x: SparseTensor, size: tuple[int, ...] | None = None) -> SparseTensor:
    """A sparse tensor of x's kind without elements.

    >>> import flambeau
    >>> from flambeau.sparse.making import nothing_like
    >>> nothing_like(flambeau.eye(2).to_sparse())._nnz()
    0
    """
    pattern, held = x._pattern, x._held
    if type(pattern) is Coordinates:
        at = pattern.at.new_zeros([pattern.sparse_dim, 0])
        return sparse(Coordinates(at, size or pattern.size, True), held.new_zeros([0, *held.shape[1:]]))
    n = pattern.batch
    starts, places = (
        pattern.starts.new_zeros(pattern.starts.shape),
        pattern.places.new_zeros([*pattern.places.shape[:n], 0]),
    )
    none = held.new_zeros([*held.shape[:n], 0, *held.shape[n + 1 :]])
    return sparse(Compressed(pattern.layout, starts, places, pattern.size, pattern.block), none)
