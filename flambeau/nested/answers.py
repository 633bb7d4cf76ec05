"""What stands in for operations of nested tensors of layout `jagged`, gathered here for the class, and what they are pickled as."""

from __future__ import annotations

from typing import Any

from ..core.base.tensor import TensorBase
from . import pointwise, products, reductions, shapes  # noqa: F401
from .jagged import NestedTensor, functional, jagged, overrides
from .padding import padded
from .raggedness import raggedness

__all__ = ["NestedTensor", "rebuilt"]


def rebuilt(
    values: TensorBase, offsets: TensorBase, lengths: TensorBase | None, ragged_dim: int
) -> NestedTensor:
    """A nested tensor from its parts, which are checked.

    Shape:
        values: (the sum of the lengths, *); offsets: (sequences + 1,)

    Raises:
        ValueError: the parts do not fit

    >>> import flambeau
    >>> from flambeau.nested.answers import rebuilt
    >>> rebuilt(flambeau.ones(3), flambeau.tensor([0, 4]), None, 1)
    Traceback (most recent call last):
    ValueError: sequence 0 ends at 4, behind the 3 values along the ragged dimension
    """
    if not 1 <= ragged_dim <= values.ndim:
        raise ValueError(
            f"the ragged dimension must be in [1, {values.ndim}] for values of shape {tuple(values.shape)}, got {ragged_dim}"
        )
    if offsets.device != values.device or (lengths is not None and lengths.device != values.device):
        raise ValueError(
            f"values and offsets must be on the same device, got {values.device} and {offsets.device}"
        )
    return jagged(values, raggedness(offsets, lengths, values.shape[ragged_dim - 1]), ragged_dim)


def _reduced(self: NestedTensor, protocol: Any) -> tuple:
    return rebuilt, (self._elements, self.ragged.offsets, self.ragged.lengths, self._ragged_idx)


@overrides(functional.scaled_dot_product_attention)
def _attention(*args: Any, **kwargs: Any) -> NestedTensor:
    from .attention import attention  # the code generator comes with it

    return attention(*args, **kwargs)


NestedTensor.to_padded_tensor = padded
NestedTensor.__reduce_ex__ = _reduced  # type: ignore[assignment]
