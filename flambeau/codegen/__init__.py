"""From expressions to machine code, for the host and for accelerators; the disk cache, and compiling ahead."""

from typing import TYPE_CHECKING

from ..core.base.lazily import lazily as _lazily
from ..core.base.lazily import waiting as _waiting

if TYPE_CHECKING:
    from ..kernels._ahead import warm
    from .cache import cache_stats, clear_cache

__all__ = ["cache_stats", "clear_cache", "warm"]

_waiting(__name__, "build", "cache", "lower", "schedule_cpu", "target")  # for the first kernel
__getattr__, __dir__ = _lazily(
    __name__, names={"cache_stats": ".cache", "clear_cache": ".cache", "warm": "..kernels._ahead"}
)
