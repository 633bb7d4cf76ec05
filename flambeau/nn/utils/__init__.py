"""Tools for a module's parameters and gradients, and for batches of sequences.

Each name is loaded with its file when it is first used: a program that trains needs few of them.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

# The file of each name; what is a file itself stands below.
_WHERE = {
    name: module
    for module, names in {
        "clip_grad": (
            "clip_grad_norm",
            "clip_grad_norm_",
            "clip_grad_value_",
            "clip_grads_with_norm_",
            "get_total_norm",
        ),
        "convert_parameters": ("parameters_to_vector", "vector_to_parameters"),
        "fusion": (
            "fuse_conv_bn_eval",
            "fuse_conv_bn_weights",
            "fuse_linear_bn_eval",
            "fuse_linear_bn_weights",
        ),
        "init": ("skip_init",),
        "memory_format": ("convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"),
        "spectral_norm": ("remove_spectral_norm", "spectral_norm"),
        "weight_norm": ("remove_weight_norm", "weight_norm"),
    }.items()
    for name in names
}
# The files that are names themselves, and those that are for programs to import by their own.
_MODULES = ("parametrizations", "parametrize", "rnn", "stateless")
_MORE_MODULES = ("clip_grad", "convert_parameters", "fusion", "init", "memory_format", "prune")

__all__ = sorted([*_WHERE, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return globals().setdefault(name, getattr(import_module(f"{__name__}.{_WHERE[name]}"), name))
    if name in _MODULES or name in _MORE_MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


class _Package(ModuleType):
    """Where a function and its file share a name, importing the file leaves the function at that name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and name in _WHERE:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MORE_MODULES})
