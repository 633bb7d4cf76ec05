"""Batch normalisation over integers."""

from __future__ import annotations

from typing import Any, ClassVar

from ....core.make.literal import tensor
from ....nn.modules import batchnorm as floats
from ..._integers import quantised_input
from ..._quantized_tensor import Quantizer, encoded, schemes
from .._making import made, sizes


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

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The layer of one that was observed; AssertionError for another class."""
        if type(mod) not in cls._FLOAT_MODULE:
            raise AssertionError(
                f"nnq.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE}, but got: {type(mod).__name__}"
            )
        after = mod.activation_post_process
        mod = mod[0] if hasattr(mod, "_parts") else mod
        new = cls(mod.num_features, mod.eps)
        new.weight, new.bias = mod.weight, mod.bias
        new.running_mean, new.running_var = mod.running_mean, mod.running_var
        new.scale, new.zero_point = after.calculate_qparams()
        return new


def _of(d: int) -> Any:
    name = f"BatchNorm{d}d"
    text = f"""`nn.{name}` of a quantised tensor, by the running statistics; the numbers are rounded to codes of `scale` and `zero_point`.

    Shape:
        input: (N, num_features, *sizes), of quint8 or qint8; the result has the same

    Raises:
        RuntimeError: an input that is not quantised per tensor

    >>> import flambeau
    >>> from flambeau.ao.nn.quantized import {name}
    >>> x = flambeau.quantize_per_tensor(flambeau.ones(1, 2, {sizes(d, 3)}), 0.1, 0, flambeau.quint8)
    >>> {name}(2)(x).shape
    flambeau.Size([1, 2, {sizes(d, 3)}])
    """
    return made(__name__, name, (_BatchNorm,), text, _FLOAT_MODULE=(getattr(floats, name),))


BatchNorm2d, BatchNorm3d = _of(2), _of(3)
