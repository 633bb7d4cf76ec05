"""The part of `mtia` that is about memory."""

from __future__ import annotations

from . import max_memory_allocated, memory_allocated, memory_stats, reset_peak_memory_stats

__all__ = [
    "max_memory_allocated",
    "memory_allocated",
    "memory_stats",
    "reset_peak_memory_stats",
]
