"""Memory of NVIDIA devices: what tensors hold, and what is cached for the next ones."""

from __future__ import annotations

from ..core.base import device as _devices
from ._find import find


def _stats(device: object) -> dict[str, int]:
    """The device's figures; all 0 where none has been used yet."""
    if not _devices.is_opened("cuda"):
        return dict.fromkeys(
            (
                "allocated_bytes",
                "peak_allocated_bytes",
                "reserved_bytes",
                "peak_reserved_bytes",
                "system_allocations",
            ),
            0,
        )
    return find(device).memory_stats()


def memory_allocated(device: object = None) -> int:
    """Bytes of the blocks that tensors hold."""
    return _stats(device)["allocated_bytes"]


def max_memory_allocated(device: object = None) -> int:
    """The most that tensors have held since the start, or since `reset_peak_memory_stats`."""
    return _stats(device)["peak_allocated_bytes"]


def memory_reserved(device: object = None) -> int:
    """Bytes taken from the driver: those that tensors hold and those cached."""
    return _stats(device)["reserved_bytes"]


def max_memory_reserved(device: object = None) -> int:
    """The most that was taken from the driver since the start, or since `reset_peak_memory_stats`."""
    return _stats(device)["peak_reserved_bytes"]


def memory_stats(device: object = None) -> dict[str, int]:
    """The same figures under PyTorch's names, and how often the driver was asked for memory."""
    told = _stats(device)
    return {
        "allocated_bytes.all.current": told["allocated_bytes"],
        "allocated_bytes.all.peak": told["peak_allocated_bytes"],
        "num_device_alloc": told["system_allocations"],
        "reserved_bytes.all.current": told["reserved_bytes"],
        "reserved_bytes.all.peak": told["peak_reserved_bytes"],
    }


def reset_peak_memory_stats(device: object = None) -> None:
    """Start measuring the peaks anew."""
    find(device).reset_peak_memory_stats()


def empty_cache() -> None:
    """Give every cached block back to the driver, on all devices in use, after waiting for queued work."""
    for found in _devices.open_devices("cuda"):
        found.empty_cache()


def mem_get_info(device: object = None) -> tuple[int, int]:
    """Bytes that are free on the device, whoever uses it, and all that it has."""
    return find(device).memory_info()
