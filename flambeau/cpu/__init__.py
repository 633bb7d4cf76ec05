"""The host as a device: its memory, and the calls that programs make of any device."""

from __future__ import annotations

from typing import Any

from ..core.base.memory import (
    empty_cache,
    memory_stats,
    reset_peak_memory_stats,
    set_cache_limit,
    set_memory_limit,
)
from . import amp

__all__ = [
    "amp",
    "current_device",
    "device_count",
    "empty_cache",
    "is_available",
    "max_memory_allocated",
    "memory_allocated",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_cache_limit",
    "set_device",
    "set_memory_limit",
    "synchronize",
]


def is_available() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1: all processors of the host are one device."""
    return 1


def current_device() -> str:
    """ "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing changes: there is one host.  Programs written for any device call this."""


def synchronize(device: Any = None) -> None:
    """Return at once: calls on the host are finished when they return."""


def memory_allocated() -> int:
    """Bytes that tensors on the CPU hold.

    >>> import flambeau
    >>> from flambeau import cpu
    >>> before = cpu.memory_allocated()
    >>> x = flambeau.zeros(1000)
    >>> cpu.memory_allocated() - before >= 4000
    True
    """
    return memory_stats()["allocated_bytes"]


def max_memory_allocated() -> int:
    """The most bytes that tensors have held since the start, or since `reset_peak_memory_stats`."""
    return memory_stats()["peak_allocated_bytes"]
