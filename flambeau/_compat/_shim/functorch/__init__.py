"""`import functorch`: PyTorch's package of that name, which `torch.func` has replaced."""

import torch
from torch._functorch.make_functional import (
    FunctionalModule,
    FunctionalModuleWithBuffers,
    combine_state_for_ensemble,
    make_functional,
    make_functional_with_buffers,
)
from torch.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap

__version__ = torch.__version__
__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "make_functional",
    "make_functional_with_buffers",
    "vjp",
    "vmap",
]


def __getattr__(name: str) -> object:
    if name in ("compile", "dim", "einops", "experimental", "functionalize", "make_fx"):
        raise AttributeError(
            f"functorch.{name} is not here: there are no graphs yet, and dimensions are no objects"
        )
    raise AttributeError(f"module 'functorch' has no attribute {name!r}")
