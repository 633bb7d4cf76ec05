"""NVIDIA's devices through their driver."""
from libc.stdint cimport uint64_t
from .cublas cimport Library
from ..core.base.device cimport Device

cdef enum:
    SLOTS = 16                # pieces of pinned memory that copies from and to other memory go through
    SLOT_BYTES = 1 << 20

cdef class Pool:                        # memory that captured graphs work on, and nothing else while they are there
    cdef readonly object handle
    cdef dict lists                     # stream -> a list for each size class of the addresses of free blocks
    cdef int users                      # graphs that are captured with it

cdef class Cuda(Device):
    cdef int number                     # the driver's
    cdef void* context                  # the primary one, which other libraries in the process share
    cdef void* pool                     # the driver's pool of memory
    cdef Library library                # for products, None until the first, or where it is not installed
    cdef bint looked
    cdef list waiting                   # freed blocks that other streams still use: (address, block, stream, events)
    cdef dict streams                   # priority -> handles, and how many were given out
    cdef char* slots
    cdef uint64_t slot_events[SLOTS]
    cdef int turn
    cdef size_t reserved_bytes, reserved_peak
    cdef size_t limit                   # the most bytes to take from the driver; 0: all it gives
    cdef dict pools                     # handle -> Pool, of the graphs that were captured with it
    cdef dict pooled                    # address of a block -> the Pool that it belongs to
    cdef Pool into                      # where blocks are taken from while work of the device is captured
    cdef list kept                      # page-locked copies of bytes that the captured copies read
    cdef list held_back                 # blocks that several streams used, and that were freed in a capture
    cdef dict lent                      # blocks that other libraries asked for: address -> (size class, stream)
    cdef int enter(self) except -1
    cdef uint64_t take_pooled(self, size_t nbytes, int block) except 0
    cdef int put(self, uint64_t address, int block, uint64_t stream) except -1
    cdef int copy_kept(self, uint64_t to, const void* source, size_t nbytes) except -1
    cdef int reclaim(self) except -1
    cdef int next_slot(self) except -1
    cdef int look_for_blas(self) except -1
    cdef str name(self)
    cdef int attribute(self, int which) except? -1
