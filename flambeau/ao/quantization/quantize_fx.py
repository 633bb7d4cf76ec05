"""Quantisation of a model's graph: `prepare_fx`, typical data, `convert_fx`.

The graph says where tensors are added, joined and reshaped, so that a model needs no stubs, no `FloatFunctional` and no list of layers
to fuse.
"""

from __future__ import annotations

from typing import Any

from ..._compat.absent import refusing as _refusing
from ...fx.graph_module import GraphModule
from .. import _graph_convert as convert
from .. import _graph_prepare as prepare
from .. import _graph_trace as trace
from .._graph_configs import ConvertCustomConfig, FuseCustomConfig, PrepareCustomConfig
from .._qconfig_mapping import QConfigMapping

__all__ = ["convert_fx", "fuse_fx", "prepare_fx", "prepare_qat_fx"]
__getattr__ = _refusing("ao.quantization.quantize_fx")


def _config(name: str, kind: Any, given: Any) -> Any:
    """A configuration of a class, of a dict, or an empty one for None; TypeError for anything else."""
    if given is None:
        return kind()
    if isinstance(given, dict):
        return kind.from_dict(given)
    if not isinstance(given, kind):
        raise TypeError(f"{name}(): expected a {kind.__name__} or a dict, got {type(given).__name__}")
    return given


def _no_backend(name: str, **given: Any) -> None:
    for argument, value in given.items():
        if value is not None:
            raise NotImplementedError(
                f"{name}(): {argument} is not here; all layers run over one kind of kernels"
            )


def fuse_fx(model: Any, fuse_custom_config: Any = None, backend_config: Any = None) -> GraphModule:
    """A model, in evaluation mode, as a graph in which layers that stand behind each other are one; see `fuse_modules`.

    Args:
        model: which `fx.symbolic_trace` can trace.
        fuse_custom_config: a `FuseCustomConfig`.

    Raises:
        fx.proxy.TraceError: control flow hangs on an input.
        AssertionError: layers that do not fit, or a BatchNorm in training.
        NotImplementedError: `backend_config`.
        TypeError: a configuration of another class.

    >>> from flambeau import nn
    >>> from flambeau.ao.quantization.quantize_fx import fuse_fx
    >>> fuse_fx(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).eval())
    GraphModule(
      (0): Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1))
    )
    """
    _no_backend("fuse_fx", backend_config=backend_config)
    config = _config("fuse_fx", FuseCustomConfig, fuse_custom_config)
    graph, _ = trace.traced(model, PrepareCustomConfig(), config.preserved_attributes)
    return trace.fused(graph, False)


def _prepared(
    name: str, model: Any, qconfig_mapping: Any, custom: Any, equalization: Any, backend: Any, training: bool
) -> GraphModule:
    _no_backend(name, backend_config=backend, _equalization_config=equalization)
    if qconfig_mapping is None:
        raise TypeError(f"{name}(): expected a QConfigMapping or a dict, got None")
    mapping = _config(name, QConfigMapping, qconfig_mapping)
    config = _config(name, PrepareCustomConfig, custom)
    graph, scopes = trace.traced(model, config)
    return prepare.prepared(trace.fused(graph, training), scopes, mapping, config, training)


def prepare_fx(
    model: Any,
    qconfig_mapping: Any,
    example_inputs: tuple[Any, ...],
    prepare_custom_config: Any = None,
    _equalization_config: Any = None,
    backend_config: Any = None,
) -> GraphModule:
    """A model, in evaluation mode, as a graph that is observed: run it on data that is typical, then `convert_fx` it.

    Layers that stand behind each other are fused, and observers are put where tensors will be codes: at the inputs of linear layers,
    convolutions, sums, products, joins, pooling and views, and at their results.  What has no form over quantised tensors stays in
    floats: matrix products, recurrent and attention layers, LayerNorm.

    Args:
        model: which `fx.symbolic_trace` can trace; it is not changed.
        qconfig_mapping: a `QConfigMapping`: which operation is observed how.
        example_inputs: arguments of `forward`, as PyTorch wants them; the graph is that of symbolic tracing, and they are not looked at.
        prepare_custom_config: a `PrepareCustomConfig`.

    Raises:
        fx.proxy.TraceError: control flow hangs on an input.
        AssertionError: layers that do not fit, or a model on several devices.
        NotImplementedError: `backend_config`, `_equalization_config`.
        TypeError: a configuration of another class.

    >>> import flambeau
    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import get_default_qconfig_mapping
    >>> from flambeau.ao.quantization.quantize_fx import convert_fx, prepare_fx
    >>> x = flambeau.ones(2, 4)
    >>> observed = prepare_fx(nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval(), get_default_qconfig_mapping(), (x,))
    >>> _ = observed(x)
    >>> convert_fx(observed)(x).shape
    flambeau.Size([2, 3])
    """
    return _prepared(
        *("prepare_fx", model, qconfig_mapping, prepare_custom_config, _equalization_config, backend_config),
        False,
    )


def prepare_qat_fx(
    model: Any,
    qconfig_mapping: Any,
    example_inputs: tuple[Any, ...],
    prepare_custom_config: Any = None,
    backend_config: Any = None,
) -> GraphModule:
    """`prepare_fx` for a model in training: weights and results are rounded as integers will hold them.

    Args:
        qconfig_mapping: such as `get_default_qat_qconfig_mapping()`; the rest as of `prepare_fx`.

    Raises:
        fx.proxy.TraceError: control flow hangs on an input.
        AssertionError: layers that do not fit, or a model on several devices.
        NotImplementedError: `backend_config`.
        TypeError: a configuration of another class.

    >>> import flambeau
    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import get_default_qat_qconfig_mapping
    >>> from flambeau.ao.quantization.quantize_fx import prepare_qat_fx
    >>> x = flambeau.ones(2, 4)
    >>> prepare_qat_fx(nn.Sequential(nn.Linear(4, 3)), get_default_qat_qconfig_mapping(), (x,))(x).requires_grad
    True
    """
    return _prepared(
        "prepare_qat_fx", model, qconfig_mapping, prepare_custom_config, None, backend_config, True
    )


def convert_fx(
    graph_module: GraphModule,
    convert_custom_config: Any = None,
    _remove_qconfig: bool = True,
    qconfig_mapping: Any = None,
    backend_config: Any = None,
    keep_original_weights: bool = False,
) -> GraphModule:
    """A copy of a graph that was prepared, whose layers compute with integers.

    A linear function or a convolution whose weight is the model's own becomes a layer.

    Args:
        graph_module: of `prepare_fx` or `prepare_qat_fx`, once it has seen data.
        convert_custom_config: a `ConvertCustomConfig`.
        _remove_qconfig: whether configurations are removed from modules.
        qconfig_mapping: whose entries that are None leave operations in floats.

    Raises:
        ValueError: another module.
        NotImplementedError: `backend_config`, `keep_original_weights`.
        TypeError: a configuration of another class.

    >>> import flambeau
    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import get_default_qconfig_mapping
    >>> from flambeau.ao.quantization.quantize_fx import convert_fx, prepare_fx
    >>> x = flambeau.ones(2, 4)
    >>> observed = prepare_fx(nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval(), get_default_qconfig_mapping(), (x,))
    >>> _ = observed(x)
    >>> convert_fx(observed).get_submodule("0")._get_name()
    'QuantizedLinearReLU'
    """
    _no_backend(
        "convert_fx", backend_config=backend_config, keep_original_weights=keep_original_weights or None
    )
    config = _config("convert_fx", ConvertCustomConfig, convert_custom_config)
    mapping = None if qconfig_mapping is None else _config("convert_fx", QConfigMapping, qconfig_mapping)
    return convert.converted(graph_module, config, mapping, _remove_qconfig)
