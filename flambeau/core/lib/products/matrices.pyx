# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""How products of stacks of matrices are computed, and computing them: two functions.

The first sees shapes, strides and dtypes, and compiles what is missing; the second sees addresses.  Products are computed by generated
tiles (panels.pyx, halves.pyx), which read operands with any strides, or by BLAS, for which an operand is copied where it has unit stride
along neither axis: `tiles_win` says which.
"""
from libc.stdint cimport int64_t, uintptr_t
from .blas cimport (
    OK, ensure, batched_gemm_c64, batched_gemm_c128, batched_gemm_f32, batched_gemm_f64, gemm_f32, gemm_f64,
)
from .halves cimport Halves, by_unit, multiply_halves, prepare, ready
from .integer_products cimport Integers, multiply_integers
from .panels cimport DOTTED, FEW_ROWS, Panels, Products, Tiles, clear, multiply_products, prepare as prepare_panels, tiles_of
from .widened cimport Ways, Widened, multiply_t, prepare_t
from ...base.dtypes cimport BF16, C64, C128, F16, F32, F64, ITEMSIZE
from ...base.callbacks import callbacks

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

cdef int64_t WORTH_A_COPY = 16  # columns of a result from which copying a left operand costs little beside the product
cdef int64_t WORTH_A_LAYOUT = 8     # columns from which a right operand laid out by 16 takes at most twice its room
cdef int64_t MOST_FOR_FEW = 1 << 20   # bytes that it may take with fewer
cdef Scale ONE
ONE.real, ONE.imag, ONE.whole = 1.0, 0.0, 1


# --- stacks of matrices ------------------------------
cdef void read_matrix(const Layout* t, int64_t* rows, int64_t* cols, int64_t* row, int64_t* col) noexcept nogil:
    cdef int last = t.rank - 1
    rows[0] = cols[0] = row[0] = col[0] = 1
    if t.form == MATRIX:
        rows[0], row[0] = t.sizes[last - 1], t.strides[last - 1]
        cols[0], col[0] = t.sizes[last], t.strides[last]
    elif t.form == TRANSPOSED:
        rows[0], row[0] = t.sizes[last], t.strides[last]
        cols[0], col[0] = t.sizes[last - 1], t.strides[last - 1]
    elif t.form == ROW:
        cols[0], col[0] = t.sizes[last], t.strides[last]
    elif t.form == COLUMN:
        rows[0], row[0] = t.sizes[last], t.strides[last]


cdef inline bint readable(int64_t rows, int64_t cols, int64_t row, int64_t col) noexcept nogil:
    """Whether BLAS can read a matrix with these strides (blas.pxd has the conditions)."""
    return ((col == 1 or cols <= 1) and (rows <= 1 or row >= max(cols, 1))) or (
        (row == 1 or rows <= 1) and (cols <= 1 or col >= max(rows, 1)))


cdef bint usable(const Layout* t) noexcept nogil:
    cdef int64_t rows, cols, row, col
    if t.contiguous:
        return True
    read_matrix(t, &rows, &cols, &row, &col)
    return readable(rows, cols, row, col)


cdef inline int64_t size_of(const Layout* t, int from_right) noexcept nogil:
    """Size of a dimension of the stack, 1 where there is none."""
    cdef int d = t.rank - used_dims(t.form) - 1 - from_right
    return t.sizes[d] if d >= 0 else 1


cdef inline int64_t step_of(const Layout* t, int from_right) noexcept nogil:
    cdef int d = t.rank - used_dims(t.form) - 1 - from_right
    return t.strides[d] if d >= 0 and t.sizes[d] != 1 else 0


cdef void stack(Product* p, const Layout* a, const Layout* b, const Layout* c) noexcept nogil:
    cdef int rank = max(a.rank - used_dims(a.form), max(b.rank - used_dims(b.form), c.rank - used_dims(c.form))), d, k, last
    cdef int64_t size, c_size, a_step, b_step, c_step, longer
    cdef int64_t c_steps[MAX_DIMS]
    size = p.m * p.n
    for d in range(c.rank - used_dims(c.form)):  # C is contiguous; a dimension of size 1 may still say any stride
        c_steps[d] = size
        size *= size_of(c, d)
    p.rank = 0
    for d in range(rank - 1, -1, -1):
        size = size_of(a, d)
        if size == 1:
            size = size_of(b, d)
        c_size = size_of(c, d)
        if size == 1:
            size = c_size
        if size == 1:
            continue
        if size == 0:  # a sum of no products: C is not empty
            p.k = 0
            continue
        a_step, b_step, c_step = step_of(a, d), step_of(b, d), c_steps[d] if c_size != 1 else 0
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


# --- what tiles do to their sums ------------------------------
cdef enum:
    SCALED = 1
    BIASED = 2
    ADDED = 4

cdef Tiles* linear[4][8]      # alpha * sum + bias + beta * other for float32, float64, bfloat16, float16, without what is not there


cdef Tiles* linear_tiles(int code, int which) except NULL:
    cdef Tiles** result = &linear[0 if code == F32 or code == C64 else 2 if code == BF16 else 3 if code == F16 else 1][which]
    cdef int64_t size = 4 if code == F32 or code == C64 else 2 if code == BF16 or code == F16 else 8
    if result[0] == NULL:
        epilogue = callbacks["panels.linear"](size, bool(which & SCALED), bool(which & BIASED), bool(which & ADDED))
        result[0] = tiles_of(F32 if size == 4 else code if size == 2 else F64, epilogue)
    return result[0]


# --- plans ------------------------------
cdef enum: CALL = 1 << 18     # multiplications up to which what a call costs beside them decides
cdef double LARGE = 1 << 20    # bytes of a right operand from which BLAS, whose walk keeps more in the caches, has it where vectors are narrow
cdef double MOST_LAID = 1e17  # elements of operands, whose bytes are to fit 64 bits when they are laid out

cdef int preferred = 0        # 1: tiles, 2: BLAS; for tests and measurements


def prefer(which: str) -> None:
    """Have products of float32 and float64 computed by 'tiles' or by 'blas', whatever their sizes; '' chooses by them."""
    global preferred
    preferred = ("", "tiles", "blas").index(which)


cdef bint narrow_tiles_win(const Product* p, double each) noexcept nogil:
    """The same with vectors of 32 bytes.  Microseconds, one thread of a Sapphire Rapids held to AVX2, float32, tiles / OpenBLAS / MKL:

    | m x k x n      | a @ b              | a @ b.T            | a.T @ b            |
    |----------------|--------------------|--------------------|--------------------|
    | 32 x 32 x 32   | 1.2 / 1.2 / 1.8    | 1.9 / 1.4 / 2.3    | 1.2 / 1.3 / 2.1    |
    | 64, each       | 5.4 / 6.2 / 6.4    | 5.9 / 6.8 / 7.2    | 5.8 / 5.9 / 6.5    |
    | 128            | 39 / 46 / 42       | 38 / 48 / 41       | 41 / 46 / 42       |
    | 256            | 326 / 367 / 340    | 310 / 366 / 332    | 342 / 363 / 349    |
    | 8 x 256 x 256  | 13 / 21 / 13       | 13 / 28 / 22       | 13 / 21 / 15       |
    | 32 x 784 x 256 | 134 / 169 / 146    | 174 / 187 / 164    | 153 / 166 / 154    |
    | 64 x 4096 x 64 | 391 / 420 / 406    | 430 / 427 / 423    | 591 / 422 / 455    |
    | 128 x 768 x 3072 | 8700 / 7800 / 14300 | 9400 / 8300 / 12400 | 9800 / 8000 / 12400 |

    So BLAS has what is small, a right operand of a megabyte, and a long left one whose rows lie side by side.
    """
    if p.tiled.crossed or p.tiled.one.family.lanes * p.tiled.one.size < 32:
        return False
    if dotted(p):
        return each > CALL / 8
    if p.a_row == 1 and p.a_col > 1 and p.k > 256:
        return False
    return p.m > 2 and p.n > 4 and each >= CALL / 4 and <double>p.k * p.n * p.tiled.one.size < LARGE


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

    So BLAS has what is small, for its calls cost less, and one row by a matrix whose columns lie side by side.
    """
    cdef double each = <double>p.m * p.n * p.k
    if p.code == BF16 or p.code == F16:        # else by tiles of their own (halves.pyx), or in float32
        # A matrix unit is ahead from as many rows on as take two tiles of dot products: 8 x 768 x 3072 in 0.58 of their time, 32 in 0.26.
        return dotted(p) and (p.m <= FEW_ROWS or p.code == F16 or p.k % 2 or not by_unit())
    if p.tiled.crossed and (p.m == 1 or p.n == 1):
        return False
    if <double>(p.m + p.n + 64) * (p.k + 64) > MOST_LAID:
        return False
    if preferred:
        return preferred == 1
    if p.tiled.one.family.lanes * p.tiled.one.size < 64:
        return narrow_tiles_win(p, each)
    if p.tiled.crossed:
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


cdef prepare_t prepare_widened = NULL
cdef multiply_t multiply_widened = NULL


cdef const Ways* ways_of(int code, int64_t m, int64_t n, int64_t k) except NULL:
    global prepare_widened, multiply_widened
    if prepare_widened == NULL:
        addresses = callbacks["products.widened"]()
        multiply_widened = <multiply_t><uintptr_t>addresses[1]
        prepare_widened = <prepare_t><uintptr_t>addresses[0]
    return prepare_widened(code, m, n, k)


cdef int64_t WORTH_COPIES = 128    # rows from which copies in float32 cost less than BLAS saves

cdef inline bint blas_wins(const Product* p) noexcept nogil:
    """Whether a product of halves is computed by BLAS, of copies in float32: where it has the product of float32 and there are many rows.
    One thread of a Sapphire Rapids held to AVX2, float16, time by BLAS of copies / by tiles that convert:

    | m x k x n | 64 x 1024 x 1024 | 128 x 768 x 3072 | 512 x 768 x 3072 | 1024, each | 4096 x 64 x 64 |
    |-----------|------------------|------------------|------------------|------------|----------------|
    |           | 1.13             | 0.95             | 0.81             | 0.77       | 1.12           |
    """
    if p.tiled.one.family.lanes * 4 >= 64 or p.m < WORTH_COPIES:
        return False
    return 4.0 * p.k * p.n >= LARGE or p.a_row == 1 and p.a_col > 1 and p.k > 256


cdef inline bint ordered(const Product* p) noexcept nogil:
    """Whether both operands have elements side by side along one of their dimensions."""
    return (p.a_col == 1 or p.a_row == 1 or p.k == 1 or p.m == 1) and (p.b_col == 1 or p.b_row == 1 or p.n == 1 or p.k == 1)


cdef void turn_over(Product* p) noexcept nogil:
    """A matrix by a column as a row by its transpose, which has the same result."""
    cdef int d
    p.m, p.n = p.n, p.m
    p.a_row, p.a_col, p.b_row, p.b_col = p.b_col, p.b_row, p.a_col, p.a_row
    p.c_row = p.n
    p.turned = True
    for d in range(p.rank):
        p.a_step[d], p.b_step[d] = p.b_step[d], p.a_step[d]


cdef inline int add_read(Product* p, int read, int64_t row) noexcept nogil:
    p.reads[p.operands], p.operand_rows[p.operands] = read, row
    p.operands += 1
    return 0


cdef int arrange(Product* p, const Layout* c, int64_t batch, bint sums, const Layout* addend, const Ending* ending) except -1:
    """Hand a product over to the tiles: sizes, strides, what is made of the sums."""
    cdef Products* t = &p.tiled
    cdef Panels* one = &t.one
    cdef int64_t parts = 2 if t.crossed else 1, size = one.size * parts
    cdef int d, form = COLUMN if p.turned else c.form
    cdef int ends = SCALED if p.alpha.real != 1 or p.beta.real != 1 and p.beta.real != 0 else 0
    cdef bint row = addend != NULL and addend.rank > 0 and p.beta.real == 1 and not sums and (form == MATRIX or form == ROW)
    one.m, one.n, one.k = p.m, p.n * parts, p.k * parts
    one.a_row, one.a_col = p.a_row * size, one.size if t.crossed else p.a_col * size
    t.b_row, t.b_col = p.b_row * size, p.b_col * size
    one.c_row = p.c_row * size
    t.batch = batch
    p.by_tiles, p.operands, p.given, p.own, p.starts = True, 0, ending != NULL, False, False
    if ending != NULL:
        for d in range(ending.operands):
            add_read(p, ending.reads[d], one.size if ending.reads[d] == BY_ROWS else ending.rows[d])
        for d in range(MOST_OPERANDS):
            one.numbers[d] = ending.numbers[d]
        p.first = p.more = one.tiles = ending.tiles
        t.laid = ending.laid
        return prepare_panels(t)
    one.numbers[0] = p.alpha.real
    if row:
        row = addend.strides[addend.rank - 1] == 1 and addend.sizes[addend.rank - 1] == p.n
        for d in range(addend.rank - 1):
            row = row and addend.sizes[d] == 1
    if row:                   # one for each column
        add_read(p, BY_COLUMNS, 0)
        ends |= BIASED
        p.beta.real = 0
    elif p.beta.real != 0:
        ends |= ADDED
        if addend != NULL and form == MATRIX and c.rank == 2 and p.rank == 0 and addend.rank == 2 and (
                addend.sizes[0] == p.m and addend.sizes[1] == p.n and addend.strides[1] == 1):
            add_read(p, BY_BOTH, addend.strides[0] * size)
        else:
            add_read(p, BY_BOTH, one.c_row)
            p.own, p.starts = True, addend != NULL
    p.first = p.more = one.tiles = linear_tiles(p.code, ends)
    prepare_panels(t)
    if sums:                  # the first product is written, the others are added
        p.more = one.tiles = linear_tiles(p.code, ends & SCALED | ADDED)
        prepare_panels(t)
    return 0


cdef inline bint repeats(const Layout* t) noexcept nogil:
    """Whether elements are met more than once, so that a copy would be larger than what there is."""
    cdef int d
    for d in range(t.rank):
        if t.strides[d] == 0 and t.sizes[d] > 1:
            return True
    return False


cdef inline bint outgrows(const Product* p, const Layout* a, const Layout* b) noexcept nogil:
    """Whether a result, which each of the products that are added up reads and writes, takes more than the operands that would be copied."""
    cdef double copied = 0
    if not a.contiguous:
        copied += <double>p.m * p.k
    if not b.contiguous:
        copied += <double>p.k * p.n
    return <double>p.m * p.n > copied


cdef int plan_product(Product* p, int code, const Layout* a, const Layout* b, const Layout* c, const Scale* alpha, const Scale* beta,
                      const Layout* addend, const Ending* ending) except -1:
    cdef Halves h
    cdef int64_t rows, batch = 1
    cdef int d
    cdef bint shared = True    # one right operand for all
    cdef bint sums = False     # products are added up
    cdef bint possible = (code == F32 or code == F64) and preferred != 2       # by tiles
    cdef bint half = code == BF16 or code == F16
    cdef bint dots = half and ending == NULL and not (code == BF16 and ready(0))     # or not at all
    if dots and not (usable(a) and usable(b)):
        return ELSEWHERE
    if not (possible or ending != NULL) and not (usable(a) and usable(b)):
        return (0 if usable(a) else COPY_LEFT) | (0 if usable(b) else COPY_RIGHT)
    p.code, p.alpha, p.beta = code, alpha[0], beta[0]
    p.by_tiles = p.turned = p.given = p.own = p.starts = p.transposes = False
    p.ways = NULL
    p.operands, p.workspace = 0, 0
    read_matrix(a, &p.m, &p.k, &p.a_row, &p.a_col)
    read_matrix(b, &rows, &p.n, &p.b_row, &p.b_col)
    p.c_row = p.n
    p.rank = 0
    if a.rank + b.rank + c.rank > used_dims(a.form) + used_dims(b.form) + used_dims(c.form):
        stack(p, a, b, c)
    if p.rank and not dots and not a.contiguous and b.rank == used_dims(b.form) and p.n >= WORTH_A_COPY:
        # many products with one matrix are one long product, once the left ones lie one after another
        return COPY_LEFT
    for d in range(p.rank):
        batch = max(batch, p.sizes[d])
        sums = sums or p.c_step[d] == 0
        shared = shared and p.b_step[d] == 0
    p.work = <double>p.m * p.n * p.k
    if not dots and ending == NULL and sums and p.k and (ready(p.n) if half else outgrows(p, a, b)):
        # products that are added up are one of more depth, once their operands lie one after another
        if not a.contiguous and not repeats(a):
            return COPY_LEFT
        if not b.contiguous and not repeats(b):
            return COPY_RIGHT
    if half and ending == NULL and (sums or p.k == 0 or not dots and not ready(p.n)):
        return ELSEWHERE
    if ending != NULL and (sums or ending.laid and not shared):
        raise NotImplementedError("a product with an epilogue: one right operand that is laid out, and no sum of products")
    p.tiled.crossed = ending == NULL and crosses(p)
    if ending != NULL or p.tiled.crossed or half or possible and (
            p.work > CALL / 32 or p.rank or preferred or not usable(a) or not usable(b)):
        clear(&p.tiled.one, F32 if code == C64 else F64 if code == C128 else code, NULL)
        if p.rank == 1 and not sums and p.b_step[0] == 0 and p.c_step[0] == p.m * p.c_row and (
                p.a_step[0] != 0 if p.m == 1 else p.a_step[0] == p.m * p.a_row):
            if p.m == 1:
                p.a_row = p.a_step[0]
            p.m, p.rank, batch = p.m * batch, 0, 1    # products with one matrix are one long product
        if ending == NULL and p.n == 1 and p.m > 1 and p.a_col == 1 and p.b_row == 1 and not p.tiled.crossed:
            turn_over(p)
        p.tiled.laid = False
        if ending != NULL and (code == BF16 and not dotted(p) or <double>(p.m + p.n + 64) * (p.k + 64) > MOST_LAID):
            raise NotImplementedError("a product with an epilogue: of bfloat16 only few rows by a transposed matrix; of no more elements "
                                      f"than bytes can be counted; got {p.m} by {p.k} by {p.n}")
        if ending != NULL or tiles_win(p, batch):
            arrange(p, c, batch, sums, addend, ending)
            p.workspace = p.tiled.bytes
    if not p.by_tiles:
        if dots:
            if not ordered(p) or blas_wins(p):
                return ELSEWHERE
            p.ways = ways_of(code, p.m, p.n, p.k)
        if not half and not (readable(p.m, p.k, p.a_row, p.a_col) and readable(p.k, p.n, p.b_row, p.b_col)):
            return (0 if a.contiguous else COPY_LEFT) | (0 if usable(b) else COPY_RIGHT)
        p.starts = addend != NULL
        if code == BF16 and not dots:
            h.batch, h.m, h.n, h.k, h.a_col = batch, p.m, p.n, p.k, p.a_col
            prepare(&h)
            if p.n < WORTH_A_LAYOUT and h.size > MOST_FOR_FEW:
                return ELSEWHERE
            p.slots, p.size, p.workspace = h.slots, h.size, h.slots * h.size
        elif not half:
            ensure()
    p.work = <double>p.m * p.n * p.k
    for d in range(p.rank):
        p.work *= p.sizes[d]
    if code == F32 and not p.by_tiles and shared and p.b_row == 1 and p.b_col > 1 and p.n * p.k <= SMALL and p.m > 1:
        # OpenBLAS takes up to twice as long for x @ W.T of small matrices as for x @ W, far longer than it takes to turn W.
        p.transposes, p.workspace = True, SMALL * 4
    return 0


# --- launches ------------------------------
cdef inline double complex complex_of(const Scale* s) noexcept nogil:
    return s.real + s.imag * 1j


cdef int multiply_halves_of(const Product* p, int64_t batch, const char* a, int64_t a_step, const char* b, int64_t b_step,
                            char* c, int64_t c_step, const Scale* beta, char* workspace) noexcept nogil:
    cdef Halves h
    h.batch, h.m, h.n, h.k = batch, p.m, p.n, p.k
    h.a, h.a_row, h.a_col, h.a_step = a, p.a_row, p.a_col, a_step
    h.b, h.b_row, h.b_col, h.b_step = b, p.b_row, p.b_col, b_step
    h.c, h.c_row, h.c_step = c, p.c_row, c_step
    h.alpha, h.beta = <float>p.alpha.real, <float>beta.real
    h.workspace, h.slots, h.size = workspace, p.slots, p.size
    return multiply_halves(&h)


cdef int multiply_widened_of(const Product* p, int64_t batch, const char* a, int64_t a_step, const char* b, int64_t b_step,
                             char* c, int64_t c_step, const Scale* beta) noexcept nogil:
    cdef Widened w
    w.batch, w.m, w.n, w.k = batch, p.m, p.n, p.k
    w.a, w.a_row, w.a_col, w.a_step = a, p.a_row, p.a_col, a_step
    w.b, w.b_row, w.b_col, w.b_step = b, p.b_row, p.b_col, b_step
    w.c, w.c_row, w.c_step = c, p.c_row, c_step
    w.alpha, w.beta, w.ways = <float>p.alpha.real, <float>beta.real, p.ways
    return multiply_widened(&w)


cdef int multiply_by_tiles(const Product* p, Products* all, const Places* at, int64_t batch, const char* a, int64_t a_step,
                           const char* b, int64_t b_step, int64_t place, int64_t c_step, bint first) noexcept nogil:
    """`place`: elements of c before the first of these; `first`: of products that are summed."""
    cdef Panels* one = &all.one
    cdef int64_t size = one.size * 2 if all.crossed else one.size, each
    cdef int k
    all.batch, all.a_batch, all.b_batch, all.c_batch = batch, a_step * size, b_step * size, c_step * size
    one.a, all.b, one.c = a, b, at.c + place * size
    one.tiles, one.operands = p.first, p.operands
    for k in range(p.operands):
        each = size if p.reads[k] == BY_BOTH else 0
        one.operand[k].row, one.operand[k].column = p.operand_rows[k], 0 if p.reads[k] == BY_ROWS else one.size
        one.operand[k].data = at.operands[k] + place * each
        all.operand_batch[k] = c_step * each
        if p.reads[k] == BY_ROWS:
            one.operand[k].data += place // p.n * size
            all.operand_batch[k] = c_step // p.n * size
    if not first:
        one.tiles, one.operands = p.more, 1
    if not first or p.own:
        one.operand[0].data, one.operand[0].row, one.operand[0].column = one.c, one.c_row, one.size
        all.operand_batch[0] = all.c_batch
    if not p.given:
        one.numbers[1] = p.beta.real if first else 1.0
    return multiply_products(all)


cdef int multiply_some(const Product* p, Products* tiled, const Places* at, int64_t batch, const char* a, int64_t a_step, const char* b,
                       int64_t b_step, int64_t b_row, int64_t b_col, int64_t place, int64_t c_step, bint first) noexcept nogil:
    """`batch` products; the status is BLAS's."""
    cdef const Scale* beta = &p.beta if first else &ONE
    cdef int width = ITEMSIZE[p.code]
    cdef char* c = at.c + place * width
    cdef Integers whole
    cdef int64_t k
    cdef int status
    if p.by_tiles:
        return multiply_by_tiles(p, tiled, at, batch, a, a_step, b, b_step, place, c_step, first)
    if p.ways != NULL:
        return multiply_widened_of(p, batch, a, a_step, b, b_step, c, c_step, beta)
    if p.code == BF16:
        return multiply_halves_of(p, batch, a, a_step, b, b_step, c, c_step, beta, at.workspace)
    if p.code == F32:
        if batch == 1:
            return gemm_f32(p.m, p.n, p.k, <float>p.alpha.real, <const float*>a, p.a_row, p.a_col,
                            <const float*>b, b_row, b_col, <float>beta.real, <float*>c, p.c_row)
        return batched_gemm_f32(
            batch, p.m, p.n, p.k, <float>p.alpha.real, <const float*>a, a_step, p.a_row, p.a_col,
            <const float*>b, b_step, b_row, b_col, <float>beta.real, <float*>c, c_step, p.c_row)
    if p.code == F64:
        if batch == 1:
            return gemm_f64(p.m, p.n, p.k, p.alpha.real, <const double*>a, p.a_row, p.a_col,
                            <const double*>b, b_row, b_col, beta.real, <double*>c, p.c_row)
        return batched_gemm_f64(
            batch, p.m, p.n, p.k, p.alpha.real, <const double*>a, a_step, p.a_row, p.a_col,
            <const double*>b, b_step, b_row, b_col, beta.real, <double*>c, c_step, p.c_row)
    if p.code == C64:
        return batched_gemm_c64(
            batch, p.m, p.n, p.k, <float complex>complex_of(&p.alpha), <const float complex*>a, a_step, p.a_row, p.a_col,
            <const float complex*>b, b_step, b_row, b_col, <float complex>complex_of(beta), <float complex*>c, c_step, p.c_row)
    if p.code == C128:
        return batched_gemm_c128(
            batch, p.m, p.n, p.k, complex_of(&p.alpha), <const double complex*>a, a_step, p.a_row, p.a_col,
            <const double complex*>b, b_step, b_row, b_col, complex_of(beta), <double complex*>c, c_step, p.c_row)
    whole.code, whole.m, whole.n, whole.k, whole.c_row = p.code, p.m, p.n, p.k, p.c_row
    whole.a_row, whole.a_col, whole.b_row, whole.b_col = p.a_row, p.a_col, b_row, b_col
    whole.alpha, whole.beta = p.alpha.whole, beta.whole
    for k in range(batch):
        status = multiply_integers(c + k * c_step * width, a + k * a_step * width, b + k * b_step * width, &whole)
        if status != OK:
            return status
    return OK


cdef int multiply_all(const Product* p, Products* tiled, const Places* at, const char* b, int64_t b_row, int64_t b_col) noexcept nogil:
    """All products of the stack: the innermost dimension that is not summed over is one call, the others are walked."""
    cdef int inner = p.rank - 1, d, status, width = ITEMSIZE[p.code]
    cdef int64_t place[MAX_DIMS]
    cdef int64_t batch = 1, a_step = 0, b_step = 0, c_step = 0, a_at = 0, b_at = 0, c_at = 0
    cdef const char* a = at.b if p.turned else at.a
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
        status = multiply_some(p, tiled, at, batch, a + a_at * width, a_step, b + b_at * width, b_step, b_row, b_col, c_at, c_step, first)
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


cdef int launch_product(const Product* p, Products* tiled, const Places* at) noexcept nogil:
    cdef const char* b = at.a if p.turned else at.b
    cdef int64_t b_row = p.b_row, b_col = p.b_col
    if p.by_tiles:
        tiled.workspace = at.workspace
    if p.transposes:
        flambeau_transpose(<float*>at.workspace, <const float*>b, p.n, p.k, p.b_col)
        b, b_row, b_col = at.workspace, p.n, 1
    if p.rank:
        return multiply_all(p, tiled, at, b, b_row, b_col)
    return multiply_some(p, tiled, at, 1, at.b if p.turned else at.a, 0, b, 0, b_row, b_col, 0, 0, True)
