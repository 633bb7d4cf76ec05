"""NVIDIA's devices through their driver."""
from libc.stdint cimport uint64_t
from .cublas cimport Library
from ..core.base.device cimport Device

cdef enum:
    SLOTS = 16                # pieces of pinned memory that copies from and to other memory go through
    SLOT_BYTES = 1 << 20

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
    cdef dict lent                      # blocks that other libraries asked for: address -> (size class, stream)
    cdef int enter(self) except -1
    cdef int reclaim(self) except -1
    cdef int next_slot(self) except -1
    cdef int look_for_blas(self) except -1
    cdef str name(self)
    cdef int attribute(self, int which) except? -1
