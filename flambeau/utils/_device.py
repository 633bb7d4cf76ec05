"""The default device, where PyTorch keeps it."""

from __future__ import annotations

from typing import Any

from ..core.base.device import get_default_device, set_default_device
from ..core.base.dtypes import device as Device
from ..operations.declare.registry import Entry, published

__all__ = ["DeviceContext", "set_device"]

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
    """The functions that make tensors on the default device where they are given none."""
    return {f for f in published("").values() if _constructs(getattr(f, "entry", None))}


def _constructs(entry: Entry | None) -> bool:
    """Whether it takes a device or options of tensors, and neither reads a tensor nor makes one like another."""
    if entry is None or entry.kind not in ("creation", "random", "window"):
        return False
    if entry.function.like or entry.details.get("reads_tensors"):  # type: ignore[attr-defined]
        return False
    parameters = entry.function.__signature__.parameters.values()  # type: ignore[attr-defined]
    return any(p.name == "device" or p.kind is p.VAR_KEYWORD for p in parameters)


def __getattr__(name: str) -> Any:
    if name == "CURRENT_DEVICE":
        return get_default_device()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
