"""Pools of memory: blocks of some tensors that no others are given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..devices.cuda_memory import Allocator
from ._find import find
from ._snapshots import memory_snapshot
from .graphs import graph_pool_handle


class MemPool:
    """A pool of memory of the current device, for the tensors that are made in `use_mem_pool`; its `id` also names it to `CUDAGraph`.

    With `use_on_oom` its free blocks are given back to the driver where that has no more, as cached ones are.  Blocks are never split, so
    that `no_split` changes nothing.  The blocks of a pool that is gone are given back as soon as no tensor holds them, by `empty_cache`.

    With `allocator` (`CUDAPluggableAllocator(…).allocator()`) blocks come from there, and go back there.

    Raises:
        TypeError: the allocator is another object
        RuntimeError: there is no device

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     pool = flambeau.cuda.MemPool()
    ...     with flambeau.cuda.use_mem_pool(pool):
    ...         x = flambeau.ones(3, device="cuda")
    ...     assert pool.snapshot()[0]["segment_pool_id"] == pool.id
    """

    def __init__(self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False) -> None:
        self._pool = None
        if allocator is not None and not isinstance(allocator, Allocator):
            raise TypeError(
                "MemPool(): allocator must be what CUDAPluggableAllocator.allocator() returns, not "
                f"{type(allocator).__name__}"
            )
        self._on = find(None)
        self._id = graph_pool_handle()
        self._pool = self._on.hold_pool(self._id, use_on_oom, allocator)

    @property
    def allocator(self) -> Any:
        """Where its blocks come from; None for the driver."""
        assert self._pool is not None
        return self._pool.allocator

    @property
    def id(self) -> tuple[int, int]:
        """Its name among all pools."""
        return self._id

    @property
    def device(self) -> Any:
        """The device that its memory is of."""
        return self._on.place

    def use_count(self) -> int:
        """How many use it: this object, contexts that are open, and graphs that were captured with it."""
        assert self._pool is not None
        return self._pool.users

    def snapshot(self, include_traces: bool = True) -> list[dict[str, Any]]:
        """What `memory_snapshot` says of its memory."""
        return memory_snapshot(self._id, include_traces)

    def __del__(self) -> None:
        if self._pool is not None:
            self._on.drop_pool(self._pool)


@contextmanager
def use_mem_pool(pool: MemPool, device: Any = None) -> Iterator[None]:
    """Context in which this thread's tensors on the device (the current one by default) are made in the pool.

    Raises:
        TypeError: the pool is no MemPool
        RuntimeError: it is one of another device

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     with flambeau.cuda.use_mem_pool(flambeau.cuda.MemPool()):
    ...         x = flambeau.ones(3, device="cuda")
    """
    if not isinstance(pool, MemPool):
        raise TypeError(f"use_mem_pool(): pool must be a MemPool, not {type(pool).__name__}")
    on = find(device)
    if on is not pool._on:
        raise RuntimeError(f"use_mem_pool(): the pool is one of {pool.device}, not of {on.place}")
    held = on.hold_pool(pool.id)
    on.begin_pool(held)
    try:
        yield
    finally:
        on.end_pool()
        on.drop_pool(held)
