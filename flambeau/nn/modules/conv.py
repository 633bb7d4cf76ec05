"""Convolution layers and their transposes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..._tensor import Tensor
from ...core.base.lazily import lazily
from ...core.make.create import empty
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module

_LAZY = (
    *("LazyConv1d", "LazyConv2d", "LazyConv3d"),
    *("LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "_LazyConvXdMixin"),
)
_HELPERS = ("_pair", "_reverse_repeat_tuple", "_single", "_triple")
__getattr__, __dir__ = lazily(
    __name__, names={**dict.fromkeys(_LAZY, ".lazy"), **dict.fromkeys(_HELPERS, ".utils")}
)

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
]

_size_t = int | tuple[int, ...]
_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What all convolutions share; a subclass says over how many dimensions, and whether it is a
    transpose.
    """

    _spatial: int
    transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _size_t,
        stride: _size_t,
        padding: _size_t | str,
        dilation: _size_t,
        output_padding: _size_t,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError(f"in_channels must be divisible by groups, got {in_channels} and {groups}")
        if out_channels % groups != 0:
            raise ValueError(f"out_channels must be divisible by groups, got {out_channels} and {groups}")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {_PADDING_MODES}, but got padding_mode='{padding_mode}'"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = self._per_dim(kernel_size)
        self.stride = self._per_dim(stride)
        self.padding = padding if isinstance(padding, str) else self._per_dim(padding)
        self.dilation = self._per_dim(dilation)
        self.output_padding = self._per_dim(output_padding)
        self.groups = groups
        self.padding_mode = padding_mode
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of ('same', 'valid')")
            if padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")

        self.weight = Parameter(empty(self._weight_shape(), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _per_dim(self, value: _size_t) -> tuple[int, ...]:
        return tuple(value) if isinstance(value, Iterable) else (value,) * self._spatial

    def _weight_shape(self) -> tuple[int, ...]:
        if self.transposed:
            return self.in_channels, self.out_channels // self.groups, *self.kernel_size
        return self.out_channels, self.in_channels // self.groups, *self.kernel_size

    def reset_parameters(self) -> None:
        """Draw new parameters."""
        # A gain for this slope makes the bound of kaiming_uniform_ exactly 1/sqrt(fan_in).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = self.weight.size(1) * math.prod(self.kernel_size)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def _convolve(self, conv: Any, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.padding_mode == "zeros":
            return conv(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        input = F.pad(input, self._pad_widths(), mode=self.padding_mode)
        return conv(input, weight, bias, self.stride, 0, self.dilation, self.groups)

    def _pad_widths(self) -> list[int]:
        """The widths as `F.pad` takes them: before and after each dimension, beginning with the last."""
        widths: list[int] = []
        for k in range(self._spatial):
            i = self._spatial - 1 - k
            if self.padding == "valid":
                before = after = 0
            elif self.padding == "same":
                total = self.dilation[i] * (self.kernel_size[i] - 1)
                before, after = total // 2, total - total // 2
            else:
                before = after = int(self.padding[i])
            widths += [before, after]
        return widths

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        )
        zeros = (0,) * self._spatial
        if self.padding != zeros:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self._spatial:
            text += f", dilation={self.dilation}"
        if self.output_padding != zeros:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class _Conv(_ConvNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _size_t,
        stride: _size_t = 1,
        padding: _size_t | str = 0,
        dilation: _size_t = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            0,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution by another weight and bias; layers that train with rounded weights call it."""
        return self._convolve(getattr(F, f"conv{self._spatial}d"), input, weight, bias)


class Conv1d(_Conv):
    """Cross-correlation of (N, C_in, L) or (C_in, L) with `weight`, plus `bias`.

    L_out = (L + 2·padding - dilation·(kernel_size - 1) - 1) // stride + 1. `weight` of shape
    (out_channels, in_channels / groups, kernel_size) and `bias` of shape (out_channels,) begin uniform in
    ±1/sqrt(fan_in), fan_in being the number of weights of one output channel.

    Args:
        in_channels, out_channels: the numbers of channels.
        kernel_size: the window's size.
        stride: the step from window to window.
        padding: how far both ends are padded; 'valid' is none, 'same' as much as keeps the length (stride 1
            only).
        dilation: the step within a window.
        groups: into how many independent groups the channels are divided.
        bias: whether there is a `bias`.
        padding_mode: what padding is filled with: 'zeros', 'reflect', 'replicate' or 'circular'.

    Raises:
        ValueError: channels that `groups` does not divide, or an unknown `padding` or `padding_mode`.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.Conv1d(16, 33, 3, stride=2)(flambeau.zeros(20, 16, 50)).shape == (20, 33, 24)
    True
    """

    _spatial = 1

    def forward(self, input: Tensor) -> Tensor:
        return self._convolve(F.conv1d, input, self.weight, self.bias)


class Conv2d(_Conv):
    """Cross-correlation of (N, C_in, H, W) or (C_in, H, W) with `weight`, plus `bias`; see `Conv1d`.

    Sizes are one int or a pair.

    Raises:
        RuntimeError: the shapes do not fit
        ValueError: the channels are no multiple of `groups`

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.Conv2d(3, 8, (3, 5), padding=(1, 2))(flambeau.zeros(1, 3, 10, 12)).shape == (1, 8, 10, 12)
    True
    """

    _spatial = 2

    def forward(self, input: Tensor) -> Tensor:
        return self._convolve(F.conv2d, input, self.weight, self.bias)


class Conv3d(_Conv):
    """Cross-correlation of (N, C_in, D, H, W) or (C_in, D, H, W) with `weight`, plus `bias`; see `Conv1d`.

    Shape:
        input: (N, C_in, D, H, W) or (C_in, D, H, W); result: (N, C_out, D, H, W) with ⌊(L + 2 padding -
            dilation (kernel_size - 1) - 1) / stride⌋ + 1 for D, H and W

    Raises:
        RuntimeError: the shapes do not fit
        ValueError: the channels are no multiple of `groups`

    >>> import flambeau
    >>> flambeau.nn.Conv3d(1, 2, kernel_size=3)(flambeau.ones(1, 1, 5, 5, 5)).shape
    flambeau.Size([1, 2, 3, 3, 3])
    """

    _spatial = 3

    def forward(self, input: Tensor) -> Tensor:
        return self._convolve(F.conv3d, input, self.weight, self.bias)


class _ConvTransposeNd(_ConvNd):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: _size_t,
        stride: _size_t = 1,
        padding: _size_t = 0,
        output_padding: _size_t = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: _size_t = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _convolve_transposed(self, conv: Any, input: Tensor, output_size: list[int] | None) -> Tensor:
        output_padding = list(self.output_padding)
        if output_size is not None:
            output_padding = self._padding_for(input, output_size)
        return conv(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
        )

    def _padding_for(self, input: Tensor, output_size: list[int]) -> list[int]:
        """The output padding that yields `output_size`, which may include batch and channel sizes."""
        n = self._spatial
        leading = input.dim() - n
        wanted = list(output_size)
        if len(wanted) == leading + n:
            wanted = wanted[leading:]
        if len(wanted) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or {leading + n} "
                f"elements (got {len(wanted)})"
            )
        smallest = [
            (input.size(leading + i) - 1) * self.stride[i]  # type: ignore[operator]
            - 2 * self.padding[i]
            + self.dilation[i] * (self.kernel_size[i] - 1)
            + 1
            for i in range(n)
        ]
        largest = [smallest[i] + self.stride[i] - 1 for i in range(n)]
        for i in range(n):
            if wanted[i] < smallest[i] or wanted[i] > largest[i]:
                raise ValueError(
                    f"requested an output size of {wanted}, but valid sizes range from {smallest} to {largest} "
                    f"(for an input of {input.shape[leading:]})"
                )
        return [wanted[i] - smallest[i] for i in range(n)]


class ConvTranspose1d(_ConvTransposeNd):
    """The gradient of a `Conv1d` with respect to its input, as a layer: (N, C_in, L) to (N, C_out, L_out).

    L_out = (L - 1)·stride - 2·padding + dilation·(kernel_size - 1) + output_padding + 1. `weight` has the
    shape (in_channels, out_channels / groups, kernel_size).

    Args:
        in_channels, out_channels, kernel_size, stride, dilation, groups, bias: those of the Conv1d, with the
            channels exchanged.
        padding: what the Conv1d pads; the output is that much shorter at both ends.
        output_padding: how much longer the output is at its end; it decides between the lengths that a
            strided Conv1d would map to the same L. `forward` may be given `output_size` instead.
        padding_mode: 'zeros' only.

    Raises:
        ValueError: as Conv1d; in `forward`, for an `output_size` that cannot be reached.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.ConvTranspose1d(4, 2, 3, stride=2)(flambeau.zeros(1, 4, 5)).shape == (1, 2, 11)
    True
    """

    _spatial = 1

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        return self._convolve_transposed(F.conv_transpose1d, input, output_size)


class ConvTranspose2d(_ConvTransposeNd):
    """The gradient of a `Conv2d` with respect to its input, as a layer; see `ConvTranspose1d`.

    Shape:
        input: (N, C_in, H, W) or (C_in, H, W); result: (N, C_out, H, W) with (L - 1) stride - 2 padding +
            dilation (kernel_size - 1) + output_padding + 1 for H and W

    Raises:
        RuntimeError: the shapes do not fit
        ValueError: the channels are no multiple of `groups`

    >>> import flambeau
    >>> from flambeau import nn
    >>> up = nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1)
    >>> up(flambeau.zeros(1, 4, 5, 5), output_size=(10, 10)).shape == (1, 2, 10, 10)
    True
    """

    _spatial = 2

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        return self._convolve_transposed(F.conv_transpose2d, input, output_size)


class ConvTranspose3d(_ConvTransposeNd):
    """The gradient of a `Conv3d` with respect to its input, as a layer; see `ConvTranspose1d`.

    Shape:
        input: (N, C_in, D, H, W) or (C_in, D, H, W); result: (N, C_out, D, H, W) with (L - 1) stride - 2
            padding + dilation (kernel_size - 1) + output_padding + 1 for D, H and W

    Raises:
        RuntimeError: the shapes do not fit
        ValueError: the channels are no multiple of `groups`

    >>> import flambeau
    >>> flambeau.nn.ConvTranspose3d(1, 2, kernel_size=3)(flambeau.ones(1, 1, 2, 2, 2)).shape
    flambeau.Size([1, 2, 4, 4, 4])
    """

    _spatial = 3

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        return self._convolve_transposed(F.conv_transpose3d, input, output_size)
