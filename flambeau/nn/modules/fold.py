"""Blocks of images as columns, and back."""

from __future__ import annotations

from ..._tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = ["Fold", "Unfold"]

_size_t = int | tuple[int, ...]


class _Blocks(Module):
    def __init__(self, kernel_size: _size_t, dilation: _size_t, padding: _size_t, stride: _size_t) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Unfold(_Blocks):
    """The blocks of (N, C, H, W) as columns: (N, C · elements of a block, places).

    Raises:
        RuntimeError: a block does not fit into the padded input

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.Unfold(2)(flambeau.zeros(1, 3, 4, 5)).shape == (1, 12, 12)
    True
    """

    def __init__(
        self, kernel_size: _size_t, dilation: _size_t = 1, padding: _size_t = 0, stride: _size_t = 1
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(_Blocks):
    """Columns (N, C · elements of a block, places) added up where they stand in an image (N, C, *output_size).

    Shape:
        input: (N, C · block, places) or (C · block, places); result: (N, C, *output_size) or (C,
            *output_size)

    Raises:
        RuntimeError: the shape fits no image of that size

    >>> import flambeau
    >>> flambeau.nn.Fold(output_size=(1, 3), kernel_size=(1, 2))(flambeau.ones(1, 2, 2))
    tensor([[[[1., 2., 1.]]]])
    """

    def __init__(
        self,
        output_size: _size_t,
        kernel_size: _size_t,
        dilation: _size_t = 1,
        padding: _size_t = 0,
        stride: _size_t = 1,
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}, {super().extra_repr()}"
