"""Layers over integers with a ReLU in them, whose results are clamped where they are requantised."""

from __future__ import annotations

from typing import ClassVar

from ... import intrinsic
from ...quantized import _batchnorm, _conv, _linear

__all__ = ["BNReLU2d", "BNReLU3d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearReLU"]


class LinearReLU(_linear.Linear):
    """`ao.nn.quantized.Linear` and a ReLU.

    Shape:
        input: (…, in_features), of quint8 or qint8; the result is (…, out_features)

    Raises:
        RuntimeError: an input that is not quantised per tensor, or of another shape

    >>> import flambeau
    >>> from flambeau.ao.nn.intrinsic.quantized import LinearReLU
    >>> LinearReLU(4, 2)(flambeau.quantize_per_tensor(flambeau.ones(3, 4), 0.1, 0, flambeau.quint8)).shape
    flambeau.Size([3, 2])
    """

    _FLOAT_MODULE: ClassVar[tuple[type, ...]] = (intrinsic.LinearReLU,)
    _relu = True

    def _get_name(self) -> str:
        return "QuantizedLinearReLU"


class ConvReLU1d(_conv.Conv1d):
    """`ao.nn.quantized.Conv1d` and a ReLU.

    Shape:
        input: (N, in_channels, *sizes), of quint8 or qint8; the result is as of `nn.Conv1d`

    Raises:
        ValueError: channels that the groups do not divide, or another padding
        RuntimeError: an input that is not quantised per tensor, or of another shape

    >>> import flambeau
    >>> from flambeau.ao.nn.intrinsic.quantized import ConvReLU1d
    >>> x = flambeau.quantize_per_tensor(flambeau.ones(1, 2, 6), 0.1, 0, flambeau.quint8)
    >>> ConvReLU1d(2, 3, 3)(x).shape
    flambeau.Size([1, 3, 4])
    """

    _FLOAT_MODULE: ClassVar[tuple[type, ...]] = (intrinsic.ConvReLU1d,)
    _relu = True

    def _get_name(self) -> str:
        return "QuantizedConvReLU1d"


class ConvReLU2d(_conv.Conv2d):
    """`ao.nn.quantized.Conv2d` and a ReLU.

    Shape:
        input: (N, in_channels, *sizes), of quint8 or qint8; the result is as of `nn.Conv2d`

    Raises:
        ValueError: channels that the groups do not divide, or another padding
        RuntimeError: an input that is not quantised per tensor, or of another shape

    >>> import flambeau
    >>> from flambeau.ao.nn.intrinsic.quantized import ConvReLU2d
    >>> x = flambeau.quantize_per_tensor(flambeau.ones(1, 2, 6, 6), 0.1, 0, flambeau.quint8)
    >>> ConvReLU2d(2, 3, 3)(x).shape
    flambeau.Size([1, 3, 4, 4])
    """

    _FLOAT_MODULE: ClassVar[tuple[type, ...]] = (intrinsic.ConvReLU2d,)
    _relu = True

    def _get_name(self) -> str:
        return "QuantizedConvReLU2d"


class ConvReLU3d(_conv.Conv3d):
    """`ao.nn.quantized.Conv3d` and a ReLU.

    Shape:
        input: (N, in_channels, *sizes), of quint8 or qint8; the result is as of `nn.Conv3d`

    Raises:
        ValueError: channels that the groups do not divide, or another padding
        RuntimeError: an input that is not quantised per tensor, or of another shape

    >>> import flambeau
    >>> from flambeau.ao.nn.intrinsic.quantized import ConvReLU3d
    >>> x = flambeau.quantize_per_tensor(flambeau.ones(1, 2, 6, 6, 6), 0.1, 0, flambeau.quint8)
    >>> ConvReLU3d(2, 3, 3)(x).shape
    flambeau.Size([1, 3, 4, 4, 4])
    """

    _FLOAT_MODULE: ClassVar[tuple[type, ...]] = (intrinsic.ConvReLU3d,)
    _relu = True

    def _get_name(self) -> str:
        return "QuantizedConvReLU3d"


class BNReLU2d(_batchnorm.BatchNorm2d):
    """`ao.nn.quantized.BatchNorm2d` and a ReLU.

    Shape:
        input: (N, num_features, *sizes), of quint8 or qint8; the result has the same

    Raises:
        RuntimeError: an input that is not quantised per tensor

    >>> import flambeau
    >>> from flambeau.ao.nn.intrinsic.quantized import BNReLU2d
    >>> BNReLU2d(2)(flambeau.quantize_per_tensor(flambeau.ones(1, 2, 3, 3), 0.1, 0, flambeau.quint8)).shape
    flambeau.Size([1, 2, 3, 3])
    """

    _FLOAT_MODULE: ClassVar[tuple[type, ...]] = (intrinsic.BNReLU2d,)
    _relu = True

    def _get_name(self) -> str:
        return "QuantizedBNReLU2d"


class BNReLU3d(_batchnorm.BatchNorm3d):
    """`ao.nn.quantized.BatchNorm3d` and a ReLU.

    Shape:
        input: (N, num_features, *sizes), of quint8 or qint8; the result has the same

    Raises:
        RuntimeError: an input that is not quantised per tensor

    >>> import flambeau
    >>> from flambeau.ao.nn.intrinsic.quantized import BNReLU3d
    >>> BNReLU3d(2)(flambeau.quantize_per_tensor(flambeau.ones(1, 2, 3, 3, 3), 0.1, 0, flambeau.quint8)).shape
    flambeau.Size([1, 2, 3, 3, 3])
    """

    _FLOAT_MODULE: ClassVar[tuple[type, ...]] = (intrinsic.BNReLU3d,)
    _relu = True

    def _get_name(self) -> str:
        return "QuantizedBNReLU3d"
