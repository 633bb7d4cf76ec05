"""Everything that sparse tensors answer, brought together: importing this gives the class its methods and operations."""

from __future__ import annotations

from typing import Any

from ..core.base import formats
from ..core.base.tensor import TensorBase
from . import arithmetic, conversion, masks, multiplied, products, reductions, shaping, unary
from .exchange import from_scipy
from .functions import addmm, as_sparse_gradcheck, mm, sampled_addmm, spdiags, spsolve
from .making import compressed, in_coordinates, of_gathered, of_gradient
from .patterns import Compressed, Coordinates
from .probabilities import log_softmax, softmax
from .reductions import sum
from .tensors import OVERRIDES, SparseTensor, block_of, sparse

__all__ = [
    "OVERRIDES",
    "SparseTensor",
    "addmm",
    "arithmetic",
    "as_sparse_gradcheck",
    "compressed",
    "from_scipy",
    "in_coordinates",
    "log_softmax",
    "masks",
    "mm",
    "multiplied",
    "of_gathered",
    "of_gradient",
    "products",
    "rebuilt",
    "reductions",
    "sampled_addmm",
    "shaping",
    "softmax",
    "spdiags",
    "spsolve",
    "sum",
    "unary",
]


def rebuilt(
    layout: Any, parts: tuple, values: TensorBase, size: tuple, coalesced: bool | None, requires_grad: bool
) -> SparseTensor:
    """A sparse tensor of what it was pickled as.

    Shape:
        the result: `size`

    Raises:
        ValueError: there are not as many lists as the layout has

    >>> import flambeau, pickle
    >>> pickle.loads(pickle.dumps(flambeau.eye(2).to_sparse_csr())).layout
    flambeau.sparse_csr
    """
    if layout is formats.sparse_coo:
        pattern: Any = Coordinates(parts[0], size, bool(coalesced))
    else:
        starts, places = parts
        pattern = Compressed(layout, starts, places, size, block_of(layout, starts.ndim, values))
    return sparse(pattern, values).requires_grad_(requires_grad)


def _reduced(self: SparseTensor, protocol: Any) -> tuple:
    pattern = self._pattern
    description = pattern.coalesced if type(pattern) is Coordinates else None
    return rebuilt, (
        pattern.layout,
        pattern.parts(),
        self._held.detach(),
        pattern.size,
        description,
        self.requires_grad,
    )


def _coalesce(self: SparseTensor) -> SparseTensor:
    """The same tensor in sorted coordinates, each once: values at the same place are added; RuntimeError for other layouts."""
    self._expect("coalesce", (formats.sparse_coo,), "coordinate")
    return conversion.coalesce(self)


SparseTensor.__reduce_ex__ = _reduced  # type: ignore[method-assign,assignment]
SparseTensor.coalesce = _coalesce  # type: ignore[attr-defined,assignment]
SparseTensor.to_dense = conversion.to_dense  # type: ignore[method-assign,assignment]
SparseTensor._of_each = staticmethod(unary.of_each)  # type: ignore[assignment]
SparseTensor.smm = products.smm  # type: ignore[attr-defined]
SparseTensor.sspaddmm = products.sspaddmm  # type: ignore[attr-defined]
SparseTensor.sparse_resize_ = masks.sparse_resize_  # type: ignore[attr-defined]
SparseTensor.sparse_resize_and_clear_ = masks.sparse_resize_and_clear_  # type: ignore[attr-defined]
