"""Where the memory of NVIDIA devices comes from: a program's own allocator, the cache on or off; and page-locked memory, counted."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.base import device as _devices
from ..devices.cuda_memory import Allocator, get_allocator, host, set_allocator


class _CUDAAllocator:
    """An allocator, as `change_current_allocator` takes it."""

    def __init__(self, allocator: Any) -> None:
        self._allocator = allocator

    def allocator(self) -> Any:
        """What `MemPool` takes."""
        return self._allocator


class CUDAPluggableAllocator(_CUDAAllocator):
    """An allocator that a shared library has: `void *alloc(size_t bytes, int device, cudaStream_t stream)`, which returns NULL where
    there is no more, and `void free(void *address, size_t bytes, int device, cudaStream_t stream)`.

    A free comes as soon as a tensor dies, and says on which stream the memory was allocated: work that is queued there may still use it.
    Streams of `Tensor.record_stream` are waited for before.  Nothing is cached in front of it, sizes are rounded up as for any block.

    Raises:
        OSError: there is no such library
        AttributeError: it has no such function

    >>> import flambeau
    >>> flambeau.cuda.CUDAPluggableAllocator("no.so", "alloc", "free")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    OSError: no.so: cannot open shared object file: No such file or directory
    """

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str) -> None:
        self._library = ctypes.CDLL(
            path_to_so_file
        )  # functions stay as long as it is open, and ctypes closes none
        places = [
            ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value
            for name in (alloc_fn_name, free_fn_name)
        ]
        super().__init__(Allocator(*places))


def change_current_allocator(allocator: _CUDAAllocator) -> None:
    """Let all devices take their memory from an allocator of the program's; before the first of them is used.

    Raises:
        TypeError: it is no CUDAPluggableAllocator
        RuntimeError: a device is in use already

    >>> import flambeau
    >>> flambeau.cuda.change_current_allocator(None)
    Traceback (most recent call last):
    TypeError: change_current_allocator(): allocator must be a CUDAPluggableAllocator, not NoneType
    """
    if not isinstance(allocator, _CUDAAllocator) or not isinstance(allocator.allocator(), Allocator):
        raise TypeError(
            "change_current_allocator(): allocator must be a CUDAPluggableAllocator, not "
            f"{type(allocator).__name__}"
        )
    if _devices.is_opened("cuda"):
        raise RuntimeError(
            "Can't swap an already initialized allocator: change_current_allocator() must come before the first use of a device"
        )
    set_allocator(allocator.allocator())


def get_allocator_backend() -> str:
    """ "native": blocks are cached by flambeau itself; "pluggable" after `change_current_allocator`.

    >>> import flambeau
    >>> flambeau.cuda.get_allocator_backend()
    'native'
    """
    return "native" if get_allocator() is None else "pluggable"


def caching_allocator_enable(value: bool = True) -> None:
    """Keep blocks that become free for the next tensors, or (False) give each back to the driver at once, after waiting for the device:
    for tools that look for accesses of freed memory.  It holds for devices that are in use, and does nothing where none is.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.cuda.caching_allocator_enable(True)
    """
    for on in _devices.open_devices("cuda"):
        on.set_caching(bool(value))


@contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """Context in which new blocks go back to the driver as soon as they are free.

    >>> import flambeau
    >>> with flambeau.cuda.caching_allocator_disabled():
    ...     pass
    """
    before = {on: on.is_caching() for on in _devices.open_devices("cuda")}
    caching_allocator_enable(False)
    try:
        yield
    finally:
        for on, caching in before.items():
            on.set_caching(caching)


# --- page-locked memory of the host ------------------------------
def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """`host_memory_stats` as dicts in dicts: `["allocated_bytes"]["peak"]`.

    >>> import flambeau
    >>> flambeau.cuda.is_initialized() or flambeau.cuda.host_memory_stats_as_nested_dict() == {}
    True
    """
    if not _devices.is_opened("cuda"):
        return {}
    result: dict[str, Any] = {}
    for names, what in (
        (("allocations", "active_requests"), "blocks"),
        (("allocated_bytes", "active_bytes"), "bytes"),
    ):
        for name in names:
            result[name] = {
                "current": host.current[what],
                "peak": host.peak[what],
                "allocated": host.allocated[what],
                "freed": host.deallocated[what],
            }
    for call in ("alloc", "free"):
        number, total, least, most = host.times[call] or (0, 0, 0, 0)
        result[f"num_host_{call}"] = number
        result[f"host_{call}_time"] = {
            "total": total // 1000,
            "max": most // 1000,
            "min": least // 1000,
            "count": number,
            "avg": total // number // 1000 if number else 0,
        }
    return result


def host_memory_stats() -> dict[str, Any]:
    """Page-locked memory of the host, by PyTorch's names: blocks ("allocations", "active_requests") and bytes ("allocated_bytes",
    "active_bytes"), each with "current", "peak", "allocated" and "freed"; how often the driver was asked ("num_host_alloc",
    "num_host_free"), and the microseconds it took ("host_alloc_time", "host_free_time").

    A block is the driver's only as long as a tensor holds it, so that blocks there are and blocks in use are the same.  Empty where no
    device has been used.

    >>> import flambeau
    >>> flambeau.cuda.host_memory_stats().get("allocations.current", 0) >= 0
    True
    """
    result: dict[str, Any] = {}
    for name, value in host_memory_stats_as_nested_dict().items():
        if isinstance(value, dict):
            result |= {f"{name}.{which}": n for which, n in value.items()}
        else:
            result[name] = value
    return dict(sorted(result.items()))


def reset_peak_host_memory_stats() -> None:
    """Start measuring the peaks of page-locked memory anew.

    >>> import flambeau
    >>> flambeau.cuda.reset_peak_host_memory_stats()
    """
    host.reset_peak()


def reset_accumulated_host_memory_stats() -> None:
    """Count anew what page-locked memory was given and given back, and the driver's times.

    >>> import flambeau
    >>> flambeau.cuda.reset_accumulated_host_memory_stats()
    """
    host.reset_accumulated()
