"""NVIDIA's and AMD's devices through their driver."""
from libc.stdint cimport uint64_t
from .cublas cimport Library
from .cublaslt cimport Library as EpilogueLibrary
from ..core.base.device cimport Product
from .cuda_memory cimport CudaMemory

cdef enum:
    SLOTS = 16                # pieces of pinned memory that copies from and to other memory go through
    SLOT_BYTES = 1 << 20

cdef class Cuda(CudaMemory):
    cdef int number                     # the driver's
    cdef Library library                # for products, None until the first, or where it is not installed
    cdef EpilogueLibrary epilogues      # for products with a bias, and where it is faster; None likewise
    cdef object ways                    # what was measured of products
    cdef dict workspaces                # stream -> address of memory that its products compute in
    cdef bint looked
    cdef dict streams                   # priority -> handles, and how many were given out
    cdef char* slots
    cdef uint64_t slot_events[SLOTS]
    cdef int turn
    cdef list host_copies               # page-locked copies of bytes that the captured copies read
    cdef int copy_captured(self, uint64_t to, const void* source, size_t nbytes) except -1
    cdef int next_slot(self) except -1
    cdef int look_for_blas(self) except -1
    cdef uint64_t workspace(self) except? 0
    cdef str name(self)
    cdef int attribute(self, int which) except? -1
    cpdef record_on(self, uint64_t event, uint64_t stream)
    cpdef wait_on(self, uint64_t event, uint64_t stream)
