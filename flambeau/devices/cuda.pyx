# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""NVIDIA's devices, and AMD's: copies, kernels, streams, and the order of what is queued there.

Work goes to the thread's current stream of the device.  Copies that must have read their source on return go through pinned memory in
pieces, so that the host's copying and the device's run side by side.
"""
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.string cimport memcpy
from .cublas cimport Library
from .cublas import find_library
from .cublaslt cimport Library as EpilogueLibrary
from . import cublaslt
from .product_ways import Ways
from .cuda_driver cimport (
    CAPTURE_RELAXED, EVENT_DISABLE_TIMING, EVENT_INTERPROCESS, IpcHandle, JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES, MAX_DYNAMIC_SHARED, NOT_READY,
    POOL_RELEASE_THRESHOLD, STREAM_NON_BLOCKING, check, cu, default_shared, hip, named, processor_of, ready, spelled, why_missing,
)
from .cuda_driver import ATTRIBUTES, LIMITS, count, driver_version, is_hip, library_path, speaks
from .cuda_memory cimport CudaMemory
from ..core.base.device cimport Arguments, Device, Grid, MAX_ARGUMENTS, Product, class_of
from ..core.lib.products.contraction cimport BY_EPILOGUE, BY_LIBRARY, UNMEASURED
from ..core.lib.products.contraction import add_ways
from ..core.base.device import Limits, register
from ..core.base.dtypes cimport F32
cimport cython
import os
import warnings

cdef enum:
    CUBLAS = 1                 # of backends.cuda.preferred_blas_library
    CUBLASLT = 2
    WORKSPACE_BYTES = 8 << 20

cdef double MEASURED_FROM = 1 << 24  # multiplications from which a product is measured

MOST_THREADS = (1 << 32) - 1  # of a whole grid of AMD's along x, y or z
cdef int watch_waits = 0  # 1: a copy that the host waits for is a warning; 2: it is an error


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


cdef int preferred_blas = 0   # of backends.cuda.preferred_blas_library

def prefer_blas(int library) -> None:
    """Which library computes products: 0 whatever was measured to be the fastest, 1 cuBLAS, 2 cuBLASLt."""
    global preferred_blas
    preferred_blas = library


def get_preferred_blas() -> int:
    """What was set; 0 at first."""
    return preferred_blas


cdef tuple description(Product* p, bint biased):
    """What the time of a product depends on."""
    return p.code, p.batch, p.m, p.n, p.k, p.a_column == 1, p.b_column == 1, p.c_column == 1, biased


cdef object watcher = None  # told in which order work of streams runs (`watch`)


def watch(observer) -> None:
    """Tell an object from now on what orders work, on all devices; None: nobody.  Its methods, where a stream is a device's index and
    the driver's handle: `recorded(event, index, stream)`, `waits(event, index, stream)`, `reached(event)` where the host knows that an event
    has been, and `finished(index, stream)` where it knows that a stream has run, or all of a device's (stream None).
    """
    global watcher
    watcher = observer


cdef str processor_for(tuple capability, str architecture, str who):
    """The processor that kernels are made for; RuntimeError for a card that no kernels are made for."""
    from ..codegen import target
    processors = target.PROCESSORS["amdgcn" if hip else "nvptx"]
    if hip:
        result = architecture.partition(":")[0]  # objects that name no mode of sramecc and xnack run in all
        if result not in processors:
            raise RuntimeError(f"{who} is {architecture}: kernels are made for {', '.join(processors)}")
        return result
    result = target.nearest(capability)
    if result is None:
        raise RuntimeError(f"{who} has capability {capability[0]}.{capability[1]}: kernels are made for {', '.join(processors)} and later")
    return result


cdef str no_driver():
    """PyTorch's words, and why there is none."""
    if "FLAMBEAU_LIBHIP" in os.environ and "FLAMBEAU_LIBCUDA" not in os.environ:
        return f"No HIP GPUs are available: {why_missing()}"
    return (f"Found no NVIDIA driver on your system: {why_missing()}. Please check that you have an NVIDIA GPU and "
            "installed a driver from http://www.nvidia.com/Download/index.aspx")


@cython.binding(False)
cdef class Cuda(CudaMemory):
    """One device of NVIDIA's, or of AMD's.  RuntimeError where there is no driver, or no device of that number."""

    def __init__(self, str type, int index):
        cdef uint64_t all_of_it = <uint64_t>-1
        if not ready():
            raise RuntimeError(no_driver())
        if not 0 <= index < count():
            raise RuntimeError(f"{speaks()} error: invalid device ordinal: cuda:{index} was asked for, and there are "
                               f"{count()} devices")
        check(cu.device_get(&self.number, index), "cuDeviceGet")
        properties = self.attributes()
        capability = (properties["major"], properties["minor"])
        limits = {name: self.attribute(which[hip]) for name, which in LIMITS.items()}
        if not limits["memory_pools"]:
            raise RuntimeError(f"cuda:{index} ({self.name()}): the device or its driver has no memory pools ({named('cuMemAllocAsync')})")
        architecture = processor_of(self.number) if hip else f"{capability[0]}.{capability[1]}"
        self.processor = processor_for(capability, architecture, f"cuda:{index} ({self.name()})")
        blocks = [limits[f"grid {axis}"] for axis in "xyz"]
        if hip:  # whose packet for a launch counts the threads of the grid, not its blocks, in 32 bits
            blocks = [min(most, MOST_THREADS // limits["threads"]) for most in blocks]
        self.limits = Limits(tuple(blocks), tuple([limits[f"block {axis}"] for axis in "xyz"]), limits["threads"],
                             properties["shared_memory_per_block_optin"])
        check(cu.retain_context(&self.context, self.number), "cuDevicePrimaryCtxRetain")
        check(cu.device_pool(&self.pool, self.number), "cuDeviceGetDefaultMemPool")
        # what is freed stays in the pool until `empty_cache` trims it
        check(cu.set_pool(self.pool, POOL_RELEASE_THRESHOLD, &all_of_it), "cuMemPoolSetAttribute")
        self.target = "amdgcn" if hip else "nvptx"
        self.fingerprint = f"{self.name()} {architecture} {driver_version()}"
        self.processors = properties["multi_processor_count"]
        self.streams = {}

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
            return self.copy_captured(to, source, nbytes)
        while done < nbytes:
            n = min(nbytes - done, <size_t>SLOT_BYTES)
            k = self.next_slot()
            slot = self.slots + <size_t>k * SLOT_BYTES
            with nogil:
                memcpy(slot, <const char*>source + done, n)
            check(cu.copy_in(to + done, slot, n, <void*><uintptr_t>self.stream()), "cuMemcpyHtoDAsync")
            check(cu.record(<void*><uintptr_t>self.slot_events[k], <void*><uintptr_t>self.stream()), "cuEventRecord")
            done += n
        return 0

    cdef int copy_captured(self, uint64_t to, const void* source, size_t nbytes) except -1:
        """A copy for a graph, whose replays read the bytes again: from page-locked memory that the graph keeps."""
        cdef int mode = CAPTURE_RELAXED
        cu.exchange_mode(&mode)
        cdef void* memory
        try:
            memory = self.allocate_host(nbytes)
        finally:
            cu.exchange_mode(&mode)
        memcpy(memory, source, nbytes)
        self.host_copies.append(<uintptr_t>memory)
        return check(cu.copy_in(to, memory, nbytes, <void*><uintptr_t>self.stream()), "cuMemcpyHtoDAsync")

    cdef int copy_out(self, void* to, uint64_t source, size_t nbytes, bint wait) except -1:
        cdef size_t pieces = (nbytes + SLOT_BYTES - 1) // SLOT_BYTES, issued = 0, done = 0, n
        cdef int order[SLOTS]
        cdef char* slot
        cdef int k
        if watch_waits and wait:
            waited()
        self.enter()
        if not wait:
            return check(cu.copy_out(to, source, nbytes, <void*><uintptr_t>self.stream()), "cuMemcpyDtoHAsync")
        while done < pieces:
            while issued < pieces and issued - done < SLOTS:  # the device goes ahead
                k = order[issued % SLOTS] = self.next_slot()
                n = min(nbytes - issued * SLOT_BYTES, <size_t>SLOT_BYTES)
                slot = self.slots + <size_t>k * SLOT_BYTES
                check(cu.copy_out(slot, source + issued * SLOT_BYTES, n, <void*><uintptr_t>self.stream()), "cuMemcpyDtoHAsync")
                check(cu.record(<void*><uintptr_t>self.slot_events[k], <void*><uintptr_t>self.stream()), "cuEventRecord")
                issued += 1
            k = order[done % SLOTS]
            self.finish_event(self.slot_events[k])
            n = min(nbytes - done * SLOT_BYTES, <size_t>SLOT_BYTES)
            slot = self.slots + <size_t>k * SLOT_BYTES
            with nogil:
                memcpy(<char*>to + done * SLOT_BYTES, slot, n)
            done += 1
        if watcher is not None:
            watcher.finished(self.index, self.stream())
        return 0

    cdef int copy_within(self, uint64_t to, uint64_t source, size_t nbytes) except -1:
        self.enter()
        return check(cu.copy_within(to, source, nbytes, <void*><uintptr_t>self.stream()), "cuMemcpyDtoDAsync")

    def copy_from(self, Device other, uint64_t to, uint64_t source, size_t nbytes) -> bool:
        """By the driver, on the stream of the device that is read: it waits for this one's stream, and that waits for the copy."""
        cdef Cuda theirs
        cdef uint64_t ready_here, done
        if not isinstance(other, Cuda) or self.capturing():
            return False
        theirs = <Cuda>other
        ready_here = self.new_event(False)
        self.record_event(ready_here)
        theirs.wait_event(ready_here)
        check(cu.copy_peer(to, self.context, source, theirs.context, nbytes, <void*><uintptr_t>theirs.stream()), "cuMemcpyPeerAsync")
        done = theirs.new_event(False)
        theirs.record_event(done)
        self.wait_event(done)
        theirs.free_event(done)
        self.free_event(ready_here)
        return True

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
            raise RuntimeError(f"{speaks()} error: {named('cuModuleLoadDataEx')} of {name}: {spelled(status)}\n"
                               f"{(<bytes>log).decode('utf-8', 'replace')}")
        check(cu.function(&function, module, <bytes>name.encode()), f"cuModuleGetFunction of {name}")
        return <uintptr_t>function

    cdef int launch(self, uint64_t kernel, const Grid* grid, Arguments* arguments) except -1:
        cdef void* places[MAX_ARGUMENTS]
        cdef int k
        self.enter()
        for k in range(arguments.count):
            places[k] = &arguments.values[k]
        if grid.shared > default_shared:
            check(cu.set_function(<void*><uintptr_t>kernel, MAX_DYNAMIC_SHARED, <int>grid.shared), "cuFuncSetAttribute")
        return check(cu.launch(<void*><uintptr_t>kernel, <unsigned int>grid.blocks[0], <unsigned int>grid.blocks[1],
                               <unsigned int>grid.blocks[2], grid.threads[0], grid.threads[1], grid.threads[2],
                               <unsigned int>grid.shared, <void*><uintptr_t>self.stream(), places, NULL), "cuLaunchKernel")

    cdef int look_for_blas(self) except -1:
        self.enter()
        if not self.looked:
            self.looked = True
            self.library, self.epilogues, self.workspaces = find_library(), None, {}
            if self.library is not None and not hip:  # rocBLAS has no such sister here
                self.epilogues = cublaslt.find_library()
            if self.epilogues is not None:
                self.ways = Ways(self.fingerprint, self.epilogues.version)
        return 0

    cdef uint64_t workspace(self) except? 0:
        """Memory that products of the current stream compute in, one after another; 0 in a capture, which does not outlive it."""
        cdef uint64_t stream = self.stream()
        address = self.workspaces.get(stream)
        if address is None:
            if self.into is not None or self.capturing():
                return 0
            address = self.workspaces[stream] = Device.acquire(self, WORKSPACE_BYTES, class_of(WORKSPACE_BYTES))
        return 0 if self.into is not None else address

    cdef bint product(self, Product* p) except -1:
        self.look_for_blas()
        if p.c == 0:
            return self.library is not None
        return self.library is not None and self.library.product(p, <void*><uintptr_t>self.stream())

    def add_epilogue(self, uint64_t product, uint64_t bias) -> bool:
        """Queue a product on cuBLASLt (`contraction.add_ways`)."""
        self.look_for_blas()
        if self.epilogues is None:
            return False
        cdef uint64_t memory = self.workspace()
        return self.epilogues.product(<Product*><uintptr_t>product, bias, <void*><uintptr_t>self.stream(), memory,
                                      WORKSPACE_BYTES if memory else 0)

    def choose_way(self, uint64_t product, bint biased, bint measurable) -> int:
        """In which way a product is computed (`contraction.add_ways`)."""
        cdef Product* p = <Product*><uintptr_t>product
        self.look_for_blas()
        if self.epilogues is None or preferred_blas == CUBLAS:
            return BY_LIBRARY
        if preferred_blas == CUBLASLT:
            return BY_EPILOGUE
        if <double>p.m * p.n * p.k * p.batch < MEASURED_FROM:  # launches are what such a product costs
            return BY_EPILOGUE if biased else BY_LIBRARY
        way = self.ways.measured.get(description(p, biased))
        if way is not None:
            return way
        return UNMEASURED if measurable and not self.capturing() else BY_LIBRARY

    def keep_way(self, uint64_t product, bint biased, int way) -> None:
        """Compute products like this one that way from now on (`contraction.add_ways`)."""
        self.ways.keep(description(<Product*><uintptr_t>product, biased), way)

    def product_description(self, int64_t m, int64_t n, int64_t k) -> tuple:
        """What `ways` knows a product of two matrices of float32, stored by rows, by."""
        cdef Product p
        p.code, p.batch, p.m, p.n, p.k = F32, 1, m, n, k
        p.a_column = p.b_column = p.c_column = 1
        return description(&p, False)

    # order
    cdef int finish(self) except -1:
        cdef int status
        self.enter()
        with nogil:
            status = cu.finish()
        check(status, "cuCtxSynchronize")
        if watcher is not None:
            watcher.finished(self.index, None)
        return 0

    cdef uint64_t new_event(self, bint timing) except 0:
        cdef void* event = NULL
        self.enter()
        check(cu.new_event(&event, 0 if timing else EVENT_DISABLE_TIMING), "cuEventCreate")
        return <uintptr_t>event

    cdef int free_event(self, uint64_t event) except -1:
        self.enter()
        return check(cu.free_event(<void*><uintptr_t>event), "cuEventDestroy")

    cdef int record_event(self, uint64_t event) except -1:
        self.record_on(event, self.stream())
        return 0

    cdef int wait_event(self, uint64_t event) except -1:
        self.wait_on(event, self.stream())
        return 0

    cdef int finish_event(self, uint64_t event) except -1:
        cdef int status
        self.enter()
        status = cu.query_event(<void*><uintptr_t>event)
        if status == NOT_READY:
            with nogil:
                status = cu.finish_event(<void*><uintptr_t>event)
        check(status, "cuEventSynchronize")
        if watcher is not None:
            watcher.reached(event)
        return 0

    cdef bint event_done(self, uint64_t event) except -1:
        self.enter()
        cdef int status = cu.query_event(<void*><uintptr_t>event)
        if status == NOT_READY:
            return False
        check(status, "cuEventQuery")
        if watcher is not None:
            watcher.reached(event)
        return True

    cdef double elapsed(self, uint64_t start, uint64_t end) except? -1:
        cdef float milliseconds = 0
        self.enter()
        check(cu.elapsed(&milliseconds, <void*><uintptr_t>start, <void*><uintptr_t>end), "cuEventElapsedTime")
        return milliseconds

    def blas_handle(self) -> int:
        """The handle of cuBLAS or rocBLAS, made now if this is its first use; 0 where it is not installed."""
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
        return {name: self.attribute(which[hip]) for name, which in ATTRIBUTES.items()}

    def several_streams(self) -> bool:
        return True

    cpdef dict properties(self):
        cdef size_t total = 0
        check(cu.device_memory(&total, self.number), "cuDeviceTotalMem")
        result = {"name": self.name(), "total_memory": total} | self.attributes()
        return result | {"gcnArchName": processor_of(self.number)} if hip else result

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
        if watcher is not None:
            watcher.finished(self.index, stream)

    def stream_done(self, uint64_t stream) -> bool:
        """Whether what was queued there has run."""
        self.enter()
        cdef int status = cu.query_stream(<void*><uintptr_t>stream)
        if status != NOT_READY:
            check(status, "cuStreamQuery")
            if watcher is not None:
                watcher.finished(self.index, stream)
        return status == 0

    def new_shared_event(self) -> int:
        """A handle of a mark, without times, that other processes can be given."""
        cdef void* event = NULL
        self.enter()
        check(cu.new_event(&event, EVENT_DISABLE_TIMING | EVENT_INTERPROCESS), "cuEventCreate")
        return <uintptr_t>event

    def event_handle(self, uint64_t event) -> bytes:
        """What names a shared mark to other processes: 64 bytes."""
        cdef IpcHandle handle
        self.enter()
        check(cu.event_handle(&handle, <void*><uintptr_t>event), "cuIpcGetEventHandle")
        return (<char*>&handle)[:sizeof(handle)]

    def open_event(self, bytes handle not None) -> int:
        """The mark that another process has named by its 64 bytes."""
        cdef IpcHandle ipc_handle
        cdef void* event = NULL
        self.enter()
        memcpy(&ipc_handle, <const char*>handle, sizeof(ipc_handle))
        check(cu.open_event(&event, ipc_handle), "cuIpcOpenEventHandle")
        return <uintptr_t>event

    # events for streams other than the current one
    cpdef record_on(self, uint64_t event, uint64_t stream):
        """Put the mark behind what the stream holds now."""
        self.enter()
        check(cu.record(<void*><uintptr_t>event, <void*><uintptr_t>stream), "cuEventRecord")
        if watcher is not None:
            watcher.recorded(event, self.index, stream)

    cpdef wait_on(self, uint64_t event, uint64_t stream):
        """Let the stream go on only when the mark has been reached."""
        self.enter()
        check(cu.wait(<void*><uintptr_t>stream, <void*><uintptr_t>event, 0), "cuStreamWaitEvent")
        if watcher is not None:
            watcher.waits(event, self.index, stream)


def open_device(int index) -> Cuda:
    return Cuda("cuda", index)


register("cuda", count, open_device)
add_ways("cuda")
