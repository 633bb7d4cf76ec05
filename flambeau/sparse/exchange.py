"""To and from `scipy.sparse`, without copies: both sides see the same memory."""

from __future__ import annotations

from typing import Any

from ..core.base import formats
from ..core.base.tensor import TensorBase
from ..core.make.literal import as_tensor
from ..operations.declare.registry import published
from .invariants import checked, checked_compressed
from .patterns import BLOCK_LAYOUTS, Compressed, Coordinates
from .tensors import SparseTensor, sparse

_OF = {
    "csr": formats.sparse_csr,
    "csc": formats.sparse_csc,
    "bsr": formats.sparse_bsr,
    "coo": formats.sparse_coo,
}


def from_scipy(matrix: Any) -> SparseTensor:
    """A sparse tensor over the memory of a `scipy.sparse` matrix or array: COO, CSR, CSC or BSR, others are converted.

    Indices may be int32 or int64 and stay so, but in coordinates, where they are copied into one int64 tensor.  Values are
    shared: what is written to them on one side is seen on the other.  CSR, CSC and BSR are sorted in place, and their
    duplicates added, where SciPy has left that for later.

    TypeError for what is no sparse matrix and for dtypes that there are not here, RuntimeError for indices that do not fit.

    Shape:
        the result: the matrix's

    >>> import flambeau, scipy.sparse
    >>> x = flambeau.sparse.from_scipy(scipy.sparse.csr_array([[0.0, 2.0], [0.0, 0.0]]))
    >>> x.layout, x.to_dense()
    (flambeau.sparse_csr, tensor([[0., 2.],
            [0., 0.]], dtype=flambeau.float64))
    """
    kind = getattr(matrix, "format", None)
    if kind is None or not hasattr(matrix, "tocoo"):
        raise TypeError(f"from_scipy(): a scipy.sparse matrix or array expected, got {type(matrix).__name__}")
    if kind not in _OF:
        matrix, kind = matrix.tocsr(), "csr"
    layout = _OF[kind]
    if kind == "coo":
        rows = [as_tensor(c).long() for c in matrix.coords]
        at = published("")["stack"](rows)
        values = as_tensor(matrix.data)
        return sparse(Coordinates(at, checked(at, values, matrix.shape), False), values)
    if not matrix.has_canonical_format:
        matrix.sum_duplicates()
    starts, places, values = (as_tensor(x) for x in (matrix.indptr, matrix.indices, matrix.data))
    places, values = places[: values.shape[0]], values[: places.shape[0]]
    block = tuple(matrix.blocksize) if layout in BLOCK_LAYOUTS else ()
    size = tuple(matrix.shape)
    checked_compressed("from_scipy", layout, starts, places, values, size, block, True, True)
    return sparse(Compressed(layout, starts, places, size, block), values)


def to_scipy(self: TensorBase) -> Any:
    """A `scipy.sparse` array over the memory of a sparse matrix: COO, CSR, CSC or BSR.

    Values and indices are shared.  RuntimeError for a tensor that is not sparse, is no matrix, requires a gradient or lies on
    another device; SciPy has no BSC: convert to BSR first.

    >>> import flambeau
    >>> flambeau.eye(2).to_sparse_csr().to_scipy().toarray()
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    from scipy import sparse as scipy_sparse

    if not isinstance(self, SparseTensor):
        raise RuntimeError(f"to_scipy(): a sparse tensor expected, got the layout {self.layout}; use numpy()")
    pattern, name = self._pattern, str(self.layout)
    if self.requires_grad:
        raise RuntimeError("to_scipy(): the tensor requires a gradient; use detach() first")
    if len(pattern.size) != 2 or pattern.dense_dim or self.layout is formats.sparse_bsc:
        raise RuntimeError(
            f"to_scipy(): SciPy has no {name} of the shape {list(pattern.size)} with dense_dim={pattern.dense_dim}; matrices "
            "in COO, CSR, CSC and BSR"
        )
    values = self._held.numpy()
    if type(pattern) is Coordinates:
        at = pattern.at.numpy()
        result = scipy_sparse.coo_array((values, (at[0], at[1])), shape=pattern.size, copy=False)
        result.has_canonical_format = pattern.coalesced
        return result
    make = {
        formats.sparse_csr: scipy_sparse.csr_array,
        formats.sparse_csc: scipy_sparse.csc_array,
        formats.sparse_bsr: scipy_sparse.bsr_array,
    }[self.layout]
    parts = (values, pattern.places.numpy(), pattern.starts.numpy())
    return make(parts, shape=pattern.size, copy=False)
