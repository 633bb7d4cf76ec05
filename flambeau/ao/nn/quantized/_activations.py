"""Activations of quantised tensors that have a scale of their own, and layers that leave a model over integers as they are."""

from __future__ import annotations

from typing import Any

from ....nn.modules import activation as floats
from ....nn.modules.dropout import Dropout as FloatDropout
from ..._integers import quantised_input
from ..._quantized_tensor import Quantizer, encoded, schemes
from ._base import Requantizing


class ReLU6(floats.ReLU):
    """min(max(x, 0), 6) of a quantised tensor, with the same scale.

    Args:
        inplace: whether the integers of the input are written.

    Shape:
        input: any; the result has the same

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.ao.nn.quantized import ReLU6
    >>> ReLU6()(flambeau.quantize_per_tensor(flambeau.tensor([-1.0, 9.0]), 0.5, 2, flambeau.quint8)).dequantize()
    tensor([0., 6.])
    """

    def forward(self, input: Any) -> Any:
        return floats.ReLU6(self.inplace)(input)

    def _get_name(self) -> str:
        return "QuantizedReLU6"

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> ReLU6:
        """One that is in place where `mod` is."""
        return ReLU6(mod.inplace)


class Dropout(FloatDropout):
    """The identity: a model over integers is not trained.

    Shape:
        input: any; the result is the input

    Raises:
        ValueError: a probability that is not from 0 to 1

    >>> import flambeau
    >>> from flambeau.ao.nn.quantized import Dropout
    >>> x = flambeau.ones(2)
    >>> Dropout()(x) is x
    True
    """

    def forward(self, input: Any) -> Any:
        return input

    def _get_name(self) -> str:
        return "QuantizedDropout"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Dropout:
        """One of the same probability."""
        return cls(mod.p, mod.inplace)


class _Rounded(Requantizing):
    """A function of numbers, whose results are rounded to codes of `scale` and `zero_point`."""

    def __init__(self, scale: float, zero_point: int) -> None:
        super().__init__()
        self.scale, self.zero_point = float(scale), int(zero_point)

    def _numbers(self, x: Any) -> Any:
        raise NotImplementedError

    def forward(self, input: Any) -> Any:
        quantised_input(self._get_name(), input)
        quantizer = Quantizer(schemes.per_tensor_affine, self.scale, self.zero_point)
        return encoded(self._numbers(input.dequantize()), input.dtype, quantizer)

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}"


class Hardswish(_Rounded):
    """x · min(max(x + 3, 0), 6) / 6 of a quantised tensor.

    Args:
        scale, zero_point: of the result.

    Shape:
        input: any, of quint8 or qint8; the result has the same

    Raises:
        RuntimeError: an input that is not quantised per tensor

    >>> import flambeau
    >>> from flambeau.ao.nn.quantized import Hardswish
    >>> Hardswish(0.5, 2)(flambeau.quantize_per_tensor(flambeau.tensor([-4.0, 9.0]), 0.5, 8, flambeau.quint8)).dequantize()
    tensor([0., 9.])
    """

    def _numbers(self, x: Any) -> Any:
        return floats.Hardswish()(x)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Hardswish:
        """With the scale of the observer of a `Hardswish`."""
        return cls(1.0, 0)._take_scale(mod.activation_post_process)


class ELU(_Rounded):
    """x where it is positive, else alpha · (exp(x) - 1), of a quantised tensor.

    Args:
        scale, zero_point: of the result.
        alpha: a number.

    Shape:
        input: any, of quint8 or qint8; the result has the same

    Raises:
        RuntimeError: an input that is not quantised per tensor

    >>> import flambeau
    >>> from flambeau.ao.nn.quantized import ELU
    >>> ELU(0.5, 2)(flambeau.quantize_per_tensor(flambeau.tensor([-4.0, 9.0]), 0.5, 8, flambeau.quint8)).dequantize()
    tensor([-1.,  9.])
    """

    def __init__(self, scale: float, zero_point: int, alpha: float = 1.0) -> None:
        super().__init__(scale, zero_point)
        self.alpha = alpha

    def _numbers(self, x: Any) -> Any:
        return floats.ELU(self.alpha)(x)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> ELU:
        """With the scale of the observer of an `ELU`."""
        return cls(1.0, 0, mod.alpha)._take_scale(mod.activation_post_process)


class LeakyReLU(_Rounded):
    """x where it is positive, else negative_slope · x, of a quantised tensor.

    Args:
        scale, zero_point: of the result.
        negative_slope: a number.

    Shape:
        input: any, of quint8 or qint8; the result has the same

    Raises:
        RuntimeError: an input that is not quantised per tensor

    >>> import flambeau
    >>> from flambeau.ao.nn.quantized import LeakyReLU
    >>> x = flambeau.quantize_per_tensor(flambeau.tensor([-4.0, 9.0]), 0.5, 8, flambeau.quint8)
    >>> LeakyReLU(0.5, 2, 0.25)(x).dequantize()
    tensor([-1.,  9.])
    """

    def __init__(
        self, scale: float, zero_point: int, negative_slope: float = 1e-2, inplace: bool = False
    ) -> None:
        super().__init__(scale, zero_point)
        self.negative_slope = negative_slope

    def _numbers(self, x: Any) -> Any:
        return floats.LeakyReLU(self.negative_slope)(x)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> LeakyReLU:
        """With the scale of the observer of a `LeakyReLU`."""
        return cls(1.0, 0, mod.negative_slope)._take_scale(mod.activation_post_process)


class Softmax(floats.Softmax):
    """exp(x) / sum(exp(x)) along a dimension of a quantised tensor.

    Args:
        dim: along which sums are made; by default the one that `nn.functional.softmax` chooses.
        scale, zero_point: of the result.

    Shape:
        input: any, of quint8 or qint8; the result has the same

    Raises:
        RuntimeError: an input that is not quantised per tensor

    >>> import flambeau
    >>> from flambeau.ao.nn.quantized import Softmax
    >>> x = flambeau.quantize_per_tensor(flambeau.zeros(2), 0.5, 8, flambeau.quint8)
    >>> Softmax(0, 1 / 256).forward(x).dequantize()
    tensor([0.5000, 0.5000])
    """

    def __init__(self, dim: int | None = None, scale: float = 1.0, zero_point: int = 0) -> None:
        super().__init__(dim)
        self.scale, self.zero_point = float(scale), int(zero_point)

    def forward(self, input: Any) -> Any:
        quantised_input("softmax", input)
        quantizer = Quantizer(schemes.per_tensor_affine, self.scale, self.zero_point)
        return encoded(super().forward(input.dequantize()), input.dtype, quantizer)

    def _get_name(self) -> str:
        return "QuantizedSoftmax"

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> Softmax:
        """With the scale of the observer of a `Softmax`."""
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        return Softmax(mod.dim, float(scale), int(zero_point))
