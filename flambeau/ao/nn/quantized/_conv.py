"""Convolutions over integers."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ....core.make.create import zeros
from ....nn.modules import conv as floats
from ....nn.utils.fusion import fuse_conv_bn_weights
from ..._integers import ConvParams
from .. import intrinsic
from .._making import made, sizes
from ._base import Requantizing, observed, qint8, quantize_weight
from ._linear import blank


def _sizes(value: Any, dims: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * dims


class _ConvNd(Requantizing):
    """A convolution over quantised tensors, in `_dims` dimensions."""

    _dims: ClassVar[int]
    _FLOAT_MODULE: ClassVar[tuple[type, ...]]
    _bn: ClassVar[tuple[str, ...]] = ()
    _relu: ClassVar[bool] = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if out_channels <= 0:
            raise ValueError(f"out_channels must be greater than 0, got {out_channels}")
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"in_channels and out_channels must be divisible by groups, got {in_channels}, {out_channels}, {groups}"
            )
        if padding_mode != "zeros":
            raise ValueError(f"'padding_mode' {padding_mode} is not supported by quantized convolution")
        if isinstance(padding, str):
            raise ValueError(f"padding must be numbers, got {padding!r}")
        self.in_channels, self.out_channels, self.groups, self.padding_mode = (
            in_channels,
            out_channels,
            groups,
            padding_mode,
        )
        self.kernel_size, self.stride = _sizes(kernel_size, self._dims), _sizes(stride, self._dims)
        self.padding, self.dilation = _sizes(padding, self._dims), _sizes(dilation, self._dims)
        self.set_weight_bias(
            blank((out_channels, in_channels // groups, *self.kernel_size)),
            zeros(out_channels) if bias else None,
        )

    def set_weight_bias(self, w: Any, b: Any) -> None:
        """Take a weight of qint8, per tensor or per filter, and a bias in float32 or None."""
        if getattr(w, "dtype", None) is not qint8:
            raise RuntimeError(
                f"set_weight_bias(): expected a weight of {qint8}, got {getattr(w, 'dtype', w)}"
            )
        self._packed_params = ConvParams(w, b, self.stride, self.padding, self.dilation, self.groups)

    def _weight_bias(self) -> tuple:
        return self._packed_params.weight, self._packed_params.bias

    def weight(self) -> Any:
        """The weight, quantised."""
        return self._packed_params.weight

    def bias(self) -> Any:
        """The bias in float32, or None."""
        return self._packed_params.bias

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, scale={self.scale}, "
            f"zero_point={self.zero_point}"
        )
        text += f", padding={self.padding}" if any(self.padding) else ""
        text += f", dilation={self.dilation}" if math.prod(self.dilation) != 1 else ""
        text += f", groups={self.groups}" if self.groups != 1 else ""
        return text + (", bias=False" if self.bias() is None else "")

    def forward(self, input: Any) -> Any:
        return self._packed_params.run(input, self.scale, self.zero_point, self._relu)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight"], destination[prefix + "bias"] = self._weight_bias()

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        metadata: Any,
        strict: bool,
        missing: list,
        unexpected: list,
        errors: list,
    ) -> None:
        if prefix + "weight" in state_dict:
            self.set_weight_bias(state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias", None))
        elif strict:
            missing.append(prefix + "weight")
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The layer of one that was observed, or trained with rounding; AssertionError for another class."""
        if type(mod).__name__ in cls._bn and isinstance(mod, getattr(intrinsic.qat, type(mod).__name__)):
            bn = mod.bn
            mod.weight, mod.bias = fuse_conv_bn_weights(
                mod.weight, mod.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
            )
        layer, after, observer = observed(f"nnq.{cls.__name__}", mod, cls._FLOAT_MODULE)
        new = cls(
            layer.in_channels,
            layer.out_channels,
            layer.kernel_size,
            layer.stride,
            layer.padding,
            layer.dilation,
            layer.groups,
            layer.bias is not None,
            layer.padding_mode,
        )
        new.set_weight_bias(quantize_weight(layer.weight, observer), layer.bias)
        return new._take_scale(after)


def _of(d: int) -> Any:
    name = f"Conv{d}d"
    text = f"""`nn.{name}` over quantised tensors: exact sums of integers, which are requantised by `scale` and `zero_point`.

    `ao.quantization.convert` makes it of a `{name}` that was observed.  Windows are rows of the integer tile, which reads them
    where they lie; with groups, the sums are made in float64, which has all of these integers.

    Args:
        as of `nn.{name}`; `padding` in numbers, `padding_mode` "zeros".

    Shape:
        input: (N, in_channels, *sizes), of quint8 or qint8; the result is as of `nn.{name}`, with channels last in memory

    Raises:
        ValueError: channels that the groups do not divide, or another padding
        RuntimeError: an input that is not quantised per tensor, or of another shape

    >>> import flambeau
    >>> from flambeau.ao.nn.quantized import {name}
    >>> x = flambeau.quantize_per_tensor(flambeau.ones(1, 2, {sizes(d, 6)}), 0.1, 0, flambeau.quint8)
    >>> {name}(2, 3, 3)(x).shape
    flambeau.Size([1, 3, {sizes(d, 4)}])
    """
    layers = {"_FLOAT_MODULE": (getattr(floats, name),), "_bn": (f"ConvBn{d}d", f"ConvBnReLU{d}d")}
    return made(__name__, name, (_ConvNd,), text, _dims=d, **layers)


Conv1d, Conv2d, Conv3d = (_of(d) for d in (1, 2, 3))
