# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The memory of NVIDIA's and AMD's devices.

Blocks of memory come from the driver's stream-ordered pool and are cached by `Device`, a list for each stream; a block that other
streams were told to use (`record_stream`) is kept back until they have passed the place where it was freed.  Work that is captured in
a graph takes its blocks from a pool of the graph's, which come from the driver at once and serve no other tensors.
"""
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from cpython.pythread cimport PyThread_get_thread_ident
from libc.string cimport memcpy
from .cuda_driver cimport CAPTURE_RELAXED, IPC_LAZY_PEER_ACCESS, IpcHandle, OUT_OF_MEMORY, check, cu
from ..core.base.device cimport CLASSES, Device, check_fork, class_bytes, class_of
from ..core.base.device import OutOfMemoryError
cimport cython
from time import perf_counter_ns

cdef extern from *:
    """static __thread void *flambeau_context;  /* the driver keeps one for each thread */"""
    void* flambeau_context


@cython.binding(False)
cdef class Pool:
    def __init__(self, handle):
        self.handle, self.lists = handle, {}


@cython.binding(False)
cdef class Allocator:
    def __init__(self, uint64_t alloc, uint64_t dispose):
        self.alloc, self.dispose = <void* (*)(size_t, int, void*) noexcept><uintptr_t>alloc, <void (*)(void*, size_t, int, void*) noexcept><uintptr_t>dispose


cdef Allocator chosen_allocator = None   # of devices that are opened from now on; None: the driver


def set_allocator(Allocator allocator not None) -> None:
    """Let devices take their memory from there; none may be open."""
    global chosen_allocator
    chosen_allocator = allocator


def get_allocator() -> Allocator | None:
    """What was set; None for the driver."""
    return chosen_allocator


cdef object make_history = None   # a function of a device that makes what its `history` is


def set_history(make) -> None:
    """Let devices that are opened from now on record what is handed out and freed in `make(device)`; None: nowhere."""
    global make_history
    make_history = make


@cython.binding(False)
cdef class CudaMemory(Device):
    """The part of a device that hands out its memory; `Cuda` is the rest."""

    def __cinit__(self, *args):
        self.waiting, self.lent, self.segments, self.routes = [], {}, {}, {}
        self.pools, self.pooled, self.held_back = {}, {}, []
        self.allocator, self.caching = chosen_allocator, chosen_allocator is None  # a program's own allocator is its own cache
        self.uncached, self.foreign = set(), {}
        self.history = None if make_history is None else make_history(self)

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
        if self.allocator is not None:
            address = self.from_allocator(self.allocator, nbytes)
            if address:
                self.took(address, nbytes, None)
            return address
        cdef int status = cu.allocate(&address, nbytes, <void*><uintptr_t>self.stream())
        if status == OUT_OF_MEMORY:
            return 0
        check(status, "cuMemAllocAsync")
        self.took(address, nbytes, None)
        return address

    cdef uint64_t from_allocator(self, Allocator allocator, size_t nbytes) except? 0:
        cdef uint64_t address = <uintptr_t>allocator.alloc(nbytes, self.index, <void*><uintptr_t>self.stream())
        if address:
            self.foreign[address] = allocator
        return address

    cdef uint64_t take_uncached(self, size_t nbytes, int block) except 0:
        """A new block, which goes back when it is free."""
        cdef size_t size = class_bytes(block)
        self.driver_calls += 1
        cdef uint64_t address = self.allocate(size)
        if address == 0:
            self.retries += 1
            self.empty_cache()
            address = self.allocate(size)
        if address == 0:
            self.refusals += 1
            raise self.out_of_memory(nbytes)
        self.uncached.add(address)
        self.hold(size)
        return address

    def set_caching(self, bint caching) -> None:
        """Whether blocks that become free are kept for the next tensors; without it new ones go back to the driver, which waits for the device."""
        self.caching = caching and self.allocator is None

    def is_caching(self) -> bool:
        """What was set by `set_caching`; False for a program's own allocator."""
        return self.caching

    def use(self) -> None:
        """Let calls of the driver that this thread makes from now on be about this device."""
        self.enter()

    cdef int took(self, uint64_t address, size_t nbytes, object handle) except -1:
        """Count what the driver gave."""
        self.segments[address] = nbytes, self.stream(), handle
        self.reserved_bytes += nbytes
        self.reserved_peak = max(self.reserved_peak, self.reserved_bytes)
        self.taken_segments += 1
        self.reserved_taken += nbytes
        self.segments_peak = max(self.segments_peak, <size_t>len(self.segments))
        if self.history is not None:
            self.history.segment("segment_alloc", address, nbytes, self.stream(), handle)
        return 0

    cdef int free(self, uint64_t address) except -1:
        """Give back what nothing that is queued uses any more, except that an allocator of the program's waits itself."""
        self.enter()
        nbytes, stream, handle = self.segments.pop(address)
        cdef Allocator allocator = self.foreign.pop(address, None) if self.foreign else None
        if allocator is None:
            check(cu.free(address), "cuMemFree")
        else:
            allocator.dispose(<void*><uintptr_t>address, nbytes, self.index, <void*><uintptr_t><uint64_t>stream)
        self.reserved_bytes -= <size_t>nbytes
        if self.history is not None:
            self.history.segment("segment_free", address, nbytes, stream, handle)
        return 0

    cdef uint64_t acquire(self, size_t nbytes, int block) except 0:
        cdef uint64_t address = self.find(nbytes, block)
        self.active_peak = max(self.active_peak, self.held_bytes + self.waiting_bytes)
        self.active_blocks_peak = max(self.active_blocks_peak, self.held_blocks + <size_t>len(self.waiting))
        if self.history is not None:
            self.history.taken(address, nbytes, class_bytes(block), self.stream(), self.segments[address][2])
        return address

    cdef uint64_t find(self, size_t nbytes, int block) except 0:
        """A block of the pool that is captured into, or that this thread uses; else one of the cache, or a new one."""
        if self.into is not None:
            if self.capturing():
                return self.take_pooled(self.into, nbytes, block, True)
        elif self.waiting:
            self.reclaim()
        if self.routes:
            pools = self.routes.get(<uint64_t>PyThread_get_thread_ident())
            if pools:
                return self.take_pooled(pools[len(pools) - 1], nbytes, block, False)
        return Device.acquire(self, nbytes, block) if self.caching else self.take_uncached(nbytes, block)

    cdef int release(self, uint64_t address, int block, uint64_t stream, object uses) except -1:
        if self.history is not None:
            self.history.freed("free_requested", address, class_bytes(block), stream)
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
        self.waiting_bytes += class_bytes(block)
        self.let_go(class_bytes(block))
        self.cached_bytes += class_bytes(block)
        return 0

    cdef int put(self, uint64_t address, int block, uint64_t stream) except -1:
        """Keep a block for the next tensor of the stream, or where it is a pool's, for the next that is made in it."""
        if address in self.uncached and self.into is not None:  # a capture takes no free
            self.held_back.append((address, block, stream, None))
            return 0
        if self.history is not None:
            self.history.freed("free_completed", address, class_bytes(block), stream)
        if address in self.uncached:
            if address not in self.foreign:
                self.finish()
            self.uncached.remove(address)
            self.let_go(class_bytes(block))
            return self.free(address)
        cdef Pool pool = self.pooled.get(address) if self.pooled else None
        if pool is None:
            return Device.release(self, address, block, stream, None)
        lists = pool.lists.get(stream)
        if lists is None:
            lists = pool.lists[stream] = [[] for _ in range(CLASSES)]
        lists[block].append(address)
        self.let_go(class_bytes(block))
        return 0

    cdef uint64_t take_pooled(self, Pool pool, size_t nbytes, int block, bint captured) except 0:
        """A block of a pool: one that was freed on this stream, else a new one, which is there at once and for every replay of a graph."""
        cdef size_t size = class_bytes(block)
        cdef uint64_t address = 0
        cdef int mode = CAPTURE_RELAXED, status = OUT_OF_MEMORY, trial
        lists = pool.lists.get(self.stream())
        if lists is not None and lists[block]:
            self.hold(size)
            return lists[block].pop()
        self.enter()
        self.driver_calls += 1
        for trial in range(1 if captured else 2):
            if trial == 1:
                self.retries += 1
                self.empty_cache()
            if not self.limit or self.reserved_bytes + size <= self.limit:
                cu.exchange_mode(&mode)
                if pool.allocator is None:
                    status = cu.allocate_now(&address, size)
                else:
                    address = self.from_allocator(pool.allocator, size)
                    status = 0 if address else OUT_OF_MEMORY
                cu.exchange_mode(&mode)
            if status != OUT_OF_MEMORY:
                break
        if status == OUT_OF_MEMORY:
            self.refusals += 1
            raise self.out_of_memory(nbytes)
        check(status, "cuMemAlloc")
        self.took(address, size, pool.handle)
        self.pooled[address] = pool
        self.hold(size)
        return address

    cdef int reclaim(self) except -1:
        """Hand out again what other streams have done with."""
        cdef list still = []
        cdef size_t size
        for entry in self.waiting:
            address, block, stream, events = entry
            if not all([self.event_done(event) for event in events]):
                still.append(entry)
                continue
            for event in events:
                self.free_event(event)
            size = class_bytes(block)
            self.cached_bytes -= size  # where `release` counts it
            self.waiting_bytes -= size
            self.held_bytes += size
            self.held_blocks += 1
            self.put(address, block, stream)
        self.waiting = still
        return 0

    def empty_cache(self) -> None:
        """Give every cached block back to the driver, after waiting for the work that is queued."""
        self.finish()
        self.reclaim()
        Device.empty_cache(self)
        for handle in list(self.pools):
            self.empty_pool(self.pools[handle])
        check(cu.trim_pool(self.pool, 0), "cuMemPoolTrimTo")

    def is_into(self) -> bool:
        """Whether work of the device is being captured by one of our graphs."""
        return self.into is not None

    # pools
    def hold_pool(self, handle, bint spare=False, Allocator allocator=None) -> Pool:
        """The pool of that name, for one user more."""
        cdef Pool pool = self.pools.get(handle)
        if pool is None:
            pool = self.pools[handle] = Pool(handle)
            pool.allocator = allocator
        pool.users += 1
        pool.spare = pool.spare or spare
        return pool

    def drop_pool(self, Pool pool not None) -> None:
        """One user of the pool less."""
        pool.users -= 1

    def empty_pool(self, Pool pool) -> None:
        """Give the free blocks of a pool that nobody uses, or that is spare, back to the driver; nothing is queued on them any more."""
        if pool.users and not pool.spare:
            return
        for lists in pool.lists.values():
            for block in range(CLASSES):
                for address in lists[block]:
                    self.free(address)
                    del self.pooled[address]
                lists[block] = []
        if not pool.users and pool not in self.pooled.values():
            del self.pools[pool.handle]

    def begin_pool(self, Pool pool not None) -> None:
        """Let this thread take its blocks from the pool from now on."""
        self.routes.setdefault(<uint64_t>PyThread_get_thread_ident(), []).append(pool)

    def end_pool(self) -> None:
        """Let this thread take its blocks from where it did before the last `begin_pool`."""
        cdef uint64_t thread = PyThread_get_thread_ident()
        self.routes[thread].pop()
        if not self.routes[thread]:
            del self.routes[thread]

    # who holds what
    def record_history(self, history) -> None:
        """Tell `history` what is handed out and freed from now on; None: nobody."""
        self.history = history

    @property
    def recorded(self):
        """What was given to `record_history`, or None."""
        return self.history

    def blocks(self) -> list[tuple]:
        """All that the driver has given: (address, bytes, stream, handle of its pool or None, state in PyTorch's words)."""
        states = {entry[0]: "active_awaiting_free" for entry in self.waiting + self.held_back}
        for lists in [*self.cached.values(), *[(<Pool>pool).lists[key] for pool in self.pools.values() for key in (<Pool>pool).lists]]:
            for free_blocks in lists:
                states.update(dict.fromkeys(free_blocks, "inactive"))
        return [(address, *info, states.get(address, "active_allocated")) for address, info in sorted(self.segments.items())]

    def out_of_memory(self, size_t nbytes) -> OutOfMemoryError:
        """PyTorch's message: what was wanted, what there is, and who holds what."""
        from . import holders
        free_bytes, total = self.memory_info()
        if self.history is not None:
            self.history.refused(nbytes, free_bytes, self.stream())
        return OutOfMemoryError(holders.message(self, nbytes, free_bytes, total, self.limit, self.into is not None and self.capturing()))

    def memory_stats(self) -> dict:
        """As for every device, and what was taken from the driver, and what other streams still use."""
        cdef size_t segments = len(self.segments), waiting = len(self.waiting)
        return Device.memory_stats(self) | {
            "reserved_bytes": self.reserved_bytes, "peak_reserved_bytes": self.reserved_peak, "all_reserved_bytes": self.reserved_taken,
            "segments": segments, "peak_segments": self.segments_peak, "all_segments": self.taken_segments,
            "active_bytes": self.held_bytes + self.waiting_bytes, "peak_active_bytes": self.active_peak,
            "active": self.held_blocks + waiting, "peak_active": self.active_blocks_peak}

    def reset_accumulated_memory_stats(self) -> None:
        """Count anew what is handed out, and what is taken from the driver."""
        Device.reset_accumulated_memory_stats(self)
        self.taken_segments, self.reserved_taken = len(self.segments), self.reserved_bytes

    def reset_peak_memory_stats(self) -> None:
        """Start measuring the peaks anew."""
        Device.reset_peak_memory_stats(self)
        self.reserved_peak, self.segments_peak = self.reserved_bytes, len(self.segments)
        self.active_peak, self.active_blocks_peak = self.held_bytes + self.waiting_bytes, self.held_blocks + <size_t>len(self.waiting)

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

    # other processes
    def is_ours(self, uint64_t address) -> bool:
        """Whether a block of ours begins there."""
        return address in self.segments

    def is_pooled(self, uint64_t address) -> bool:
        """Whether it is a block of a pool, which other processes can be given."""
        return address in self.pooled

    def memory_handle(self, uint64_t address) -> bytes:
        """What names a block of a pool to other processes: 64 bytes."""
        cdef IpcHandle handle
        self.enter()
        check(cu.memory_handle(&handle, address), "cuIpcGetMemHandle")
        return (<char*>&handle)[:sizeof(handle)]

    def open_memory(self, bytes handle not None) -> int:
        """The address here of a block that another process has named by its 64 bytes."""
        cdef IpcHandle ipc_handle
        cdef uint64_t address = 0
        self.enter()
        memcpy(&ipc_handle, <const char*>handle, sizeof(ipc_handle))
        check(cu.open_memory(&address, ipc_handle, IPC_LAZY_PEER_ACCESS), "cuIpcOpenMemHandle")
        return address

    def close_memory(self, uint64_t address) -> None:
        """Let go of a block of another process, after waiting for the work that is queued here."""
        self.finish()
        check(cu.close_memory(address), "cuIpcCloseMemHandle")

    def memory_info(self) -> tuple[int, int]:
        """Bytes that are free on the device, whoever uses it, and all there are."""
        cdef size_t free_bytes = 0, total = 0
        self.enter()
        check(cu.memory_info(&free_bytes, &total), "cuMemGetInfo")
        return free_bytes, total

    cdef void* allocate_host(self, size_t nbytes) except NULL:
        cdef void* memory = NULL
        self.enter()
        cdef int64_t start = perf_counter_ns()
        check(cu.allocate_host(&memory, nbytes, 0), "cuMemHostAlloc")
        host.taken(<uintptr_t>memory, nbytes, perf_counter_ns() - start)
        return memory

    cdef int free_host(self, void* memory) except -1:
        self.enter()
        cdef int64_t start = perf_counter_ns()
        check(cu.free_host(memory), "cuMemFreeHost")
        host.freed(<uintptr_t>memory, perf_counter_ns() - start)
        return 0


class PinnedMemory:
    """What there is and was of page-locked memory: blocks and bytes, and the nanoseconds that the driver took to give them and to take
    them back.  A block is the driver's as long as a tensor holds it, and no longer.
    """

    def __init__(self):
        self.sizes = {}       # address -> bytes
        self.current = {"blocks": 0, "bytes": 0}
        self.peak, self.allocated, self.deallocated = dict(self.current), dict(self.current), dict(self.current)
        self.times = {"alloc": [], "free": []}  # of calls: how many, the sum, the least, the most

    def count(self, sign, nbytes, into):
        for what, n in (("blocks", 1), ("bytes", nbytes)):
            self.current[what] += sign * n
            into[what] += n
            self.peak[what] = max(self.peak[what], self.current[what])

    def time(self, which, spent):
        number, total, least, most = self.times[which] or (0, 0, spent, spent)
        self.times[which] = number + 1, total + spent, min(least, spent), max(most, spent)

    def taken(self, address, nbytes, spent):
        self.sizes[address] = nbytes
        self.count(1, nbytes, self.allocated)
        self.time("alloc", spent)

    def freed(self, address, spent):
        self.count(-1, self.sizes.pop(address), self.deallocated)
        self.time("free", spent)

    def reset_peak(self):
        self.peak = dict(self.current)

    def reset_accumulated(self):
        self.allocated, self.deallocated = dict.fromkeys(self.allocated, 0), dict.fromkeys(self.deallocated, 0)
        self.times = {"alloc": [], "free": []}


host = PinnedMemory()
