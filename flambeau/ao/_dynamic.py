"""Models whose layers multiply integers where weights alone are known: inputs are rounded at each call."""

from __future__ import annotations

import copy
from typing import Any

from .. import nn
from ..core.base.dtypes import without_tensors
from ..nn.modules.module import Module
from . import _mappings as mappings
from ._qconfig import (
    QConfig,
    default_dynamic_qconfig,
    float_qparams_weight_only_qconfig,
    float_qparams_weight_only_qconfig_4bit,
)

qint8, quint8, quint4x2 = (without_tensors[name] for name in ("qint8", "quint8", "quint4x2"))
_BAGS = (nn.Embedding, nn.EmbeddingBag)
# What is replaced where nothing is said, by dtype.
_USUAL: dict[Any, tuple[tuple[type, ...], QConfig]] = {
    qint8: ((nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.RNNCell, nn.GRUCell), default_dynamic_qconfig),
    quint8: (_BAGS, float_qparams_weight_only_qconfig),
    quint4x2: (_BAGS, float_qparams_weight_only_qconfig_4bit),
}


def quantize_dynamic(
    model: Module,
    qconfig_spec: Any = None,
    dtype: Any = qint8,
    mapping: dict | None = None,
    inplace: bool = False,
) -> Module:
    """A copy of `model` whose linear and recurrent layers multiply integers: weights rounded once, inputs at each call.

    Args:
        qconfig_spec: a set of classes and of dotted names, or a dict from these to `QConfig` or None; what is said of a module holds
            for those below it. By default all linear and recurrent layers, or all embeddings where `dtype` is theirs.
        dtype: qint8; quint8 and quint4x2 for embeddings, whose vectors are kept in eight or four bits and become floats.
        mapping: layers by the class that they are made of; by default `get_default_dynamic_quant_module_mappings()`.
        inplace: whether `model` itself is changed.

    Raises:
        NotImplementedError: another dtype, or an LSTM with `proj_size`.
        ValueError: the model itself would be replaced, or a configuration that does not fit.
        TypeError: a layer of another dtype than float32.
        AssertionError: an embedding whose configuration has no floating-point zero points.

    >>> import flambeau
    >>> from flambeau.ao.quantization import quantize_dynamic
    >>> quantize_dynamic(flambeau.nn.Sequential(flambeau.nn.Linear(8, 4)), {flambeau.nn.Linear})
    Sequential(
      (0): DynamicQuantizedLinear(in_features=8, out_features=4, dtype=flambeau.qint8, qscheme=flambeau.per_tensor_affine)
    )
    """
    if dtype not in _USUAL:
        raise NotImplementedError(
            f"quantize_dynamic(): dtype must be qint8, or quint8 or quint4x2 for embeddings, got {dtype}"
        )
    mapping = mappings.DYNAMIC if mapping is None else mapping
    kinds, usual = _USUAL[dtype]
    given = set(kinds) if qconfig_spec is None else qconfig_spec
    spec = dict(given) if isinstance(given, dict) else dict.fromkeys(given, usual)
    model = model if inplace else copy.deepcopy(model)
    chosen: dict[Module, Module] = {}
    places: list[tuple[Module, str, Module]] = []

    def visit(owner: Module | None, last: str, module: Module, name: str, above: QConfig | None) -> None:
        qconfig = spec.get(name, spec.get(type(module), above))
        if qconfig is not None and type(module) in mapping:
            if owner is None:
                raise ValueError(
                    f"quantize_dynamic(): the model itself is a {type(module).__name__}, which cannot be replaced"
                )
            if module not in chosen:
                chosen[module] = _made(mapping[type(module)], module, qconfig, name)
            places.append((owner, last, chosen[module]))
            return
        for child, below in module._modules.items():
            if below is not None:
                visit(module, child, below, f"{name}.{child}".lstrip("."), qconfig)

    visit(None, "", model, "", None)
    for owner, last, layer in places:
        setattr(owner, last, layer)
    return model


def _made(kind: Any, module: Module, qconfig: QConfig, name: str) -> Module:
    """The layer of one with a configuration, which the layer itself does not keep."""
    before = module.__dict__.get("qconfig")
    module.qconfig = qconfig
    try:
        made = kind.from_float(module)
    except (TypeError, ValueError, AssertionError, NotImplementedError) as error:
        raise type(error)(f"quantize_dynamic(): {name}: {error}") from None
    finally:
        if before is None:
            del module.qconfig
        else:
            module.qconfig = before
    for hook in module._forward_pre_hooks.values():
        made.register_forward_pre_hook(hook)
    for hook in module._forward_hooks.values():
        made.register_forward_hook(hook)
    return made.train(module.training)
