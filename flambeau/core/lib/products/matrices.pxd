"""Products of stacks of matrices: how they are computed follows from shapes, strides and dtypes; then they are, at some addresses."""
from libc.stdint cimport int64_t
from .panels cimport Products, Tiles
from .widened cimport Ways
from ..tiles cimport MOST_OPERANDS
from ...base.tensor cimport MAX_DIMS, TensorBase

cdef enum:                    # how the last dimensions of a tensor are read as a matrix; the others count its matrices
    MATRIX = 0
    TRANSPOSED = 1
    ROW = 2                   # one dimension
    COLUMN = 3
    SCALAR = 4                # none: a 1 by 1 matrix

cdef enum:                    # what has to be done before a plan can be made
    COPY_LEFT = 1
    COPY_RIGHT = 2
    ELSEWHERE = 4             # in float32: halves that lie in no order, and sums of their products, which are to be rounded once

cdef enum:                    # how an operand of an epilogue is read
    BY_COLUMNS
    BY_ROWS
    BY_BOTH

cdef struct Scale:            # a number that multiplies: for floating point and complex, and for integer dtypes
    double real
    double imag
    int64_t whole

cdef struct Layout:           # of a tensor, read as `form`
    int rank, form
    bint contiguous
    const int64_t* sizes
    const int64_t* strides

cdef struct Ending:           # an epilogue that the program gives
    Tiles* tiles
    int operands
    int reads[MOST_OPERANDS]
    int64_t rows[MOST_OPERANDS]                 # bytes from row to row of operands BY_BOTH
    double numbers[MOST_OPERANDS]
    bint laid                                   # the right operand has been laid out

cdef struct Product:
    int code
    int64_t m, n, k
    int64_t a_row, a_col, b_row, b_col, c_row   # strides; those of C's columns are 1
    Scale alpha, beta
    int rank                                    # of the stack
    int64_t sizes[MAX_DIMS]
    int64_t a_step[MAX_DIMS]                    # 0 where A is broadcast
    int64_t b_step[MAX_DIMS]
    int64_t c_step[MAX_DIMS]                    # 0 where the products are summed
    bint turned                                 # a row by a transposed matrix in place of a matrix by a column
    bint by_tiles                               # of float32 and float64; else BLAS computes
    bint given                                  # the epilogue is the program's
    bint starts                                 # the result is first made the addend
    bint transposes                             # a small right operand, for BLAS
    Products tiled
    Tiles* first                                # epilogues of the first of products that are summed, and of the others
    Tiles* more
    int operands                                # of the first
    int reads[MOST_OPERANDS]
    int64_t operand_rows[MOST_OPERANDS]
    bint own                                    # the last operand is the result itself
    int64_t slots, size                         # of bfloat16 by its own tiles
    const Ways* ways                            # of halves by the tiles of float32; NULL for all others
    int64_t workspace                           # bytes that a launch needs
    double work                                 # multiplications

cdef struct Places:           # of the tensors of one launch
    char* c
    const char* a
    const char* b
    const char* operands[MOST_OPERANDS]
    char* workspace

cdef inline void lay_out(Layout* to, TensorBase t, int form) noexcept nogil:
    to.rank, to.form, to.contiguous, to.sizes, to.strides = t.rank, form, t.contiguous, t.sizes, t.strides

cdef inline int flipped(int form) noexcept nogil:
    """The form in which the transpose is read."""
    return form if form == SCALAR else form ^ 1

cdef inline int used_dims(int form) noexcept nogil:
    return 2 if form <= TRANSPOSED else 1 if form <= COLUMN else 0

cdef void read_matrix(const Layout* t, int64_t* rows, int64_t* cols, int64_t* row, int64_t* col) noexcept nogil
# Whether BLAS can read it (blas.pxd has the conditions).
cdef bint usable(const Layout* t) noexcept nogil
# The dimensions that count matrices, outermost first, without those of size 1, and merged where possible.
cdef void stack(Product* p, const Layout* a, const Layout* b, const Layout* c) noexcept nogil

# How c = alpha * a @ b + beta * addend is computed; c is contiguous and has elements. Without an addend it is c itself, which is not
# read where beta is 0. With an ending, c = ending(a @ b, operands). 0, or what has to be done first.
cdef int plan_product(Product* p, int code, const Layout* a, const Layout* b, const Layout* c, const Scale* alpha, const Scale* beta,
                      const Layout* addend, const Ending* ending) except -1

# Compute it; `tiled` is p.tiled or a copy, and written to. Where p.starts, c holds the addend. The status is BLAS's.
cdef int launch_product(const Product* p, Products* tiled, const Places* at) noexcept nogil
