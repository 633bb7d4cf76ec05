# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""NVIDIA's devices through their driver, libcuda.so.1.

The library is opened at run time, so flambeau is built without CUDA's headers, runs where there is no driver,
and a launch costs the driver's own time.  The environment's FLAMBEAU_LIBCUDA names another library with the
same functions (the tests' fake one).

Work goes to the device's current stream.  Blocks of memory come from the driver's stream-ordered pool and are
cached by `Device`, a list for each stream; a block that other streams were told to use (`record_stream`) is
kept back until they have passed the place where it was freed.  Copies that must have read their source on
return go through pinned memory in pieces, so that the host's copying and the device's run side by side.
"""
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.string cimport memcpy
from posix.dlfcn cimport RTLD_LOCAL, RTLD_NOW, dlopen, dlsym
from .cublas cimport Library
from .cublas import find_library
from ..core.base.device cimport Arguments, CLASSES, Device, Grid, MAX_ARGUMENTS, Product, check_fork, class_bytes, class_of, find_device, is_forked
from ..core.base.device import Limits, OutOfMemoryError, register
from ..core.base.tensor cimport TensorBase
cimport cython
import os
import warnings

cdef extern from *:
    """static __thread void *flambeau_context;  /* the driver keeps one for each thread */"""
    void* flambeau_context

cdef enum:  # from cuda.h
    OUT_OF_MEMORY = 2
    NOT_READY = 600
    JIT_ERROR_LOG = 5
    JIT_ERROR_LOG_BYTES = 6
    STREAM_NON_BLOCKING = 1
    EVENT_DISABLE_TIMING = 2
    POOL_RELEASE_THRESHOLD = 4
    MAX_THREADS = 1
    MULTIPROCESSORS = 16
    CAPABILITY_MAJOR = 75
    CAPABILITY_MINOR = 76
    MEMORY_POOLS = 115
    CAPTURE_RELAXED = 2
    MAX_DYNAMIC_SHARED = 8     # of CUfunction_attribute
    DEFAULT_SHARED = 48 << 10  # bytes that every kernel may share

MAX_BLOCK, MAX_GRID = (2, 3, 4), (5, 6, 7)  # their attributes, along x, y and z

# What `properties` tells besides, and its number in cuda.h.
ATTRIBUTES = {
    "shared_memory_per_block": 8,
    "warp_size": 10,
    "regs_per_multiprocessor": 82,
    "clock_rate": 13,
    "multi_processor_count": MULTIPROCESSORS,
    "is_integrated": 18,
    "memory_clock_rate": 36,
    "memory_bus_width": 37,
    "L2_cache_size": 38,
    "max_threads_per_multi_processor": 39,
    "major": CAPABILITY_MAJOR,
    "minor": CAPABILITY_MINOR,
    "shared_memory_per_multiprocessor": 81,
    "shared_memory_per_block_optin": 97,
}

cdef struct Driver:  # in the order of NAMES; handles are void*, and all return 0 or an error's number
    int (*init)(unsigned int) noexcept nogil
    int (*version)(int*) noexcept nogil
    int (*error_name)(int, const char**) noexcept nogil
    int (*error_string)(int, const char**) noexcept nogil
    int (*device_count)(int*) noexcept nogil
    int (*device_get)(int*, int) noexcept nogil
    int (*device_name)(char*, int, int) noexcept nogil
    int (*device_memory)(size_t*, int) noexcept nogil
    int (*device_attribute)(int*, int, int) noexcept nogil
    int (*device_pool)(void**, int) noexcept nogil
    int (*retain_context)(void**, int) noexcept nogil
    int (*set_context)(void*) noexcept nogil
    int (*finish)() noexcept nogil
    int (*memory_info)(size_t*, size_t*) noexcept nogil
    int (*allocate)(uint64_t*, size_t, void*) noexcept nogil
    int (*free)(uint64_t) noexcept nogil
    int (*set_pool)(void*, int, void*) noexcept nogil
    int (*trim_pool)(void*, size_t) noexcept nogil
    int (*allocate_host)(void**, size_t) noexcept nogil
    int (*free_host)(void*) noexcept nogil
    int (*copy_in)(uint64_t, const void*, size_t, void*) noexcept nogil
    int (*copy_out)(void*, uint64_t, size_t, void*) noexcept nogil
    int (*copy_within)(uint64_t, uint64_t, size_t, void*) noexcept nogil
    int (*fill)(uint64_t, unsigned char, size_t, void*) noexcept nogil
    int (*load)(void**, const void*, unsigned int, const int*, void**) noexcept nogil
    int (*function)(void**, void*, const char*) noexcept nogil
    int (*launch)(void*, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                  unsigned int, void*, void**, void**) noexcept nogil
    int (*new_stream)(void**, unsigned int, int) noexcept nogil
    int (*finish_stream)(void*) noexcept nogil
    int (*query_stream)(void*) noexcept nogil
    int (*wait)(void*, void*, unsigned int) noexcept nogil
    int (*priorities)(int*, int*) noexcept nogil
    int (*new_event)(void**, unsigned int) noexcept nogil
    int (*free_event)(void*) noexcept nogil
    int (*record)(void*, void*) noexcept nogil
    int (*query_event)(void*) noexcept nogil
    int (*finish_event)(void*) noexcept nogil
    int (*elapsed)(float*, void*, void*) noexcept nogil
    int (*can_access)(int*, int, int) noexcept nogil
    int (*capturing)(void*, int*) noexcept nogil
    int (*begin_capture)(void*, int) noexcept nogil
    int (*end_capture)(void*, void**) noexcept nogil
    int (*exchange_mode)(int*) noexcept nogil
    int (*instantiate)(void**, void*, unsigned long long) noexcept nogil
    int (*launch_graph)(void*, void*) noexcept nogil
    int (*free_executable)(void*) noexcept nogil
    int (*free_graph)(void*) noexcept nogil
    int (*print_graph)(void*, const char*, unsigned int) noexcept nogil
    int (*graph_nodes)(void*, void**, size_t*) noexcept nogil
    int (*allocate_now)(uint64_t*, size_t) noexcept nogil
    int (*set_function)(void*, int, int) noexcept nogil

NAMES = (
    "cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuDeviceGetCount", "cuDeviceGet",
    "cuDeviceGetName", "cuDeviceTotalMem_v2", "cuDeviceGetAttribute", "cuDeviceGetDefaultMemPool",
    "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuCtxSynchronize", "cuMemGetInfo_v2", "cuMemAllocAsync",
    "cuMemFree_v2", "cuMemPoolSetAttribute", "cuMemPoolTrimTo", "cuMemAllocHost_v2", "cuMemFreeHost",
    "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2", "cuMemsetD8Async",
    "cuModuleLoadDataEx", "cuModuleGetFunction", "cuLaunchKernel", "cuStreamCreateWithPriority",
    "cuStreamSynchronize", "cuStreamQuery", "cuStreamWaitEvent", "cuCtxGetStreamPriorityRange",
    "cuEventCreate", "cuEventDestroy_v2", "cuEventRecord", "cuEventQuery", "cuEventSynchronize",
    "cuEventElapsedTime", "cuDeviceCanAccessPeer", "cuStreamIsCapturing", "cuStreamBeginCapture_v2", "cuStreamEndCapture",
    "cuThreadExchangeStreamCaptureMode", "cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuGraphExecDestroy", "cuGraphDestroy",
    "cuGraphDebugDotPrint", "cuGraphGetNodes", "cuMemAlloc_v2", "cuFuncSetAttribute",
)

cdef Driver cu
cdef bint opened = False
cdef int watch_waits = 0  # 1: a copy that the host waits for is a warning; 2: it is an error
cdef str missing = None  # why there is no driver


# --- the driver ------------------------------
cdef bint ready() noexcept:
    """Open the driver the first time; whether there is one."""
    global opened, missing
    cdef void* library
    cdef void** place = <void**>&cu
    if opened:
        return True
    if missing is not None:
        return False
    path = os.environ.get("FLAMBEAU_LIBCUDA", "libcuda.so.1")
    library = dlopen(os.fsencode(path), RTLD_NOW | RTLD_LOCAL)
    if library == NULL:
        missing = f"{path} cannot be opened"
        return False
    for k, name in enumerate(NAMES):
        place[<int>k] = dlsym(library, <bytes>name.encode())
        if place[<int>k] == NULL:
            missing = f"{path} has no {name}: the driver is too old, CUDA 12 or later is wanted"
            return False
    status = cu.init(0)
    if status:
        missing = f"cuInit failed: {spelled(status)}"
        return False
    opened = True
    return True


cdef str spelled(int status):
    """An error's name and meaning."""
    cdef const char* name = NULL
    cdef const char* text = NULL
    if cu.error_name(status, &name) or cu.error_string(status, &text) or name == NULL or text == NULL:
        return f"error {status}"
    return f"{text.decode()} ({name.decode()}, {status})"


cdef int failed(int status, str call) except -1:
    raise RuntimeError(f"CUDA error: {call}: {spelled(status)}")


cdef inline int check(int status, str call) except -1:
    return failed(status, call) if status else 0


cdef int waited() except -1:
    if watch_waits > 1:
        raise RuntimeError("called a synchronizing CUDA operation")
    warnings.warn("called a synchronizing CUDA operation")
    return 0


def set_sync_debug_mode(int mode) -> None:
    """What a copy is that the host waits for: 0 a copy, 1 a warning, 2 an error."""
    global watch_waits
    watch_waits = mode


def get_sync_debug_mode() -> int:
    """What was set; 0 at first."""
    return watch_waits


def count() -> int:
    """How many devices the driver has; 0 where there is no driver."""
    cdef int n = 0
    if not ready() or cu.device_count(&n):
        return 0
    return n


def driver_version() -> int:
    """The newest CUDA that the driver knows, 13000 for 13.0; 0 where there is no driver."""
    cdef int version = 0
    if not ready() or cu.version(&version):
        return 0
    return version


cdef str nearest(tuple capability, str who):
    """The processor that kernels are made for; RuntimeError for a card older than all of them."""
    from ..codegen import target
    result = target.nearest(capability)
    if result is None:
        raise RuntimeError(f"{who} has capability {capability[0]}.{capability[1]}: kernels are made for "
                           f"{', '.join(target.PROCESSORS['nvptx'])} and later")
    return result


@cython.binding(False)
cdef class Cuda(Device):
    """One device of NVIDIA's.  RuntimeError where there is no driver, or no device of that number."""

    def __init__(self, str type, int index):
        cdef uint64_t all_of_it = <uint64_t>-1
        if not ready():
            raise RuntimeError(
                f"Found no NVIDIA driver on your system: {missing}. Please check that you have an NVIDIA GPU and "
                "installed a driver from http://www.nvidia.com/Download/index.aspx")
        if not 0 <= index < count():
            raise RuntimeError(f"CUDA error: invalid device ordinal: cuda:{index} was asked for, and there are "
                               f"{count()} devices")
        check(cu.device_get(&self.number, index), "cuDeviceGet")
        properties = self.attributes()
        capability = (properties["major"], properties["minor"])
        if not self.attribute(MEMORY_POOLS):
            raise RuntimeError(f"cuda:{index} ({self.name()}): the device or its driver has no memory pools (cuMemAllocAsync)")
        self.processor = nearest(capability, f"cuda:{index} ({self.name()})")
        self.limits = Limits(tuple([self.attribute(k) for k in MAX_GRID]), tuple([self.attribute(k) for k in MAX_BLOCK]),
                             self.attribute(MAX_THREADS), properties["shared_memory_per_block_optin"])
        check(cu.retain_context(&self.context, self.number), "cuDevicePrimaryCtxRetain")
        check(cu.device_pool(&self.pool, self.number), "cuDeviceGetDefaultMemPool")
        # what is freed stays in the pool until `empty_cache` trims it
        check(cu.set_pool(self.pool, POOL_RELEASE_THRESHOLD, &all_of_it), "cuMemPoolSetAttribute")
        self.target = "nvptx"
        self.fingerprint = f"{self.name()} {capability[0]}.{capability[1]} {driver_version()}"
        self.processors = properties["multi_processor_count"]
        self.waiting, self.streams, self.lent = [], {}, {}
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

    # copies
    cdef int next_slot(self) except -1:
        """The piece of pinned memory that was used longest ago, when it is free."""
        cdef int k
        if self.slots == NULL:
            for k in range(SLOTS):
                self.slot_events[k] = self.new_event(False)
            self.slots = <char*>self.allocate_host(<size_t>SLOTS * SLOT_BYTES)
        k = self.turn
        self.turn = (k + 1) % SLOTS
        self.finish_event(self.slot_events[k])
        return k

    cdef int copy_in(self, uint64_t to, const void* source, size_t nbytes, bint wait) except -1:
        cdef size_t done = 0, n
        cdef char* slot
        cdef int k
        self.enter()
        if not wait:
            return check(cu.copy_in(to, source, nbytes, <void*><uintptr_t>self.stream()), "cuMemcpyHtoDAsync")
        if self.into is not None and self.capturing():
            return self.copy_kept(to, source, nbytes)
        while done < nbytes:
            n = min(nbytes - done, <size_t>SLOT_BYTES)
            k = self.next_slot()
            slot = self.slots + <size_t>k * SLOT_BYTES
            with nogil:
                memcpy(slot, <const char*>source + done, n)
            check(cu.copy_in(to + done, slot, n, <void*><uintptr_t>self.stream()), "cuMemcpyHtoDAsync")
            self.record_event(self.slot_events[k])
            done += n
        return 0

    cdef int copy_kept(self, uint64_t to, const void* source, size_t nbytes) except -1:
        """A copy for a graph, whose replays read the bytes again: from page-locked memory that the graph keeps."""
        cdef void* memory = NULL
        cdef int mode = CAPTURE_RELAXED
        cu.exchange_mode(&mode)
        cdef int status = cu.allocate_host(&memory, nbytes)
        cu.exchange_mode(&mode)
        check(status, "cuMemAllocHost")
        memcpy(memory, source, nbytes)
        self.kept.append(<uintptr_t>memory)
        return check(cu.copy_in(to, memory, nbytes, <void*><uintptr_t>self.stream()), "cuMemcpyHtoDAsync")

    cdef int copy_out(self, void* to, uint64_t source, size_t nbytes, bint wait) except -1:
        cdef size_t pieces = (nbytes + SLOT_BYTES - 1) // SLOT_BYTES, asked = 0, done = 0, n
        cdef int order[SLOTS]
        cdef char* slot
        cdef int k
        if watch_waits and wait:
            waited()
        self.enter()
        if not wait:
            return check(cu.copy_out(to, source, nbytes, <void*><uintptr_t>self.stream()), "cuMemcpyDtoHAsync")
        while done < pieces:
            while asked < pieces and asked - done < SLOTS:  # the device goes ahead
                k = order[asked % SLOTS] = self.next_slot()
                n = min(nbytes - asked * SLOT_BYTES, <size_t>SLOT_BYTES)
                slot = self.slots + <size_t>k * SLOT_BYTES
                check(cu.copy_out(slot, source + asked * SLOT_BYTES, n, <void*><uintptr_t>self.stream()), "cuMemcpyDtoHAsync")
                self.record_event(self.slot_events[k])
                asked += 1
            k = order[done % SLOTS]
            self.finish_event(self.slot_events[k])
            n = min(nbytes - done * SLOT_BYTES, <size_t>SLOT_BYTES)
            slot = self.slots + <size_t>k * SLOT_BYTES
            with nogil:
                memcpy(<char*>to + done * SLOT_BYTES, slot, n)
            done += 1
        return 0

    cdef int copy_within(self, uint64_t to, uint64_t source, size_t nbytes) except -1:
        self.enter()
        return check(cu.copy_within(to, source, nbytes, <void*><uintptr_t>self.stream()), "cuMemcpyDtoDAsync")

    cdef int fill(self, uint64_t to, unsigned char value, size_t nbytes) except -1:
        self.enter()
        return check(cu.fill(to, value, nbytes, <void*><uintptr_t>self.stream()), "cuMemsetD8Async")

    # kernels
    cdef uint64_t load(self, bytes image, str name) except 0:
        cdef char log[8192]
        cdef int options[2]
        cdef void* values[2]
        cdef void* module = NULL
        cdef void* function = NULL
        cdef const char* code = image  # ends with a zero byte, as PTX must
        cdef int status
        self.enter()
        log[0] = 0
        options[0], options[1] = JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES
        values[0], values[1] = log, <void*><uintptr_t>(sizeof(log) - 1)
        cdef int mode = CAPTURE_RELAXED  # a kernel may be met first in a capture
        cu.exchange_mode(&mode)
        with nogil:
            status = cu.load(&module, code, 2, options, values)
        cu.exchange_mode(&mode)
        if status:
            log[sizeof(log) - 1] = 0
            raise RuntimeError(f"CUDA error: cuModuleLoadDataEx of {name}: {spelled(status)}\n"
                               f"{(<bytes>log).decode('utf-8', 'replace')}")
        check(cu.function(&function, module, <bytes>name.encode()), f"cuModuleGetFunction of {name}")
        return <uintptr_t>function

    cdef int launch(self, uint64_t kernel, const Grid* grid, Arguments* arguments) except -1:
        cdef void* places[MAX_ARGUMENTS]
        cdef int k
        self.enter()
        for k in range(arguments.count):
            places[k] = &arguments.values[k]
        if grid.shared > DEFAULT_SHARED:
            check(cu.set_function(<void*><uintptr_t>kernel, MAX_DYNAMIC_SHARED, <int>grid.shared), "cuFuncSetAttribute")
        return check(cu.launch(<void*><uintptr_t>kernel, <unsigned int>grid.blocks[0], <unsigned int>grid.blocks[1],
                               <unsigned int>grid.blocks[2], grid.threads[0], grid.threads[1], grid.threads[2],
                               <unsigned int>grid.shared, <void*><uintptr_t>self.stream(), places, NULL), "cuLaunchKernel")

    cdef int look_for_blas(self) except -1:
        self.enter()
        if not self.looked:
            self.looked = True
            self.library = find_library()
        return 0

    cdef bint product(self, Product* p) except -1:
        self.look_for_blas()
        if p.c == 0:
            return self.library is not None
        return self.library is not None and self.library.product(p, <void*><uintptr_t>self.stream())

    # order
    cdef int finish(self) except -1:
        cdef int status
        self.enter()
        with nogil:
            status = cu.finish()
        return check(status, "cuCtxSynchronize")

    cdef uint64_t new_event(self, bint timing) except 0:
        cdef void* event = NULL
        self.enter()
        check(cu.new_event(&event, 0 if timing else EVENT_DISABLE_TIMING), "cuEventCreate")
        return <uintptr_t>event

    cdef int free_event(self, uint64_t event) except -1:
        self.enter()
        return check(cu.free_event(<void*><uintptr_t>event), "cuEventDestroy")

    cdef int record_event(self, uint64_t event) except -1:
        self.enter()
        return check(cu.record(<void*><uintptr_t>event, <void*><uintptr_t>self.stream()), "cuEventRecord")

    cdef int wait_event(self, uint64_t event) except -1:
        self.enter()
        return check(cu.wait(<void*><uintptr_t>self.stream(), <void*><uintptr_t>event, 0), "cuStreamWaitEvent")

    cdef int finish_event(self, uint64_t event) except -1:
        cdef int status
        self.enter()
        status = cu.query_event(<void*><uintptr_t>event)
        if status == NOT_READY:
            with nogil:
                status = cu.finish_event(<void*><uintptr_t>event)
        return check(status, "cuEventSynchronize")

    cdef bint event_done(self, uint64_t event) except -1:
        self.enter()
        cdef int status = cu.query_event(<void*><uintptr_t>event)
        if status == NOT_READY:
            return False
        check(status, "cuEventQuery")
        return True

    cdef double elapsed(self, uint64_t start, uint64_t end) except? -1:
        cdef float milliseconds = 0
        self.enter()
        check(cu.elapsed(&milliseconds, <void*><uintptr_t>start, <void*><uintptr_t>end), "cuEventElapsedTime")
        return milliseconds

    def blas_handle(self) -> int:
        """cuBLAS's handle, made now if this is its first use; 0 where it is not installed."""
        self.look_for_blas()
        return 0 if self.library is None else <uintptr_t>self.library.handle

    # what it is
    cdef str name(self):
        cdef char text[256]
        check(cu.device_name(text, sizeof(text), self.number), "cuDeviceGetName")
        return (<bytes>text).decode("utf-8", "replace")

    cdef int attribute(self, int which) except? -1:
        cdef int value = 0
        check(cu.device_attribute(&value, which, self.number), "cuDeviceGetAttribute")
        return value

    def attributes(self) -> dict:
        """The values of ATTRIBUTES."""
        return {name: self.attribute(which) for name, which in ATTRIBUTES.items()}

    def several_streams(self) -> bool:
        return True

    cpdef dict properties(self):
        cdef size_t total = 0
        check(cu.device_memory(&total, self.number), "cuDeviceTotalMem")
        return {"name": self.name(), "total_memory": total} | self.attributes()

    def can_access(self, int other) -> bool:
        """Whether kernels here can read the memory of the device of that index."""
        cdef int able = 0
        cdef int peer = 0
        check(cu.device_get(&peer, other), "cuDeviceGet")
        check(cu.can_access(&able, self.number, peer), "cuDeviceCanAccessPeer")
        return able != 0

    # streams, as numbers; 0 is the default one
    def current_stream(self) -> int:
        """The stream that work goes to."""
        return self.stream()

    def set_stream(self, uint64_t stream) -> None:
        """Let this thread's work go to that stream from now on."""
        self.choose_stream(stream)

    cpdef bint capturing(self) except -1:
        cdef int status = 0
        self.enter()
        check(cu.capturing(<void*><uintptr_t>self.stream(), &status), "cuStreamIsCapturing")
        return status != 0

    def take_stream(self, int priority) -> int:
        """One of 32 streams of that priority, in turn; they are made when first wanted, and kept: blocks of
        memory are cached under them.
        """
        cdef void* made = NULL
        cdef int least = 0, greatest = 0
        self.enter()
        check(cu.priorities(&least, &greatest), "cuCtxGetStreamPriorityRange")
        priority = max(greatest, min(least, priority))
        handles, taken = self.streams.get(priority, ([], 0))
        if taken < 32:
            check(cu.new_stream(&made, STREAM_NON_BLOCKING, priority), "cuStreamCreateWithPriority")
            handles.append(<uintptr_t>made)
        self.streams[priority] = handles, taken + 1
        return handles[taken % 32]

    def finish_stream(self, uint64_t stream) -> None:
        """Wait until what is queued there has run."""
        cdef int status
        self.enter()
        with nogil:
            status = cu.finish_stream(<void*><uintptr_t>stream)
        check(status, "cuStreamSynchronize")

    def stream_done(self, uint64_t stream) -> bool:
        """Whether what was queued there has run."""
        self.enter()
        cdef int status = cu.query_stream(<void*><uintptr_t>stream)
        if status != NOT_READY:
            check(status, "cuStreamQuery")
        return status == 0

    # events for streams other than the current one
    def record_on(self, uint64_t event, uint64_t stream) -> None:
        """Put the mark behind what the stream holds now."""
        self.enter()
        check(cu.record(<void*><uintptr_t>event, <void*><uintptr_t>stream), "cuEventRecord")

    def wait_on(self, uint64_t event, uint64_t stream) -> None:
        """Let the stream go on only when the mark has been reached."""
        self.enter()
        check(cu.wait(<void*><uintptr_t>stream, <void*><uintptr_t>event, 0), "cuStreamWaitEvent")


# --- for flambeau.cuda ------------------------------
@cython.binding(False)
cdef class Pool:
    def __init__(self, handle):
        self.handle, self.lists = handle, {}


@cython.no_gc
@cython.binding(False)
cdef class Graph:
    """Work of a device that was captured from its streams, to be launched as one.  Memory that it works on belongs to its pool."""

    cdef readonly Cuda on
    cdef Pool pool
    cdef void* graph
    cdef void* executable
    cdef uint64_t stream
    cdef list kept
    cdef str suspect, before

    def __init__(self, Cuda on not None, handle):
        self.on = on
        self.pool = on.pools.get(handle)
        if self.pool is None:
            self.pool = on.pools[handle] = Pool(handle)
        self.pool.users += 1

    def begin(self, int mode) -> None:
        """Capture what this thread's current stream is given from now on, and what other streams are given that wait for it."""
        cdef Cuda on = self.on
        if on.into is not None:
            raise RuntimeError(f"CUDAGraph.capture_begin(): work of {on.place} is being captured already")
        on.look_for_blas()
        on.fault_place(None)  # is made now: it outlives the graph
        self.stream = on.stream()
        check(cu.begin_capture(<void*><uintptr_t>self.stream, mode), "cuStreamBeginCapture")
        on.into, on.kept = self.pool, []
        self.before, on.suspect = on.suspect, None

    def end(self) -> None:
        """Stop capturing, and make what was captured ready to be launched."""
        cdef Cuda on = self.on
        on.enter()
        if on.stream() != self.stream:
            raise RuntimeError("Capture must end on the same stream it began on.")
        cdef int status = cu.end_capture(<void*><uintptr_t>self.stream, &self.graph)
        self.kept, on.kept, on.into = on.kept, None, None
        self.suspect, on.suspect = on.suspect, on.suspect if self.before is None else self.before
        held_back, on.held_back = on.held_back, []
        for address, block, stream, uses in held_back:
            on.release(address, block, stream, uses)
        check(status, "cuStreamEndCapture")
        check(cu.instantiate(&self.executable, self.graph, 0), "cuGraphInstantiateWithFlags")

    @property
    def nodes(self) -> int:
        """How many launches, copies and fills there are in it."""
        cdef size_t count = 0
        check(cu.graph_nodes(self.graph, NULL, &count), "cuGraphGetNodes")
        return count

    def replay(self) -> None:
        """Queue all of it on the current stream."""
        cdef Cuda on = self.on
        on.enter()
        if on.suspect is None:
            on.suspect = self.suspect
        check(cu.launch_graph(self.executable, <void*><uintptr_t>on.stream()), "cuGraphLaunch")

    def write(self, str path not None) -> None:
        """Write the graph to a file in the DOT language, with what the driver knows of each node."""
        self.on.enter()
        check(cu.print_graph(self.graph, <bytes>os.fsencode(path), 1), "cuGraphDebugDotPrint")

    cpdef int discard(self) except -1:
        """Destroy the graph, when its replays have run, and leave its memory to the pool."""
        cdef Cuda on = self.on
        if on is None or self.pool is None:
            return 0
        self.pool.users -= 1
        self.pool = None
        if self.kept:
            on.finish()
        if self.executable != NULL:
            check(cu.free_executable(self.executable), "cuGraphExecDestroy")
        if self.graph != NULL:
            check(cu.free_graph(self.graph), "cuGraphDestroy")
        self.graph = self.executable = NULL
        for memory in self.kept or ():
            on.free_host(<void*><uintptr_t>memory)
        self.kept = None
        return 0

    def __dealloc__(self):
        if self.pool is not None and not is_forked():
            self.discard()


@cython.no_gc
@cython.binding(False)
cdef class Mark:
    """An event of the driver's, made on a device when it is first recorded there."""

    cdef readonly Cuda on
    cdef uint64_t handle
    cdef readonly bint timing

    def __init__(self, bint timing=False):
        self.timing = timing

    def __dealloc__(self):
        if self.handle:
            try:
                self.on.free_event(self.handle)
            except RuntimeError:  # in a forked process: the event is the parent's
                self.handle = 0

    def record(self, Cuda on, uint64_t stream) -> None:
        """Put it behind what the stream holds now."""
        if self.on is None:
            self.handle = on.new_event(self.timing)
            self.on = on
        elif self.on is not on:
            raise RuntimeError(f"Event.record(): the event belongs to {self.on.place}, the stream to {on.place}")
        on.record_on(self.handle, stream)

    def wait(self, Cuda on, uint64_t stream) -> None:
        """Let the stream, of any device, wait for it; no wait for one that was never recorded."""
        if self.handle:
            on.wait_on(self.handle, stream)

    def done(self) -> bool:
        """Whether it has been reached."""
        return self.handle == 0 or self.on.event_done(self.handle)

    def finish(self) -> None:
        """Let the host wait for it."""
        if self.handle:
            self.on.finish_event(self.handle)

    def elapsed(self, Mark end) -> float:
        """Milliseconds to `end`; both have been recorded with timing."""
        if not (self.timing and end.timing):
            raise ValueError("Event.elapsed_time(): both events must be made with enable_timing=True")
        if self.handle == 0 or end.handle == 0:
            raise ValueError("Event.elapsed_time(): both events must be recorded")
        if not (self.done() and end.done()):
            raise RuntimeError("Event.elapsed_time(): both events must have been reached: synchronize first")
        return self.on.elapsed(self.handle, end.handle)

    @property
    def number(self) -> int:
        """The driver's handle, 0 before the first record."""
        return self.handle


def open_device(int index) -> Cuda:
    return Cuda("cuda", index)


register("cuda", count, open_device)
