"""How layers are observed or rounded: pairs of constructors, and those that PyTorch has for its backends."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from ..core.base.dtypes import by_name, without_tensors
from ..nn.modules.linear import Identity
from ..nn.modules.module import Module
from . import _fake_quantize as rounding
from . import _observers as observers
from ._fake_quantize import FakeQuantize, FusedMovingAvgObsFakeQuantize
from ._histogram import HistogramObserver
from ._observers import MovingAverageMinMaxObserver


class QConfig(namedtuple("QConfig", ["activation", "weight"])):
    """How a layer's results and its weight are observed or rounded: classes, or constructors by `with_args`.

    Raises:
        ValueError: a module in place of a class.

    >>> from flambeau.ao.quantization import MinMaxObserver, QConfig, default_weight_observer
    >>> QConfig(MinMaxObserver.with_args(reduce_range=True), default_weight_observer).weight()
    MinMaxObserver(min_val=inf, max_val=-inf)
    """

    __slots__ = ()

    def __new__(cls, activation: Any, weight: Any) -> QConfig:
        if isinstance(activation, Module) or isinstance(weight, Module):
            raise ValueError(
                "QConfig received observer instance, please pass observer class instead. Use MyObserver.with_args(x=1) to override "
                "arguments to constructor if needed"
            )
        return super().__new__(cls, activation, weight)


default_qconfig = QConfig(observers.default_observer, observers.default_weight_observer)
default_per_channel_qconfig = QConfig(
    observers.default_observer, observers.default_per_channel_weight_observer
)
default_dynamic_qconfig = QConfig(observers.default_dynamic_quant_observer, observers.default_weight_observer)
per_channel_dynamic_qconfig = QConfig(
    observers.default_dynamic_quant_observer, observers.default_per_channel_weight_observer
)
default_qat_qconfig = QConfig(rounding.default_fake_quant, rounding.default_weight_fake_quant)
default_qat_qconfig_v2 = QConfig(rounding.default_fused_act_fake_quant, rounding.default_fused_wt_fake_quant)
default_dynamic_qat_qconfig = QConfig(rounding.default_dynamic_fake_quant, rounding.default_weight_fake_quant)
default_weight_only_qconfig = QConfig(Identity, rounding.default_weight_fake_quant)
default_activation_only_qconfig = QConfig(rounding.default_fake_quant, Identity)
default_reuse_input_qconfig = QConfig(observers.default_reuse_input_observer, observers.NoopObserver)
float_qparams_weight_only_qconfig = QConfig(
    observers.default_placeholder_observer, observers.default_float_qparams_observer
)
float_qparams_weight_only_qconfig_4bit = QConfig(
    observers.default_placeholder_observer, observers.default_float_qparams_observer_4bit
)
default_embedding_qat_qconfig = QConfig(
    observers.NoopObserver.with_args(dtype=by_name["float32"]), rounding.default_embedding_fake_quant
)
default_embedding_qat_qconfig_4bit = QConfig(
    observers.NoopObserver.with_args(dtype=by_name["float32"]), rounding.default_embedding_fake_quant_4bit
)
_signed = HistogramObserver.with_args(dtype=without_tensors["qint8"], reduce_range=False, eps=2**-12)
default_symmetric_qnnpack_qconfig = QConfig(_signed, observers.weight_observer_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qconfig = QConfig(
    _signed, observers.per_channel_weight_observer_range_neg_127_to_127
)

# Backends of PyTorch: whether codes of activations have one bit less, and whether each filter has its scale.
_BACKENDS = {"fbgemm": (True, True), "x86": (True, True), "qnnpack": (False, False), "onednn": (False, True)}


def _backend(name: str, backend: str, version: int, versions: tuple[int, ...]) -> tuple[bool, bool]:
    if backend not in _BACKENDS:
        raise AssertionError(
            f"{name}(): backend: {backend} not supported. backend must be one of {list(_BACKENDS)}"
        )
    if version not in versions:
        raise AssertionError(f"{name}(): version must be one of {list(versions)}, got {version}")
    return _BACKENDS[backend]


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """The configuration that PyTorch has for a backend after training: histograms, and weights by their largest magnitude.

    Layers run alike here whatever the backend. "x86" and "fbgemm" use seven bits of activations, which PyTorch's kernels need on
    processors without VNNI; "onednn" eight. "qnnpack" has one scale for a weight, the others one for each row or filter.

    Raises:
        AssertionError: another backend or version.

    >>> from flambeau.ao.quantization import get_default_qconfig
    >>> get_default_qconfig("x86").weight().qscheme
    flambeau.per_channel_symmetric
    """
    reduced, channels = _backend("get_default_qconfig", backend, version, (0,))
    weight = observers.default_per_channel_weight_observer if channels else observers.default_weight_observer
    return QConfig(HistogramObserver.with_args(reduce_range=reduced), weight)


def get_default_qat_qconfig(backend: str = "x86", version: int = 1) -> QConfig:
    """The configuration that PyTorch has for a backend in training: moving averages, and rounding; see `get_default_qconfig`.

    Args:
        version: 1 for `FusedMovingAvgObsFakeQuantize`, 0 for `FakeQuantize`.

    Raises:
        AssertionError: another backend or version.

    >>> from flambeau.ao.quantization import get_default_qat_qconfig
    >>> get_default_qat_qconfig("qnnpack").weight().qscheme
    flambeau.per_tensor_symmetric
    """
    reduced, channels = _backend("get_default_qat_qconfig", backend, version, (0, 1))
    kind = FusedMovingAvgObsFakeQuantize if version else FakeQuantize
    given: dict[str, Any] = {"reduce_range": reduced} if backend != "onednn" else {}
    activation = kind.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, **given)
    weights = (
        (rounding.default_weight_fake_quant, rounding.default_per_channel_weight_fake_quant),
        (rounding.default_fused_wt_fake_quant, rounding.default_fused_per_channel_wt_fake_quant),
    )
    return QConfig(activation, weights[version][channels])


def qconfig_equals(q1: QConfig | None, q2: QConfig | None) -> bool:
    """Whether two configurations make the same modules.

    Raises nothing.

    >>> from flambeau.ao.quantization import get_default_qconfig, qconfig_equals
    >>> qconfig_equals(get_default_qconfig("x86"), get_default_qconfig("fbgemm"))
    True
    """
    return q1 == q2


def memoryless(qconfig: QConfig) -> bool:
    """Whether activations are observed by an average of the last tensor alone, which is what dynamic layers are trained with."""
    observer = qconfig.activation()
    return getattr(getattr(observer, "activation_post_process", observer), "averaging_constant", None) == 1
