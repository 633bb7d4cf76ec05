"""The default device, where PyTorch keeps it."""

from __future__ import annotations

from typing import Any

from ..core.base.device import get_default_device, set_default_device
from ..core.base.dtypes import device as Device
from ..operations.declare.registry import published

__all__ = ["DeviceContext", "set_device"]

_CONSTRUCTORS = """
    arange as_tensor asarray bartlett_window blackman_window empty empty_permuted empty_strided eye full hamming_window hann_window
    kaiser_window linspace logspace ones rand randint randn randperm range scalar_tensor tensor tril_indices triu_indices zeros
"""
set_device = set_default_device


class DeviceContext:
    """A device that tensors are made on inside a `with` statement, as `with device(…)` itself.

    >>> import flambeau
    >>> from flambeau.utils._device import DeviceContext
    >>> with DeviceContext("meta"):
    ...     flambeau.ones(2).device
    device(type='meta')
    """

    def __init__(self, device: Any) -> None:
        self.device = Device(device)

    def __enter__(self) -> DeviceContext:
        self.device.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.device.__exit__(*error)


def _device_constructors() -> set[Any]:
    """The functions that make tensors on the default device where they are told none."""
    flat = published("")
    return {flat[name] for name in _CONSTRUCTORS.split() if name in flat}


def __getattr__(name: str) -> Any:
    if name == "CURRENT_DEVICE":
        return get_default_device()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
