# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Cholesky factors, and the inverses of what they are factors of.

Small matrices by recursion (blocks.c).  Of large ones a block of the diagonal is factored, then strips of rows below it are solved for, then
what is left is updated in strips, of which the first holds the next block.
"""
from libc.stdint cimport INT32_MAX, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from ...base.dtypes cimport I32
from ...base.parallel cimport parallel_for
from ...base.tensor cimport TensorBase, pointer
from .jobs cimport STRIP, Job, add_one, begin, by_threads, cell, large, one_each, stack, width
from .triangles cimport Triangle, solve_triangle


# --- factors -----------------------------------------------------------------------------------------------------------------
cdef void factor_block(Job* j, int row) noexcept nogil:
    """A block of the diagonal."""
    cdef int64_t failed = j.blocks.cholesky(cell(j, j.a, row, row), j.lead, min(j.block, j.n - row), j.d)
    if failed and not j.info[0]:
        j.info[0] = <int>failed + row


cdef inline int rest(const Job* j) noexcept nogil:
    """Strips after the block in hand."""
    return (j.n - j.column - width(j) + STRIP - 1) // STRIP


cdef inline int strip_begin(const Job* j, int64_t strip) noexcept nogil:
    return <int>min(j.column + width(j) + strip * STRIP, <int64_t>j.n)


cdef inline char* adjoint_of(const Job* j, int row) noexcept nogil:
    """Where the conjugate transpose of a row of L in the block in hand begins: a column of a matrix of n columns."""
    return j.c + <int64_t>row * j.size


cdef void solve_strips(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Rows of L in the block in hand: L₁₁ L₂₁ᴴ = A₂₁ᴴ."""
    cdef Job* j = <Job*>context
    cdef int w = width(j), rows, first
    cdef int64_t strip
    cdef char* at
    for strip in range(begin, end):
        first = strip_begin(j, strip)
        rows, at = strip_begin(j, strip + 1) - first, cell(j, j.a, first, j.column)
        j.blocks.adjoint(adjoint_of(j, first), j.n, at, j.lead, rows, w)
        j.blocks.solve(cell(j, j.a, j.column, j.column), j.lead, 1, adjoint_of(j, first), j.n, w, rows, False, False)
        j.blocks.adjoint(at, j.lead, adjoint_of(j, first), j.n, w, rows)


cdef void update_strips(void* context, int64_t begin, int64_t end) noexcept nogil:
    """A₂₂ - L₂₁ L₂₁ᴴ, up to the diagonal.  The first strip holds the next block, which is factored at once; the longest come next."""
    cdef Job* j = <Job*>context
    cdef int64_t task, strip, strips = rest(j)
    cdef int after = j.column + width(j), first, last
    for task in range(begin, end):
        strip = strips - task if task else 0
        first, last = strip_begin(j, strip), strip_begin(j, strip + 1)
        j.blocks.subtract(cell(j, j.a, first, after), j.lead, cell(j, j.a, first, j.column), j.lead, 1, adjoint_of(j, after), j.n,
                          last - first, last - after, width(j), first - after, False)
        if task == 0:
            factor_block(j, after)


cdef void clear_above(const Job* j) noexcept nogil:
    cdef int64_t i
    for i in range(j.n - 1):
        memset(cell(j, j.a, i, i + 1), 0, (j.n - 1 - i) * j.size)


cdef void factor_one(Job* j) noexcept nogil:
    """One matrix; `failed` where there is no work space."""
    j.block = STRIP if large(j) else j.n
    j.column = 0
    j.d = <char*>malloc((<size_t>j.block * j.block // 2 + (<size_t>j.block * j.n if large(j) else 0)) * j.size + 64)
    if j.d == NULL:
        j.failed = 1
        return
    j.c = j.d + <int64_t>j.block * j.block // 2 * j.size
    factor_block(j, 0)
    while j.column + j.block < j.n and not j.info[0]:
        parallel_for(solve_strips, j, rest(j), 1)
        parallel_for(update_strips, j, rest(j), 1)
        j.column += j.block
    free(j.d)
    clear_above(j)


cdef void factor_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job j = (<Job*>context)[0]
    cdef int64_t at
    for at in range(begin, end):
        j.a, j.info = (<Job*>context).a + at * j.a_step, (<Job*>context).info + at
        factor_one(&j)
    if j.failed:
        (<Job*>context).failed = 1


cdef int begin_square(Job* j, TensorBase rows, str who) except -1:
    begin(j, rows, who)
    j.n, j.lwork, j.lrwork, j.liwork = <int>rows.sizes[rows.rank - 1], 0, 0, 0
    j.m = j.k = j.lead = j.n
    return 0


def factor(TensorBase rows not None) -> TensorBase:
    """Hermitian matrices, of which the lower triangle is read, become their lower factors; `info` is the first minor that is not positive."""
    cdef Job j
    cdef TensorBase info = one_each(rows, I32).zero_()
    if rows.count == 0:
        return info
    begin_square(&j, rows, "cholesky")
    j.info, j.lwork = <int*>pointer(info), STRIP * j.n
    by_threads(factor_range, &j, info.count, 0.03 * j.n * j.n * j.n)
    return info


# --- inverses ----------------------------------------------------------------------------------------------------------------
# (L Lᴴ)⁻¹ = L⁻ᴴ L⁻¹: a triangle's inverse, and half of a product of triangles.
cdef void invert_strips(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Columns of L⁻¹, which is 0 above the diagonal."""
    cdef Job* j = <Job*>context
    cdef Triangle t
    cdef int64_t strip, i
    cdef int at, columns
    t.a, t.lead, t.turned, t.upper, t.unit = j.a, j.n, False, False, False
    for strip in range(begin, end):
        at = <int>(strip * STRIP)
        columns = min(j.n - at, <int>STRIP)
        for i in range(j.n):
            memset(cell(j, j.c, i, at), 0, <size_t>columns * j.size)
        for i in range(columns):
            add_one(cell(j, j.c, at + i, at + i), j.kind)
        solve_triangle(j, &t, cell(j, j.c, 0, at), j.n, j.n, columns, at)


cdef void multiply_strips(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Rows of L⁻ᴴ L⁻¹ up to the diagonal, negated; the last strips are the longest."""
    cdef Job* j = <Job*>context
    cdef int64_t strip
    cdef int first, last
    for strip in range(begin, end):
        first = <int>(strip * STRIP)
        last = min(first + <int>STRIP, j.n)
        memset(cell(j, j.b, first, 0), 0, <size_t>(last - first) * j.n * j.size)
        j.blocks.subtract(cell(j, j.b, first, 0), j.n, cell(j, j.c, first, first), 1, j.n, cell(j, j.c, first, 0), j.n, last - first, last,
                          j.n - first, first, True)


cdef void inverse_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job j = (<Job*>context)[0]
    cdef int64_t at, strips = (j.n + STRIP - 1) // STRIP
    j.c = <char*>malloc(<size_t>j.n * j.n * j.size)
    if j.c == NULL:
        (<Job*>context).failed = 1
        return
    for at in range(begin, end):
        j.a, j.b = (<Job*>context).a + at * j.a_step, (<Job*>context).b + at * j.b_step
        parallel_for(invert_strips, &j, strips, 1)
        parallel_for(multiply_strips, &j, strips, 1)
        j.blocks.mirror(j.b, j.n, j.n)
    free(j.c)


def inverse(TensorBase rows not None) -> TensorBase:
    """(L Lᴴ)⁻¹ for lower triangular L, whose other triangle is not read."""
    cdef Job j
    cdef TensorBase result = stack(rows, rows.sizes[rows.rank - 1], rows.sizes[rows.rank - 1])
    if rows.count == 0:
        return result
    begin_square(&j, rows, "cholesky_inverse")
    j.b, j.b_step = pointer(result), j.a_step
    j.lrwork = <int>min(<int64_t>j.n * j.n * j.size // 8, <int64_t>INT32_MAX)
    by_threads(inverse_range, &j, rows.count // (<int64_t>j.n * j.n), 0.06 * j.n * j.n * j.n)
    return result
