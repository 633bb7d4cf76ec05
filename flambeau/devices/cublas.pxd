"""Products of matrices by cuBLAS."""
from ..core.base.device cimport Product

cdef class Library:
    cdef void* handle
    cdef void* stream
    cdef bint product(self, Product* p, void* stream) except -1
