# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The memory of NVIDIA's devices.

Blocks of memory come from the driver's stream-ordered pool and are cached by `Device`, a list for each stream; a block that other
streams were told to use (`record_stream`) is kept back until they have passed the place where it was freed.  Work that is captured in
a graph takes its blocks from a pool of the graph's, which come from the driver at once and serve no other tensors.
"""
from libc.stdint cimport uint64_t, uintptr_t
from .cuda_driver cimport CAPTURE_RELAXED, OUT_OF_MEMORY, check, cu
from ..core.base.device cimport CLASSES, Device, check_fork, class_bytes, class_of
from ..core.base.device import OutOfMemoryError
cimport cython

cdef extern from *:
    """static __thread void *flambeau_context;  /* the driver keeps one for each thread */"""
    void* flambeau_context


@cython.binding(False)
cdef class Pool:
    def __init__(self, handle):
        self.handle, self.lists = handle, {}


@cython.binding(False)
cdef class CudaMemory(Device):
    """The part of a device that hands out its memory; `Cuda` is the rest."""

    def __cinit__(self, *given):
        self.waiting, self.lent = [], {}
        self.pools, self.pooled, self.held_back = {}, {}, []

    cdef int enter(self) except -1:
        """Make the device the one that this thread's calls are about."""
        global flambeau_context
        check_fork()
        if flambeau_context != self.context:
            check(cu.set_context(self.context), "cuCtxSetCurrent")
            flambeau_context = self.context
        return 0

    # memory
    cdef uint64_t allocate(self, size_t nbytes) except? 0:
        cdef uint64_t address = 0
        self.enter()
        if self.limit and self.reserved_bytes + nbytes > self.limit:
            return 0
        cdef int status = cu.allocate(&address, nbytes, <void*><uintptr_t>self.stream())
        if status == OUT_OF_MEMORY:
            return 0
        check(status, "cuMemAllocAsync")
        self.reserved_bytes += nbytes
        self.reserved_peak = max(self.reserved_peak, self.reserved_bytes)
        return address

    cdef int free(self, uint64_t address) except -1:
        """Only for `empty_cache`, which waits for the device before it, and counts."""
        self.enter()
        return check(cu.free(address), "cuMemFree")

    cdef uint64_t acquire(self, size_t nbytes, int block) except 0:
        if self.into is not None:
            if self.capturing():
                return self.take_pooled(nbytes, block)
        elif self.waiting:
            self.reclaim()
        return Device.acquire(self, nbytes, block)

    cdef int release(self, uint64_t address, int block, uint64_t stream, object uses) except -1:
        if uses is None:
            return self.put(address, block, stream)
        if self.into is not None:  # an event that is recorded now may belong to the graph, where nobody can wait for it
            self.held_back.append((address, block, stream, uses))
            return 0
        cdef uint64_t event
        self.enter()
        events = []
        for other in uses:
            event = self.new_event(False)
            events.append(event)
            check(cu.record(<void*><uintptr_t>event, <void*><uintptr_t><uint64_t>other), "cuEventRecord")
        self.waiting.append((address, block, stream, events))
        self.let_go(class_bytes(block))
        self.cached_bytes += class_bytes(block)
        return 0

    cdef int put(self, uint64_t address, int block, uint64_t stream) except -1:
        """Keep a block for the next tensor of the stream, or where it is a pool's, for the next that is captured with it."""
        cdef Pool pool = self.pooled.get(address) if self.pooled else None
        if pool is None:
            return Device.release(self, address, block, stream, None)
        lists = pool.lists.get(stream)
        if lists is None:
            lists = pool.lists[stream] = [[] for _ in range(CLASSES)]
        lists[block].append(address)
        self.let_go(class_bytes(block))
        return 0

    cdef uint64_t take_pooled(self, size_t nbytes, int block) except 0:
        """A block of the pool that is captured into: one that was freed on this stream, else a new one, which is there at once and
        for every replay.
        """
        cdef size_t size = class_bytes(block)
        cdef uint64_t address = 0
        cdef int mode = CAPTURE_RELAXED, status = OUT_OF_MEMORY
        lists = self.into.lists.get(self.stream())
        if lists is not None and lists[block]:
            self.hold(size)
            return lists[block].pop()
        self.enter()
        self.driver_calls += 1
        if not self.limit or self.reserved_bytes + size <= self.limit:
            cu.exchange_mode(&mode)
            status = cu.allocate_now(&address, size)
            cu.exchange_mode(&mode)
        if status == OUT_OF_MEMORY:
            self.refusals += 1
            raise OutOfMemoryError(
                f"cannot allocate {nbytes} bytes on {self.place} in a graph's capture, which gives no cached memory back: tensors "
                f"hold {self.held_bytes} bytes and the cache {self.cached_bytes} bytes; call cuda.empty_cache() before it")
        check(status, "cuMemAlloc")
        self.reserved_bytes += size
        self.reserved_peak = max(self.reserved_peak, self.reserved_bytes)
        self.pooled[address] = self.into
        self.hold(size)
        return address

    cdef int reclaim(self) except -1:
        """Hand out again what other streams have done with."""
        cdef list still = []
        cdef size_t size
        for kept in self.waiting:
            address, block, stream, events = kept
            if not all([self.event_done(event) for event in events]):
                still.append(kept)
                continue
            for event in events:
                self.free_event(event)
            size = class_bytes(block)
            self.cached_bytes -= size  # where `release` counts it
            self.held_bytes += size
            self.held_blocks += 1
            self.put(address, block, stream)
        self.waiting = still
        return 0

    def empty_cache(self) -> None:
        """Give every cached block back to the driver, after waiting for the work that is queued."""
        cdef size_t before
        self.finish()
        self.reclaim()
        before = self.cached_bytes
        Device.empty_cache(self)
        self.reserved_bytes -= before - self.cached_bytes
        for handle in list(self.pools):
            self.empty_pool(self.pools[handle])
        check(cu.trim_pool(self.pool, 0), "cuMemPoolTrimTo")

    def is_into(self) -> bool:
        """Whether work of the device is being captured by one of our graphs."""
        return self.into is not None

    def empty_pool(self, Pool pool) -> None:
        """Give the free blocks of a pool that no graph uses back to the driver; nothing is queued on them any more."""
        if pool.users:
            return
        for lists in pool.lists.values():
            for block in range(CLASSES):
                for address in lists[block]:
                    self.free(address)
                    self.reserved_bytes -= class_bytes(block)
                    del self.pooled[address]
                lists[block] = []
        if pool not in self.pooled.values():
            del self.pools[pool.handle]

    def memory_stats(self) -> dict:
        """As for every device, and the bytes taken from the driver: `reserved_bytes`, `peak_reserved_bytes`."""
        return Device.memory_stats(self) | {
            "reserved_bytes": self.reserved_bytes, "peak_reserved_bytes": self.reserved_peak}

    def reset_peak_memory_stats(self) -> None:
        """Start measuring the peaks anew."""
        Device.reset_peak_memory_stats(self)
        self.reserved_peak = self.reserved_bytes

    def limit_memory(self, fraction: float) -> None:
        """Take at most that part of the device's memory from the driver."""
        self.limit = max(1, int(self.properties()["total_memory"] * fraction))

    def memory_fraction(self) -> float:
        """The part of the device's memory that may be taken; 1 unless it was limited."""
        return self.limit / self.properties()["total_memory"] if self.limit else 1.0

    def lend(self, size_t nbytes, uint64_t stream) -> int:
        """The address of a block for work that another library queues on that stream."""
        cdef uint64_t before = self.stream(), address
        self.choose_stream(stream)
        try:
            address = self.acquire(nbytes, class_of(nbytes))
        finally:
            self.choose_stream(before)
        self.lent[address] = class_of(nbytes), stream
        return address

    def is_lent(self, uint64_t address) -> bool:
        """Whether a block that was lent begins there."""
        return address in self.lent

    def take_back(self, uint64_t address) -> None:
        """Keep a block that was lent for the next tensor."""
        block, stream = self.lent.pop(address)
        self.release(address, block, stream, None)

    def memory_info(self) -> tuple[int, int]:
        """Bytes that are free on the device, whoever uses it, and all there are."""
        cdef size_t free_bytes = 0, total = 0
        self.enter()
        check(cu.memory_info(&free_bytes, &total), "cuMemGetInfo")
        return free_bytes, total

    cdef void* allocate_host(self, size_t nbytes) except NULL:
        cdef void* memory = NULL
        self.enter()
        check(cu.allocate_host(&memory, nbytes), "cuMemAllocHost")
        return memory

    cdef int free_host(self, void* memory) except -1:
        self.enter()
        return check(cu.free_host(memory), "cuMemFreeHost")
