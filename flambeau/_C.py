"""Names of PyTorch's compiled module that programs with tensor classes of their own take from there."""

from __future__ import annotations

from .core.call.watching import _disabled_torch_function_impl
from .overrides import _DisableTorchFunctionSubclass as DisableTorchFunctionSubclass

__all__ = ["DisableTorchFunctionSubclass", "_disabled_torch_function_impl"]
