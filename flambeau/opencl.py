"""OpenCL devices: which there are, their memory, and marks in their queues.

A device can be used where its driver takes SPIR-V and hands out addresses (cl_intel_unified_shared_memory), as Intel's
do.  `pip install intel-opencl-rt intel-cmplr-lib-rt` makes the CPU one, on which the tests run.  Work on a device is
queued and runs in the order of the calls.

>>> import flambeau
>>> flambeau.opencl.device_count() > 0 or not flambeau.opencl.is_available()
True
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from .core.base import device as _devices
from .core.base.device import OutOfMemoryError
from .core.base.dtypes import device as _device
from .devices import opencl as _driver
from .devices.opencl import Event

__all__ = [
    "Event",
    "OutOfMemoryError",
    "current_device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "get_device_properties",
    "is_available",
    "is_initialized",
    "max_memory_allocated",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_device",
    "synchronize",
]


def _index(device: Any) -> int | None:
    if device is None or isinstance(device, int):
        return device
    found = device if isinstance(device, _device) else _device(device)
    if found.type != "opencl":
        raise ValueError(f"expected an opencl device, but got: {found}")
    return found.index


def _find(device: Any) -> _devices.Device:
    return _devices.find_device("opencl", _index(device))


def device_count() -> int:
    """How many devices can be used; 0 without a driver."""
    return _driver.count()


def is_available() -> bool:
    """Whether there is a device."""
    return _driver.count() > 0


def is_initialized() -> bool:
    """Whether a device has been used in this process."""
    return _devices.is_opened("opencl")


def current_device() -> int:
    """The index of the device that "opencl" means."""
    return _find(None).index


def set_device(device: Any) -> None:
    """Choose the device that "opencl" means; RuntimeError where there is none of that number."""
    index = _index(device)
    if index is not None:
        _devices.set_device("opencl", index)


def get_device_properties(device: Any = None) -> SimpleNamespace:
    """`name`, `vendor`, `version`, `driver_version`, `total_memory` (bytes), `multi_processor_count` …"""
    return SimpleNamespace(**_find(device).properties())


def get_device_name(device: Any = None) -> str:
    """The device's name."""
    return get_device_properties(device).name


def synchronize(device: Any = None) -> None:
    """Wait until all that is queued has run; IndexError where a kernel has met an index out of bounds."""
    _find(device).synchronize()


def memory_stats(device: Any = None) -> dict[str, int]:
    """`allocated_bytes` in tensors, their peak, `cached_bytes` for the next ones, and `system_allocations`."""
    return _find(device).memory_stats()


def memory_allocated(device: Any = None) -> int:
    """Bytes of the blocks that tensors hold."""
    return memory_stats(device)["allocated_bytes"]


def max_memory_allocated(device: Any = None) -> int:
    """The most that tensors have held since the start, or since `reset_peak_memory_stats`."""
    return memory_stats(device)["peak_allocated_bytes"]


def memory_reserved(device: Any = None) -> int:
    """Bytes taken from the driver: those that tensors hold and those cached."""
    stats = memory_stats(device)
    return stats["allocated_bytes"] + stats["cached_bytes"]


def reset_peak_memory_stats(device: Any = None) -> None:
    """Start measuring the peak anew."""
    _find(device).reset_peak_memory_stats()


def empty_cache() -> None:
    """Give cached memory back to the driver."""
    _find(None).empty_cache()
