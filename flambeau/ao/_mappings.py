"""Which layer is replaced by which, when a model is converted."""

from __future__ import annotations

from typing import Any

from .. import nn
from ..nn.modules.linear import NonDynamicallyQuantizableLinear
from ..nn.quantized import FloatFunctional
from . import _fake_quantize as rounding
from ._stubs import DeQuantStub, QuantStub
from .nn import intrinsic, qat, quantized
from .nn.quantized import dynamic

_fused, _trained = intrinsic.quantized, intrinsic.qat
STATIC: dict[Any, Any] = {
    QuantStub: quantized.Quantize,
    DeQuantStub: quantized.DeQuantize,
    nn.Linear: quantized.Linear,
    NonDynamicallyQuantizableLinear: quantized.Linear,
    nn.Conv1d: quantized.Conv1d,
    nn.Conv2d: quantized.Conv2d,
    nn.Conv3d: quantized.Conv3d,
    nn.BatchNorm2d: quantized.BatchNorm2d,
    nn.BatchNorm3d: quantized.BatchNorm3d,
    nn.Embedding: quantized.Embedding,
    nn.EmbeddingBag: quantized.EmbeddingBag,
    nn.ReLU6: quantized.ReLU6,
    nn.Dropout: quantized.Dropout,
    nn.ELU: quantized.ELU,
    nn.Hardswish: quantized.Hardswish,
    nn.LeakyReLU: quantized.LeakyReLU,
    nn.Softmax: quantized.Softmax,
    FloatFunctional: quantized.QFunctional,
    intrinsic.LinearReLU: _fused.LinearReLU,
    intrinsic.ConvReLU1d: _fused.ConvReLU1d,
    intrinsic.ConvReLU2d: _fused.ConvReLU2d,
    intrinsic.ConvReLU3d: _fused.ConvReLU3d,
    intrinsic.BNReLU2d: _fused.BNReLU2d,
    intrinsic.BNReLU3d: _fused.BNReLU3d,
    qat.Linear: quantized.Linear,
    qat.Conv1d: quantized.Conv1d,
    qat.Conv2d: quantized.Conv2d,
    qat.Conv3d: quantized.Conv3d,
    _trained.LinearReLU: _fused.LinearReLU,
    _trained.LinearBn1d: quantized.Linear,
    _trained.ConvReLU1d: _fused.ConvReLU1d,
    _trained.ConvReLU2d: _fused.ConvReLU2d,
    _trained.ConvReLU3d: _fused.ConvReLU3d,
    _trained.ConvBn1d: quantized.Conv1d,
    _trained.ConvBn2d: quantized.Conv2d,
    _trained.ConvBn3d: quantized.Conv3d,
    _trained.ConvBnReLU1d: _fused.ConvReLU1d,
    _trained.ConvBnReLU2d: _fused.ConvReLU2d,
    _trained.ConvBnReLU3d: _fused.ConvReLU3d,
}
TRAINED: dict[Any, Any] = {
    nn.Linear: qat.Linear,
    NonDynamicallyQuantizableLinear: qat.Linear,
    nn.Conv1d: qat.Conv1d,
    nn.Conv2d: qat.Conv2d,
    nn.Conv3d: qat.Conv3d,
    **{
        getattr(intrinsic, name): getattr(_trained, name)
        for name in _trained.__all__  # which fused layers share their names with
    },
}
EMBEDDINGS = {nn.Embedding: qat.Embedding, nn.EmbeddingBag: qat.EmbeddingBag}
DYNAMIC: dict[Any, Any] = {
    nn.Linear: dynamic.Linear,
    NonDynamicallyQuantizableLinear: dynamic.Linear,
    nn.LSTM: dynamic.LSTM,
    nn.GRU: dynamic.GRU,
    nn.LSTMCell: dynamic.LSTMCell,
    nn.RNNCell: dynamic.RNNCell,
    nn.GRUCell: dynamic.GRUCell,
    nn.Embedding: quantized.Embedding,
    nn.EmbeddingBag: quantized.EmbeddingBag,
}
# Layers whose results lie in a range that is known.
RANGES = {
    nn.Hardsigmoid: rounding.default_fixed_qparams_range_0to1_fake_quant,
    nn.Sigmoid: rounding.default_fixed_qparams_range_0to1_fake_quant,
    nn.Softmax: rounding.default_fixed_qparams_range_0to1_fake_quant,
    nn.Tanh: rounding.default_fixed_qparams_range_neg1to1_fake_quant,
}


def get_default_static_quant_module_mappings() -> dict[Any, Any]:
    """Layers over integers, by the class of layer that `convert` makes them of.

    Raises nothing.

    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import get_default_static_quant_module_mappings
    >>> get_default_static_quant_module_mappings()[nn.Linear].__name__
    'Linear'
    """
    return dict(STATIC)


def get_default_qat_module_mappings() -> dict[Any, Any]:
    """Layers that train with rounded weights, by the class of layer that `prepare_qat` makes them of.

    Raises nothing.

    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import get_default_qat_module_mappings
    >>> nn.Conv2d in get_default_qat_module_mappings()
    True
    """
    return dict(TRAINED)


def get_embedding_qat_module_mappings() -> dict[Any, Any]:
    """`get_default_qat_module_mappings`, and embeddings.

    Raises nothing.

    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import get_embedding_qat_module_mappings
    >>> nn.Embedding in get_embedding_qat_module_mappings()
    True
    """
    return {**TRAINED, **EMBEDDINGS}


def get_embedding_static_quant_module_mappings() -> dict[Any, Any]:
    """`get_default_static_quant_module_mappings`, and embeddings that were trained with rounding.

    Raises nothing.

    >>> from flambeau.ao.nn import qat
    >>> from flambeau.ao.quantization import get_embedding_static_quant_module_mappings
    >>> qat.Embedding in get_embedding_static_quant_module_mappings()
    True
    """
    return {**STATIC, qat.Embedding: quantized.Embedding, qat.EmbeddingBag: quantized.EmbeddingBag}


def get_default_dynamic_quant_module_mappings() -> dict[Any, Any]:
    """Layers that `quantize_dynamic` makes, by the class of layer that it makes them of.

    Raises nothing.

    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import get_default_dynamic_quant_module_mappings
    >>> nn.LSTM in get_default_dynamic_quant_module_mappings()
    True
    """
    return dict(DYNAMIC)


def get_default_qconfig_propagation_list() -> set[Any]:
    """The classes of layers that `prepare` observes.

    Raises nothing.

    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import get_default_qconfig_propagation_list
    >>> nn.Linear in get_default_qconfig_propagation_list(), nn.ReLU in get_default_qconfig_propagation_list()
    (True, False)
    """
    return {*STATIC, *TRAINED, *DYNAMIC, nn.Sequential}
