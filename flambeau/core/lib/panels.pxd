"""Products of matrices of float32 and float64 by generated register tiles (codegen/tiles): c = relu(alpha · a @ b + bias + beta · other).

To multiply by a matrix that is laid out once:

    cdef Panels p
    clear(&p, F32, BIASED)                                  # what is done to the sums
    room = new_tensor(1, &packed_size(F32, n, k), U8)       # kept as long as b is used
    p.m, p.n, p.k, p.a, p.a_row, p.a_col, … = …
    ready(&p)                                               # compiles what is missing; needs the GIL
    lay_right(&p, room, b, b_row, b_col, 0, panels_of(&p))  # and p.b = room; from here on nogil
    multiply_rows(&p, 0, p.m, 0, panels_of(&p))

Sums of one element are taken in one order that depends on k alone; so rows and panels may be shared out in any way.
"""
from libc.stdint cimport int64_t
from .tiles cimport tile_t

cdef enum:                    # what is done to a sum before it is stored, in this order
    SCALED = 1                # times alpha
    BIASED = 2                # plus an element for each column
    ADDED = 4                 # plus `other` (times beta where SCALED), which may be c itself
    RECTIFIED = 8             # below 0 it becomes 0
    ENDINGS = 16
    MOST_VECTORS = 4
    MOST_ROWS = 14
    FEW_ROWS = 6              # of a tile that reads both operands along their terms
    MOST_COLUMNS = 8
    DOTTED = 32               # rows up to which laying the right operand out for tiles takes longer than it saves

ctypedef void (*layer_t)(char* to, int64_t to_step, const char* source, int64_t step, int64_t terms, int64_t columns) noexcept nogil

cdef struct Family:           # what is compiled for one size of elements
    int64_t lanes             # of a vector; 0 before anything is known
    int64_t vectors           # of a whole panel
    int64_t tallest[MOST_VECTORS + 1]
    tile_t tiles[ENDINGS][2][MOST_VECTORS + 1][MOST_ROWS + 1]   # by ending, whether b is masked, vectors and rows
    tile_t dots[ENDINGS][FEW_ROWS + 1][MOST_COLUMNS + 1]        # by ending, rows and columns
    layer_t copies[MOST_VECTORS + 1]
    layer_t turns

cdef struct Panels:           # all steps are bytes
    Family* family
    int64_t size              # of an element
    int ending
    int64_t m, n, k
    const char* a
    int64_t a_row, a_col
    const char* b             # panels that `lay_right` has laid, or a matrix whose columns lie side by side
    int64_t b_row             # of such a matrix; 0: panels
    char* c
    int64_t c_row             # columns lie side by side
    double alpha, beta
    const char* bias
    const char* other
    int64_t other_row

# Everything 0 but the family; 0 where tiles are not for this processor or dtype.
cdef bint clear(Panels* p, int code, int ending) except -1
# Compile the tiles that m, n, k, the ending and b_row ask for.
cdef int ready(Panels* p) except -1
cdef int64_t panels_of(const Panels* p) noexcept nogil
# Bytes of a right operand that is laid out.
cdef int64_t packed_size(const Panels* p) noexcept nogil
cdef void lay_right(const Panels* p, char* room, const char* b, int64_t b_row, int64_t b_col, int64_t begin, int64_t end) noexcept nogil
# Rows by panels of c.
cdef void multiply_rows(const Panels* p, int64_t from_row, int64_t to_row, int64_t from_panel, int64_t to_panel) noexcept nogil

cdef struct Products:         # `batch` products
    Panels one
    int64_t batch, a_batch, b_batch, c_batch
    const char* b
    int64_t b_row, b_col
    bint lays_right, lays_left, dots
    char* room                # of `size` bytes for each of `slots` products that are under way
    int64_t size, slots
    int64_t right             # bytes of the right operand in it
    int64_t first             # of those that are under way

# How the operands are laid out, and how much room that takes; compiles what is missing.
cdef int prepare(Products* all) except -1
# OK, or INTERRUPTED with the exception set.
cdef int multiply_products(Products* all) noexcept nogil
