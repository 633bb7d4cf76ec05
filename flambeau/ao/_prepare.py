"""A model is observed, and becomes one over integers: `prepare` and `convert`, in eager mode."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

from .. import nn
from ..nn.modules.module import Module
from ..nn.quantized import FloatFunctional
from . import _mappings as mappings
from ._fake_quantize import FakeQuantizeBase
from ._observers import ObserverBase
from ._qconfig import memoryless
from ._stubs import DeQuantStub, QuantWrapper
from .nn.intrinsic import _FusedModule
from .nn.intrinsic.qat import _Normalised
from .nn.quantized import QFunctional

_OF_PREPARE, _OF_CONVERT = (
    "float_to_observed_custom_module_class",
    "observed_to_quantized_custom_module_class",
)
_WHOLES = (_FusedModule, _Normalised)  # modules that are observed and replaced as one
_REFUSED = (
    nn.LSTM,
    nn.GRU,
    nn.RNN,
    nn.MultiheadAttention,
)  # of which there is no form over quantised tensors


def propagate_qconfig_(
    module: Any, qconfig_dict: dict | None = None, prepare_custom_config_dict: dict | None = None
) -> None:
    """Give every module a `qconfig`: its own, else that of its name or class in the dict, else that of the module around it.

    Args:
        qconfig_dict: configurations, by dotted names and classes.
        prepare_custom_config_dict: {"non_traceable_module_name": names, "non_traceable_module_class": classes} to leave out.

    Raises nothing.

    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import default_qconfig, propagate_qconfig_
    >>> model = nn.Sequential(nn.Linear(1, 2))
    >>> propagate_qconfig_(model, {"": default_qconfig})
    >>> model[0].qconfig is default_qconfig
    True
    """
    given, custom = qconfig_dict or {}, prepare_custom_config_dict or {}
    names, kinds = (custom.get(f"non_traceable_module_{what}", ()) for what in ("name", "class"))

    def visit(module: Any, name: str, above: Any) -> None:
        module.qconfig = getattr(module, "qconfig", given.get(name, given.get(type(module), above)))
        for child, below in module.named_children():
            if child not in names and type(below) not in kinds:
                visit(below, f"{name}.{child}".lstrip("."), module.qconfig)

    visit(module, "", None)


def _observer_forward_hook(self: Any, input: Any, output: Any) -> Any:
    return self.activation_post_process(output)


def _observer_forward_pre_hook(self: Any, input: Any) -> Any:
    return self.activation_post_process(input[0])


def _device_of(module: Any) -> Any:
    """The device of a module's tensors; None where it has none. AssertionError for several."""
    devices = {t.device for t in (*module.parameters(), *module.buffers())}
    if len(devices) > 1:
        raise AssertionError(f"prepare only works with modules on one device, but got devices {devices}")
    return next(iter(devices), None)


def _made_observer(make: Callable[[], Any], device: Any) -> Any:
    observer = make()
    return observer if device is None else observer.to(device)


def _observe(module: Any, device: Any, special: Callable | None = None) -> None:
    """Let a module's result, or its input where that alone counts, go through an observer."""
    qconfig = getattr(module, "qconfig", None)
    if qconfig is None or isinstance(module, DeQuantStub):
        return
    module.add_module("activation_post_process", _made_observer(special or qconfig.activation, device))
    if memoryless(qconfig):
        module.register_forward_pre_hook(_observer_forward_pre_hook, prepend=True)
    else:
        module.register_forward_hook(_observer_forward_hook, prepend=True)


def _add_observers(module: Any, name: str, observed: set, wholes: Any, device: Any, custom: dict) -> None:
    for child_name, child in module.named_children():
        kind, full = type(child), f"{name}.{child_name}".lstrip(".")
        configured = getattr(child, "qconfig", None) is not None
        if kind is nn.Dropout:
            continue
        if isinstance(child, (FloatFunctional, QFunctional)):
            if configured:
                child.activation_post_process = _made_observer(child.qconfig.activation, device)
        elif isinstance(child, _WHOLES) or (wholes is not None and kind in wholes):
            _observe(child, device)
        elif child.training and kind in mappings.RANGES:
            _observe(child, device, mappings.RANGES[kind])
        elif configured and kind in custom:
            made = custom[kind].from_float(child)
            setattr(module, child_name, made)
            _observe(made, device)
        elif configured and kind in _REFUSED:
            raise NotImplementedError(
                f"prepare(): {full} is a {kind.__name__}, which has no form over quantised tensors; its qconfig may be None, and "
                "quantize_dynamic takes recurrent layers"
            )
        else:
            _add_observers(child, full, observed, wholes, device, custom)
    leaf = not any(True for _ in module.children()) and not isinstance(module, nn.Sequential)
    if type(module) in observed and leaf:
        _observe(module, device)


def prepare(
    model: Any,
    inplace: bool = False,
    allow_list: Any = None,
    observer_non_leaf_module_list: Any = None,
    prepare_custom_config_dict: dict | None = None,
) -> Any:
    """A copy of a model whose layers are observed: run it on data that is typical, then `convert` it.

    Args:
        model: whose `qconfig`, or those of modules in it, say how; None leaves a module out.
        inplace: whether `model` itself is changed.
        allow_list: classes of layers to observe, by default those that have a form over integers.
        observer_non_leaf_module_list: classes of modules with others in them whose results are observed.
        prepare_custom_config_dict: {"float_to_observed_custom_module_class": classes with `from_float`, by the classes they stand for}.

    Raises:
        NotImplementedError: a recurrent or attention layer with a configuration.
        AssertionError: a model on several devices.

    >>> import flambeau
    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import QuantWrapper, convert, default_qconfig, prepare
    >>> model = QuantWrapper(nn.Linear(2, 2)).eval()
    >>> model.qconfig = default_qconfig
    >>> observed = prepare(model)
    >>> _ = observed(flambeau.ones(1, 2))
    >>> convert(observed).module.weight().dtype
    flambeau.qint8
    """
    model = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(model)
    if not any(getattr(m, "qconfig", None) for m in model.modules()):
        warnings.warn(
            "None of the submodule got qconfig applied. Make sure you passed correct configuration through `qconfig_dict` or by "
            "assigning the `.qconfig` attribute directly on submodules",
            stacklevel=2,
        )
    observed = mappings.get_default_qconfig_propagation_list() if allow_list is None else set(allow_list)
    custom = (prepare_custom_config_dict or {}).get(_OF_PREPARE, {})
    _add_observers(model, "", observed, observer_non_leaf_module_list, _device_of(model), custom)
    return model


def swap_module(
    mod: Any,
    mapping: dict,
    custom_module_class_mapping: dict | None = None,
    use_precomputed_fake_quant: bool = False,
) -> Any:
    """The layer that a mapping has for a module with a configuration, made by its `from_float`; else the module.

    Raises:
        AssertionError: a module that was not observed as it must be.

    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import swap_module
    >>> module = nn.Linear(1, 2)
    >>> swap_module(module, {}) is module
    True
    """
    kind, custom = type(mod), custom_module_class_mapping or {}
    if getattr(mod, "qconfig", None) is None or not (kind in custom or kind in mapping):
        return mod
    made = custom[kind].from_observed(mod) if kind in custom else mapping[kind].from_float(mod)
    for hook in mod._forward_pre_hooks.values():
        if hook is not _observer_forward_pre_hook:
            made.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook is not _observer_forward_hook:
            made.register_forward_hook(hook)
    return made.train(mod.training)


def _converted(module: Any, mapping: dict, custom: dict, made: dict) -> None:
    for name, child in list(module._modules.items()):
        if child is None:
            continue
        if child not in made:  # one that is used at several places stays one
            if not isinstance(child, _WHOLES) and type(child) not in custom:
                _converted(child, mapping, custom, made)
            made[child] = swap_module(child, mapping, custom)
        module._modules[name] = made[child]


def _forget(module: Any) -> None:
    """Remove configurations, observers and their hooks."""
    for m in list(module.modules()):
        if "qconfig" in m.__dict__:
            del m.qconfig
        if isinstance(getattr(m, "activation_post_process", None), (ObserverBase, FakeQuantizeBase)):
            del m.activation_post_process
        for hooks in (m._forward_hooks, m._forward_pre_hooks):
            for key, hook in list(hooks.items()):
                if hook in (_observer_forward_hook, _observer_forward_pre_hook):
                    del hooks[key]


def convert(
    module: Any,
    mapping: dict | None = None,
    inplace: bool = False,
    remove_qconfig: bool = True,
    is_reference: bool = False,
    convert_custom_config_dict: dict | None = None,
    use_precomputed_fake_quant: bool = False,
) -> Any:
    """A copy of a model that was prepared, whose layers compute with integers.

    Args:
        mapping: layers by the class that they are made of; by default `get_default_static_quant_module_mappings()`.
        inplace: whether `module` itself is changed.
        remove_qconfig: whether configurations and observers are removed from what is left.
        convert_custom_config_dict: {"observed_to_quantized_custom_module_class": classes with `from_observed`, by those they stand for}.

    Raises:
        NotImplementedError: `is_reference` or `use_precomputed_fake_quant`.
        AssertionError: a layer that was not observed as it must be.

    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import convert, default_dynamic_qconfig, get_default_dynamic_quant_module_mappings
    >>> model = nn.Sequential(nn.Linear(2, 2))
    >>> model[0].qconfig = default_dynamic_qconfig
    >>> convert(model, get_default_dynamic_quant_module_mappings())
    Sequential(
      (0): DynamicQuantizedLinear(in_features=2, out_features=2, dtype=flambeau.qint8, qscheme=flambeau.per_tensor_affine)
    )
    """
    if is_reference or use_precomputed_fake_quant:
        raise NotImplementedError("convert(): is_reference and use_precomputed_fake_quant are not here")
    module = module if inplace else copy.deepcopy(module)
    custom = (convert_custom_config_dict or {}).get(_OF_CONVERT, {})
    _converted(module, mappings.STATIC if mapping is None else mapping, custom, {})
    if remove_qconfig:
        _forget(module)
    return module


def prepare_qat(model: Any, mapping: dict | None = None, inplace: bool = False) -> Any:
    """A copy of a model, in training mode, that trains with weights and results rounded as integers will hold them.

    Args:
        mapping: layers by the class that they are made of; by default `get_default_qat_module_mappings()`.
        inplace: whether `model` itself is changed.

    Raises:
        AssertionError: a model that is not in training mode.
        NotImplementedError: a recurrent or attention layer with a configuration.

    >>> import flambeau
    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import default_qat_qconfig, prepare_qat
    >>> model = nn.Sequential(nn.Linear(2, 2))
    >>> model.qconfig = default_qat_qconfig
    >>> prepare_qat(model)(flambeau.ones(1, 2)).requires_grad
    True
    """
    if not model.training:
        raise AssertionError("prepare_qat only works on models in training mode")
    mapping = mappings.TRAINED if mapping is None else mapping
    model = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(model)
    convert(model, mapping, inplace=True, remove_qconfig=False)
    return prepare(model, inplace=True, observer_non_leaf_module_list=set(mapping.values()))


def quantize(
    model: Any, run_fn: Callable, run_args: Any, mapping: dict | None = None, inplace: bool = False
) -> Any:
    """`prepare`, `run_fn(model, *run_args)` on typical data, and `convert`, in evaluation mode.

    Raises:
        NotImplementedError, AssertionError: as of `prepare` and `convert`.

    >>> import flambeau
    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import QuantWrapper, default_qconfig, quantize
    >>> model = QuantWrapper(nn.Linear(2, 2))
    >>> model.qconfig = default_qconfig
    >>> quantize(model, lambda model, x: model(x), [flambeau.ones(1, 2)])(flambeau.ones(3, 2)).shape
    flambeau.Size([3, 2])
    """
    model = prepare(model.eval() if inplace else copy.deepcopy(model).eval(), inplace=True)
    run_fn(model, *run_args)
    return convert(model, mapping, inplace=True)


def quantize_qat(model: Any, run_fn: Callable, run_args: Any, inplace: bool = False) -> Any:
    """`prepare_qat`, `run_fn(model, *run_args)`, which trains, and `convert`.

    Raises:
        NotImplementedError, AssertionError: as of `prepare_qat` and `convert`.

    >>> import flambeau
    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import QuantWrapper, default_qat_qconfig, quantize_qat
    >>> model = QuantWrapper(nn.Linear(2, 2))
    >>> model.qconfig = default_qat_qconfig
    >>> quantize_qat(model, lambda model, x: model(x), [flambeau.ones(1, 2)])(flambeau.ones(3, 2)).shape
    flambeau.Size([3, 2])
    """
    model = prepare_qat(model.train() if inplace else copy.deepcopy(model).train(), inplace=True)
    run_fn(model, *run_args)
    return convert(model, inplace=True)


def add_quant_dequant(module: Module) -> Any:
    """Put each layer with a configuration between stubs (`QuantWrapper`), in place; a layer itself comes back wrapped.

    Raises nothing.

    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import add_quant_dequant, default_qconfig
    >>> model = nn.Sequential(nn.Linear(1, 2))
    >>> model[0].qconfig = default_qconfig
    >>> type(add_quant_dequant(model)[0]).__name__
    'QuantWrapper'
    """
    if not any(True for _ in module.children()) and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in module.named_children():
        module._modules[name] = add_quant_dequant(child)
    return module
