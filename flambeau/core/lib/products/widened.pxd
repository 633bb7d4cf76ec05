"""Products of halves by the tiles of float32."""
from libc.stdint cimport int64_t
from .panels cimport Layers, Panels

ctypedef void (*convert_t)(const char* source, char* to, int64_t count, float factor) noexcept nogil

cdef struct Widened:          # `batch` products c = alpha * a @ b + beta * c; strides are in elements, c's rows are dense
    int64_t batch, m, n, k
    const char* a
    const char* b
    char* c
    int64_t a_row, a_col, a_step
    int64_t b_row, b_col, b_step
    int64_t c_row, c_step
    float alpha, beta
    const Ways* ways

cdef struct Ways:             # what is compiled for a dtype, and the sizes of a task
    Panels first, more        # tiles that store sums, and that add to them
    convert_t widen, narrow
    int64_t rows, columns

# Compile what products of these sizes need; one of each operand's strides is 1, but of a dimension of size 1.
ctypedef const Ways* (*prepare_t)(int code, int64_t m, int64_t n, int64_t k) except NULL
# OK, or INTERRUPTED with the exception set.
ctypedef int (*multiply_t)(Widened* w) noexcept nogil
# Where these two stand, `callbacks["products.widened"]()` says: the module is imported when halves are first multiplied so.
