"""What layers over integers share: a scale and a zero point of the result, in states too."""

from __future__ import annotations

from typing import Any, Self

from ....core.base.dtypes import by_name, without_tensors
from ....core.make.literal import tensor
from ....nn.modules.module import Module
from ..._quantized_functions import quantize_per_channel, quantize_per_tensor
from ..._quantized_tensor import Quantizer, encoded, schemes

qint8, quint8, quint4x2 = (without_tensors[name] for name in ("qint8", "quint8", "quint4x2"))
_float = by_name["float32"]


class Requantizing(Module):
    """A module whose results are quantised by its `scale` and `zero_point`, which are numbers."""

    scale: Any = 1.0
    zero_point: Any = 0

    def _take_scale(self, observer: Any) -> Self:
        """With the scale and zero point of an observer."""
        scale, zero_point = observer.calculate_qparams()
        self.scale, self.zero_point = float(scale), int(zero_point)
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = tensor(self.scale)
        destination[prefix + "zero_point"] = tensor(self.zero_point)

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
        for name, kind in (("scale", float), ("zero_point", int)):
            if prefix + name in state_dict:
                setattr(self, name, kind(state_dict.pop(prefix + name)))
            elif strict:
                missing.append(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, metadata, False, missing, unexpected, errors)


def quantize_weight(weight: Any, observer: Any) -> Any:
    """A weight in the codes that an observer, which has watched it, finds for it.

    >>> import flambeau
    >>> from flambeau.ao.nn.quantized._base import quantize_weight
    >>> from flambeau.ao.quantization import default_weight_observer
    >>> observer, weight = default_weight_observer(), flambeau.ones(2)
    >>> quantize_weight(observer(weight), observer).int_repr()
    tensor([127, 127], dtype=flambeau.int8)
    """
    scales, zeros = observer.calculate_qparams()
    weight = weight.detach().to(_float)
    if observer.qscheme in (schemes.per_tensor_affine, schemes.per_tensor_symmetric):
        return quantize_per_tensor(weight, float(scales), int(zeros), observer.dtype)
    if observer.qscheme is schemes.per_channel_affine_float_qparams:
        return encoded(
            weight,
            observer.dtype,
            Quantizer(observer.qscheme, scales.to(_float), zeros.to(_float), observer.ch_axis),
        )
    return quantize_per_channel(weight, scales, zeros, observer.ch_axis, observer.dtype)


def observed(name: str, mod: Any, allowed: tuple[type, ...]) -> tuple[Any, Any, Any]:
    """The layer in a module that is converted, the observer of its result, and that of its weight, which has watched it."""
    if not hasattr(mod, "weight_fake_quant"):
        if type(mod) not in allowed:
            names = ", ".join(kind.__name__ for kind in allowed)
            raise AssertionError(f"{name}.from_float only works for {names}, but got: {type(mod).__name__}")
        if getattr(mod, "qconfig", None) is None:
            raise AssertionError(f"{name}.from_float: Input float module must have qconfig defined")
    after = getattr(mod, "activation_post_process", None)
    layer: Any = mod[0] if hasattr(mod, "_parts") else mod  # type: ignore[index]
    observer = mod.weight_fake_quant if hasattr(mod, "weight_fake_quant") else layer.qconfig.weight()
    observer(layer.weight)
    if observer.dtype is not qint8:
        raise AssertionError(
            f"{name}.from_float: Weight observer must have dtype qint8, got {observer.dtype}"
        )
    return layer, after, observer
