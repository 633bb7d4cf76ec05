"""Linear layers by a weight of int8 whose input is rounded to such integers at each call."""

from __future__ import annotations

from typing import Any

from .....core.base.dtypes import by_name
from ...quantized._base import qint8, quantize_weight
from ...quantized._linear import PackedLinear


def coded(name: str, weight: Any, qconfig: Any) -> Any:
    """A weight in the codes that a configuration's observer finds for it; TypeError and ValueError for what does not fit."""
    if weight.dtype is not by_name["float32"]:
        raise TypeError(f"{name}: expected a float32 weight, got {weight.dtype}")
    observer = qconfig.weight()
    if observer.dtype is not qint8:
        raise ValueError(f"{name}: expected an observer of qint8 for the weight, got {observer.dtype}")
    observer(weight.detach())
    return quantize_weight(weight, observer)


class Linear(PackedLinear):
    """A linear layer of float32 by a weight of int8; `ao.quantization.quantize_dynamic` makes it of a `Linear`.

    Each call rounds its input to integers from 0 to 127, whose scale and zero point are those of the whole tensor, and multiplies
    these by the codes, with exact sums.  It is not trained, and has no gradient.

    Args:
        bias_: whether there is a bias.
        dtype: qint8, of the weight.

    Shape:
        input: (…, in_features), in float32; the result is (…, out_features)

    Raises:
        RuntimeError: an input of another dtype or shape, or one that is not finite

    >>> import flambeau
    >>> from flambeau.ao.quantization import quantize_dynamic
    >>> layer = quantize_dynamic(flambeau.nn.Sequential(flambeau.nn.Linear(8, 4)))[0]
    >>> layer(flambeau.ones(2, 8)).shape, layer.weight().dtype
    (flambeau.Size([2, 4]), flambeau.qint8)
    """

    _version = 4

    def forward(self, x: Any) -> Any:
        return self._packed_params._packed_params.run_dynamic(x)

    def _get_name(self) -> str:
        return "DynamicQuantizedLinear"

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, dtype={self._packed_params.dtype}, "
            f"qscheme={self.weight().qscheme()}"
        )

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Linear:
        """The layer of one with a configuration; TypeError and ValueError for what does not fit."""
        made = cls(mod.in_features, mod.out_features)
        made.set_weight_bias(coded("DynamicQuantizedLinear", mod.weight, mod.qconfig), mod.bias)
        return made
