"""Products of bfloat16 by generated tiles, where the processor has the instruction."""
from libc.stdint cimport int64_t
from .panels cimport layer_t

cdef struct Halves:           # `batch` products c = alpha * a @ b + beta * c; strides are in elements, c's rows are dense
    int64_t batch, m, n, k
    const char* a
    const char* b
    char* c
    int64_t a_row, a_col, a_step
    int64_t b_row, b_col, b_step
    int64_t c_row, c_step
    float alpha, beta
    char* workspace           # of `workspace_of` bytes for each of `slots` products that are under way
    int64_t slots, size
    int64_t first             # of the products that are under way

cdef bint ready(int64_t columns) except -1
cdef int prepare(Halves* h) except -1
cdef int multiply_halves(Halves* h) noexcept nogil

ctypedef void (*block_t)(const char* a, int64_t a_row, int64_t a_step, const char* b, int64_t b_row, int64_t b_step, int64_t group,
                         const int64_t* offsets, int64_t taps, int64_t steps, float* sums, int64_t pitch, int64_t mode) noexcept nogil
ctypedef void (*round_t)(const float* sums, char* c, int64_t step, int64_t rows, int64_t columns, float alpha,
                         float beta) noexcept nogil

cdef block_t blocks[2][2]     # of the matrix unit, or by pairs once `has_blocks` has been called: for one or two registers of rows, and of columns
cdef round_t rounds
cdef bint has_unit() except -1
cdef bint has_blocks() except -1      # whether blocks can be computed, by the unit or, as `pair_blocks.py` does, by pairs
cdef bint by_unit() noexcept nogil    # the same, once `ready` has been called

ctypedef void (*turn_t)(const char* source, int64_t step, int64_t rows, int64_t columns, char* to, int64_t to_step) noexcept nogil

cdef layer_t zipping() except NULL
cdef turn_t turning() except NULL
cdef void set_up(int rows) noexcept nogil
cdef void give_back() noexcept nogil
cdef void lay_right(const Halves* h, char* to, int64_t pairs) noexcept nogil    # all groups of a right operand, of so many pairs each
