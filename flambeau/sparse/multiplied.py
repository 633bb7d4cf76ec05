"""Products of two sparse matrices, by SciPy on the host."""

from __future__ import annotations

from typing import Any

from ..core import tape
from ..core.base import formats
from ..core.base.tensor import TensorBase
from ..core.make.literal import as_tensor
from .conversion import to_compressed
from .exchange import to_scipy
from .patterns import Compressed, Coordinates
from .tensors import SparseTensor, sparse, values_at, values_of


def multiply(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """a @ b for sparse matrices of one dtype that fit, in the layout of `a` (CSR where that has blocks).

    >>> import flambeau
    >>> from flambeau.sparse.multiplied import multiply
    >>> multiply(flambeau.eye(2).to_sparse_csr(), flambeau.eye(2).to_sparse_csr()).layout
    flambeau.sparse_csr
    """
    kind, device = a.dtype, a.device
    widened = kind.name in ("float16", "bfloat16")
    first, second = (
        to_scipy(to_compressed(x.detach().cpu().to(_wide(kind)), formats.sparse_csr, None)) for x in (a, b)
    )
    result = first @ second
    result.sort_indices()
    starts, places, values = (as_tensor(x) for x in (result.indptr, result.indices, result.data))
    starts, places = starts.long(), places.long()
    values = (values.to(kind) if widened else values).to(device)
    rows = Compressed(formats.sparse_csr, starts, places, result.shape).moved(device)
    pattern: Any = rows
    if a.layout is formats.sparse_coo:
        pattern = Coordinates(rows.coordinates(), rows.size, True)
    elif a.layout is formats.sparse_csc:
        turned = to_compressed(sparse(rows, values), formats.sparse_csc, None)
        pattern, values = turned._pattern, turned._held
    if tape.tracked(a) or tape.tracked(b):
        inputs = (values_of(a), values_of(b))
        # `tape.record`: an operand is a pattern of places, which is no argument that modes could be shown
        tape.record(
            "SparseSparseMmBackward", _gradients, inputs, values, inputs, (a._pattern, b._pattern, pattern)
        )
    return sparse(pattern, values)


def _wide(kind: Any) -> Any:
    from ..core.base.dtypes import by_name

    return by_name["float32"] if kind.name in ("float16", "bfloat16") else kind


def _gradients(grad: TensorBase, left: TensorBase, right: TensorBase, a: Any, b: Any, product: Any) -> tuple:
    """(G bᵀ) at the places of a, and (aᵀ G) at those of b."""
    g: Any = sparse(product, grad)
    first: Any = sparse(a, left)
    second: Any = sparse(b, right)
    if left.is_complex():
        first, second = first.conj(), second.conj()
    of_left, of_right = multiply(g, _turned(second, g)), multiply(_turned(first, g), g)
    return values_at(of_left, a), values_at(of_right, b)


def _turned(x: SparseTensor, like: SparseTensor) -> Any:
    """The transposed matrix in a layout that goes with another's."""
    turned = x.t()
    return turned if like.layout is formats.sparse_coo else to_compressed(turned, formats.sparse_csr, None)
