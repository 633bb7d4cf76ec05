"""NVIDIA devices: which there are, their memory, streams and events.

Everything works without a driver as far as it can: `is_available()` is False, `device_count()` 0, and what needs
a device raises RuntimeError.  No work is done on a device before it is first used.

>>> import flambeau
>>> flambeau.cuda.device_count() > 0 or not flambeau.cuda.is_available()
True
"""

from __future__ import annotations

from types import SimpleNamespace, TracebackType

from ..core.base import device as _devices
from ..core.base.device import OutOfMemoryError
from ..devices import cuda as _driver
from . import amp
from ._find import find as _find
from ._find import index_of as _index_of
from .memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_peak_memory_stats,
)
from .streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)

__all__ = [
    "Event",
    "ExternalStream",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "amp",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_device",
    "set_stream",
    "stream",
    "synchronize",
]


def device_count() -> int:
    """How many devices there are; 0 without a driver."""
    return _driver.count()


def is_available() -> bool:
    """Whether there is a driver with at least one device; opens the driver, but no device."""
    return _driver.count() > 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 can be used: on every device that flambeau takes (capability 8.0 or later)."""
    return is_available()


def is_initialized() -> bool:
    """Whether a device has been used in this process."""
    return _devices.is_opened("cuda")


def init() -> None:
    """Open the current device now; else that happens at its first use."""
    _devices.find_device("cuda", None)


def current_device() -> int:
    """The index of the device that "cuda" means."""
    init()
    return _devices.current_device("cuda")


def set_device(device: object) -> None:
    """Choose the device that "cuda" means; a negative index changes nothing."""
    index = _index_of(device)
    if index is not None and index >= 0:
        _devices.set_device("cuda", index)


class device:
    """Context in which "cuda" means another device; None or a negative index changes nothing."""

    def __init__(self, device: object):
        self.index = _index_of(device)

    def __enter__(self) -> None:
        self.before = _devices.current_device("cuda")
        set_device(self.index)

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.index is not None and self.index >= 0:
            _devices.set_device("cuda", self.before)


class DeviceProperties(SimpleNamespace):
    """What the driver tells of a device."""

    def __repr__(self) -> str:
        return (
            f"DeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory >> 20}MB, multi_processor_count={self.multi_processor_count})"
        )


def get_device_properties(device: object = None) -> DeviceProperties:
    """`name`, `major`, `minor`, `total_memory` (bytes), `multi_processor_count`, `warp_size`, `L2_cache_size` …"""
    return DeviceProperties(**_find(device).properties())


def get_device_name(device: object = None) -> str:
    """The device's name, such as "NVIDIA H200"."""
    return get_device_properties(device).name


def get_device_capability(device: object = None) -> tuple[int, int]:
    """The major and minor number of what the device can do: (9, 0) for an H100."""
    told = get_device_properties(device)
    return told.major, told.minor


def synchronize(device: object = None) -> None:
    """Wait until all that is queued on the device has run."""
    _find(device).synchronize()
