"""Creating tensors, NumPy and other libraries' arrays, and the generator: compiled functions under their
public names.
"""

from __future__ import annotations

from ...core.make import bridge, create, elements, literal
from ...core.make import random as generator
from ..declare.registry import register

for _module, _names in (
    (
        create,
        "empty zeros ones full arange linspace logspace eye empty_strided zeros_like ones_like empty_like full_like",
    ),
    (create, "scalar_tensor tril_indices triu_indices"),
    (literal, "tensor as_tensor asarray"),
    (bridge, "from_numpy frombuffer from_dlpack"),
    (
        generator,
        "manual_seed seed initial_seed get_rng_state set_rng_state Generator default_generator randperm",
    ),
):
    for _name in _names.split():
        register(_name, "creation", getattr(_module, _name), places=(_name,), differentiable=False)
for _module, _names in (
    (create, "new_empty new_zeros new_ones new_full new_empty_strided"),
    (elements, "fill_ zero_"),
    (bridge, "numpy __array__ __array_wrap__ __dlpack__ __dlpack_device__"),
):
    for _name in _names.split():
        register(
            _name, "creation", getattr(_module, _name), places=(f"Tensor.{_name}",), differentiable=False
        )
register("new_tensor", "creation", literal.new_tensor_, places=("Tensor.new_tensor",), differentiable=False)
