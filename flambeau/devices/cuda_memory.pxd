"""The memory of NVIDIA's and AMD's devices."""
from libc.stdint cimport uint64_t
from ..core.base.device cimport Device

cdef class Allocator:                   # functions of a program that take the place of the driver's
    cdef void* (*alloc)(size_t, int, void*) noexcept                # bytes, index of the device, stream; NULL where there is no more
    cdef void (*dispose)(void*, size_t, int, void*) noexcept

cdef class Pool:                        # memory of captured graphs or of a MemPool, and of nothing else while they are there
    cdef readonly object handle
    cdef dict lists                     # stream -> a list for each size class of the addresses of free blocks
    cdef readonly int users             # graphs that are captured with it, and MemPools
    cdef readonly Allocator allocator   # where its blocks come from; None: the driver
    cdef readonly bint spare            # its free blocks are given back where the driver has no more

cdef class CudaMemory(Device):
    cdef void* context                  # the primary one, which other libraries in the process share
    cdef void* pool                     # the driver's pool of memory
    cdef list waiting                   # freed blocks that other streams still use: (address, block, stream, events)
    cdef size_t reserved_bytes, reserved_peak
    cdef size_t taken_segments, segments_peak, reserved_taken  # pieces that were ever taken from the driver, the most, and their bytes
    cdef size_t active_peak, active_blocks_peak                # of what tensors hold or other streams still use
    cdef size_t waiting_bytes
    cdef dict segments                  # address -> (bytes, stream, handle of its pool or None) of all that the driver gave
    cdef object history                 # told what is handed out and freed; None: nobody records it
    cdef dict routes                    # thread -> the Pools that it takes its blocks from, the innermost last
    cdef size_t limit                   # the most bytes to take from the driver; 0: all it gives
    cdef dict pools                     # handle -> Pool, of the graphs that were captured with it
    cdef dict pooled                    # address of a block -> the Pool that it belongs to
    cdef Pool into                      # where blocks are taken from while work of the device is captured
    cdef list held_back                 # blocks that several streams used, and that were freed in a capture
    cdef dict lent                      # blocks that other libraries asked for: address -> (size class, stream)
    cdef readonly Allocator allocator   # where blocks come from; None: the driver
    cdef readonly bint caching          # free blocks are kept for the next tensors
    cdef set uncached                   # addresses of blocks that go back where they came from as soon as they are free
    cdef dict foreign                   # address of a segment -> the Allocator that gave it
    cdef int enter(self) except -1
    cdef uint64_t from_allocator(self, Allocator allocator, size_t nbytes) except? 0
    cdef uint64_t take_uncached(self, size_t nbytes, int block) except 0
    cdef uint64_t find(self, size_t nbytes, int block) except 0
    cdef uint64_t take_pooled(self, Pool pool, size_t nbytes, int block, bint captured) except 0
    cdef int took(self, uint64_t address, size_t nbytes, object handle) except -1
    cdef int put(self, uint64_t address, int block, uint64_t stream) except -1
    cdef int reclaim(self) except -1
