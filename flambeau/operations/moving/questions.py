"""Questions about tensors, answered by Python values."""

from __future__ import annotations

from ...core.base.tensor import TensorBase
from ..declare.registry import library


@library("question", "is_same_size", "Tensor.is_same_size", differentiable=False, batching="outlined")
def is_same_size(input: TensorBase, other: TensorBase) -> bool:
    """Whether two tensors have one shape.

    Raises:
        TypeError: an argument is no Tensor

    >>> import flambeau
    >>> flambeau.is_same_size(flambeau.zeros(2, 3), flambeau.ones(2, 3))
    True
    """
    return tuple(input.shape) == tuple(other.shape)


@library(
    "question",
    "is_nonzero",
    "Tensor.is_nonzero",
    differentiable=False,
    batching="itemless",
    sharding="number",
)
def is_nonzero(input: TensorBase) -> bool:
    """Whether a tensor's only element is not zero; RuntimeError unless there is just one.

    Shape:
        input: one element

    Raises:
        RuntimeError: there is not exactly one element

    >>> import flambeau
    >>> flambeau.is_nonzero(flambeau.tensor([0.5]))
    True
    """
    if input.numel() != 1:
        raise RuntimeError(
            "Boolean value of Tensor with no values is ambiguous"
            if input.numel() == 0
            else "Boolean value of Tensor with more than one value is ambiguous"
        )
    return bool(input)


@library("question", "is_set_to", "Tensor.is_set_to", differentiable=False, batching="outlined")
def is_set_to(input: TensorBase, tensor: TensorBase) -> bool:
    """Whether both lie over the same storage at the same place with the same shape and strides.

    Raises:
        TypeError: an argument is no Tensor

    >>> import flambeau
    >>> x = flambeau.zeros(4)
    >>> x.is_set_to(x.view(4)), x.is_set_to(x[:2])
    (True, False)
    """
    return (
        input.untyped_storage() is tensor.untyped_storage()
        and input.storage_offset() == tensor.storage_offset()
        and tuple(input.shape) == tuple(tensor.shape)
        and tuple(input.stride()) == tuple(tensor.stride())
    )


@library("question", "is_signed", name="is_signed_of", differentiable=False, batching="outlined")
def is_signed(input: TensorBase) -> bool:
    """Whether the tensor's dtype has negative numbers.

    Shape:
        input: any

    Raises:
        TypeError: the argument is no Tensor

    >>> import flambeau
    >>> flambeau.is_signed(flambeau.tensor([1])), flambeau.is_signed(flambeau.tensor([1], dtype=flambeau.uint8))
    (True, False)
    """
    return input.is_signed()


@library("question", "Tensor.dim_order", differentiable=False, batching="outlined")
def dim_order(self: TensorBase) -> tuple[int, ...]:
    """The dimensions from the outermost in memory to the innermost.

    >>> import flambeau
    >>> flambeau.zeros(2, 3).t().dim_order()
    (1, 0)
    """
    return tuple(sorted(range(self.ndim), key=lambda d: (-self.stride()[d], d)))
