"""Names of PyTorch's compiled module that programs take from there, with what they mean here."""

from __future__ import annotations

from types import SimpleNamespace

from ._lazily import lazily
from .core.call.watching import _disabled_torch_function_impl
from .nn.modules._convert import _parse_to
from .overrides import _DisableTorchFunctionSubclass as DisableTorchFunctionSubclass

__all__ = ["DisableTorchFunctionSubclass", "_disabled_torch_function_impl"]

_nn = SimpleNamespace(_parse_to=lambda *args, **kwargs: _parse_to(args, kwargs))
# What programs that add operations take from there.
__getattr__, __dir__ = lazily(
    "flambeau._C",
    names={
        "Argument": ".library._schema",
        "DispatchKey": ".library._keys",
        "DispatchKeySet": ".library._keys",
        "FunctionSchema": ".library._schema",
        "_AutoDispatchBelowAutograd": ".library._keys",
        "_ExcludeDispatchKeyGuard": ".library._keys",
        "parse_schema": ".library._schema",
    },
)
