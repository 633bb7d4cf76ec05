"""Names of PyTorch's compiled module that programs take from there, with what they mean here."""

from __future__ import annotations

from types import SimpleNamespace

from .core.call.watching import _disabled_torch_function_impl
from .nn.modules._convert import _parse_to
from .overrides import _DisableTorchFunctionSubclass as DisableTorchFunctionSubclass

__all__ = ["DisableTorchFunctionSubclass", "_disabled_torch_function_impl"]

_nn = SimpleNamespace(_parse_to=lambda *args, **kwargs: _parse_to(args, kwargs))
