"""Creating tensors, NumPy and other libraries' arrays, and the generator: compiled functions under their public names."""

from __future__ import annotations

from ..core import create

try:
    from ..core import bridge
except ImportError:
    bridge = None
try:
    from ..core import random as generator
except ImportError:
    generator = None
from .registry import register

_FUNCTIONS = (
    "empty zeros ones full arange linspace logspace eye empty_strided zeros_like ones_like empty_like full_like tensor as_tensor "
    "asarray scalar_tensor tril_indices triu_indices range"
)
_METHODS = "new_empty new_zeros new_ones new_full new_tensor new_empty_strided fill_ zero_"
for _name in _FUNCTIONS.split():
    if hasattr(create, _name):
        register(_name, "creation", getattr(create, _name), places=(_name,), differentiable=False)
for _name in _METHODS.split():
    if hasattr(create, _name):
        register(_name, "creation", getattr(create, _name), places=(f"Tensor.{_name}",), differentiable=False)
for _name in ("from_numpy", "frombuffer", "from_dlpack"):
    if hasattr(bridge, _name):
        register(_name, "bridge", getattr(bridge, _name), places=(_name,), differentiable=False)
for _name in ("numpy", "__array__", "__dlpack__", "__dlpack_device__"):
    if hasattr(bridge, _name):
        register(_name, "bridge", getattr(bridge, _name), places=(f"Tensor.{_name}",), differentiable=False)
for _name in (
    "manual_seed",
    "seed",
    "initial_seed",
    "get_rng_state",
    "set_rng_state",
    "Generator",
    "default_generator",
    "randperm",
):
    if hasattr(generator, _name):
        register(_name, "random", getattr(generator, _name), places=(_name,), differentiable=False)
