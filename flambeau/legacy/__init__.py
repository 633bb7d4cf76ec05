"""Lua Torch's modules and optimisers, with the names PyTorch had for them: `flambeau.legacy.nn` and `flambeau.legacy.optim`.

A program of that time computes gradients itself, module by module: `forward`, `backward`, `updateParameters`.  Here each
module says what it computes with today's operations, and the tape knows the gradients.
"""

from ..core.base.lazily import lazily as _lazily

__all__ = ["nn", "optim"]  # noqa: F822

__getattr__, __dir__ = _lazily(__name__, submodules=("nn", "optim"))
