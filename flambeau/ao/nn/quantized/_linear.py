"""Linear layers over integers."""

from __future__ import annotations

from typing import Any, ClassVar

from ....core.make.create import zeros
from ....nn.modules.linear import Linear as FloatLinear
from ....nn.modules.linear import NonDynamicallyQuantizableLinear
from ....nn.modules.module import Module
from ....nn.utils.fusion import fuse_linear_bn_weights
from ..._integers import LinearParams
from ..._quantized_functions import _empty_affine_quantized
from .. import intrinsic
from ._base import Requantizing, observed, qint8, quantize_weight


class LinearPackedParams(Module):
    """The weight and the bias of a linear layer over integers; its state holds them as PyTorch's does."""

    _version = 3

    def __init__(self, dtype: Any = qint8) -> None:
        super().__init__()
        if dtype is not qint8:
            raise RuntimeError(f"Unsupported dtype on quantized linear: expected {qint8}, got {dtype}")
        self.dtype = dtype
        self.set_weight_bias(blank((1, 1)), None)

    def set_weight_bias(self, weight: Any, bias: Any) -> None:
        """Take a weight of qint8, per tensor or per row, and a bias in float32 or None."""
        if getattr(weight, "dtype", None) is not qint8:
            raise RuntimeError(
                f"set_weight_bias(): expected a weight of {qint8}, got {getattr(weight, 'dtype', weight)}"
            )
        self._packed_params = LinearParams(weight, bias)

    def _weight_bias(self) -> tuple:
        return self._packed_params.weight, self._packed_params.bias

    def forward(self, x: Any) -> Any:
        return x

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_params"] = self._weight_bias()

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
        state_dict.pop(prefix + "dtype", None)
        if prefix + "_packed_params" in state_dict:
            self.set_weight_bias(*state_dict.pop(prefix + "_packed_params"))
        elif prefix + "weight" in state_dict:  # of PyTorch before 1.5
            self.set_weight_bias(state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias", None))
        elif strict:
            missing.append(prefix + "_packed_params")
        super()._load_from_state_dict(state_dict, prefix, metadata, False, missing, unexpected, errors)

    def __repr__(self) -> str:
        return repr(self._weight_bias())


def blank(shape: tuple[int, ...]) -> Any:
    """A weight of zeros."""
    return _empty_affine_quantized(shape, 1.0, 0, qint8, None, None).fill_(0.0)


class PackedLinear(Module):
    """A linear layer that holds its weight and bias in `_packed_params`."""

    def __init__(self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = qint8) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self._packed_params = LinearPackedParams(dtype)
        self.set_weight_bias(blank((out_features, in_features)), zeros(out_features) if bias_ else None)

    def _weight_bias(self) -> tuple:
        return self._packed_params._weight_bias()

    def weight(self) -> Any:
        """The weight, quantised."""
        return self._weight_bias()[0]

    def bias(self) -> Any:
        """The bias in float32, or None."""
        return self._weight_bias()[1]

    def set_weight_bias(self, w: Any, b: Any) -> None:
        """Take a weight of qint8 and a bias in float32 or None."""
        self._packed_params.set_weight_bias(w, b)

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"


class Linear(Requantizing, PackedLinear):
    """A linear layer over quantised tensors: exact sums of integers, which are requantised by `scale` and `zero_point`.

    `ao.quantization.convert` makes it of a `Linear` that was observed.

    Args:
        bias_: whether there is a bias.
        dtype: qint8, of the weight.

    Shape:
        input: (…, in_features), of quint8 or qint8; the result is (…, out_features)

    Raises:
        RuntimeError: an input that is not quantised per tensor, or of another shape

    >>> import flambeau
    >>> from flambeau.ao.nn.quantized import Linear
    >>> layer = Linear(4, 2)
    >>> layer(flambeau.quantize_per_tensor(flambeau.ones(3, 4), 0.1, 0, flambeau.quint8)).shape
    flambeau.Size([3, 2])
    """

    _version = 3
    _FLOAT_MODULE: ClassVar[tuple[type, ...]] = (FloatLinear, NonDynamicallyQuantizableLinear)
    _relu: ClassVar[bool] = False

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, scale={self.scale}, zero_point={self.zero_point}, "
            f"qscheme={self.weight().qscheme()}"
        )

    def forward(self, x: Any) -> Any:
        return self._packed_params._packed_params.run(x, self.scale, self.zero_point, self._relu)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The layer of one that was observed, or trained with rounding; AssertionError for another class."""
        if type(mod) is intrinsic.qat.LinearBn1d:
            bn = mod.bn
            mod.weight, mod.bias = fuse_linear_bn_weights(
                mod.weight, mod.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
            )
        layer, after, observer = observed(f"nnq.{cls.__name__}", mod, cls._FLOAT_MODULE)
        made = cls(layer.in_features, layer.out_features)
        made.set_weight_bias(quantize_weight(layer.weight, observer), layer.bias)
        return made._take_scale(after)
