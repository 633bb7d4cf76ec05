"""Names of PyTorch's compiled module that programs take from there, with what they mean here."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

from ._absent import refusing, unmakeable
from ._tensor import Tensor
from .amp.autocast_mode import autocast
from .core.base.tensor import TensorBase
from .core.call.watching import _disabled_torch_function_impl
from .core.make.random import Generator
from .nn.modules._convert import _parse_to
from .overrides import _DisableTorchFunctionSubclass as DisableTorchFunctionSubclass

__all__ = [
    "DisableTorchFunctionSubclass",
    "DispatchKey",
    "DispatchKeySet",
    "Generator",
    "Graph",
    "TensorBase",
    "Value",
    "_ExcludeDispatchKeyGuard",
    "_TensorMeta",
    "_disabled_torch_function_impl",
    "_get_tracing_state",
    "_log_api_usage_once",
]

_TensorMeta = type(Tensor)
_nn = SimpleNamespace(_parse_to=lambda *args, **kwargs: _parse_to(args, kwargs))
Graph, Value = unmakeable("_C.Graph"), unmakeable("_C.Value")


def _log_api_usage_once(name: str) -> None:
    """Note that part of an interface is used: nothing is kept, as in PyTorch without a logger."""


def _get_tracing_state() -> None:
    """The state of a trace: None, as nothing is traced."""
    return None


class DispatchKey(enum.Enum):
    """Layers between a call and its kernel that a program may leave out: autocast's, by type of device."""

    AutocastCPU = "cpu"
    AutocastCUDA = "cuda"
    AutocastMPS = "mps"
    AutocastXPU = "xpu"


class DispatchKeySet:
    """A set of `DispatchKey`s, of one or of several.

    >>> both = DispatchKeySet(DispatchKey.AutocastCPU) | DispatchKeySet(DispatchKey.AutocastCUDA)
    >>> both.has(DispatchKey.AutocastCUDA), both.has(DispatchKey.AutocastXPU)
    (True, False)
    """

    def __init__(self, keys: DispatchKey | Iterable[DispatchKey]) -> None:
        self._keys = frozenset([keys] if isinstance(keys, DispatchKey) else keys)

    def has(self, key: DispatchKey) -> bool:
        return key in self._keys

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys | other._keys)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys & other._keys)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys - other._keys)


class _ExcludeDispatchKeyGuard:
    """A block in which layers are left out: autocast casts nothing for the types of device in `keys`."""

    def __init__(self, keys: DispatchKeySet) -> None:
        self._keys = keys
        self._off = ExitStack()

    def __enter__(self) -> None:
        for key in sorted(self._keys._keys, key=lambda k: k.value):
            self._off.enter_context(autocast(key.value, enabled=False))

    def __exit__(self, *exception: Any) -> None:
        self._off.close()


__getattr__ = refusing("_C")
