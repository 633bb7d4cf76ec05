"""Tools for a module's parameters and gradients, and for batches of sequences.

Each name is loaded with its file when it is first used: a program that trains needs few of them.
"""

from __future__ import annotations

from importlib import import_module
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
        "init": ("skip_init",),
    }.items()
    for name in names
}
_MODULES = ("rnn",)

__all__ = sorted([*_WHERE, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return globals().setdefault(name, getattr(import_module(f"{__name__}.{_WHERE[name]}"), name))
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
