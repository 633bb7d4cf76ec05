# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""LU factors, determinants and inverses."""
from libc.math cimport NAN, hypot, log
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from ...base.dtypes cimport C64, C128, F32, F64, I32
from ...base.parallel cimport parallel_for
from ...base.tensor cimport TensorBase, pointer
from .jobs cimport (
    FLAMBEAU_LINE, STRIP, Job, add_one, begin, by_threads, cell, large, matrices, one_each, real_code, stack, vectors, width,
)
from .triangles cimport Triangle, solve_triangle

cdef enum:
    MOST_COLUMNS = 512         # that a thread updates at once


cdef inline int block_of(int64_t k) noexcept nogil:
    return 64 if k <= 768 else 128


cdef inline int strip_of(int64_t size) noexcept nogil:
    """Columns that a thread takes; by the size alone, for it decides which numbers are multiplied together."""
    return <int>max(<int64_t>STRIP, min(<int64_t>MOST_COLUMNS, (size // 16 + 63) // 64 * 64))


# --- LU ----------------------------------------------------------------------------------------------------------------------
# Small matrices by recursion (blocks.c).  Large ones right-looking, with panels that are factored by recursion (S. Toledo, "Locality of
# reference in LU decomposition with partial pivoting", 1997).  The first of the tasks after a panel brings the next one up to date and
# factors it, while others update what comes after.
cdef inline int64_t bytes_of_lines(const Job* j) noexcept nogil:
    """What the rows of a panel take while they are factored."""
    return (<int64_t>j.m + 1) * FLAMBEAU_LINE * (8 if j.kind % 2 else 4)


cdef void lu_panel(Job* j, int column) noexcept nogil:
    cdef int* pivots = j.pivots + column
    cdef int columns = min(j.block, j.k - column), i
    cdef int64_t failed = j.blocks.lu(cell(j, j.a, column, column), j.lead, j.m - column, columns, pivots, j.c)
    for i in range(columns):
        pivots[i] += column
    if failed and not j.info[0]:
        j.info[0] = <int>failed + column


cdef void update_columns(Job* j, int begin, int end) noexcept nogil:
    """Rows of U in some columns, and what the panel in hand leaves below them."""
    cdef int w = width(j), after = j.column + w, columns = end - begin
    cdef char* top = cell(j, j.a, j.column, begin)
    j.blocks.exchange(cell(j, j.a, 0, begin), j.lead, columns, j.pivots, j.column, after)
    j.blocks.solve(cell(j, j.a, j.column, j.column), j.lead, 1, top, j.lead, w, columns, False, True)
    j.blocks.subtract(cell(j, j.a, after, begin), j.lead, cell(j, j.a, after, j.column), j.lead, 1, top, j.lead, j.m - after, columns, w,
                      columns, False)


cdef void lu_tasks(void* context, int64_t begin, int64_t end) noexcept nogil:
    """The first updates and factors the next panel; the others, strips after it."""
    cdef Job* j = <Job*>context
    cdef int64_t task
    cdef int after = j.column + width(j), next = after + min(j.block, j.n - after), strip = strip_of(j.n)
    for task in range(begin, end):
        if task:
            update_columns(j, <int>(next + (task - 1) * strip), <int>min(next + task * strip, <int64_t>j.n))
        elif after < j.n:
            update_columns(j, after, next)
            if after < j.k:
                lu_panel(j, after)


cdef void lu_exchanges(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Rows of L, by the pivots of later panels."""
    cdef Job* j = <Job*>context
    cdef int64_t panel
    for panel in range(begin, end):
        j.blocks.exchange(cell(j, j.a, 0, panel * j.block), j.lead, j.block, j.pivots, (panel + 1) * j.block, j.k)


cdef void lu_one(Job* j) noexcept nogil:
    """One matrix; `failed` where there is no work space."""
    cdef int strip = strip_of(j.n)
    j.c = <char*>malloc(bytes_of_lines(j))
    if j.c == NULL:
        j.failed = 1
        return
    j.block, j.column = block_of(j.k), 0
    if not large(j):
        j.info[0] = <int>j.blocks.lu(j.a, j.lead, j.m, j.n, j.pivots, j.c)
        free(j.c)
        return
    lu_panel(j, 0)
    while j.column < j.k:
        parallel_for(lu_tasks, j, 1 + (max(j.n - j.column - width(j) - j.block, 0) + strip - 1) // strip, 1)
        j.column += j.block
    parallel_for(lu_exchanges, j, (j.k - 1) // j.block, 1)
    free(j.c)


cdef void lu_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job j = (<Job*>context)[0]
    cdef int64_t at
    for at in range(begin, end):
        j.a, j.pivots, j.info = (<Job*>context).a + at * j.a_step, (<Job*>context).pivots + at * j.k, (<Job*>context).info + at
        lu_one(&j)
    if j.failed:
        (<Job*>context).failed = 1


def lu(TensorBase rows not None) -> tuple:
    """L and U in place of matrices; the results are the exchanged rows (from 1, int32) and `info`, the first pivot that is 0."""
    cdef Job j
    cdef TensorBase pivots, info
    begin(&j, rows, "lu")
    j.m, j.n = <int>rows.sizes[rows.rank - 2], <int>rows.sizes[rows.rank - 1]
    j.k, j.lead, j.lrwork, j.liwork = min(j.m, j.n), max(j.n, 1), 0, 0
    pivots, info = vectors(rows, j.k, I32), one_each(rows, I32).zero_()
    if pivots.count:
        j.info, j.pivots, j.lwork = <int*>pointer(info), <int*>pointer(pivots), <int>(bytes_of_lines(&j) // j.size)
        by_threads(lu_range, &j, info.count, 0.03 * j.m * j.n * j.k)
    return pivots, info


def determinant(TensorBase factors not None, TensorBase pivots not None, bint logarithm) -> tuple:
    """Of square matrices that `lu` took apart: their determinants and None, or signs and logarithms of the modulus.

    Products are made in float64, and rounded once.
    """
    cdef int64_t n = factors.sizes[factors.rank - 1], at, i, count = matrices(factors)
    cdef TensorBase result = one_each(factors, factors.code), logs = one_each(factors, real_code(factors))
    cdef const char* a = <const char*>pointer(factors) if factors.count else NULL
    cdef const int32_t* steps = <const int32_t*>pointer(pivots) if pivots.count else NULL
    cdef double complex product, one
    cdef double sum, size
    cdef const char* element
    cdef int code = factors.code
    for at in range(count):
        product, sum = 1.0, 0.0
        for i in range(n):
            element = a + (at * n * n + i * n + i) * factors.width
            one = read(element, code)
            if logarithm:
                size = modulus(one)
                sum += log(size)
                if code == F32 or code == F64:
                    one = 1.0 if one.real > 0 else -1.0 if one.real < 0 else one.real
                else:
                    one = one / size if size != 0 else 0.0
            if steps[at * n + i] != i + 1:
                one = -one
            product = times(product, one, code == C64 or code == C128)
        write(<char*>pointer(result) + at * factors.width, code, product)
        write(<char*>pointer(logs) + at * logs.width, logs.code, sum)
    return result, logs if logarithm else None


cdef inline double complex read(const char* at, int code) noexcept nogil:
    if code == F32:
        return (<const float*>at)[0]
    if code == F64:
        return (<const double*>at)[0]
    if code == C64:
        return (<const float*>at)[0] + 1j * (<const float*>at)[1]
    return (<const double*>at)[0] + 1j * (<const double*>at)[1]


cdef inline void write(char* at, int code, double complex x) noexcept nogil:
    if code == F32:
        (<float*>at)[0] = <float>x.real
    elif code == F64:
        (<double*>at)[0] = x.real
    elif code == C64:
        (<float*>at)[0], (<float*>at)[1] = <float>x.real, <float>x.imag
    else:
        (<double*>at)[0], (<double*>at)[1] = x.real, x.imag


cdef inline double modulus(double complex x) noexcept nogil:
    return hypot(x.real, x.imag)


cdef inline double complex times(double complex x, double complex y, bint both) noexcept nogil:
    """x y; of real numbers without the imaginary parts, whose zeros make NaN of infinities."""
    cdef double complex result = 0
    if both:
        return x * y
    result.real = x.real * y.real
    return result


# --- inverses -----------------------------------------------------------------------------------------------------------------
cdef void scatter_columns(const Job* j, char* to, const char* strip, const int* order, int columns) noexcept nogil:
    """Columns of a strip, STRIP wide, where `order` says."""
    cdef int64_t i, row = <int64_t>j.n * j.size
    cdef int c
    for i in range(j.n):
        if j.size == 4:
            for c in range(columns):
                (<float*>to)[order[c]] = (<const float*>strip)[c]
        elif j.size == 8:
            for c in range(columns):
                (<double*>to)[order[c]] = (<const double*>strip)[c]
        else:
            for c in range(columns):
                (<double complex*>to)[order[c]] = (<const double complex*>strip)[c]
        to += row
        strip += STRIP * j.size


cdef void inverse_strips(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Columns of U⁻¹ L⁻¹, in the order that the exchanges give: A⁻¹ = U⁻¹ L⁻¹ Pᵀ.  Of L⁻¹, what is above the diagonal is 0."""
    cdef Job* j = <Job*>context
    cdef Triangle first
    cdef Triangle second
    cdef int64_t strip, i
    cdef int at, columns
    cdef char* x = <char*>malloc(<size_t>j.n * STRIP * j.size)
    if x == NULL:
        j.failed = 1
        return
    first.a, first.lead, first.turned, first.upper, first.unit = j.a, j.n, False, False, True
    second.a, second.lead, second.turned, second.upper, second.unit = j.a, j.n, False, True, False
    for strip in range(begin, end):
        at = <int>(strip * STRIP)
        columns = min(j.n - at, <int>STRIP)
        memset(x, 0, <size_t>j.n * STRIP * j.size)
        for i in range(columns):
            add_one(x + ((at + i) * STRIP + i) * j.size, j.kind)
        solve_triangle(j, &first, x, STRIP, j.n, columns, at)
        solve_triangle(j, &second, x, STRIP, j.n, columns, 0)
        scatter_columns(j, j.b, x, j.pivots + at, columns)
    free(x)


cdef void inverse_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job j = (<Job*>context)[0]
    cdef int64_t at
    cdef int i, other
    cdef int* order = <int*>malloc(<size_t>j.n * 2 * sizeof(int))
    if order == NULL:
        (<Job*>context).failed = 1
        return
    for at in range(begin, end):
        j.a, j.b, j.info = (<Job*>context).a + at * j.a_step, (<Job*>context).b + at * j.b_step, (<Job*>context).info + at
        j.pivots = order + j.n
        lu_one(&j)
        if j.info[0]:
            fill(j.b, j.b_step, j.kind)
            continue
        for i in range(j.n):
            order[i] = i
        for i in range(j.n):
            other = j.pivots[i] - 1
            order[i], order[other] = order[other], order[i]
        j.pivots = order
        parallel_for(inverse_strips, &j, (j.n + STRIP - 1) // STRIP, 1)
    free(order)
    if j.failed:
        (<Job*>context).failed = 1


cdef void fill(char* to, int64_t bytes, int kind) noexcept nogil:
    """NaN for every number."""
    cdef int64_t i
    if kind % 2:
        for i in range(bytes // 8):
            (<double*>to)[i] = NAN
    else:
        for i in range(bytes // 4):
            (<float*>to)[i] = <float>NAN


def inverse(TensorBase rows not None) -> tuple:
    """The inverses of square matrices, in which LU factors are left; `info` is the first pivot that is 0: such inverses are NaN."""
    cdef Job j
    cdef TensorBase result, verdict
    begin(&j, rows, "inverse")
    result, verdict = stack(rows, rows.sizes[rows.rank - 1], rows.sizes[rows.rank - 1]), one_each(rows, I32).zero_()
    if rows.count == 0:
        return result, verdict
    j.n, j.lrwork, j.liwork = <int>rows.sizes[rows.rank - 1], 0, 0
    j.m, j.k, j.lead = j.n, j.n, j.n
    j.info, j.b, j.b_step, j.lwork = <int*>pointer(verdict), pointer(result), j.a_step, j.n * STRIP
    by_threads(inverse_range, &j, verdict.count, 0.1 * j.n * j.n * j.n)
    return result, verdict
