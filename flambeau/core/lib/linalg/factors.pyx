# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""LU and Cholesky factors, determinants and inverses."""
from libc.math cimport NAN, hypot, log
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from ...base.dtypes cimport C64, C128, F32, F64, I32
from ...base.parallel cimport num_threads, parallel_for, task_t
from ...base.tensor cimport TensorBase, pointer
from .jobs cimport Job, add_one, begin, element, matrices, minus_of, one_each, real_code, run, stack, unit_of, vectors, workspace_size
from .triangles cimport Triangle, exchange_back, solve_triangle, transpose


cdef enum:
    SHARED = 1 << 22           # multiplications of a factorisation from which it is blocked
    STRIP = 128                # rows or columns after a panel that a thread takes at least,
    MOST_COLUMNS = 512         # and at most


cdef int blocked(Job* j, task_t whole, int64_t count, double nanoseconds) except -1:
    """Factorisations of all matrices: small ones and many are shared out, of few the threads share each.  The bits are the same."""
    cdef int64_t at
    cdef Job one
    if count >= num_threads() or not large(j):
        return run(whole, j, count, nanoseconds)
    for at in range(count):
        one = j[0]
        one.a += at * j.a_step
        one.b += at * j.b_step
        one.info += at
        if one.pivots != NULL:
            one.pivots += at * j.k
        run(whole, &one, 1, nanoseconds)
    return 0


cdef inline bint large(const Job* j) noexcept nogil:
    """Whether a matrix is factored in blocks."""
    return j.k >= STRIP and <double>j.m * j.n * j.k >= SHARED


cdef inline int width(const Job* j) noexcept nogil:
    """Rows or columns of the panel in hand."""
    return min(j.block, j.k - j.column)


cdef inline int block_of(int64_t k) noexcept nogil:
    return 64 if k <= 768 else 128


cdef inline int strip_of(int64_t size) noexcept nogil:
    """Rows or columns that a thread takes; by the size alone, for it decides which numbers are multiplied together."""
    return <int>max(<int64_t>STRIP, min(<int64_t>MOST_COLUMNS, (size // 16 + 63) // 64 * 64))


# --- LU ----------------------------------------------------------------------------------------------------------------------
# Right-looking, with panels that the library factors by recursion (S. Toledo, "Locality of reference in LU decomposition with partial
# pivoting", 1997; F. Gustavson, "Recursion leads to automatic variable blocking for dense linear-algebra algorithms", 1997).  The
# first of the tasks after a panel brings the next one up to date and factors it, while others update what comes after.
cdef void lu_panel(Job* j, int column) noexcept nogil:
    cdef int rows = j.m - column, columns = min(j.block, j.k - column), info = 0, i
    cdef int* pivots = j.pivots + column
    j.routines.getrf(&rows, &columns, element(j, j.a, column, column), &j.lead, pivots, &info)
    for i in range(columns):
        pivots[i] += column
    if info and not j.info[0]:
        j.info[0] = info + column


cdef void exchange(const Job* j, int begin, int end, int first, int last) noexcept nogil:
    """Rows of some columns, by the pivots from `first` on."""
    cdef int columns = end - begin, step = 1
    first += 1
    j.routines.laswp(&columns, element(j, j.a, 0, begin), &j.lead, &first, &last, j.pivots, &step)


cdef void update_columns(Job* j, int begin, int end, char* work) noexcept nogil:
    """Rows of U in some columns, and what the panel in hand leaves below them."""
    cdef int w = width(j), rows = j.m - j.column - w, columns = end - begin
    cdef char* top = element(j, j.a, j.column, begin)
    cdef Triangle t
    cdef double[2] one
    cdef double[2] minus
    unit_of(j, one)
    minus_of(j, minus)
    exchange(j, begin, end, j.column, j.column + w)
    t.a, t.lead, t.turned, t.upper, t.unit = element(j, j.a, j.column, j.column), j.lead, True, False, True
    if j.kind < 2:
        transpose(j, work, columns, top, j.lead, columns, w)
        solve_triangle(j, &t, work, columns, w, columns, 0)
        transpose(j, top, j.lead, work, columns, w, columns)
    else:
        j.routines.trsm(b"L", b"L", b"N", b"U", &w, &columns, one, t.a, &j.lead, top, &j.lead, 1, 1, 1, 1)
    if rows:
        j.routines.gemm(b"N", b"N", &rows, &columns, &w, minus, element(j, j.a, j.column + w, j.column), &j.lead, top, &j.lead,
                        one, element(j, j.a, j.column + w, begin), &j.lead, 1, 1)


cdef void lu_tasks(void* context, int64_t begin, int64_t end) noexcept nogil:
    """The first updates and factors the next panel; the others, strips after it."""
    cdef Job* j = <Job*>context
    cdef int64_t task
    cdef int after = j.column + width(j), next = after + min(j.block, j.n - after), strip = strip_of(j.n)
    cdef char* work = <char*>malloc(<size_t>max(strip, j.block) * j.block * j.size)
    if work == NULL:
        j.failed = 1
        return
    for task in range(begin, end):
        if task:
            update_columns(j, <int>(next + (task - 1) * strip), <int>min(next + task * strip, <int64_t>j.n), work)
        elif after < j.n:
            update_columns(j, after, next, work)
            if after < j.k:
                lu_panel(j, after)
    free(work)


cdef void lu_exchanges(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Rows of L, by the pivots of later panels."""
    cdef Job* j = <Job*>context
    cdef int64_t panel
    for panel in range(begin, end):
        exchange(j, panel * j.block, (panel + 1) * j.block, (panel + 1) * j.block, j.k)


cdef void lu_blocked(Job* j) noexcept nogil:
    cdef int strip = strip_of(j.n)
    j.block = block_of(j.k)
    lu_panel(j, 0)
    j.column = 0
    while j.column < j.k and not j.failed:
        parallel_for(lu_tasks, j, 1 + (max(j.n - j.column - width(j) - j.block, 0) + strip - 1) // strip, 1)
        j.column += j.block
    parallel_for(lu_exchanges, j, (j.k - 1) // j.block, 1)


cdef void lu_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job j = (<Job*>context)[0]
    cdef int64_t at
    for at in range(begin, end):
        j.a, j.pivots, j.info = (<Job*>context).a + at * j.a_step, (<Job*>context).pivots + at * j.k, (<Job*>context).info + at
        if large(&j):
            lu_blocked(&j)
        else:
            j.routines.getrf(&j.m, &j.n, j.a, &j.lead, j.pivots, j.info)
    if j.failed:
        (<Job*>context).failed = 1


def lu(TensorBase columns not None) -> tuple:
    """L and U in one matrix; the results are the exchanged rows (from 1, int32) and `info`, the first pivot that is 0."""
    cdef Job j
    cdef int64_t i
    begin(&j, columns, "lu")
    j.n, j.m = <int>columns.sizes[columns.rank - 2], <int>columns.sizes[columns.rank - 1]
    j.k, j.lead, j.lwork, j.lrwork, j.liwork = min(j.m, j.n), max(j.m, 1), 0, 0, 0
    pivots, info = vectors(columns, j.k, I32), one_each(columns, I32)
    if info.count:
        j.info = <int*>pointer(info)
        for i in range(info.count):
            j.info[i] = 0
    if pivots.count:
        j.pivots = <int*>pointer(pivots)
        blocked(&j, lu_range, info.count, 0.03 * j.m * j.n * j.k)
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


cdef void inverse_strips(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Columns of the inverse, by factors of the transpose: A = Uᵀ Lᵀ Pᵀ; of the first solution, what is above the diagonal is 0."""
    cdef Job* j = <Job*>context
    cdef Triangle first
    cdef Triangle second
    cdef int64_t strip, i, row = <int64_t>j.n * j.size
    cdef int at, columns
    cdef char* x
    first.a, first.lead, first.turned, first.upper, first.unit = j.a, j.n, False, False, False
    second.a, second.lead, second.turned, second.upper, second.unit = j.a, j.n, False, True, True
    for strip in range(begin, end):
        at = <int>(strip * STRIP)
        columns, x = min(j.n - at, <int>STRIP), j.b + <int64_t>at * j.size
        for i in range(j.n):
            memset(x + i * row, 0, <int64_t>columns * j.size)
        for i in range(columns):
            add_one(x + (at + i) * row + i * j.size, j.kind)
        solve_triangle(j, &first, x, j.n, j.n, columns, at)
        solve_triangle(j, &second, x, j.n, j.n, columns, 0)
        exchange_back(j, x, row, columns)


cdef void inverse_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job j = (<Job*>context)[0]
    cdef int64_t at
    cdef int info
    cdef char* work = <char*>malloc(<size_t>j.lwork * j.size + <size_t>j.n * 4)
    if work == NULL:
        (<Job*>context).failed = 1
        return
    j.pivots = <int*>(work + <size_t>j.lwork * j.size)
    for at in range(begin, end):
        j.a, j.b, j.info = (<Job*>context).a + at * j.a_step, (<Job*>context).b + at * j.b_step, (<Job*>context).info + at
        if large(&j):
            lu_blocked(&j)
        else:
            j.routines.getrf(&j.n, &j.n, j.a, &j.lead, j.pivots, j.info)
        if j.info[0]:
            fill(j.b if large(&j) else j.a, j.a_step, j.kind)
        elif large(&j):
            parallel_for(inverse_strips, &j, (j.n + STRIP - 1) // STRIP, 1)
        else:
            j.routines.getri(&j.n, j.a, &j.lead, j.pivots, work, &j.lwork, &info)
    free(work)
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
    """The inverses of square matrices, which are written to; `info` is the first pivot that is 0, and such matrices become NaN.  The
    inverse of the transpose is the transpose of the inverse, so nothing is turned.
    """
    cdef Job j
    cdef int info = 0
    cdef char[16] size
    cdef TensorBase result = rows, verdict
    begin(&j, rows, "inverse")
    verdict = one_each(rows, I32).zero_()
    j.n, j.lwork, j.lrwork, j.liwork = <int>rows.sizes[rows.rank - 1], 0, 0, 0
    j.m, j.k, j.lead = j.n, j.n, max(j.n, 1)
    if rows.count == 0:
        return rows, verdict
    j.info = <int*>pointer(verdict)
    if large(&j):
        result = stack(rows, j.n, j.n)
        j.b, j.b_step = pointer(result), j.a_step
    else:
        j.lwork = -1
        j.routines.getri(&j.n, j.a, &j.lead, &info, size, &j.lwork, &info)
        j.lwork = workspace_size(&j, size)
    blocked(&j, inverse_range, verdict.count, 0.1 * j.n * j.n * j.n)
    return result, verdict


# --- Cholesky --------------------------------------------------------------------------------------------------------------------
cdef inline double real_part(const char* at, int kind) noexcept nogil:
    return (<const double*>at)[0] if kind % 2 else (<const float*>at)[0]


cdef void cholesky_panel(Job* j, int column) noexcept nogil:
    """The diagonal block of a panel."""
    cdef int columns = min(j.block, j.k - column), info = 0
    j.routines.potrf(b"U", &columns, element(j, j.a, column, column), &j.lead, &info, 1)
    if info and not j.info[0]:
        j.info[0] = info + column


cdef inline int rest(const Job* j) noexcept nogil:
    """Strips after the panel in hand."""
    return (j.n - j.column - width(j) + STRIP - 1) // STRIP


cdef inline int strip_begin(const Job* j, int64_t strip) noexcept nogil:
    return <int>min(j.column + width(j) + strip * STRIP, <int64_t>j.n)


cdef void cholesky_solves(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Rows of L in the panel in hand: as the library sees them columns of U, by U₁₁ᴴ U₁₂ = A₁₂."""
    cdef Job* j = <Job*>context
    cdef int w = width(j), columns, first
    cdef int64_t strip
    cdef double[2] one
    cdef Triangle t
    cdef char* to
    cdef char* work = <char*>malloc(<size_t>STRIP * w * j.size)
    if work == NULL:
        j.failed = 1
        return
    unit_of(j, one)
    t.a, t.lead, t.turned, t.upper, t.unit = element(j, j.a, j.column, j.column), j.lead, False, False, False
    for strip in range(begin, end):
        first = strip_begin(j, strip)
        columns, to = strip_begin(j, strip + 1) - first, element(j, j.a, j.column, first)
        if j.kind < 2:
            transpose(j, work, columns, to, j.lead, columns, w)
            solve_triangle(j, &t, work, columns, w, columns, 0)
            transpose(j, to, j.lead, work, columns, w, columns)
        else:
            j.routines.trsm(b"L", b"U", b"C", b"N", &w, &columns, one, t.a, &j.lead, to, &j.lead, 1, 1, 1, 1)
    free(work)


cdef void cholesky_update(Job* j, int begin, int end) noexcept nogil:
    """A₂₂ - U₁₂ᴴ U₁₂ in some columns, down to the diagonal."""
    cdef int w = width(j), after = j.column + w, rows = begin - after, columns = end - begin
    cdef char trans = b"C" if j.kind > 1 else b"T"
    cdef double[2] one
    cdef double[2] minus
    cdef char* strip = element(j, j.a, j.column, begin)
    unit_of(j, one)
    minus_of(j, minus)
    if rows:
        j.routines.gemm(&trans, b"N", &rows, &columns, &w, minus, element(j, j.a, j.column, after), &j.lead, strip, &j.lead,
                        one, element(j, j.a, after, begin), &j.lead, 1, 1)
    j.routines.herk(b"U", &trans, &columns, &w, minus, strip, &j.lead, one, element(j, j.a, begin, begin), &j.lead, 1, 1)


cdef void cholesky_updates(void* context, int64_t begin, int64_t end) noexcept nogil:
    """The first strip holds the next diagonal block, which is factored at once; the longest come next."""
    cdef Job* j = <Job*>context
    cdef int64_t task, strip, strips = rest(j)
    for task in range(begin, end):
        strip = strips - task if task else 0
        cholesky_update(j, strip_begin(j, strip), strip_begin(j, strip + 1))
        if task == 0:
            cholesky_panel(j, j.column + width(j))


cdef void cholesky_blocked(Job* j) noexcept nogil:
    j.block = STRIP
    j.column = 0
    cholesky_panel(j, 0)
    while j.column + j.block < j.n and not j.info[0] and not j.failed:
        parallel_for(cholesky_solves, j, rest(j), 1)
        parallel_for(cholesky_updates, j, rest(j), 1)
        j.column += j.block


cdef void cholesky_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job j = (<Job*>context)[0]
    cdef int64_t at, i
    for at in range(begin, end):
        j.a, j.info = (<Job*>context).a + at * j.a_step, (<Job*>context).info + at
        if large(&j):
            cholesky_blocked(&j)
        else:
            j.routines.potrf(b"U", &j.n, j.a, &j.n, j.info, 1)
        for i in range(j.n):               # NaN, which is not positive, passes some libraries' check
            if j.info[0]:
                break
            if not real_part(j.a + i * (j.n + 1) * j.size, j.kind) > 0.0:
                j.info[0] = <int>(i + 1)
    if j.failed:
        (<Job*>context).failed = 1


def cholesky(TensorBase rows not None) -> TensorBase:
    """The lower triangles of Hermitian matrices become their Cholesky factors, what is above stays; `info` is the first minor that
    is not positive.  A lower factor by rows is an upper one by columns, so nothing is turned.
    """
    cdef Job j
    begin(&j, rows, "cholesky")
    info = one_each(rows, I32)
    if rows.count == 0:
        return info.zero_() if info.count else info
    j.n, j.lwork, j.lrwork, j.liwork = <int>rows.sizes[rows.rank - 1], 0, 0, 0
    j.m = j.k = j.lead = j.n
    j.info, j.pivots = <int*>pointer(info), NULL
    info.zero_()
    blocked(&j, cholesky_range, info.count, 0.03 * j.n * j.n * j.n)
    return info
