"""Quantisation of models: weights of linear layers in eight or four bits, and marks where a float model will take and give codes."""

from typing import Any as _Any

from .._compat.absent import refusing as _refusing
from ..nn.modules.module import Module as _Module
from ._configurations import (
    Float8WeightOnlyConfig,
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt4WeightConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    NF4WeightOnlyConfig,
)
from ._dynamic import DynamicQuantizedLinear, quantize_dynamic
from ._fake_quantize import (
    FakeQuantize,
    FakeQuantizeBase,
    QConfig,
    default_dynamic_qconfig,
    default_fake_quant,
    default_per_channel_qconfig,
    default_per_channel_weight_fake_quant,
    default_qat_qconfig,
    default_qconfig,
    default_weight_fake_quant,
    disable_fake_quant,
    disable_observer,
    enable_fake_quant,
    enable_observer,
    per_channel_dynamic_qconfig,
)
from ._observers import (
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    ObserverBase,
    PerChannelMinMaxObserver,
    PlaceholderObserver,
    UniformQuantizationObserverBase,
    default_dynamic_quant_observer,
    default_observer,
    default_per_channel_weight_observer,
    default_placeholder_observer,
    default_weight_observer,
)
from ._weight_only import WeightOnlyEmbedding, WeightOnlyLinear, quantize_

__all__ = [
    "DeQuantStub",
    "DynamicQuantizedLinear",
    "FakeQuantize",
    "FakeQuantizeBase",
    "Float8WeightOnlyConfig",
    "Int4WeightOnlyConfig",
    "Int8DynamicActivationInt4WeightConfig",
    "Int8DynamicActivationInt8WeightConfig",
    "Int8WeightOnlyConfig",
    "MinMaxObserver",
    "MovingAverageMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver",
    "NF4WeightOnlyConfig",
    "ObserverBase",
    "PerChannelMinMaxObserver",
    "PlaceholderObserver",
    "QConfig",
    "QuantStub",
    "UniformQuantizationObserverBase",
    "WeightOnlyEmbedding",
    "WeightOnlyLinear",
    "default_dynamic_qconfig",
    "default_dynamic_quant_observer",
    "default_fake_quant",
    "default_observer",
    "default_per_channel_qconfig",
    "default_per_channel_weight_fake_quant",
    "default_per_channel_weight_observer",
    "default_placeholder_observer",
    "default_qat_qconfig",
    "default_qconfig",
    "default_weight_fake_quant",
    "default_weight_observer",
    "disable_fake_quant",
    "disable_observer",
    "enable_fake_quant",
    "enable_observer",
    "per_channel_dynamic_qconfig",
    "quantize_",
    "quantize_dynamic",
]


class QuantStub(_Module):
    """Where a model that is converted takes floats; until then the identity.

    Shape:
        input: any; the result has the same

    Raises nothing.

    >>> import flambeau
    >>> QuantStub()(flambeau.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, qconfig: _Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: _Any) -> _Any:
        return x


class DeQuantStub(QuantStub):
    """Where a model that is converted gives floats; until then the identity.

    Shape:
        input: any; the result has the same

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.ao.quantization import DeQuantStub
    >>> DeQuantStub()(flambeau.ones(2))
    tensor([1., 1.])
    """


__path__: list[str] = []  # libraries import from modules below it
__getattr__ = _refusing("ao.quantization")
