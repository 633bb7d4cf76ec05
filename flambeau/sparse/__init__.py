"""Sparse tensors: those that are mostly zero, as a list of the others.

The class itself is imported with the first sparse tensor.  From then on every operation asks whether one is among its
arguments (see `flambeau.overrides`), which costs other tensors some 50 ns a call.
"""

from __future__ import annotations

from typing import Any

from ..core.base.dtypes import by_name
from ..core.base.provided import provide
from ..core.base.tensor import TensorBase
from ..core.make.create import zeros
from ..core.make.literal import as_tensor

__all__ = ["sparse_coo_tensor"]


def sparse_coo_tensor(
    indices: Any,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> TensorBase:
    """A sparse tensor in coordinates: `values` (nnz, …) at `indices` (sparse dimensions, nnz), zeros elsewhere.

    Values at the same place add up.  `size` is the whole shape: sparse dimensions, then those that a value has; by
    default the smallest that holds all indices.  `sparse_coo_tensor(size)` alone has no values.  `dtype` and `device`
    are those of the values.  `is_coalesced` says that indices are sorted and differ.

    RuntimeError for indices that are no matrix or outside `size`, and for values that do not fit them;
    NotImplementedError for `requires_grad`: gradients of sparse leaves are not computed.

    >>> import flambeau
    >>> x = flambeau.sparse_coo_tensor([[0, 2, 2]], [3.0, 4.0, 5.0], (4,))
    >>> x
    tensor(indices=tensor([[0, 2, 2]]),
           values=tensor([3., 4., 5.]),
           size=(4,), nnz=3, layout=flambeau.sparse_coo)
    >>> x.to_dense()
    tensor([3., 0., 9., 0.])
    """
    from .coo import checked, coo

    if requires_grad:
        raise NotImplementedError(
            "sparse_coo_tensor(): requires_grad=True is not available for sparse tensors"
        )
    if values is None:
        if size is not None:
            raise TypeError("sparse_coo_tensor(): values are missing")
        size = tuple(indices)
        return coo(
            zeros(len(size), 0, dtype=by_name["int64"], device=device or "cpu"),
            zeros(0, dtype=dtype, device=device or "cpu"),
            size,
            True,
        )
    values = as_tensor(values, dtype=dtype, device=device)
    indices = as_tensor(indices, device=values.device)
    if not indices.numel() and indices.is_floating_point():
        indices = indices.long()
    if indices.is_floating_point() or indices.is_complex() or indices.dtype.name == "bool":
        raise RuntimeError(f"sparse_coo_tensor(): indices must be integers, got {indices.dtype}")
    indices = indices.long()
    return coo(indices, values, checked(indices, values, size), bool(is_coalesced))


def _of_gradient(indices: TensorBase, values: TensorBase, size: Any) -> TensorBase:
    """A sparse tensor of parts that fit."""
    from .coo import coo

    return coo(indices, values, size, False)


def to_dense(self: TensorBase) -> TensorBase:
    """The same elements with all zeros; of a dense tensor itself."""
    return self


def to_sparse(self: TensorBase, sparse_dim: int | None = None) -> TensorBase:
    """The elements that are not zero as a sparse tensor in coordinates, of the first `sparse_dim` dimensions (all).

    >>> import flambeau
    >>> flambeau.tensor([0.0, 2.0]).to_sparse().indices()
    tensor([[1]])
    """
    from .coo import from_dense

    return from_dense(self, self.ndim if sparse_dim is None else sparse_dim)


provide("sparse_coo", _of_gradient)
