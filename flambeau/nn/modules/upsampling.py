"""Upsampling by interpolation."""

from __future__ import annotations

from typing import Any

from ..._tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Module):
    """Resize the spatial dimensions of an input (N, C, ...) by interpolation.

    Args:
        size: the output's spatial sizes; or
        scale_factor: the factor, one number or one a dimension, by which they grow.
        mode: 'nearest', 'linear' (3-D input), 'bilinear' and 'bicubic' (4-D), or 'trilinear' (5-D).
        align_corners: whether the centres of the corner pixels coincide; not for 'nearest'.
        recompute_scale_factor: whether the factor is computed anew from the rounded output size.

    Raises:
        NotImplementedError: there are neither three, four nor five dimensions
        ValueError: neither `size` nor `scale_factor` is given

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.Upsample(scale_factor=2)(flambeau.zeros(1, 1, 2, 3)).shape == (1, 1, 4, 6)
    True
    """

    def __init__(
        self,
        size: int | tuple[int, ...] | None = None,
        scale_factor: float | tuple[float, ...] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        self.scale_factor: Any
        if isinstance(scale_factor, tuple):
            self.scale_factor = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        grows = f"size={self.size!r}" if self.scale_factor is None else f"scale_factor={self.scale_factor!r}"
        return f"{grows}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` of an input (N, C, H, W) by the nearest pixel.

    Shape:
        input: (N, C, H, W); result: (N, C, *size)

    Raises:
        NotImplementedError: there are fewer than three dimensions

    >>> import flambeau
    >>> flambeau.nn.UpsamplingNearest2d(size=(1, 4))(flambeau.tensor([[[[1.0, 2.0]]]]))
    tensor([[[[1., 1., 2., 2.]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` of an input (N, C, H, W) by bilinear interpolation with aligned corners.

    Shape:
        input: (N, C, H, W); result: (N, C, *size)

    Raises:
        NotImplementedError: there are not four dimensions

    >>> import flambeau
    >>> flambeau.nn.UpsamplingBilinear2d(size=(1, 3))(flambeau.tensor([[[[0.0, 2.0]]]]))
    tensor([[[[0., 1., 2.]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
