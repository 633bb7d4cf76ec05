"""Names of PyTorch's compiled module that programs take from there, with what they mean here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ._compat.absent import refusing, unmakeable
from ._tensor import Tensor
from .core.base.lazily import lazily
from .core.base.tensor import TensorBase
from .core.call.interceptors import _disabled_torch_function_impl
from .core.make.random import Generator
from .nn.modules._convert import _parse_to
from .operations.declare.registry import published
from .overrides import _DisableTorchFunctionSubclass as DisableTorchFunctionSubclass

__all__ = [
    "DisableTorchFunctionSubclass",
    "Generator",
    "Graph",
    "TensorBase",
    "Value",
    "_TensorMeta",
    "_are_functorch_transforms_active",
    "_disabled_torch_function_impl",
    "_get_tracing_state",
    "_log_api_usage_once",
]

# What programs that add operations take from there.
_OF_LIBRARY = {
    "Argument": ".library._schema",
    "DispatchKey": ".library._keys",
    "DispatchKeySet": ".library._keys",
    "FunctionSchema": ".library._schema",
    "_AutoDispatchBelowAutograd": ".library._keys",
    "_ExcludeDispatchKeyGuard": ".library._keys",
    "parse_schema": ".library._schema",
}
_later, __dir__ = lazily(__name__, names=_OF_LIBRARY)
_refuse = refusing("_C")
_TensorMeta = type(Tensor)
_nn = SimpleNamespace(_parse_to=lambda *args, **kwargs: _parse_to(args, kwargs))
Graph, Value = unmakeable("_C.Graph"), unmakeable("_C.Value")


_VariableFunctions = SimpleNamespace(**published(""))  # the flat namespace's operations
__path__: list[str] = []  # `import torch._C._onnx` is an import from a package


def _log_api_usage_once(name: str) -> None:
    """Note that part of an interface is used: nothing is kept, as in PyTorch without a logger."""


def _get_tracing_state() -> None:
    """The state of a trace: None, as nothing is traced."""
    return None


def _are_functorch_transforms_active() -> bool:
    """Whether this thread runs a function for `vmap`, `func.grad`, `vjp`, `jvp` or what is made of them."""
    from .func._batched import running_levels
    from .func._transforms import is_transforming

    return is_transforming() or bool(running_levels())


def __getattr__(name: str) -> Any:
    return _later(name) if name in _OF_LIBRARY else _refuse(name)
