"""From expressions to machine code, for the host and for accelerators; the disk cache, and compiling ahead."""

from .ahead import warm
from .cache import cache_stats, clear_cache

__all__ = ["cache_stats", "clear_cache", "warm"]
