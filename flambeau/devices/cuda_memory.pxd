"""The memory of NVIDIA's devices."""
from libc.stdint cimport uint64_t
from ..core.base.device cimport Device

cdef class Pool:                        # memory that captured graphs work on, and nothing else while they are there
    cdef readonly object handle
    cdef dict lists                     # stream -> a list for each size class of the addresses of free blocks
    cdef int users                      # graphs that are captured with it

cdef class CudaMemory(Device):
    cdef void* context                  # the primary one, which other libraries in the process share
    cdef void* pool                     # the driver's pool of memory
    cdef list waiting                   # freed blocks that other streams still use: (address, block, stream, events)
    cdef size_t reserved_bytes, reserved_peak
    cdef size_t limit                   # the most bytes to take from the driver; 0: all it gives
    cdef dict pools                     # handle -> Pool, of the graphs that were captured with it
    cdef dict pooled                    # address of a block -> the Pool that it belongs to
    cdef Pool into                      # where blocks are taken from while work of the device is captured
    cdef list held_back                 # blocks that several streams used, and that were freed in a capture
    cdef dict lent                      # blocks that other libraries asked for: address -> (size class, stream)
    cdef int enter(self) except -1
    cdef uint64_t take_pooled(self, size_t nbytes, int block) except 0
    cdef int put(self, uint64_t address, int block, uint64_t stream) except -1
    cdef int reclaim(self) except -1
