"""Batch normalisation over integers."""

from __future__ import annotations

from typing import Any, ClassVar

from ....core.make.literal import tensor
from ....nn.modules import batchnorm as floats
from ..._integers import quantised_input
from ..._quantized_tensor import Quantizer, encoded, schemes


class _BatchNorm(floats._BatchNorm):
    """By the running statistics; the result is quantised by `scale` and `zero_point`, which are buffers."""

    scale: Any
    zero_point: Any
    _FLOAT_MODULE: ClassVar[tuple[type, ...]]
    _relu: ClassVar[bool] = False

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, True, True, device, dtype)
        self.register_buffer("scale", tensor(1.0, device=device, dtype=dtype))
        self.register_buffer("zero_point", tensor(0, device=device, dtype=dtype))

    def forward(self, input: Any) -> Any:
        quantised_input(self._get_name(), input)
        shape = [1, -1] + [1] * (input.ndim - 2)
        factor = self.weight / (self.running_var + self.eps).sqrt()
        shift = self.bias - self.running_mean * factor
        result = input.dequantize() * factor.detach().reshape(shape) + shift.detach().reshape(shape)
        result = result.clamp_(0) if self._relu else result
        quantizer = Quantizer(schemes.per_tensor_affine, float(self.scale), int(self.zero_point))
        return encoded(result, input.dtype, quantizer)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The layer of one that was observed; AssertionError for another class."""
        if type(mod) not in cls._FLOAT_MODULE:
            raise AssertionError(
                f"nnq.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE}, but got: {type(mod).__name__}"
            )
        after = mod.activation_post_process
        mod = mod[0] if hasattr(mod, "_parts") else mod
        made = cls(mod.num_features, mod.eps)
        made.weight, made.bias = mod.weight, mod.bias
        made.running_mean, made.running_var = mod.running_mean, mod.running_var
        made.scale, made.zero_point = after.calculate_qparams()
        return made


class BatchNorm2d(_BatchNorm):
    """`nn.BatchNorm2d` of a quantised tensor, by the running statistics; the numbers are rounded to codes of `scale` and `zero_point`.

    Shape:
        input: (N, num_features, *sizes), of quint8 or qint8; the result has the same

    Raises:
        RuntimeError: an input that is not quantised per tensor

    >>> import flambeau
    >>> from flambeau.ao.nn.quantized import BatchNorm2d
    >>> BatchNorm2d(2)(flambeau.quantize_per_tensor(flambeau.ones(1, 2, 3, 3), 0.1, 0, flambeau.quint8)).shape
    flambeau.Size([1, 2, 3, 3])
    """

    _FLOAT_MODULE: ClassVar[tuple[type, ...]] = (floats.BatchNorm2d,)

    def _get_name(self) -> str:
        return "QuantizedBatchNorm2d"


class BatchNorm3d(_BatchNorm):
    """`nn.BatchNorm3d` of a quantised tensor, by the running statistics; the numbers are rounded to codes of `scale` and `zero_point`.

    Shape:
        input: (N, num_features, *sizes), of quint8 or qint8; the result has the same

    Raises:
        RuntimeError: an input that is not quantised per tensor

    >>> import flambeau
    >>> from flambeau.ao.nn.quantized import BatchNorm3d
    >>> BatchNorm3d(2)(flambeau.quantize_per_tensor(flambeau.ones(1, 2, 3, 3, 3), 0.1, 0, flambeau.quint8)).shape
    flambeau.Size([1, 2, 3, 3, 3])
    """

    _FLOAT_MODULE: ClassVar[tuple[type, ...]] = (floats.BatchNorm3d,)

    def _get_name(self) -> str:
        return "QuantizedBatchNorm3d"
