# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The contraction that all matrix products are: `alpha * A @ B + beta * C` over stacks of matrices.

A, B and C are tensors read as a matrix, a transposed one, a row, a column or a number.  Stacks broadcast, and are summed
over where the result has none.  The gradients of such a contraction are such contractions again, so one kind of node
serves, to any order.

Products are computed by generated tiles (panels.pyx, halves.pyx), which read operands with any strides, or by BLAS, for which an
operand is copied where it has unit stride along neither axis: `tiles_win` says which.
"""
from libc.stdlib cimport malloc, free
from libc.string cimport memcpy
from libc.math cimport fabs
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from .blas cimport (
    INTERRUPTED, OK, ensure, batched_gemm_c64, batched_gemm_c128, batched_gemm_f32, batched_gemm_f64, gemm_f32, gemm_f64,
)
from .halves cimport Halves, multiply_halves, prepare, ready
from .panels cimport ADDED, BIASED, DOTTED, SCALED, Panels, Products, clear, multiply_products, prepare as prepare_panels
from ..base.dtypes cimport U8, U16, U32, I8, I16, I32, F16, BF16, F32, F64, C64, C128, CATEGORY, is_stored, size_from
from ..base.device cimport Product as DeviceProduct
from ..call.function import FunctionOp
from ..call.kernels cimport away, one_device
from ..call.pointwise cimport copied, sum_to, wider
from ..call.layout cimport fits
from ..base.parallel cimport parallel_for
from ..base.provided import provided
from ..base.recorder cimport mark, note_work, recording
from ..tape.modes cimport grad_enabled, set_grad, wants_grad
from ..tape.nodes cimport Node
from ..tape.history cimport attach
from ..tape.saved cimport Slot, clear_slot, keep, kept
from ..tape.inplace cimport rebase
from ..base.tensor cimport MAX_DIMS, OP_MUL, TensorBase, late, new_tensor, new_tensor_on, operator_for, place_of, pointer, wrote
from ..views.geometry cimport copy_strided
from ..views.views cimport compact
from cpython.object cimport PyObject
cimport cython

cdef extern from *:
    """
    #include <stdint.h>
    typedef float flambeau_four __attribute__((vector_size(16), aligned(4)));
    #define FLAMBEAU_MIX(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)

    /* to (cols, rows) = the transpose of from (rows, cols), whose rows are `step` apart: by squares of 4 by 4 */
    static void flambeau_transpose(float* to, const float* from, int64_t rows, int64_t cols, int64_t step) {
        int64_t i, j, k;
        for (i = 0; i + 4 <= rows; i += 4) {
            for (j = 0; j + 4 <= cols; j += 4) {
                const float* p = from + i * step + j;
                float* q = to + j * rows + i;
                flambeau_four a = *(flambeau_four*)p, b = *(flambeau_four*)(p + step);
                flambeau_four c = *(flambeau_four*)(p + 2 * step), d = *(flambeau_four*)(p + 3 * step);
                flambeau_four ab = FLAMBEAU_MIX(a, b, 0, 4, 1, 5), cd = FLAMBEAU_MIX(c, d, 0, 4, 1, 5);
                *(flambeau_four*)q = FLAMBEAU_MIX(ab, cd, 0, 1, 4, 5);
                *(flambeau_four*)(q + rows) = FLAMBEAU_MIX(ab, cd, 2, 3, 6, 7);
                ab = FLAMBEAU_MIX(a, b, 2, 6, 3, 7), cd = FLAMBEAU_MIX(c, d, 2, 6, 3, 7);
                *(flambeau_four*)(q + 2 * rows) = FLAMBEAU_MIX(ab, cd, 0, 1, 4, 5);
                *(flambeau_four*)(q + 3 * rows) = FLAMBEAU_MIX(ab, cd, 2, 3, 6, 7);
            }
            for (; j < cols; j++)
                for (k = i; k < i + 4; k++) to[j * rows + k] = from[k * step + j];
        }
        for (; i < rows; i++)
            for (j = 0; j < cols; j++) to[j * rows + i] = from[i * step + j];
    }
    """
    void flambeau_transpose(float* to, const float* source, int64_t rows, int64_t cols, int64_t step) noexcept nogil

cdef enum:
    SMALL = 4096               # elements up to which a transposed right operand is turned first
    INLINE_SIZES = 8           # a node's shapes up to this many numbers need no memory of their own
    WIDTH = 128                # columns that are summed at once
    HEIGHT = 16                # rows that are summed in the element's own precision

cdef double GIL_FROM = 1e5     # multiplications from which giving up the GIL pays off
cdef int64_t WORTH_A_COPY = 16  # columns of a result from which copying a left operand costs little beside the product
cdef int64_t WORTH_A_LAYOUT = 8     # columns from which a right operand laid out by 16 takes at most twice its room
cdef int64_t MOST_FOR_FEW = 1 << 20   # bytes that it may take with fewer
cdef Scale ONE
ONE.real, ONE.imag, ONE.whole = 1.0, 0.0, 1


# --- stacks of matrices ------------------------------
cdef struct Product:
    int code
    int64_t m, n, k
    const char* a
    const char* b
    char* c
    int64_t a_row, a_col, b_row, b_col, c_row   # strides; those of C's columns are 1
    Scale alpha, beta
    int rank                                    # of the stack
    int64_t sizes[MAX_DIMS]
    int64_t a_step[MAX_DIMS]                    # 0 where A is broadcast
    int64_t b_step[MAX_DIMS]
    int64_t c_step[MAX_DIMS]                    # 0 where the products are summed
    char* room                                  # for operands of bfloat16 that are laid out otherwise
    int64_t slots, size
    Products* tiles                             # of float32 and float64; NULL where BLAS computes
    const char* other                           # what tiles add beta times; NULL: c


cdef inline int flipped(int form) noexcept nogil:
    """The form in which the transpose is read."""
    return form if form == SCALAR else form ^ 1


cdef inline int used_dims(int form) noexcept nogil:
    return 2 if form <= TRANSPOSED else 1 if form <= COLUMN else 0


cdef inline void read_matrix(TensorBase t, int form, int64_t* rows, int64_t* cols, int64_t* row, int64_t* col) noexcept nogil:
    cdef int last = t.rank - 1
    rows[0] = cols[0] = row[0] = col[0] = 1
    if form == MATRIX:
        rows[0], row[0] = t.sizes[last - 1], t.strides[last - 1]
        cols[0], col[0] = t.sizes[last], t.strides[last]
    elif form == TRANSPOSED:
        rows[0], row[0] = t.sizes[last], t.strides[last]
        cols[0], col[0] = t.sizes[last - 1], t.strides[last - 1]
    elif form == ROW:
        cols[0], col[0] = t.sizes[last], t.strides[last]
    elif form == COLUMN:
        rows[0], row[0] = t.sizes[last], t.strides[last]


cdef inline bint readable(int64_t rows, int64_t cols, int64_t row, int64_t col) noexcept nogil:
    """Whether BLAS can read a matrix with these strides (blas.pxd has the conditions)."""
    return ((col == 1 or cols <= 1) and (rows <= 1 or row >= max(cols, 1))) or (
        (row == 1 or rows <= 1) and (cols <= 1 or col >= max(rows, 1)))


cdef inline bint usable(TensorBase t, int form) noexcept nogil:
    cdef int64_t rows, cols, row, col
    if t.contiguous:
        return True
    read_matrix(t, form, &rows, &cols, &row, &col)
    return readable(rows, cols, row, col)


cdef inline int64_t step_at(TensorBase t, int dims, int from_right) noexcept nogil:
    cdef int d = t.rank - dims - 1 - from_right
    return t.strides[d] if d >= 0 and t.sizes[d] != 1 else 0


cdef void stack(Product* p, TensorBase a, int a_dims, TensorBase b, int b_dims, TensorBase c, int c_dims) noexcept nogil:
    """The dimensions that count matrices, outermost first, without those of size 1, and merged where possible."""
    cdef int rank = max(a.rank - a_dims, max(b.rank - b_dims, c.rank - c_dims)), d, k, last
    cdef int64_t size, c_size, a_step, b_step, c_step, longer
    cdef int64_t c_steps[MAX_DIMS]
    size = p.m * p.n
    for d in range(c.rank - c_dims):  # C is contiguous; a dimension of size 1 may still say any stride
        c_steps[d] = size
        size *= size_at(c, c_dims, d)
    p.rank = 0
    for d in range(rank - 1, -1, -1):
        size = size_at(a, a_dims, d)
        if size == 1:
            size = size_at(b, b_dims, d)
        c_size = size_at(c, c_dims, d)
        if size == 1:
            size = c_size
        if size == 1:
            continue
        if size == 0:  # a sum of no products: C is not empty
            p.k = 0
            continue
        a_step, b_step, c_step = step_at(a, a_dims, d), step_at(b, b_dims, d), c_steps[d] if c_size != 1 else 0
        last = p.rank - 1
        if last >= 0 and p.a_step[last] == a_step * size and p.b_step[last] == b_step * size and (
                p.c_step[last] == c_step * size):
            size *= p.sizes[last]
        else:
            last += 1
            p.rank += 1
        p.sizes[last], p.a_step[last], p.b_step[last], p.c_step[last] = size, a_step, b_step, c_step
    for d in range(p.rank - 1, -1, -1):  # a sum over products of neighbouring matrices is one longer product
        longer = p.k * p.sizes[d]
        if p.c_step[d] == 0 and p.a_step[d] == p.k * p.a_col and p.b_step[d] == p.k * p.b_row and (
                readable(p.m, longer, p.a_row, p.a_col) and readable(longer, p.n, p.b_row, p.b_col)):
            p.k = longer
            p.rank -= 1
            for k in range(d, p.rank):
                p.sizes[k], p.a_step[k] = p.sizes[k + 1], p.a_step[k + 1]
                p.b_step[k], p.c_step[k] = p.b_step[k + 1], p.c_step[k + 1]


cdef enum: IMPOSSIBLE = -1               # beside the statuses of BLAS
cdef double EXACT = 9007199254740992.0  # 2**53: float64 has all integers up to here


ctypedef fused Integer:
    uint8_t
    int8_t
    int16_t
    int32_t
    int64_t


cdef double to_floats(double* to, const Integer* source, int64_t rows, int64_t cols, int64_t row, int64_t col) noexcept nogil:
    """A matrix of integers as float64; returns the largest magnitude in it, rounded like the elements."""
    cdef int64_t i, j
    cdef double x, most = 0
    for i in range(rows):
        for j in range(cols):
            x = <double>source[i * row + j * col]
            to[i * cols + j] = x
            most = max(most, fabs(x))
    return most


cdef int multiply_as_floats(Integer* c, const Integer* a, const Integer* b, Product* p, int64_t beta) noexcept nogil:
    """The product by float64's, where no sum can leave the integers that float64 has; IMPOSSIBLE where one could, where the
    product is small, and where there is no memory.
    """
    cdef int64_t i, j
    cdef int64_t most_floats = <int64_t>1 << 57     # of each matrix, so that the bytes of all three fit 64 bits
    cdef int done = IMPOSSIBLE
    cdef double most
    cdef double* space
    cdef double* right
    cdef double* sums
    if p.m < 8 or p.n < 8 or p.k < 8:
        return IMPOSSIBLE
    if p.m > most_floats // p.k or p.n > most_floats // p.k or p.m > most_floats // p.n:
        return IMPOSSIBLE
    space = <double*>malloc((p.m * p.k + p.k * p.n + p.m * p.n) * sizeof(double))
    if space == NULL:
        return IMPOSSIBLE
    right = space + p.m * p.k
    sums = right + p.k * p.n
    most = to_floats(space, a, p.m, p.k, p.a_row, p.a_col) * to_floats(right, b, p.k, p.n, p.b_row, p.b_col)
    if most * p.k <= EXACT:
        done = gemm_f64(p.m, p.n, p.k, 1.0, space, p.k, 1, right, p.n, 1, 0.0, sums, p.n)
    if done == OK:
        for i in range(p.m):
            for j in range(p.n):
                write_sum(&c[i * p.c_row + j], <uint64_t><int64_t>sums[i * p.n + j], p.alpha.whole, beta)
    free(space)
    return done


cdef inline void write_sum(Integer* c, uint64_t sum, int64_t alpha, int64_t beta) noexcept nogil:
    sum *= <uint64_t>alpha
    if beta:
        sum += <uint64_t>beta * <uint64_t>c[0]
    c[0] = <Integer>sum


cdef int multiply_integers(Integer* c, const Integer* a, const Integer* b, Product* p, int64_t beta) noexcept nogil:
    """Sums of products modulo 2**64, of which the result keeps the low bits."""
    cdef uint64_t sums[WIDTH]
    cdef uint64_t factor
    cdef int64_t i, j, s, first = 0, width
    cdef int status = multiply_as_floats(c, a, b, p, beta)
    if status == OK or status == INTERRUPTED:
        return status
    while first < p.n:
        width = min(WIDTH, p.n - first)
        for i in range(p.m):
            for j in range(width):
                sums[j] = 0
            for s in range(p.k):
                factor = <uint64_t>a[i * p.a_row + s * p.a_col]
                if p.b_col == 1:
                    for j in range(width):
                        sums[j] += factor * <uint64_t>b[s * p.b_row + first + j]
                else:
                    for j in range(width):
                        sums[j] += factor * <uint64_t>b[s * p.b_row + (first + j) * p.b_col]
            for j in range(width):
                write_sum(&c[i * p.c_row + first + j], sums[j], p.alpha.whole, beta)
        first += WIDTH
    return OK


cdef inline double complex complex_of(const Scale* s) noexcept nogil:
    return s.real + s.imag * 1j


cdef int multiply_halves_of(Product* p, int64_t batch, const char* a, int64_t a_step, const char* b, int64_t b_step,
                            char* c, int64_t c_step, const Scale* beta) noexcept nogil:
    cdef Halves h
    h.batch, h.m, h.n, h.k = batch, p.m, p.n, p.k
    h.a, h.a_row, h.a_col, h.a_step = a, p.a_row, p.a_col, a_step
    h.b, h.b_row, h.b_col, h.b_step = b, p.b_row, p.b_col, b_step
    h.c, h.c_row, h.c_step = c, p.c_row, c_step
    h.alpha, h.beta = <float>p.alpha.real, <float>beta.real
    h.room, h.slots, h.size = p.room, p.slots, p.size
    return multiply_halves(&h)


cdef int multiply_by_tiles(Product* p, int64_t batch, const char* a, int64_t a_step, const char* b, int64_t b_step,
                           char* c, int64_t c_step, const Scale* beta) noexcept nogil:
    """`prepare_panels` has seen sizes, strides and scales; beta may be 1 by now, since products are summed."""
    cdef Products* all = p.tiles
    cdef int64_t size = all.one.size * 2 if all.crossed else all.one.size
    all.batch, all.a_batch, all.b_batch, all.c_batch = batch, a_step * size, b_step * size, c_step * size
    all.one.a, all.b, all.one.c = a, b, c
    all.one.ending = all.one.ending | ADDED if beta.real != 0 else all.one.ending & ~ADDED
    all.one.other, all.one.beta = NULL, beta.real
    if beta.real != 0:
        all.one.other = p.other if p.other != NULL else c
    return multiply_products(all)


cdef enum: CALL = 1 << 18     # multiplications up to which what a call costs beside them decides
cdef double MOST_LAID = 1e17  # elements of operands, whose bytes are to fit 64 bits when they are laid out

cdef int preferred = 0        # 1: tiles, 2: BLAS; for tests and measurements


def prefer(which: str) -> None:
    """Have products of float32 and float64 computed by 'tiles' or by 'blas', whatever their sizes; '' chooses by them."""
    global preferred
    preferred = ("", "tiles", "blas").index(which)


cdef bint tiles_win(const Product* p, int64_t batch) noexcept nogil:
    """Whether generated tiles compute, not BLAS.  Microseconds, one thread of a Zen 5, float32, tiles / OpenBLAS / MKL in PyTorch:

    | m x k x n      | a @ b              | a @ b.T            |
    |----------------|--------------------|--------------------|
    | 32 x 32 x 32   | 0.59 / 0.55 / 2.2  | 0.75 / 0.63 / 2.2  |
    | 64 x 64 x 64   | 2.6 / 2.6 / 7.2    | 3.0 / 2.9 / 7.2    |
    | 128, each      | 18.9 / 22.8 / 44   | 19.7 / 27.0 / 45   |
    | 256            | 144 / 171 / 341    | 155 / 300 / 345    |
    | 1024           | 9600 / 10600 / 22000 | 9600 / 13000 / 22000 |
    | 1 x 1024 x 1024 | 134 / 43 / 65     | 42 / 45 / 66       |
    | 2 x 1024 x 1024 | 89 / 330 / 99     | 44 / 349 / 107     |
    | 8 x 1024 x 1024 | 127 / 362 / 303   | 97 / 411 / 272     |

    So BLAS has what is small, for its calls cost less, and one row by a matrix whose columns lie side by side.  Where registers
    are narrower, its tiles are as large as ours, and it keeps all.
    """
    cdef double each = <double>p.m * p.n * p.k
    if p.code == BF16:        # else by tiles of its own (halves.pyx)
        return dotted(p)
    if p.tiles.crossed and (p.m == 1 or p.n == 1):
        return False
    if <double>(p.m + p.n + 64) * (p.k + 64) > MOST_LAID:
        return False
    if preferred:
        return preferred == 1
    if p.tiles.one.family.lanes * p.tiles.one.size < 64:
        return False
    if p.tiles.crossed:
        return each >= CALL / 64
    if dotted(p):
        return each > CALL / 32
    return p.m > 1 and p.n > 1 and (batch > 1 or each > CALL)


cdef inline bint crosses(const Product* p) noexcept nogil:
    """Whether a product of complex numbers can be a real one (panels.pyx): 1.2 to 1.5 times as fast as OpenBLAS's."""
    return (p.code == C64 or p.code == C128) and preferred != 2 and p.a_col == 1 and p.b_col == 1 and p.b_row > 0 and p.k > 0 and (
        p.alpha.imag == 0 and p.beta.imag == 0)


cdef inline bint dotted(const Product* p) noexcept nogil:
    """Whether both operands are read along their terms (panels.pyx)."""
    return p.a_col == 1 and p.b_row == 1 and p.b_col > 0 and p.m <= DOTTED and p.n > 1


cdef void turn_over(Product* p) noexcept nogil:
    """A matrix by a column as a row by its transpose, which has the same result."""
    cdef int d
    p.m, p.n = p.n, p.m
    p.a, p.b = p.b, p.a
    p.a_row, p.a_col, p.b_row, p.b_col = p.b_col, p.b_row, p.a_col, p.a_row
    p.c_row = p.n
    for d in range(p.rank):
        p.a_step[d], p.b_step[d] = p.b_step[d], p.a_step[d]


cdef int arrange(Product* p, TensorBase c, int form, int64_t batch, bint sums, TensorBase addend) except -1:
    """Hand a product over to the tiles: sizes, strides, what is added to it."""
    cdef Products* t = p.tiles
    cdef Panels* one = &t.one
    cdef int d
    cdef bint row = addend is not None and addend.rank > 0 and p.beta.real == 1 and not sums and (form == MATRIX or form == ROW)
    cdef int64_t parts = 2 if t.crossed else 1, size = one.size * parts
    one.m, one.n, one.k = p.m, p.n * parts, p.k * parts
    one.a_row, one.a_col = p.a_row * size, one.size if t.crossed else p.a_col * size
    t.b_row, t.b_col = p.b_row * size, p.b_col * size
    one.c_row = one.other_row = p.c_row * size
    one.alpha, t.batch = p.alpha.real, batch
    if row:
        row = addend.strides[addend.rank - 1] == 1 and addend.sizes[addend.rank - 1] == p.n
        for d in range(addend.rank - 1):
            row = row and addend.sizes[d] == 1
    if row:                   # one for each column
        one.bias, one.ending = pointer(addend), one.ending & ~ADDED | BIASED
        p.beta.real = 0
    elif addend is not None and form == MATRIX and c.rank == 2 and p.rank == 0 and addend.rank == 2 and (
            addend.sizes[0] == p.m and addend.sizes[1] == p.n and addend.strides[1] == 1):
        p.other, one.other_row = pointer(addend), addend.strides[0] * size
    elif addend is not None:
        start_from(c, addend)
    prepare_panels(t)
    if sums:                  # the first product is written, the others are added
        one.ending |= ADDED
        prepare_panels(t)
    return 0


cdef int multiply_some(Product* p, int64_t batch, const char* a, int64_t a_step, const char* b, int64_t b_step,
                       char* c, int64_t c_step, const Scale* beta) noexcept nogil:
    """`batch` products; the status is BLAS's."""
    cdef int64_t k
    cdef int status
    if p.code == BF16 and p.tiles == NULL:
        return multiply_halves_of(p, batch, a, a_step, b, b_step, c, c_step, beta)
    if p.tiles != NULL:
        return multiply_by_tiles(p, batch, a, a_step, b, b_step, c, c_step, beta)
    if p.code == F32:
        if batch == 1:
            return gemm_f32(p.m, p.n, p.k, <float>p.alpha.real, <const float*>a, p.a_row, p.a_col,
                            <const float*>b, p.b_row, p.b_col, <float>beta.real, <float*>c, p.c_row)
        return batched_gemm_f32(
            batch, p.m, p.n, p.k, <float>p.alpha.real, <const float*>a, a_step, p.a_row, p.a_col,
            <const float*>b, b_step, p.b_row, p.b_col, <float>beta.real, <float*>c, c_step, p.c_row)
    if p.code == F64:
        if batch == 1:
            return gemm_f64(p.m, p.n, p.k, p.alpha.real, <const double*>a, p.a_row, p.a_col,
                            <const double*>b, p.b_row, p.b_col, beta.real, <double*>c, p.c_row)
        return batched_gemm_f64(
            batch, p.m, p.n, p.k, p.alpha.real, <const double*>a, a_step, p.a_row, p.a_col,
            <const double*>b, b_step, p.b_row, p.b_col, beta.real, <double*>c, c_step, p.c_row)
    if p.code == C64:
        return batched_gemm_c64(
            batch, p.m, p.n, p.k, <float complex>complex_of(&p.alpha), <const float complex*>a, a_step, p.a_row, p.a_col,
            <const float complex*>b, b_step, p.b_row, p.b_col, <float complex>complex_of(beta), <float complex*>c, c_step, p.c_row)
    if p.code == C128:
        return batched_gemm_c128(
            batch, p.m, p.n, p.k, complex_of(&p.alpha), <const double complex*>a, a_step, p.a_row, p.a_col,
            <const double complex*>b, b_step, p.b_row, p.b_col, complex_of(beta), <double complex*>c, c_step, p.c_row)
    for k in range(batch):
        if p.code == U8:
            status = multiply_integers(<uint8_t*>c + k * c_step, <const uint8_t*>a + k * a_step, <const uint8_t*>b + k * b_step,
                                       p, beta.whole)
        elif p.code == I8:
            status = multiply_integers(<int8_t*>c + k * c_step, <const int8_t*>a + k * a_step, <const int8_t*>b + k * b_step,
                                       p, beta.whole)
        elif p.code == I16 or p.code == U16:  # sums wrap around, to the same bits
            status = multiply_integers(<int16_t*>c + k * c_step, <const int16_t*>a + k * a_step, <const int16_t*>b + k * b_step,
                                       p, beta.whole)
        elif p.code == I32 or p.code == U32:
            status = multiply_integers(<int32_t*>c + k * c_step, <const int32_t*>a + k * a_step, <const int32_t*>b + k * b_step,
                                       p, beta.whole)
        else:
            status = multiply_integers(<int64_t*>c + k * c_step, <const int64_t*>a + k * a_step, <const int64_t*>b + k * b_step,
                                       p, beta.whole)
        if status != OK:
            return status
    return OK


cdef int multiply_all(Product* p, int width) noexcept nogil:
    """All products of the stack: the innermost dimension that is not summed over is one call, the others are walked."""
    cdef int inner = p.rank - 1, d, status
    cdef int64_t place[MAX_DIMS]
    cdef int64_t batch = 1, a_step = 0, b_step = 0, c_step = 0, a_at = 0, b_at = 0, c_at = 0
    cdef Scale beta
    cdef bint first
    while inner >= 0 and p.c_step[inner] == 0:
        inner -= 1
    if inner >= 0:
        batch, a_step, b_step, c_step = p.sizes[inner], p.a_step[inner], p.b_step[inner], p.c_step[inner]
    for d in range(p.rank):
        place[d] = 0
    while True:
        first = True
        for d in range(p.rank):
            if p.c_step[d] == 0 and place[d]:
                first = False
        beta = p.beta if first else ONE
        status = multiply_some(p, batch, p.a + a_at * width, a_step, p.b + b_at * width, b_step, p.c + c_at * width, c_step,
                               &beta)
        if status != OK:
            return status
        d = p.rank - 1
        while d >= 0:
            if d != inner:
                place[d] += 1
                a_at += p.a_step[d]
                b_at += p.b_step[d]
                c_at += p.c_step[d]
                if place[d] < p.sizes[d]:
                    break
                a_at -= p.a_step[d] * place[d]
                b_at -= p.b_step[d] * place[d]
                c_at -= p.c_step[d] * place[d]
                place[d] = 0
            d -= 1
        if d < 0:
            return OK


cdef int multiply(TensorBase c, int form, TensorBase a, int a_form, TensorBase b, int b_form,
                  const Scale* alpha, const Scale* beta, TensorBase addend) except -1:
    """c = alpha * a @ b + beta * addend; c is contiguous.  Without an addend it is c itself, which is not read where beta is 0.

    1 where nothing is done: for bfloat16, sums of several products, which are to be rounded once, and processors without the
    instruction.
    """
    cdef Product p
    cdef Halves h
    cdef Products tiled
    cdef TensorBase room_of_tiles
    cdef int64_t rows, batch = 1
    cdef int status, d, added_as = form
    cdef double work
    cdef float room[SMALL + 16]
    cdef float* turned = <float*>(<uintptr_t>(room + 15) & ~<uintptr_t>63)  # vectors must not straddle cache lines
    cdef bint shared = True    # one right operand for all
    cdef bint sums = False     # products are added up
    cdef bint possible         # by tiles
    if c.count == 0:
        return 0
    possible = (c.code == F32 or c.code == F64) and preferred != 2
    if not possible and not usable(a, a_form):
        a = compact(a)
    if not possible and not usable(b, b_form):
        b = compact(b)
    p.code = c.code
    p.tiles, p.other = NULL, NULL
    p.alpha, p.beta = alpha[0], beta[0]
    read_matrix(a, a_form, &p.m, &p.k, &p.a_row, &p.a_col)
    read_matrix(b, b_form, &rows, &p.n, &p.b_row, &p.b_col)
    p.c_row = p.n
    p.a, p.b, p.c = pointer(a), pointer(b), pointer(c)
    p.rank = 0
    if a.rank + b.rank + c.rank > used_dims(a_form) + used_dims(b_form) + used_dims(form):
        stack(&p, a, used_dims(a_form), b, used_dims(b_form), c, used_dims(form))
    if p.rank and not a.contiguous and b.rank == used_dims(b_form) and p.n >= WORTH_A_COPY:
        # many products with one matrix are one long product, once the left ones lie one after another
        return multiply(c, form, compact(a), a_form, b, b_form, alpha, beta, addend)
    for d in range(p.rank):
        batch = max(batch, p.sizes[d])
        sums = sums or p.c_step[d] == 0
    work = <double>p.m * p.n * p.k
    if p.code == BF16 and (sums or p.k == 0 or not ready(p.n)):
        return 1
    tiled.crossed = crosses(&p)
    if tiled.crossed or p.code == BF16 or possible and (work > CALL / 32 or p.rank or preferred or not usable(a, a_form) or not usable(b, b_form)):
        clear(&tiled.one, F32 if p.code == C64 else F64 if p.code == C128 else p.code, (SCALED if alpha.real != 1 or beta.real != 1 and beta.real != 0 else 0) | (ADDED if beta.real != 0 else 0))
        p.tiles = &tiled
        if p.rank == 1 and not sums and p.b_step[0] == 0 and p.c_step[0] == p.m * p.c_row and (
                p.a_step[0] != 0 if p.m == 1 else p.a_step[0] == p.m * p.a_row):
            if p.m == 1:
                p.a_row = p.a_step[0]
            p.m, p.rank, batch = p.m * batch, 0, 1    # products with one matrix are one long product
        if p.n == 1 and p.m > 1 and p.a_col == 1 and p.b_row == 1 and not tiled.crossed:
            turn_over(&p)
            added_as = COLUMN
        if tiles_win(&p, batch):
            arrange(&p, c, added_as, batch, sums, addend)
            tiled.room = <char*>turned
            if tiled.bytes > SMALL * <int64_t>sizeof(float):
                room_of_tiles = new_tensor(1, &tiled.bytes, U8)
                tiled.room = pointer(room_of_tiles)
        else:
            p.tiles = NULL
    if p.tiles == NULL:
        if p.code != BF16 and not (readable(p.m, p.k, p.a_row, p.a_col) and readable(p.k, p.n, p.b_row, p.b_col)):
            return multiply(c, form, compact(a), a_form, b if usable(b, b_form) else compact(b), b_form, alpha, beta, addend)
        if addend is not None:
            start_from(c, addend)
        if p.code == BF16:
            h.batch, h.m, h.n, h.k, h.a_col = batch, p.m, p.n, p.k, p.a_col
            prepare(&h)
            if p.n < WORTH_A_LAYOUT and h.size > MOST_FOR_FEW:
                return 1
            p.slots, p.size = h.slots, h.slots * h.size
            room_of_tiles = new_tensor(1, &p.size, U8)
            p.room, p.size = pointer(room_of_tiles), h.size
        else:
            ensure()
    work = <double>p.m * p.n * p.k
    for d in range(p.rank):
        work *= p.sizes[d]
        shared = shared and p.b_step[d] == 0
    if p.code == F32 and p.tiles == NULL and shared and p.b_row == 1 and p.b_col > 1 and p.n * p.k <= SMALL and p.m > 1:
        # OpenBLAS takes up to twice as long for x @ W.T of small matrices as for x @ W, far longer than it takes to turn W.
        flambeau_transpose(turned, <const float*>p.b, p.n, p.k, p.b_col)
        p.b, p.b_row, p.b_col = <const char*>turned, p.n, 1
    if work > GIL_FROM:
        with nogil:
            status = multiply_all(&p, c.width)
    elif p.rank:
        status = multiply_all(&p, c.width)
    else:
        status = multiply_some(&p, 1, p.a, 0, p.b, 0, p.c, 0, &p.beta)
    if status == INTERRUPTED:
        wrote(c)
        return -1
    if status != OK:
        raise RuntimeError(f"matrix product: a dimension or stride of shapes {list(a.shape)} and {list(b.shape)} does not fit "
                           "into the 32 bits that the BLAS library counts with")
    return 0


cdef int start_from(TensorBase out, TensorBase addend) except -1:
    """Write the addend, broadcast to its shape, to a contiguous tensor."""
    cdef int64_t strides[MAX_DIMS]
    cdef int d, missing = out.rank - addend.rank
    for d in range(out.rank):
        strides[d] = 0 if d < missing or addend.sizes[d - missing] == 1 else addend.strides[d - missing]
    copy_strided(pointer(out), out.strides, pointer(addend), strides, out.rank, out.sizes, out.width)
    return 0


cdef TensorBase multiplied_away(TensorBase a, int a_form, TensorBase b, int b_form, int rank, const int64_t* sizes, int form,
                                const Scale* alpha, TensorBase addend, const Scale* beta, TensorBase into):
    """`multiplied` on a device other than the host: by its own library, else by a kernel of ours."""
    cdef TensorBase out = into
    cdef bint floating = CATEGORY[a.code] >= 2
    cdef PyObject* tensors[4]
    tensors[0], tensors[1] = <PyObject*>a, <PyObject*>b
    tensors[2] = NULL if addend is None else <PyObject*>addend
    tensors[3] = NULL if into is None else <PyObject*>into
    one_device("matmul", tensors, 4)
    if alpha.imag != 0 or (addend is not None and beta.imag != 0):
        raise NotImplementedError("a matrix product on a device: alpha and beta must be real numbers")
    if into is None or not into.contiguous or into.storage is a.storage or into.storage is b.storage or (
            addend is not None and addend is not into and addend.storage is into.storage):
        out = new_tensor_on(a.storage.on, rank, sizes, a.code)
    if out.count:
        if addend is not None and addend is not out:
            away.copy(out, addend)
        if not library_product(out, form, a, a_form, b, b_form, alpha, beta, addend is not None):
            before = alpha.real if floating else alpha.whole
            after = 0 if addend is None else beta.real if floating else beta.whole
            provided["device.multiply"](out, form, a, a_form, b, b_form, before, after)
    if into is not None:
        if out is not into:
            away.copy(into, out)
        wrote(into)
        return into
    return out


cdef bint library_product(TensorBase c, int form, TensorBase a, int a_form, TensorBase b, int b_form, const Scale* alpha,
                          const Scale* beta, bint adds) except -1:
    """Let the device's library compute it; False where it has none, or the stacks are too involved for one call."""
    cdef Product p
    cdef DeviceProduct wanted
    cdef int64_t rows
    cdef uint64_t first
    cdef bint done
    if not usable(a, a_form):
        a = compact(a)
    if not usable(b, b_form):
        b = compact(b)
    read_matrix(a, a_form, &wanted.m, &wanted.k, &wanted.a_row, &wanted.a_column)
    read_matrix(b, b_form, &rows, &wanted.n, &wanted.b_row, &wanted.b_column)
    wanted.code, wanted.c_row, wanted.c_column = c.code, wanted.n, 1
    wanted.a, wanted.b, wanted.c = <uintptr_t>place_of(a), <uintptr_t>place_of(b), <uintptr_t>place_of(c)
    wanted.batch, wanted.a_batch, wanted.b_batch, wanted.c_batch = 1, 0, 0, 0
    wanted.alpha, wanted.beta = alpha.real, beta.real if adds else 0.0
    p.rank = 0
    if a.rank + b.rank + c.rank > used_dims(a_form) + used_dims(b_form) + used_dims(form):
        p.m, p.n, p.k = wanted.m, wanted.n, wanted.k
        p.a_row, p.a_col, p.b_row, p.b_col = wanted.a_row, wanted.a_column, wanted.b_row, wanted.b_column
        stack(&p, a, used_dims(a_form), b, used_dims(b_form), c, used_dims(form))
        wanted.m, wanted.n, wanted.k = p.m, p.n, p.k
        wanted.a_row, wanted.a_column, wanted.b_row, wanted.b_column = p.a_row, p.a_col, p.b_row, p.b_col
    if p.rank > 1 or (p.rank == 1 and p.c_step[0] == 0):
        return False
    if p.rank == 1:
        wanted.batch, wanted.a_batch, wanted.b_batch, wanted.c_batch = p.sizes[0], p.a_step[0], p.b_step[0], p.c_step[0]
    if CATEGORY[c.code] < 2:
        return False
    if not (recording.on and recording.devices):
        return c.storage.on.product(&wanted)
    first = mark(c.storage.on)
    done = c.storage.on.product(&wanted)
    if done:
        note_work(c.storage.on, "gemm", first, mark(c.storage.on))
    else:
        c.storage.on.free_event(first)
    return done


cdef object multiplied_halves(TensorBase a, int a_form, TensorBase b, int b_form, int rank, const int64_t* sizes, int form,
                              const Scale* alpha, TensorBase addend, const Scale* beta):
    """A product of bfloat16 by generated tiles, or None."""
    cdef TensorBase out
    cdef Scale nothing
    if not ready(0):
        return None
    nothing.real, nothing.imag, nothing.whole = 0.0, 0.0, 0
    out = new_tensor(rank, sizes, BF16)
    return None if multiply(out, form, a, a_form, b, b_form, alpha, beta if addend is not None else &nothing, addend) else out


cdef TensorBase written(TensorBase into, TensorBase found):
    """The result in the tensor that the program gave."""
    copy_strided(pointer(into), into.strides, pointer(found), found.strides, found.rank, found.sizes, found.width)
    wrote(into)
    return into


cdef TensorBase multiplied(TensorBase a, int a_form, TensorBase b, int b_form, int rank, const int64_t* sizes, int form,
                           const Scale* alpha, TensorBase addend, const Scale* beta, TensorBase into):
    cdef TensorBase out = into
    cdef Scale nothing
    cdef int code = a.code, wide
    cdef bint adds = addend is not None and ((beta.real if CATEGORY[code] >= 2 else <double>beta.whole) != 0 or beta.imag != 0)
    if a.storage.on is not None:
        return multiplied_away(a, a_form, b, b_form, rank, sizes, form, alpha, addend if adds else None, beta, into)
    if code == BF16:
        found = multiplied_halves(a, a_form, b, b_form, rank, sizes, form, alpha, addend if adds else None, beta)
        if found is not None:
            return written(into, <TensorBase>found) if into is not None else <TensorBase>found
    if code == F16 or code == BF16 or is_stored(code):
        wide = wider(code)
        a, b = copied(a, wide, False), copied(b, wide, False)
        if adds:
            addend = copied(addend, wide, False)
        out = copied(multiplied(a, a_form, b, b_form, rank, sizes, form, alpha, addend, beta, None), code, True)
    else:
        nothing.real, nothing.imag, nothing.whole = 0.0, 0.0, 0
        if into is None or not into.contiguous or into.storage is a.storage or into.storage is b.storage or (
                addend is not None and addend is not into and addend.storage is into.storage):
            out = new_tensor(rank, sizes, code)
        multiply(out, form, a, a_form, b, b_form, alpha, beta if adds else &nothing, addend if adds and addend is not out else None)
    if into is not None:
        if out is not into:
            return written(into, out)
        wrote(into)
        return into
    return out


# --- the tape ------------------------------
cdef inline TensorBase conjugate(TensorBase t):
    return t if CATEGORY[t.code] != 3 else <TensorBase?>(<object>t).conj()


@cython.no_gc
@cython.binding(False)
cdef class ProductNode(Node):
    """A recorded `alpha * a @ b + beta * addend`; its edges are [addend,] a, b."""

    cdef str label
    cdef Slot a, b                    # each kept only where the other's gradient is wanted
    cdef int a_form, b_form, form
    cdef int addend_rank, a_rank, b_rank
    cdef Scale alpha, beta
    cdef int64_t few[INLINE_SIZES]
    cdef int64_t* sizes               # of the addend, then a's, then b's

    def name(self) -> str:
        return self.label

    cdef list run(self, list grads):
        cdef TensorBase g = <TensorBase>grads[0], a, b
        cdef int left = self.edges - 2
        cdef list found = [None] * self.edges
        cdef int64_t* a_sizes = self.sizes + self.addend_rank
        cdef int64_t* b_sizes = a_sizes + self.a_rank
        cdef Scale alpha = self.alpha
        alpha.imag = -alpha.imag  # of complex operands, gradients take the conjugates
        if g is None:
            return found
        if left and self.targets[0] != NULL:
            found[0] = self.addend_gradient(g)
        if not late.watched and not usable(g, self.form):   # once for both; who watches sees g itself
            g = compact(g)
        if self.targets[left] != NULL:
            b = conjugate(kept(&self.b, self))
            if self.a_form == TRANSPOSED:
                found[left] = contract(b, self.b_form, g, flipped(self.form), self.a_rank, a_sizes, MATRIX, &alpha)
            else:
                found[left] = contract(g, self.form, b, flipped(self.b_form), self.a_rank, a_sizes, self.a_form, &alpha)
        if self.targets[left + 1] != NULL:
            a = conjugate(kept(&self.a, self))
            if self.b_form == TRANSPOSED:
                found[left + 1] = contract(g, flipped(self.form), a, self.a_form, self.b_rank, b_sizes, MATRIX, &alpha)
            else:
                found[left + 1] = contract(a, flipped(self.a_form), g, self.form, self.b_rank, b_sizes, self.b_form, &alpha)
        return found

    cdef object addend_gradient(self, TensorBase g):
        cdef object found = g
        if not fits(g, self.addend_rank, self.sizes):
            if self.addend_rank == 1 and g.sizes[g.rank - 1] == self.sizes[0] and F32 <= g.code <= F64 and (
                    not grad_enabled() and g.storage.on is None):
                found = shown_column_sums(g) if late.attended else column_sums(compact(g))
            else:
                found = sum_to(g, size_from(self.addend_rank, self.sizes))
        if self.beta.imag != 0:
            found = late.binary(operator_for(OP_MUL), found, complex(self.beta.real, -self.beta.imag))
        elif self.beta.real != 1:
            found = late.binary(operator_for(OP_MUL), found, self.beta.real)
        return found

    cdef void drop(self):
        clear_slot(&self.a)
        clear_slot(&self.b)

    def __dealloc__(self):
        clear_slot(&self.a)
        clear_slot(&self.b)
        if self.sizes != self.few:
            free(self.sizes)


cdef Node node_for(str label, TensorBase a, int a_form, TensorBase b, int b_form, int form, const Scale* alpha,
                          TensorBase addend, const Scale* beta):
    cdef ProductNode node
    cdef int left = 0 if addend is None else 1
    cdef int total
    if not grad_enabled() or CATEGORY[a.code] < 2:
        return None
    if not wants_grad(a) and not wants_grad(b) and (addend is None or not wants_grad(addend)):
        return None
    node = ProductNode.__new__(ProductNode)
    node.label, node.a_form, node.b_form, node.form = label, a_form, b_form, form
    node.alpha, node.a_rank, node.b_rank = alpha[0], a.rank, b.rank
    if addend is not None:
        node.beta, node.addend_rank = beta[0], addend.rank
    total = node.addend_rank + a.rank + b.rank
    node.sizes = node.few
    if total > INLINE_SIZES:
        node.sizes = <int64_t*>malloc(total * sizeof(int64_t))
        if node.sizes == NULL:
            raise MemoryError
    node.set_edges(left + 2)
    if addend is not None:
        memcpy(node.sizes, addend.sizes, addend.rank * sizeof(int64_t))
        node.connect(0, addend)
    memcpy(node.sizes + node.addend_rank, a.sizes, a.rank * sizeof(int64_t))
    memcpy(node.sizes + node.addend_rank + a.rank, b.sizes, b.rank * sizeof(int64_t))
    node.connect(left, a)
    node.connect(left + 1, b)
    if node.targets[left] != NULL:
        keep(&node.b, b, -1)
    if node.targets[left + 1] != NULL:
        keep(&node.a, a, -1)
    return node


def product_as(TensorBase a, int a_form, TensorBase b, int b_form, tuple sizes, int form, tuple alpha) -> TensorBase:
    """alpha · a @ b, their last dimensions read as matrices by their forms; the gradient of a product."""
    cdef int64_t room[MAX_DIMS]
    cdef Scale scale
    cdef int d
    for d in range(len(sizes)):
        room[d] = sizes[d]
    scale.real, scale.imag, scale.whole = alpha
    return contracted(a if usable(a, a_form) else compact(a), a_form, b if usable(b, b_form) else compact(b), b_form, <int>len(sizes),
                      room, form, &scale)


def columns_summed(TensorBase input) -> TensorBase:
    """The sum over all dimensions but the last."""
    return column_sums(compact(input))


shown_product = FunctionOp(product_as, owns=False)
shown_column_sums = FunctionOp(columns_summed, owns=False)


cdef TensorBase contract(TensorBase a, int a_form, TensorBase b, int b_form, int rank, const int64_t* sizes, int form,
                         const Scale* alpha):
    if late.attended:
        return shown_product(a, a_form, b, b_form, tuple(size_from(rank, sizes)), form, (alpha.real, alpha.imag, alpha.whole))
    return contracted(a, a_form, b, b_form, rank, sizes, form, alpha)


cdef TensorBase contracted(TensorBase a, int a_form, TensorBase b, int b_form, int rank, const int64_t* sizes, int form,
                           const Scale* alpha):
    cdef Node node = node_for("BmmBackward0", a, a_form, b, b_form, form, alpha, None, NULL)
    return computed(node, a, a_form, b, b_form, rank, sizes, form, alpha, None, NULL, None)


cdef TensorBase computed(Node node, TensorBase a, int a_form, TensorBase b, int b_form, int rank, const int64_t* sizes, int form,
                         const Scale* alpha, TensorBase addend, const Scale* beta, TensorBase into):
    cdef TensorBase out
    cdef bint before = grad_enabled()
    if node is None:
        return multiplied(a, a_form, b, b_form, rank, sizes, form, alpha, addend, beta, into)
    set_grad(False)  # copies and conversions on the way stay off the tape
    try:
        out = multiplied(a, a_form, b, b_form, rank, sizes, form, alpha, addend, beta, into)
    finally:
        set_grad(before)
    if into is None:
        attach(out, node, 0)
    else:
        rebase(out, node, 0)
    return out


# --- sums of columns ------------------------------
cdef struct Columns:
    const char* source
    char* sums
    int64_t rows, columns
    int code


ctypedef fused Real:
    float
    double


cdef void sum_columns(const Real* source, Real* sums, int64_t rows, int64_t columns, int64_t first) noexcept nogil:
    """WIDTH columns from `first`, in blocks of HEIGHT rows whatever the threads, so always the same bits; four rows at a time,
    in pairs, so that the sums are read and written a quarter as often.
    """
    cdef double totals[WIDTH]
    cdef Real part[WIDTH]
    cdef const Real* row
    cdef int64_t i, j, end, top = 0, width = min(WIDTH, columns - first)
    for j in range(width):
        totals[j] = 0
    while top < rows:
        for j in range(width):
            part[j] = 0
        end, i = min(top + HEIGHT, rows), top
        while i + 4 <= end:
            row = source + i * columns + first
            for j in range(width):
                part[j] += (row[j] + row[columns + j]) + (row[2 * columns + j] + row[3 * columns + j])
            i += 4
        for i in range(i, end):
            for j in range(width):
                part[j] += source[i * columns + first + j]
        for j in range(width):
            totals[j] += part[j]
        top += HEIGHT
    for j in range(width):
        sums[first + j] = <Real>totals[j]


cdef void sum_column_blocks(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Columns* c = <Columns*>context
    cdef int64_t block
    for block in range(begin, end):
        if c.code == F32:
            sum_columns(<const float*>c.source, <float*>c.sums, c.rows, c.columns, block * WIDTH)
        else:
            sum_columns(<const double*>c.source, <double*>c.sums, c.rows, c.columns, block * WIDTH)


cdef TensorBase column_sums(TensorBase t):
    """Sum over all dimensions but the last of a contiguous tensor of float32 or float64."""
    cdef Columns c
    cdef TensorBase out = new_tensor(1, &t.sizes[t.rank - 1], t.code)
    cdef int64_t blocks
    if out.count == 0:
        return out
    c.source, c.sums, c.code = pointer(t), pointer(out), t.code
    c.columns, c.rows = out.count, t.count // out.count
    blocks = (c.columns + WIDTH - 1) // WIDTH
    if t.count < GIL_FROM:
        sum_column_blocks(&c, 0, blocks)
    else:
        with nogil:
            parallel_for(sum_column_blocks, &c, blocks, 1)
    return out
