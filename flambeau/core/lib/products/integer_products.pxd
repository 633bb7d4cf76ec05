"""Products of matrices of integers."""
from libc.stdint cimport int64_t

cdef struct Integers:         # strides in elements; c's rows are `c_row` apart, its columns side by side
    int code
    int64_t m, n, k
    int64_t a_row, a_col, b_row, b_col, c_row
    int64_t alpha, beta

# c = alpha * a @ b + beta * c, modulo what the dtype holds; the status is BLAS's.
cdef int multiply_integers(char* c, const char* a, const char* b, const Integers* p) noexcept nogil
