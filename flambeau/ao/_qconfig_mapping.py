"""Which configuration an operation of a graph has: by its class, its module's name, its place among others of its kind."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Self

from ..core.call.operation import Op, behind
from . import _fake_quantize as rounding
from . import _mappings as mappings
from . import _observers as observers
from ._graph_roles import fixed_functions
from ._qconfig import QConfig, default_reuse_input_qconfig, get_default_qat_qconfig, get_default_qconfig

_BY_OBJECT = (  # which dicts hold pairs, by their key in PyTorch's older dict
    ("object_type", "object_type_qconfigs"),
    ("module_name_regex", "module_name_regex_qconfigs"),
    ("module_name", "module_name_qconfigs"),
)
_IN_ORDER = "module_name_object_type_order"


class QConfigMapping:
    """Configurations for the modules and functions of a model, for `quantize_fx`.

    Where several fit, the most particular is taken: module, kind and place; name of the module or of one around it; pattern of names,
    the first that was set; class, function or method; global.

    Raises nothing.

    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import QConfigMapping, default_qconfig
    >>> mapping = QConfigMapping().set_global(default_qconfig).set_object_type(nn.Conv2d, None)
    >>> mapping.object_type_qconfigs[nn.Conv2d] is None
    True
    """

    def __init__(self) -> None:
        self.global_qconfig: QConfig | None = None
        self.object_type_qconfigs: OrderedDict[Callable | str, QConfig | None] = OrderedDict()
        self.module_name_regex_qconfigs: OrderedDict[str, QConfig | None] = OrderedDict()
        self.module_name_qconfigs: OrderedDict[str, QConfig | None] = OrderedDict()
        self.module_name_object_type_order_qconfigs: OrderedDict[
            tuple[str, Callable, int], QConfig | None
        ] = OrderedDict()

    def set_global(self, global_qconfig: QConfig | None) -> Self:
        """Set what is taken where nothing else fits; None leaves operations as they are."""
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type: Callable | str, qconfig: QConfig | None) -> Self:
        """Set the configuration of a class of modules, a function, or a method by its name."""
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name_regex(self, module_name_regex: str, qconfig: QConfig | None) -> Self:
        """Set the configuration of modules whose dotted names a regular expression matches from their beginning."""
        self.module_name_regex_qconfigs[module_name_regex] = qconfig
        return self

    def set_module_name(self, module_name: str, qconfig: QConfig | None) -> Self:
        """Set the configuration of a module by its dotted name, and of all that is in it."""
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def set_module_name_object_type_order(
        self, module_name: str, object_type: Callable, index: int, qconfig: QConfig | None
    ) -> Self:
        """Set the configuration of the call with that index, from 0, among those of a kind in a module's own `forward`."""
        self.module_name_object_type_order_qconfigs[module_name, object_type, index] = qconfig
        return self

    def of_object(self, kind: Callable | str, otherwise: QConfig | None) -> QConfig | None:
        """What was set for a class, function or method; an operation is the same under all of its public names."""
        if kind in self.object_type_qconfigs:
            return self.object_type_qconfigs[kind]
        if isinstance(kind, Op):
            for other, qconfig in self.object_type_qconfigs.items():
                if behind(other) is behind(kind):
                    return qconfig
        return otherwise

    def of_module(self, kind: Callable | str | None, name: str, otherwise: QConfig | None) -> QConfig | None:
        """What was set for a module of that class and name."""
        found = otherwise if kind is None else self.of_object(kind, otherwise)
        for pattern, qconfig in self.module_name_regex_qconfigs.items():
            if re.match(pattern, name):
                found = qconfig
                break
        while name:
            if name in self.module_name_qconfigs:
                return self.module_name_qconfigs[name]
            name = name.rpartition(".")[0]
        return found

    def of_place(self, module: str, kind: Any, index: int, otherwise: QConfig | None) -> QConfig | None:
        """What was set for the call with that index of its kind in a module."""
        return self.module_name_object_type_order_qconfigs.get((module, kind, index), otherwise)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for name, value in self.__dict__.items():
            lines.append(f" {name}")
            some = isinstance(value, dict) and bool(value)
            lines += [f"  {k}: {v}" for k, v in value.items()] if some else [f"  {value}"]
        return "\n".join([*lines, ")"])

    def to_dict(self) -> dict[str, Any]:
        """Lists of tuples, by the setters' names without "set_"; the global configuration under ""."""
        result: dict[str, Any] = {"": self.global_qconfig}
        for key, attribute in _BY_OBJECT:
            result[key] = list(getattr(self, attribute).items())
        result[_IN_ORDER] = [(*k, v) for k, v in self.module_name_object_type_order_qconfigs.items()]
        return result

    @classmethod
    def from_dict(cls, qconfig_dict: dict[str, Any]) -> Self:
        """The inverse of `to_dict`; every key may be missing."""
        made = cls()
        made.set_global(qconfig_dict.get(""))
        for key, attribute in _BY_OBJECT:
            getattr(made, attribute).update(qconfig_dict.get(key, ()))
        for module, kind, index, qconfig in qconfig_dict.get(_IN_ORDER, ()):
            made.set_module_name_object_type_order(module, kind, index, qconfig)
        return made


def _of_backend(qconfig: QConfig, training: bool) -> QConfigMapping:
    """One configuration for all, but for results in a range that is known."""
    mapping = QConfigMapping().set_global(qconfig).set_object_type("reshape", default_reuse_input_qconfig)
    weight = rounding.default_weight_fake_quant if training else observers.default_weight_observer
    for kind, rounded in mappings.RANGES.items():
        activation = rounded if training else rounded.p.keywords["observer"]
        fixed = QConfig(activation, weight)
        mapping.set_object_type(kind, fixed)
        for function in fixed_functions(kind):
            name = function.__name__
            mapping.set_object_type(function, fixed)
            mapping.set_object_type(name, fixed).set_object_type(f"{name}_", fixed)
    return mapping


def get_default_qconfig_mapping(backend: str = "x86", version: int = 0) -> QConfigMapping:
    """The mapping that PyTorch has for a backend after training: `get_default_qconfig`, and fixed scales where a range is known.

    Raises:
        AssertionError: another backend or version.

    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import get_default_qconfig_mapping
    >>> get_default_qconfig_mapping("x86").object_type_qconfigs[nn.Sigmoid].activation().calculate_qparams()[0]
    tensor([0.0039])
    """
    return _of_backend(get_default_qconfig(backend, version), False)


def get_default_qat_qconfig_mapping(backend: str = "x86", version: int = 1) -> QConfigMapping:
    """The mapping that PyTorch has for a backend in training: `get_default_qat_qconfig`, and fixed scales where a range is known.

    Raises:
        AssertionError: another backend or version.

    >>> from flambeau.ao.quantization import get_default_qat_qconfig_mapping
    >>> type(get_default_qat_qconfig_mapping("x86").global_qconfig.activation()).__name__
    'FusedMovingAvgObsFakeQuantize'
    """
    return _of_backend(get_default_qat_qconfig(backend, version), True)
