"""Padding of the spatial dimensions by a constant, by reflection, by the edge, or around."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..._tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Pad(Module):
    _spatial: int
    _mode: str

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__()
        self.padding = tuple(padding) if isinstance(padding, Iterable) else (padding,) * (2 * self._spatial)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _CircularPadNd(_Pad):
    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        with_channels = self._spatial + 1
        if input.dim() not in (with_channels, with_channels + 1):
            raise ValueError(
                f"expected {with_channels}D or {with_channels + 1}D input (got {input.dim()}D input)"
            )
        return F.pad(input, self.padding, self._mode)


class CircularPad1d(_CircularPadNd):
    """Pad (N, C, W) or (C, W) with values from the opposite end.

    Args:
        padding: one width for both ends, or (left, right).

    Raises:
        RuntimeError: a width is larger than the dimension

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.CircularPad1d((1, 2))(flambeau.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[3., 1., 2., 3., 1., 2.]]])
    """

    _spatial = 1


class CircularPad2d(_CircularPadNd):
    """Pad (N, C, H, W) or (C, H, W) with values from the opposite side; `padding` is (left, right, top,
    bottom) or one.

    Shape:
        input: (N, C, H, W) or (C, H, W); result: (*, H + top + bottom, W + left + right)

    Raises:
        RuntimeError: a width is larger than the dimension

    >>> import flambeau
    >>> flambeau.nn.CircularPad2d((1, 0, 0, 0))(flambeau.tensor([[[1, 2, 3]]]))
    tensor([[[3, 1, 2, 3]]])
    """

    _spatial = 2


class CircularPad3d(_CircularPadNd):
    """Pad (N, C, D, H, W) or (C, D, H, W) with values from the opposite side.

    `padding` is (left, right, top, bottom, front, back) or one width for all.

    Shape:
        input: (N, C, D, H, W) or (C, D, H, W); result: (*, D + front + back, H + top + bottom, W + left +
            right)

    Raises:
        RuntimeError: a width is larger than the dimension

    >>> import flambeau
    >>> flambeau.nn.CircularPad3d((1, 0, 0, 0, 0, 0))(flambeau.tensor([[[[1, 2, 3]]]]))
    tensor([[[[3, 1, 2, 3]]]])
    """

    _spatial = 3


class _ConstantPadNd(_Pad):
    def __init__(self, padding: int | tuple[int, ...], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pad the last dimension with `value`; negative widths cut off.

    Args:
        padding: one width for both ends, or (left, right).
        value: what to fill with.

    Raises:
        RuntimeError: the size becomes negative

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.ConstantPad1d((1, 2), 9.0)(flambeau.zeros(1, 2))
    tensor([[9., 0., 0., 9., 9.]])
    """

    _spatial = 1


class ConstantPad2d(_ConstantPadNd):
    """Pad the last two dimensions with `value`; `padding` is (left, right, top, bottom) or one width for
    all.

    Shape:
        input: (*, H, W); result: (*, H + top + bottom, W + left + right)

    Raises:
        RuntimeError: a size becomes negative

    >>> import flambeau
    >>> flambeau.nn.ConstantPad2d((1, 0, 0, 0), 9.0)(flambeau.tensor([[[1.0, 2.0]]]))
    tensor([[[9., 1., 2.]]])
    """

    _spatial = 2


class ConstantPad3d(_ConstantPadNd):
    """Pad the last three dimensions with `value`.

    `padding` is (left, right, top, bottom, front, back) or one width for all.

    Shape:
        input: (*, D, H, W); result: (*, D + front + back, H + top + bottom, W + left + right)

    Raises:
        RuntimeError: a size becomes negative

    >>> import flambeau
    >>> flambeau.nn.ConstantPad3d((1, 0, 0, 0, 0, 0), 9.0)(flambeau.tensor([[[[1.0, 2.0]]]]))
    tensor([[[[9., 1., 2.]]]])
    """

    _spatial = 3


class _ZeroPad(_ConstantPadNd):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Pad the last dimension with zeros; `padding` is (left, right) or one width for both.

    Shape:
        input: (*, W); result: (*, W + left + right)

    Raises:
        RuntimeError: a size becomes negative

    >>> import flambeau
    >>> flambeau.nn.ZeroPad1d((1, 2))(flambeau.tensor([[5, 6]]))
    tensor([[0, 5, 6, 0, 0]])
    """


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Pad the last two dimensions with zeros; `padding` is (left, right, top, bottom) or one width for all.

    Raises:
        RuntimeError: a size becomes negative

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.ZeroPad2d(1)(flambeau.ones(1, 1, 1))
    tensor([[[0., 0., 0.],
             [0., 1., 0.],
             [0., 0., 0.]]])
    """


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Pad the last three dimensions with zeros.

    `padding` is (left, right, top, bottom, front, back) or one width for all.

    Shape:
        input: (*, D, H, W); result: (*, D + front + back, H + top + bottom, W + left + right)

    Raises:
        RuntimeError: a size becomes negative

    >>> import flambeau
    >>> flambeau.nn.ZeroPad3d((1, 0, 0, 0, 0, 0))(flambeau.tensor([[[[5, 6]]]]))
    tensor([[[[0, 5, 6]]]])
    """


class _ReflectionPadNd(_Pad):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Pad (N, C, W) or (C, W) with the values mirrored at the edge, which is not repeated.

    Args:
        padding: one width for both ends, or (left, right); less than W.

    Raises:
        RuntimeError: a width is not below the size of the dimension

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.ReflectionPad1d(2)(flambeau.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 2., 1., 2., 3., 2., 1.]])
    """

    _spatial = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Pad (N, C, H, W) or (C, H, W) with mirrored values; `padding` is (left, right, top, bottom) or one
    width for all.

    Shape:
        input: (N, C, H, W) or (C, H, W); result: (*, H + top + bottom, W + left + right)

    Raises:
        RuntimeError: a width is not below the size of its dimension

    >>> import flambeau
    >>> flambeau.nn.ReflectionPad2d((2, 0, 0, 0))(flambeau.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[3., 2., 1., 2., 3.]]])
    """

    _spatial = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Pad (N, C, D, H, W) or (C, D, H, W) with mirrored values.

    `padding` is (left, right, top, bottom, front, back) or one width for all.

    Shape:
        input: (N, C, D, H, W) or (C, D, H, W); result: (*, D + front + back, H + top + bottom, W + left +
            right)

    Raises:
        RuntimeError: a width is not below the size of its dimension

    >>> import flambeau
    >>> flambeau.nn.ReflectionPad3d((2, 0, 0, 0, 0, 0))(flambeau.tensor([[[[1.0, 2.0, 3.0]]]]))
    tensor([[[[3., 2., 1., 2., 3.]]]])
    """

    _spatial = 3


class _ReplicationPadNd(_Pad):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Pad (N, C, W) or (C, W) with the value at the edge.

    Args:
        padding: one width for both ends, or (left, right).

    Raises:
        RuntimeError: the size becomes negative

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.ReplicationPad1d(2)(flambeau.tensor([[1.0, 2.0, 3.0]]))
    tensor([[1., 1., 1., 2., 3., 3., 3.]])
    """

    _spatial = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Pad (N, C, H, W) or (C, H, W) with the edge; `padding` is (left, right, top, bottom) or one width for
    all.

    Shape:
        input: (N, C, H, W) or (C, H, W); result: (*, H + top + bottom, W + left + right)

    Raises:
        RuntimeError: there are fewer dimensions than widths want

    >>> import flambeau
    >>> flambeau.nn.ReplicationPad2d((2, 0, 0, 0))(flambeau.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[1., 1., 1., 2., 3.]]])
    """

    _spatial = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Pad (N, C, D, H, W) or (C, D, H, W) with the edge.

    `padding` is (left, right, top, bottom, front, back) or one width for all.

    Shape:
        input: (N, C, D, H, W) or (C, D, H, W); result: (*, D + front + back, H + top + bottom, W + left +
            right)

    Raises:
        RuntimeError: there are fewer dimensions than widths want

    >>> import flambeau
    >>> flambeau.nn.ReplicationPad3d((2, 0, 0, 0, 0, 0))(flambeau.tensor([[[[1.0, 2.0, 3.0]]]]))
    tensor([[[[1., 1., 1., 2., 3.]]]])
    """

    _spatial = 3
