"""Trading channels for resolution."""

from __future__ import annotations

from ..._tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = ["ChannelShuffle", "PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """Rearrange (*, C·r², H, W) to (*, C, H·r, W·r), r being `upscale_factor` (Shi et al., 2016).

    Raises:
        RuntimeError: the channels are no multiple of r²

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.PixelShuffle(2)(flambeau.zeros(1, 8, 3, 3)).shape == (1, 2, 6, 6)
    True
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Rearrange (*, C, H·r, W·r) to (*, C·r², H, W), r being `downscale_factor`: the inverse of
    PixelShuffle.

    Raises:
        RuntimeError: height or width is no multiple of r

    >>> import flambeau
    >>> flambeau.nn.PixelUnshuffle(2)(flambeau.arange(4).reshape(1, 2, 2)).flatten()
    tensor([0, 1, 2, 3])
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """The channels of (N, C, *) dealt out in turn to `groups` groups (Zhang et al., 2018).

    Shape:
        input: (N, C, *); the result has the same

    Raises:
        RuntimeError: the channels are no multiple of `groups`

    >>> import flambeau
    >>> flambeau.nn.ChannelShuffle(2)(flambeau.arange(4).reshape(1, 4, 1)).flatten()
    tensor([0, 2, 1, 3])
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
