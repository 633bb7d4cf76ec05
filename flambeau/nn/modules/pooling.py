"""Pooling layers: maximum and average, over windows or down to a given size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..._tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]

_size_t = int | tuple[int, ...]


class _MaxPoolNd(Module):
    def __init__(
        self,
        kernel_size: _size_t,
        stride: _size_t | None = None,
        padding: _size_t = 0,
        dilation: _size_t = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def _pool(self, pool: Any, input: Tensor) -> Any:
        return pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """The largest value in each window of (N, C, L) or (C, L).

    Args:
        kernel_size: the window's size.
        stride: the step from window to window, `kernel_size` by default.
        padding: how far -inf is put on both sides; at most half of `kernel_size`.
        dilation: the step within a window.
        return_indices: whether to return the places of the maxima as well.
        ceil_mode: whether the output's size is rounded up.

    Raises:
        RuntimeError: a window does not fit into the padded input

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.MaxPool1d(2)(flambeau.tensor([[[1.0, 2.0, 5.0, 4.0]]]))
    tensor([[[2., 5.]]])
    """

    def forward(self, input: Tensor) -> Any:
        return self._pool(F.max_pool1d, input)


class MaxPool2d(_MaxPoolNd):
    """The largest value in each window of (N, C, H, W) or (C, H, W); see `MaxPool1d`. Sizes are one int or a
    pair.

    Raises:
        RuntimeError: a window does not fit into the padded input

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.MaxPool2d(3, stride=2)(flambeau.zeros(1, 2, 9, 7)).shape == (1, 2, 4, 3)
    True
    """

    def forward(self, input: Tensor) -> Any:
        return self._pool(F.max_pool2d, input)


class MaxPool3d(_MaxPoolNd):
    """The largest value in each window of (N, C, D, H, W) or (C, D, H, W); see `MaxPool1d`.

    Shape:
        input: (N, C, D, H, W) or (C, D, H, W); result: the same with ⌊(L + 2 padding - dilation (kernel_size
            - 1) - 1) / stride⌋ + 1 for D, H and W

    Raises:
        RuntimeError: there are neither four nor five dimensions

    >>> import flambeau
    >>> flambeau.nn.MaxPool3d(2)(flambeau.arange(8.0).reshape(1, 2, 2, 2)).item()
    7.0
    """

    def forward(self, input: Tensor) -> Any:
        return self._pool(F.max_pool3d, input)


class _AvgPoolNd(Module):
    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


def _single(value: _size_t) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, Iterable) else (value,)


class AvgPool1d(_AvgPoolNd):
    """The mean of each window of (N, C, L) or (C, L).

    Args:
        kernel_size: the window's size.
        stride: the step from window to window, `kernel_size` by default.
        padding: how far zeros are put on both sides.
        ceil_mode: whether the output's size is rounded up.
        count_include_pad: whether those zeros count in the mean.

    Raises:
        RuntimeError: a window does not fit into the padded input

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.AvgPool1d(2)(flambeau.tensor([[[1.0, 2.0, 5.0, 4.0]]]))
    tensor([[[1.5000, 4.5000]]])
    """

    def __init__(
        self,
        kernel_size: _size_t,
        stride: _size_t | None = None,
        padding: _size_t = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(stride if stride is not None else kernel_size)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )


class _PlanarAvgPool(_AvgPoolNd):
    def __init__(
        self,
        kernel_size: _size_t,
        stride: _size_t | None = None,
        padding: _size_t = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def _pool(self, pool: Any, input: Tensor) -> Tensor:
        return pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_PlanarAvgPool):
    """The mean of each window of (N, C, H, W) or (C, H, W); see `AvgPool1d`. Sizes are one int or a pair.

    `divisor_override` is what sums are divided by in place of the window's size.

    Shape:
        input: (N, C, H, W) or (C, H, W); result: the same with ⌊(L + 2 padding - kernel_size) / stride⌋ + 1
            for H and W

    Raises:
        RuntimeError: a window does not fit into the padded input

    >>> import flambeau
    >>> flambeau.nn.AvgPool2d(2)(flambeau.tensor([[[1.0, 2.0], [3.0, 6.0]]]))
    tensor([[[3.]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return self._pool(F.avg_pool2d, input)


class AvgPool3d(_PlanarAvgPool):
    """The mean of each window of (N, C, D, H, W) or (C, D, H, W); see `AvgPool2d`.

    Shape:
        input: (N, C, D, H, W) or (C, D, H, W); result: the same with ⌊(L + 2 padding - kernel_size) / stride⌋
            + 1 for D, H and W

    Raises:
        RuntimeError: there are neither four nor five dimensions

    >>> import flambeau
    >>> flambeau.nn.AvgPool3d(2)(flambeau.arange(8.0).reshape(1, 2, 2, 2)).item()
    3.5
    """

    def forward(self, input: Tensor) -> Tensor:
        return self._pool(F.avg_pool3d, input)


class _AdaptivePool(Module):
    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _AdaptiveAvgPoolNd(_AdaptivePool):
    """What the adaptive means are, for those who ask a layer for its kind."""


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The means of `output_size` windows that cover the last dimension of (N, C, L) or (C, L).

    Shape:
        input: (N, C, L) or (C, L); result: (N, C, output_size) or (C, output_size)

    Raises:
        RuntimeError: there are neither two nor three dimensions

    >>> import flambeau
    >>> flambeau.nn.AdaptiveAvgPool1d(2)(flambeau.tensor([[1.0, 3.0, 5.0, 7.0]]))
    tensor([[2., 6.]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The means of windows that cover (N, C, H, W) or (C, H, W), as many as `output_size` says: one int or a
    pair.

    None in the pair keeps that size of the input.

    Raises:
        RuntimeError: there are neither three nor four dimensions

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.AdaptiveAvgPool2d((3, None))(flambeau.zeros(1, 2, 8, 9)).shape == (1, 2, 3, 9)
    True
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The means of windows that cover (N, C, D, H, W) or (C, D, H, W); see `AdaptiveAvgPool2d`.

    Shape:
        input: (N, C, D, H, W) or (C, D, H, W); result: the same with the last three sizes `output_size`

    Raises:
        RuntimeError: there are neither four nor five dimensions

    >>> import flambeau
    >>> flambeau.nn.AdaptiveAvgPool3d(1)(flambeau.arange(8.0).reshape(1, 2, 2, 2)).item()
    3.5
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)


class _AdaptiveMaxPoolNd(_AdaptivePool):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The maxima of `output_size` windows that cover the last dimension, with their places if
    `return_indices`.

    Shape:
        input: (N, C, L) or (C, L); result: (N, C, output_size) or (C, output_size)

    Raises:
        RuntimeError: there are neither two nor three dimensions

    >>> import flambeau
    >>> flambeau.nn.AdaptiveMaxPool1d(2)(flambeau.tensor([[1.0, 3.0, 5.0, 7.0]]))
    tensor([[3., 7.]])
    """

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The maxima of windows that cover (N, C, H, W) or (C, H, W); see `AdaptiveAvgPool2d` and
    `AdaptiveMaxPool1d`.

    Shape:
        input: (N, C, H, W) or (C, H, W); result: the same with the last two sizes `output_size`

    Raises:
        RuntimeError: there are neither three nor four dimensions

    >>> import flambeau
    >>> flambeau.nn.AdaptiveMaxPool2d((1, 2))(flambeau.arange(8.0).reshape(1, 2, 4))
    tensor([[[5., 7.]]])
    """

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The maxima of windows that cover (N, C, D, H, W) or (C, D, H, W); see `AdaptiveMaxPool2d`.

    Shape:
        input: (N, C, D, H, W) or (C, D, H, W); result: the same with the last three sizes `output_size`

    Raises:
        RuntimeError: there are neither four nor five dimensions

    >>> import flambeau
    >>> flambeau.nn.AdaptiveMaxPool3d(1)(flambeau.arange(8.0).reshape(1, 2, 2, 2)).item()
    7.0
    """

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _LPPoolNd(Module):
    def __init__(
        self, norm_type: float, kernel_size: _size_t, stride: _size_t | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = (
            norm_type,
            kernel_size,
            stride,
            ceil_mode,
        )

    def extra_repr(self) -> str:
        return f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, ceil_mode={self.ceil_mode}"


class LPPool1d(_LPPoolNd):
    """(Σ x^p)^(1/p) over windows of the last dimension, p being `norm_type`.

    Shape:
        input: (N, C, L) or (C, L); result: the same with ⌊(L - kernel_size) / stride⌋ + 1 for L

    Raises:
        RuntimeError: there are neither two nor three dimensions

    >>> import flambeau
    >>> flambeau.nn.LPPool1d(2, kernel_size=2)(flambeau.tensor([[3.0, 4.0, 6.0, 8.0]]))
    tensor([[ 5., 10.]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPoolNd):
    """(Σ x^p)^(1/p) over windows of (N, C, H, W) or (C, H, W); see `LPPool1d`.

    Shape:
        input: (N, C, H, W) or (C, H, W); result: the same with ⌊(L - kernel_size) / stride⌋ + 1 for H and W

    Raises:
        RuntimeError: there are neither three nor four dimensions

    >>> import flambeau
    >>> flambeau.nn.LPPool2d(2, kernel_size=2)(flambeau.ones(1, 2, 4))
    tensor([[[2., 2.]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool3d(_LPPoolNd):
    """(Σ x^p)^(1/p) over windows of (N, C, D, H, W) or (C, D, H, W); see `LPPool1d`.

    Shape:
        input: (N, C, D, H, W) or (C, D, H, W); result: the same with ⌊(L - kernel_size) / stride⌋ + 1 for D,
            H and W

    Raises:
        RuntimeError: there are neither four nor five dimensions

    >>> import flambeau
    >>> flambeau.nn.LPPool3d(1, kernel_size=2)(flambeau.ones(1, 2, 2, 2)).item()
    8.0
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool3d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class _MaxUnpoolNd(Module):
    _dims: int

    def __init__(self, kernel_size: _size_t, stride: _size_t | None = None, padding: _size_t = 0) -> None:
        super().__init__()
        spread = lambda v: (v,) * self._dims if isinstance(v, int) else tuple(v)
        self.kernel_size, self.padding = spread(kernel_size), spread(padding)
        self.stride = spread(kernel_size if stride is None else stride)

    def _unpool(self, unpool: Any, input: Tensor, indices: Tensor, output_size: Any) -> Tensor:
        return unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """The values of `MaxPool1d` at the places it gave with `return_indices`, zeros elsewhere.

    Shape:
        input, indices: (N, C, L) or (C, L); result: the same with (L - 1) stride - 2 padding + kernel_size
            for L

    Raises:
        RuntimeError: a place lies outside

    >>> import flambeau
    >>> from flambeau import nn
    >>> values, places = nn.MaxPool1d(2, return_indices=True)(flambeau.tensor([[1., 3., 2., 0.]]))
    >>> nn.MaxUnpool1d(2)(values, places)
    tensor([[0., 3., 2., 0.]])
    """

    _dims = 1

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return self._unpool(F.max_unpool1d, input, indices, output_size)


class MaxUnpool2d(_MaxUnpoolNd):
    """The values of `MaxPool2d` at the places it gave with `return_indices`, zeros elsewhere.

    Shape:
        input, indices: (N, C, H, W) or (C, H, W); result: the same with (L - 1) stride - 2 padding +
            kernel_size for H and W

    Raises:
        RuntimeError: a place lies outside

    >>> import flambeau
    >>> pool = flambeau.nn.MaxPool2d(2, return_indices=True)
    >>> flambeau.nn.MaxUnpool2d(2)(*pool(flambeau.tensor([[[1.0, 2.0], [3.0, 4.0]]])))
    tensor([[[0., 0.],
             [0., 4.]]])
    """

    _dims = 2

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return self._unpool(F.max_unpool2d, input, indices, output_size)


class MaxUnpool3d(_MaxUnpoolNd):
    """The values of `MaxPool3d` at the places it gave with `return_indices`, zeros elsewhere.

    Shape:
        input, indices: (N, C, D, H, W) or (C, D, H, W); result: the same with (L - 1) stride - 2 padding +
            kernel_size for D, H and W

    Raises:
        RuntimeError: a place lies outside

    >>> import flambeau
    >>> pool = flambeau.nn.MaxPool3d(2, return_indices=True)
    >>> flambeau.nn.MaxUnpool3d(2)(*pool(flambeau.arange(8.0).reshape(1, 2, 2, 2)))[0, 1]
    tensor([[0., 0.],
            [0., 7.]])
    """

    _dims = 3

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return self._unpool(F.max_unpool3d, input, indices, output_size)


class _FractionalMaxPool(Module):
    _dims: int

    def __init__(
        self,
        kernel_size: _size_t,
        output_size: _size_t | None = None,
        output_ratio: float | tuple[float, ...] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"{type(self).__name__} requires exactly one of output_size and output_ratio")
        spread = lambda v: v if v is None else tuple(v) if isinstance(v, (tuple, list)) else (v,) * self._dims
        self.kernel_size = spread(kernel_size)
        self.output_size, self.output_ratio = spread(output_size), spread(output_ratio)
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(
                f"{type(self).__name__}: output_ratio must be between 0 and 1 (got {output_ratio})"
            )
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)

    def _pool(self, pool: Any, input: Tensor) -> Any:
        return pool(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """Maxima of windows at drawn places of (N, C, H, W) or (C, H, W), so that the output has any size (Graham, 2014).

    Shape:
        input: (N, C, H, W) or (C, H, W); result: (N, C, *output_size) or (C, *output_size)

    Raises:
        ValueError: neither `output_size` nor `output_ratio` is given

    >>> import flambeau
    >>> flambeau.nn.FractionalMaxPool2d(2, output_size=3)(flambeau.ones(1, 1, 7, 7)).shape
    flambeau.Size([1, 1, 3, 3])
    """

    _dims = 2

    def forward(self, input: Tensor) -> Any:
        return self._pool(F.fractional_max_pool2d, input)


class FractionalMaxPool3d(_FractionalMaxPool):
    """Maxima of windows at drawn places of (N, C, D, H, W) or (C, D, H, W); see `FractionalMaxPool2d`.

    Shape:
        input: (N, C, D, H, W) or (C, D, H, W); result: (N, C, *output_size) or (C, *output_size)

    Raises:
        ValueError: neither `output_size` nor `output_ratio` is given

    >>> import flambeau
    >>> flambeau.nn.FractionalMaxPool3d(2, output_size=2)(flambeau.ones(1, 1, 5, 5, 5)).shape
    flambeau.Size([1, 1, 2, 2, 2])
    """

    _dims = 3

    def forward(self, input: Tensor) -> Any:
        return self._pool(F.fractional_max_pool3d, input)
