"""A product of two tensors' matrices as a plan: made once from geometry, launched on any tensors of that geometry."""
from libc.stdint cimport int64_t
from .matrices cimport Ending, Product
from ...base.tensor cimport MAX_DIMS, TensorBase

cdef class ProductPlan:
    cdef Product p
    cdef Ending ending
    cdef readonly object epilogue
    cdef readonly tuple numbers
    cdef readonly int64_t workspace       # bytes that a launch needs, from an address that 64 divides
    cdef int code, given, copies          # tensors: a, b, operands; what is copied before: COPY_LEFT, COPY_RIGHT
    cdef bint laid, empty
    cdef int64_t* geometry                # of each tensor its rank, sizes and strides
    cdef int rank                         # of the result
    cdef int64_t sizes[MAX_DIMS]
    cdef int64_t strides[MAX_DIMS]
    cdef int64_t start[MAX_DIMS]          # strides of an addend that the result starts from
    cdef int64_t places[2]                # of copies in the workspace

    # c = epilogue(a @ b, operands) at these addresses; the status is BLAS's.
    cdef int launch(self, char* c, const char* a, const char* b, const char** operands, char* workspace) noexcept nogil
    cdef const int64_t* geometry_of(self, int which) noexcept nogil
    cdef int read(self, tuple tensors) except -1
    cdef int read_operands(self, tuple operands) except -1
    cdef int plan(self, TensorBase a, TensorBase b, TensorBase addend, const Ending* ending) except -1
    cdef int check(self, str name, int which, TensorBase t) except -1
