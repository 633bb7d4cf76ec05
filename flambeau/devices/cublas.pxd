"""Products of matrices by cuBLAS."""
from libc.stdint cimport int64_t
from ..core.base.device cimport Product

cdef struct Matrix:
    const void* data
    int operation   # AS_STORED in columns, or TRANSPOSED
    int leading     # elements from one stored column to the next
    int64_t batch

cdef struct Gemm:   # c = a b in columns
    Matrix a, b, c
    int64_t m, n
    int kind        # dtype of all three
    int compute     # of sums
    bint turned     # c is the transposed result: columns of c are rows of the product

cdef bint arrange(Product* p, Gemm* g) except -1
cdef void scale(double value, int compute, double* out) noexcept

cdef class Library:
    cdef void* handle
    cdef void* stream
    cdef bint product(self, Product* p, void* stream) except -1
