"""Layers over integers with a ReLU in them, whose results are clamped where they are requantised."""

from __future__ import annotations

from typing import Any

from ... import intrinsic
from ..._making import made, sizes
from ...quantized import _batchnorm, _conv, _linear

__all__ = ["BNReLU2d", "BNReLU3d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearReLU"]


def _with_relu(name: str, base: Any, shape: str, example: str, answer: str, raised: str = "") -> Any:
    """A layer over integers and a ReLU: `shape` is the input's, `example` the arguments of a layer and the sizes of an input."""
    arguments, _, given = example.partition("; ")
    text = f"""`ao.nn.quantized.{base.__name__}` and a ReLU.

    Shape:
        input: {shape}

    Raises:{raised}
        RuntimeError: an input that is not quantised per tensor, or of another shape

    >>> import flambeau
    >>> from flambeau.ao.nn.intrinsic.quantized import {name}
    >>> x = flambeau.quantize_per_tensor(flambeau.ones({given}), 0.1, 0, flambeau.quint8)
    >>> {name}({arguments})(x).shape
    flambeau.Size([{answer}])
    """
    return made(__name__, name, (base,), text, _FLOAT_MODULE=(getattr(intrinsic, name),), _relu=True)


def _conv_relu(d: int) -> Any:
    shape = f"(N, in_channels, *sizes), of quint8 or qint8; the result is as of `nn.Conv{d}d`"
    raised = "\n        ValueError: channels that the groups do not divide, or another padding"
    example, answer = f"2, 3, 3; 1, 2, {sizes(d, 6)}", f"1, 3, {sizes(d, 4)}"
    return _with_relu(f"ConvReLU{d}d", getattr(_conv, f"Conv{d}d"), shape, example, answer, raised)


def _bn_relu(d: int) -> Any:
    shape = "(N, num_features, *sizes), of quint8 or qint8; the result has the same"
    size = f"1, 2, {sizes(d, 3)}"
    return _with_relu(f"BNReLU{d}d", getattr(_batchnorm, f"BatchNorm{d}d"), shape, f"2; {size}", size)


ConvReLU1d, ConvReLU2d, ConvReLU3d = (_conv_relu(d) for d in (1, 2, 3))
BNReLU2d, BNReLU3d = _bn_relu(2), _bn_relu(3)
LinearReLU = _with_relu(
    "LinearReLU",
    _linear.Linear,
    "(…, in_features), of quint8 or qint8; the result is (…, out_features)",
    "4, 2; 3, 4",
    "3, 2",
)
