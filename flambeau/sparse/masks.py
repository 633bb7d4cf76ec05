"""Tensors at the places of another, and sparse tensors of another size."""

from __future__ import annotations

from typing import Any

from ..core.base import formats
from ..core.base.tensor import TensorBase
from ..operations.declare.registry import published
from .arithmetic import same_size
from .invariants import sizes
from .patterns import Coordinates
from .tensors import SparseTensor, need_tensor, overrides, sparse, values_at

_cat = published("")["cat"]
_COO = (formats.sparse_coo,)


def sparse_mask(self: TensorBase, mask: SparseTensor) -> SparseTensor:
    """The elements of a tensor, dense or sparse, at the places that a sparse one lists; its gradient is zero elsewhere.

    The result lists each place once.
    A sparse tensor gives zeros where it lists nothing.  NotImplementedError for a mask that is not sparse, RuntimeError for one of
    another size.

    >>> import flambeau
    >>> flambeau.ones(2, 2).sparse_mask(flambeau.eye(2).to_sparse()).to_dense()
    tensor([[1., 0.],
            [0., 1.]])
    """
    need_tensor("sparse_mask", "mask", 1, mask)
    if not isinstance(mask, SparseTensor):
        raise NotImplementedError(f"sparse_mask(): expected a sparse mask, got the layout {mask.layout}")
    same_size("sparse_mask", self, mask)
    pattern = mask._pattern
    if type(pattern) is Coordinates:
        pattern = pattern.sorted()[0]
    return sparse(pattern, values_at(self, pattern))


def sparse_resize_(self: SparseTensor, size: Any, sparse_dim: int, dense_dim: int) -> SparseTensor:
    """Give a tensor in coordinates another size: larger dimensions, or, where it lists nothing, any.

    RuntimeError where what is listed would not fit.

    >>> import flambeau
    >>> flambeau.sparse_coo_tensor([[1]], [2.0], (2,)).sparse_resize_((5,), 1, 0).shape
    flambeau.Size([5])
    """
    size = sizes("sparse_resize_", size)
    pattern = self._expect("sparse_resize_", _COO, "coordinate")
    if len(size) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"sparse_resize_(): number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({dense_dim}), but got "
            f"{len(size)}"
        )
    if self._nnz():
        if (sparse_dim, dense_dim) != (self.sparse_dim(), self.dense_dim()):
            raise RuntimeError(
                "sparse_resize_(): changing the number of sparse or dense dimensions on a non-empty sparse tensor is not "
                "supported"
            )
        if any(a < b for a, b in zip(size, self.shape)):
            raise RuntimeError(
                f"sparse_resize_(): shrinking the size of dimensions (from {list(self.shape)} to {list(size)}) on a non-empty "
                "sparse tensor is not supported"
            )
        held = self._held
        for d in range(sparse_dim, len(size)):
            shape = list(held.shape)
            shape[d - sparse_dim + 1] = size[d] - shape[d - sparse_dim + 1]
            if shape[d - sparse_dim + 1]:
                held = _cat([held, held.new_zeros(shape)], d - sparse_dim + 1)
        return _resized(self, sparse(pattern.sized(size), held))
    return sparse_resize_and_clear_(self, size, sparse_dim, dense_dim)


def sparse_resize_and_clear_(self: SparseTensor, size: Any, sparse_dim: int, dense_dim: int) -> SparseTensor:
    """Give a tensor in coordinates another size, and nothing that it lists.

    >>> import flambeau
    >>> flambeau.sparse_coo_tensor([[1]], [2.0], (2,)).sparse_resize_and_clear_((5, 3), 1, 1)._values().shape
    flambeau.Size([0, 3])
    """
    size = sizes("sparse_resize_and_clear_", size)
    pattern = self._expect("sparse_resize_and_clear_", _COO, "coordinate")
    if len(size) != sparse_dim + dense_dim or sparse_dim < 0 or dense_dim < 0:
        raise RuntimeError(
            f"sparse_resize_and_clear_(): number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({dense_dim}), "
            f"but got {len(size)}"
        )
    at = pattern.at.new_zeros([sparse_dim, 0])
    return _resized(self, sparse(Coordinates(at, size, True), self._held.new_zeros([0, *size[sparse_dim:]])))


def _resized(x: SparseTensor, other: SparseTensor) -> SparseTensor:
    if x.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    x._take(other)
    return x._become(other, "sparse_resize_")


def resize_as_sparse_(self: SparseTensor, the_template: SparseTensor) -> SparseTensor:
    """Give a tensor in coordinates the size and kinds of dimensions of another.

    >>> import flambeau
    >>> x = flambeau.sparse_coo_tensor((2,))
    >>> flambeau.resize_as_sparse_(x, flambeau.eye(3).to_sparse()).shape
    flambeau.Size([3, 3])
    """
    need_tensor("resize_as_sparse_", "input", 1, self)
    need_tensor("resize_as_sparse_", "the_template", 2, the_template)
    for label, x in (("input", self), ("the_template", the_template)):
        if not isinstance(x, SparseTensor):
            raise RuntimeError(f"resize_as_sparse_(): expected a sparse {label}, got the layout {x.layout}")
    return sparse_resize_(self, the_template.shape, the_template.sparse_dim(), the_template.dense_dim())


@overrides("resize_as_", "resize_as_sparse_")
def _resize_as(input: SparseTensor, the_template: SparseTensor, **options: Any) -> SparseTensor:
    return resize_as_sparse_(input, the_template)
