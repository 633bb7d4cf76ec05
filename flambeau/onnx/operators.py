"""Operations on shapes that exported graphs keep as such; here they are what they say."""

from __future__ import annotations

from ..core.base import dtypes
from ..core.base.tensor import TensorBase as Tensor
from ..core.make.literal import tensor

__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]


def shape_as_tensor(x: Tensor) -> Tensor:
    """The shape of x, int64, of length `x.dim()`, on the CPU.

    Raises:
        AttributeError: the argument is no tensor

    >>> import flambeau
    >>> shape_as_tensor(flambeau.ones(2, 3))
    tensor([2, 3])
    """
    return tensor(list(x.shape), dtype=dtypes.by_name["int64"])


def reshape_from_tensor_shape(x: Tensor, shape: Tensor) -> Tensor:
    """x in the shape that a tensor of ints holds.

    Raises:
        RuntimeError: the sizes do not multiply to the number of elements

    >>> import flambeau
    >>> reshape_from_tensor_shape(flambeau.ones(6), flambeau.tensor([2, 3])).shape
    flambeau.Size([2, 3])
    """
    return x.reshape(shape.tolist())
