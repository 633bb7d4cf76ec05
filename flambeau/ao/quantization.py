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
from ._weight_only import WeightOnlyEmbedding, WeightOnlyLinear, quantize_

__all__ = [
    "DeQuantStub",
    "Float8WeightOnlyConfig",
    "Int4WeightOnlyConfig",
    "Int8DynamicActivationInt4WeightConfig",
    "Int8DynamicActivationInt8WeightConfig",
    "Int8WeightOnlyConfig",
    "NF4WeightOnlyConfig",
    "QuantStub",
    "WeightOnlyEmbedding",
    "WeightOnlyLinear",
    "quantize_",
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
