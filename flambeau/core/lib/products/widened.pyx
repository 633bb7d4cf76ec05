# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Products of halves that no instruction multiplies, by the tiles of float32: a task converts what it multiplies.

A task is a block of the result.  For `DEPTH` terms at a time it converts its rows of the left operand and its columns of the right one,
which it lays out in panels, and multiplies them.  All of that stays in the second cache, so that memory sees halves alone.  Sums are
float32 and rounded once; their order depends on shapes alone.
"""
from libc.stdint cimport int64_t, uintptr_t
from .blas cimport INTERRUPTED, OK
from .panels cimport Panels, add_operand, clear, lay_right, layers_of_halves, multiply_rows, panels_of, ready, tiles_of
from ...base.callbacks import callbacks, set_callback
from ...base.dtypes cimport BF16, F32
from ...base.parallel cimport try_interruptible

cdef enum:
    DEPTH = 256               # terms that are converted together
    ROWS = 192                # of a task
    COLUMNS = 256
    PITCH = 4 * DEPTH + 64    # bytes of a row of the left operand: no power of two, so that rows lie in different sets of a cache
    SUMS = 4 * COLUMNS + 64   # and of the sums

cdef extern from * nogil:
    """
    /* What a thread converts: its stack may have 64 KiB in all. */
    static __thread __attribute__((aligned(64))) char flambeau_left[192 * (4 * 256 + 64)], flambeau_right[4 * 256 * 256],
        flambeau_block[192 * (4 * 256 + 64)];
    """
    char* left_rows "flambeau_left"
    char* right_panels "flambeau_right"
    char* block_sums "flambeau_block"

cdef Ways ways[2]             # of bfloat16 and float16


cdef const Ways* prepare_widened(int code, int64_t m, int64_t n, int64_t k) except NULL:
    cdef Ways* w = &ways[0 if code == BF16 else 1]
    cdef int64_t rows[2]
    cdef int64_t columns[2]
    cdef int i, j
    if w.widen == NULL or w.first.layers.turns == NULL:    # panels.forget: compiled anew, for other registers
        compile_ways(w, code)
    rows[0], rows[1] = min(m, w.rows), m % w.rows
    columns[0], columns[1] = min(n, w.columns), n % w.columns
    for i in range(2):
        for j in range(2):
            if rows[i] and columns[j]:
                need(w.first, rows[i], columns[j], k)
                need(w.more, rows[i], columns[j], k)
    return w


cdef int need(Panels p, int64_t m, int64_t n, int64_t k) except -1:
    p.m, p.n, p.k = m, n, min(k, <int64_t>DEPTH)
    return ready(&p)


cdef int compile_ways(Ways* w, int code) except -1:
    clear(&w.first, F32, NULL)
    clear(&w.more, F32, tiles_of(F32, callbacks["panels.linear"](4, False, False, True)))
    w.first.layers = w.more.layers = layers_of_halves(code)
    w.first.read = w.more.read = 2
    # What a task converts fits a second cache of 1 MiB; with vectors of 32 bytes, of 512 KiB.
    w.rows, w.columns = ROWS, COLUMNS if w.first.family.lanes * w.first.size >= 64 else COLUMNS // 2
    functions = callbacks["attention.functions"]("bfloat16" if code == BF16 else "float16", "", False)
    w.narrow = <convert_t><uintptr_t>functions["narrow"]
    w.widen = <convert_t><uintptr_t>functions["widen"]
    return 0


cdef void lay_left(const Widened* w, Panels* p, const char* a, int64_t row, int64_t term) noexcept nogil:
    """p.m rows by p.k terms, from `row` and `term` on, times alpha."""
    cdef int64_t i
    if w.a_col == 1:
        for i in range(p.m):
            w.ways.widen(a + ((row + i) * w.a_row + term) * 2, left_rows + i * PITCH, p.k, w.alpha)
        p.a_row, p.a_col = PITCH, 4
    else:
        for i in range(p.k):
            w.ways.widen(a + (row + (term + i) * w.a_col) * 2, left_rows + i * ROWS * 4, p.m, w.alpha)
        p.a_row, p.a_col = 4, ROWS * 4
    p.a = left_rows


cdef void multiply_block(const Widened* w, int64_t number, int64_t row, int64_t column) noexcept nogil:
    """A block of one product's result."""
    cdef Panels p
    cdef const char* a = w.a + number * w.a_step * 2
    cdef const char* b = w.b + (number * w.b_step + column * w.b_col) * 2
    cdef char* c = w.c + (number * w.c_step + row * w.c_row + column) * 2
    cdef int64_t m = min(w.ways.rows, w.m - row), n = min(w.ways.columns, w.n - column), term = 0, i
    if w.beta != 0:
        for i in range(m):
            w.ways.widen(c + i * w.c_row * 2, block_sums + i * SUMS, n, w.beta)
    while term < w.k:
        p = w.ways.first if term == 0 and w.beta == 0 else w.ways.more
        p.m, p.n, p.k = m, n, min(<int64_t>DEPTH, w.k - term)
        p.c, p.c_row = block_sums, SUMS
        if p.tiles != w.ways.first.tiles:
            add_operand(&p, block_sums, SUMS, 4)
        lay_left(w, &p, a, row, term)
        lay_right(&p, right_panels, b + term * w.b_row * 2, w.b_row * 2, w.b_col * 2, 0, panels_of(&p))
        p.b = right_panels
        multiply_rows(&p, 0, m, 0, panels_of(&p))
        term += DEPTH
    for i in range(m):
        w.ways.narrow(block_sums + i * SUMS, c + i * w.c_row * 2, n, 1.0)


cdef void some_blocks(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef const Widened* w = <const Widened*>context
    cdef int64_t bands = (w.m + w.ways.rows - 1) // w.ways.rows, strips = (w.n + w.ways.columns - 1) // w.ways.columns, task
    for task in range(begin, end):
        multiply_block(w, task // (bands * strips), task // strips % bands * w.ways.rows, task % strips * w.ways.columns)


cdef int multiply_widened(Widened* w) noexcept nogil:
    cdef int64_t bands = (w.m + w.ways.rows - 1) // w.ways.rows, strips = (w.n + w.ways.columns - 1) // w.ways.columns
    cdef double each = <double>w.m * w.n * w.k / (bands * strips)
    if w.a_col != 1 and w.a_row != 1:    # strides of a dimension of size 1 say nothing
        if w.k == 1:
            w.a_col = 1
        else:
            w.a_row = 1
    if w.b_col != 1 and w.b_row != 1:
        if w.n == 1:
            w.b_col = 1
        else:
            w.b_row = 1
    return INTERRUPTED if try_interruptible(some_blocks, w, w.batch * bands * strips, 1 + <int64_t>((1 << 18) / (each + 1500)),
                                            each / 64) else OK


def _addresses() -> tuple:
    """Where `prepare_t` and `multiply_t` stand."""
    return <uintptr_t><void*>prepare_widened, <uintptr_t><void*>multiply_widened


set_callback("products.widened", _addresses)
