# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Graphs of the driver, NVIDIA's or AMD's: work that is captured once and launched again as one."""
from libc.stdint cimport uint64_t, uintptr_t
from .cuda cimport Cuda
from .cuda_driver cimport check, cu
from .cuda_memory cimport Pool
from ..core.base.device cimport is_forked
cimport cython
import os


@cython.no_gc
@cython.binding(False)
cdef class Graph:
    """Work of a device that was captured from its streams, to be launched as one.  Memory that it works on belongs to its pool."""

    cdef readonly Cuda on
    cdef Pool pool
    cdef void* graph
    cdef void* executable
    cdef uint64_t stream
    cdef list host_copies
    cdef str suspect, before

    def __init__(self, Cuda on not None, handle):
        self.on = on
        self.pool = on.hold_pool(handle)

    def begin(self, int mode) -> None:
        """Capture what this thread's current stream is given from now on, and what other streams are given that wait for it."""
        cdef Cuda on = self.on
        if on.into is not None:
            raise RuntimeError(f"CUDAGraph.capture_begin(): work of {on.place} is being captured already")
        on.look_for_blas()
        on.fault_place(None)  # is made now: it outlives the graph
        self.stream = on.stream()
        check(cu.begin_capture(<void*><uintptr_t>self.stream, mode), "cuStreamBeginCapture")
        on.into, on.host_copies = self.pool, []
        self.before, on.suspect = on.suspect, None

    def end(self) -> None:
        """Stop capturing, and make what was captured ready to be launched."""
        cdef Cuda on = self.on
        on.enter()
        if on.stream() != self.stream:
            raise RuntimeError("Capture must end on the same stream it began on.")
        cdef int status = cu.end_capture(<void*><uintptr_t>self.stream, &self.graph)
        self.host_copies, on.host_copies, on.into = on.host_copies, None, None
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

    def put_state(self, uint64_t address, uint64_t seed, uint64_t offset) -> None:
        """Queue the write of a generator's seed and offset where the draws of the graph read them."""
        cdef uint64_t pair[2]
        pair[0], pair[1] = seed, offset
        self.on.copy_in(address, pair, sizeof(pair), True)

    def write(self, str path not None) -> None:
        """Write the graph to a file in the DOT language, with what the driver knows of each node."""
        self.on.enter()
        check(cu.print_graph(self.graph, <bytes>os.fsencode(path), 1), "cuGraphDebugDotPrint")

    cpdef int discard(self) except -1:
        """Destroy the graph, when its replays have run, and leave its memory to the pool."""
        cdef Cuda on = self.on
        if on is None or self.pool is None:
            return 0
        on.drop_pool(self.pool)
        self.pool = None
        if self.host_copies:
            on.finish()
        if self.executable != NULL:
            check(cu.free_executable(self.executable), "cuGraphExecDestroy")
        if self.graph != NULL:
            check(cu.free_graph(self.graph), "cuGraphDestroy")
        self.graph = self.executable = NULL
        for memory in self.host_copies or ():
            on.free_host(<void*><uintptr_t>memory)
        self.host_copies = None
        return 0

    def __dealloc__(self):
        if self.pool is not None and not is_forked():
            self.discard()
