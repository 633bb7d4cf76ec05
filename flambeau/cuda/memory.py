"""Memory of NVIDIA devices: what tensors hold, and what is cached for the next ones."""

from __future__ import annotations

import warnings
from typing import Any

from ..core.base import device as _devices
from ._allocators import (
    CUDAPluggableAllocator,
    caching_allocator_disabled,
    caching_allocator_enable,
    change_current_allocator,
    get_allocator_backend,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    reset_accumulated_host_memory_stats,
    reset_peak_host_memory_stats,
)
from ._find import find
from ._pools import MemPool, use_mem_pool
from ._sensors import list_gpu_processes  # PyTorch has it here
from ._snapshots import (  # noqa: F401  reached by these names
    _allocation_traceback,
    _dump_snapshot,
    _record_memory_history,
    _snapshot,
    memory_snapshot,
)

__all__ = [
    "CUDAPluggableAllocator",
    "MemPool",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "caching_allocator_disabled",
    "caching_allocator_enable",
    "change_current_allocator",
    "empty_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "list_gpu_processes",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "use_mem_pool",
]

# What the device counts, by PyTorch's names.
_NAMES = {
    "active.all.allocated": "all_blocks",
    "active.all.current": "active",
    "active.all.peak": "peak_active",
    "active_bytes.all.allocated": "all_bytes",
    "active_bytes.all.current": "active_bytes",
    "active_bytes.all.peak": "peak_active_bytes",
    "allocated_bytes.all.current": "allocated_bytes",
    "allocated_bytes.all.peak": "peak_allocated_bytes",
    "allocated_bytes.all.allocated": "all_bytes",
    "allocation.all.current": "blocks",
    "allocation.all.peak": "peak_blocks",
    "allocation.all.allocated": "all_blocks",
    "num_alloc_retries": "retries",
    "num_device_alloc": "system_allocations",
    "num_ooms": "refusals",
    "reserved_bytes.all.allocated": "all_reserved_bytes",
    "reserved_bytes.all.current": "reserved_bytes",
    "reserved_bytes.all.peak": "peak_reserved_bytes",
    "segment.all.allocated": "all_segments",
    "segment.all.current": "segments",
    "segment.all.peak": "peak_segments",
}
_COUNTED = ("active", "active_bytes", "allocated_bytes", "allocation", "reserved_bytes", "segment")
_UNSPLIT = ("inactive_split", "inactive_split_bytes")  # blocks are never split


def _stats(device: object) -> dict[str, int]:
    """The device's figures; all 0 where none has been used yet."""
    if not _devices.is_opened("cuda"):
        return dict.fromkeys(_NAMES.values(), 0)
    return find(device).memory_stats()


def memory_allocated(device: object = None) -> int:
    """Bytes of the blocks that tensors hold.

    Raises:
        ValueError: a CUDA device is in use, and `device` is of another type

    >>> import flambeau
    >>> flambeau.cuda.memory_allocated() >= 0
    True
    """
    return _stats(device)["allocated_bytes"]


def max_memory_allocated(device: object = None) -> int:
    """The most that tensors have held since the start, or since `reset_peak_memory_stats`.

    Raises:
        ValueError: a CUDA device is in use, and `device` is of another type

    >>> import flambeau
    >>> flambeau.cuda.max_memory_allocated() >= 0
    True
    """
    return _stats(device)["peak_allocated_bytes"]


def memory_reserved(device: object = None) -> int:
    """Bytes taken from the driver: those that tensors hold and those cached.

    Raises:
        ValueError: a CUDA device is in use, and `device` is of another type

    >>> import flambeau
    >>> flambeau.cuda.memory_reserved() >= 0
    True
    """
    return _stats(device)["reserved_bytes"]


def max_memory_reserved(device: object = None) -> int:
    """The most that was taken from the driver since the start, or since `reset_peak_memory_stats`.

    Raises:
        ValueError: a CUDA device is in use, and `device` is of another type

    >>> import flambeau
    >>> flambeau.cuda.max_memory_reserved() >= 0
    True
    """
    return _stats(device)["peak_reserved_bytes"]


def memory_stats(device: object = None) -> dict[str, int]:
    """The same figures under PyTorch's names: bytes and blocks that tensors hold (`active` with those that other streams still use), bytes
    and pieces (`segment`) taken from the driver, how often it was asked, how often the cache was given back because it had no more, and
    how often in vain.  There is one pool for all sizes, so that only "all" is counted.

    Raises:
        ValueError: a CUDA device is in use, and `device` is of another type

    >>> import flambeau
    >>> flambeau.cuda.memory_stats()["num_ooms"]
    0
    """
    stats = _stats(device)
    result = {name: stats[ours] for name, ours in _NAMES.items()}
    for what in _COUNTED:
        result[f"{what}.all.freed"] = result[f"{what}.all.allocated"] - result[f"{what}.all.current"]
    for what in _UNSPLIT:
        result |= {f"{what}.all.{which}": 0 for which in ("allocated", "current", "freed", "peak")}
    result["num_device_free"] = result["segment.all.freed"]
    return dict(sorted(result.items()))


def memory_stats_as_nested_dict(device: object = None) -> dict[str, Any]:
    """`memory_stats` as dicts in dicts: `["allocated_bytes"]["all"]["peak"]`.

    Raises:
        ValueError: a CUDA device is in use, and `device` is of another type

    >>> import flambeau
    >>> flambeau.cuda.memory_stats_as_nested_dict()["allocated_bytes"]["all"]["current"] >= 0
    True
    """
    result: dict[str, Any] = {}
    for name, value in memory_stats(device).items():
        *outer, last = name.split(".")
        place = result
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = value
    return result


def memory_summary(device: object = None, abbreviated: bool = False) -> str:
    """A table of `memory_stats` to print.  There is one pool of blocks, so that `abbreviated` leaves nothing out.

    Raises:
        ValueError: the device is of another type
        RuntimeError: there is no such device

    >>> import flambeau
    >>> "Allocated memory" in flambeau.cuda.memory_summary()
    True
    """
    stats = memory_stats(device)
    place = _devices.current_device("cuda") if device is None else find(device).index
    line = "|" + "=" * 75 + "|"
    pressed = f"CUDA OOMs: {stats['num_ooms']}    alloc retries: {stats['num_alloc_retries']}"
    rows = [
        line,
        f"|{f'CUDA memory summary, device {place}':^75}|",
        f"|{pressed:^75}|",
        line,
        "|        Metric         |  Current   |    Peak    | Allocated  |   Freed    |",
    ]
    for what, name, text in (
        ("allocated_bytes", "Allocated memory", _bytes),
        ("active_bytes", "Active memory", _bytes),
        ("reserved_bytes", "GPU reserved memory", _bytes),
        ("allocation", "Allocations", str),
        ("active", "Active allocs", str),
        ("segment", "GPU reserved segments", str),
    ):
        figures = (stats.get(f"{what}.all.{which}") for which in ("current", "peak", "allocated", "freed"))
        cells = " | ".join(f"{'' if n is None else text(n):>10}" for n in figures)
        rows.append(f"| {name:<21} | {cells} |")
    return "\n".join([*rows, line]) + "\n"


def _bytes(n: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if n < 10 * 1024:
            return f"{n} {unit}"
        n //= 1024
    return f"{n} GiB"


def reset_accumulated_memory_stats(device: object = None) -> None:
    """Count anew what is handed out and freed, and how often the driver is asked.

    Raises:
        ValueError: the device is of another type
        RuntimeError: there is no such device

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     flambeau.cuda.reset_accumulated_memory_stats()
    """
    find(device).reset_accumulated_memory_stats()


def reset_max_memory_allocated(device: object = None) -> None:
    """`reset_peak_memory_stats`, which took its place in PyTorch 1.4: a FutureWarning says so.

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     flambeau.cuda.reset_max_memory_allocated()
    """
    _old("reset_max_memory_allocated", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: object = None) -> None:
    """`reset_peak_memory_stats`, which took its place in PyTorch 1.4: a FutureWarning says so.

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     flambeau.cuda.reset_max_memory_cached()
    """
    _old("reset_max_memory_cached", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)


def memory_cached(device: object = None) -> int:
    """`memory_reserved` by its name of before PyTorch 1.4: a FutureWarning says so.

    >>> import flambeau, warnings
    >>> warnings.simplefilter("ignore")
    >>> flambeau.cuda.memory_cached() == flambeau.cuda.memory_reserved()
    True
    """
    _old("memory_cached", "memory_reserved")
    return memory_reserved(device)


def max_memory_cached(device: object = None) -> int:
    """`max_memory_reserved` by its name of before PyTorch 1.4: a FutureWarning says so.

    >>> import flambeau, warnings
    >>> warnings.simplefilter("ignore")
    >>> flambeau.cuda.max_memory_cached() == flambeau.cuda.max_memory_reserved()
    True
    """
    _old("max_memory_cached", "max_memory_reserved")
    return max_memory_reserved(device)


def _old(name: str, new: str) -> None:
    warnings.warn(f"cuda.{name}() is the old name of cuda.{new}()", FutureWarning, stacklevel=3)


def set_per_process_memory_fraction(fraction: float, device: object = None) -> None:
    """Take at most that part of the device's memory from the driver; what is asked beyond it is an OutOfMemoryError.

    TypeError unless the fraction is a float, ValueError outside [0, 1].

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     flambeau.cuda.set_per_process_memory_fraction(1.0)
    """
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    find(device).limit_memory(fraction)


def get_per_process_memory_fraction(device: object = None) -> float:
    """What was set; 1.0 at first.

    Raises:
        ValueError: the device is of another type
        RuntimeError: there is no such device

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     assert 0 < flambeau.cuda.get_per_process_memory_fraction() <= 1
    """
    return find(device).memory_fraction()


def caching_allocator_alloc(size: int, device: object = None, stream: Any = None) -> int:
    """The address of a block of `size` bytes for another library, which gives it back by `caching_allocator_delete`; for work
    on `stream` (a stream or the driver's handle), the current one by default.

    TypeError for other streams, OutOfMemoryError where there is no memory left.

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     flambeau.cuda.caching_allocator_delete(flambeau.cuda.caching_allocator_alloc(1024))
    """
    result = find(device)
    handle = result.current_stream() if stream is None else getattr(stream, "cuda_stream", stream)
    if not isinstance(handle, int):
        raise TypeError(
            f"caching_allocator_alloc(): stream must be a Stream or an int, not {type(stream).__name__}"
        )
    return result.lend(size, handle)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Take back what `caching_allocator_alloc` gave.  ValueError for any other address.

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     flambeau.cuda.caching_allocator_delete(flambeau.cuda.caching_allocator_alloc(1024))
    """
    for result in _devices.open_devices("cuda"):
        if result.is_lent(mem_ptr):
            return result.take_back(mem_ptr)
    raise ValueError(f"caching_allocator_delete(): no block that was given out begins at {mem_ptr:#x}")


def reset_peak_memory_stats(device: object = None) -> None:
    """Start measuring the peaks anew.

    Raises:
        ValueError: the device is of another type
        RuntimeError: there is no such device

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     flambeau.cuda.reset_peak_memory_stats()
    """
    find(device).reset_peak_memory_stats()


def empty_cache() -> None:
    """Give every cached block back to the driver, on all devices in use, after waiting for queued work.

    >>> import flambeau
    >>> flambeau.cuda.empty_cache()
    """
    for result in _devices.open_devices("cuda"):
        result.empty_cache()


def mem_get_info(device: object = None) -> tuple[int, int]:
    """Bytes that are free on the device, whoever uses it, and all that it has.

    Raises:
        ValueError: the device is of another type
        RuntimeError: there is no such device

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     free, total = flambeau.cuda.mem_get_info()
    ...     assert 0 <= free <= total
    """
    return find(device).memory_info()
