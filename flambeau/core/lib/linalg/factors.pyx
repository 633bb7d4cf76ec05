# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""LU and Cholesky factors, determinants and inverses."""
from libc.math cimport NAN, hypot, log
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from ...base.dtypes cimport C64, C128, F32, F64, I32
from ...base.tensor cimport TensorBase, pointer
from .jobs cimport Job, begin, matrices, one_each, real_code, run, vectors, workspace_size


# --- LU ----------------------------------------------------------------------------------------------------------------------
cdef void lu_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job* j = <Job*>context
    cdef int64_t at
    for at in range(begin, end):
        j.routines.getrf(&j.m, &j.n, j.a + at * j.a_step, &j.lead, j.pivots + at * j.k, j.info + at)


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
        run(lu_range, &j, info.count, 0.03 * j.m * j.n * j.k)
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


cdef void inverse_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job* j = <Job*>context
    cdef int64_t at
    cdef int info
    cdef char* work = <char*>malloc(<size_t>j.lwork * j.size + <size_t>j.n * 4)
    cdef int* pivots = <int*>(work + <size_t>j.lwork * j.size)
    if work == NULL:
        j.failed = 1
        return
    for at in range(begin, end):
        j.routines.getrf(&j.n, &j.n, j.a + at * j.a_step, &j.lead, pivots, j.info + at)
        if j.info[at]:
            fill(j.a + at * j.a_step, j.a_step, j.kind)
        else:
            j.routines.getri(&j.n, j.a + at * j.a_step, &j.lead, pivots, work, &j.lwork, &info)
    free(work)


cdef void fill(char* to, int64_t bytes, int kind) noexcept nogil:
    """NaN for every number."""
    cdef int64_t i
    if kind % 2:
        for i in range(bytes // 8):
            (<double*>to)[i] = NAN
    else:
        for i in range(bytes // 4):
            (<float*>to)[i] = <float>NAN


def inverse(TensorBase rows not None) -> TensorBase:
    """Square matrices become their inverses; `info` is the first pivot that is 0, and such matrices become NaN.  The inverse of the
    transpose is the transpose of the inverse, so nothing is turned.
    """
    cdef Job j
    cdef int info = 0
    cdef char[16] size
    begin(&j, rows, "inverse")
    result = one_each(rows, I32)
    j.n, j.lwork, j.lrwork, j.liwork = <int>rows.sizes[rows.rank - 1], -1, 0, 0
    j.lead = max(j.n, 1)
    if rows.count == 0:
        return result.zero_() if result.count else result
    j.info = <int*>pointer(result)
    j.routines.getri(&j.n, j.a, &j.lead, &info, size, &j.lwork, &info)
    j.lwork = workspace_size(&j, size)
    run(inverse_range, &j, result.count, 0.1 * j.n * j.n * j.n)
    return result


# --- Cholesky --------------------------------------------------------------------------------------------------------------------
cdef inline double real_part(const char* at, int kind) noexcept nogil:
    return (<const double*>at)[0] if kind % 2 else (<const float*>at)[0]


cdef void cholesky_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job* j = <Job*>context
    cdef int64_t at, i
    for at in range(begin, end):
        j.routines.potrf(b"U", &j.n, j.a + at * j.a_step, &j.n, j.info + at, 1)
        for i in range(j.n):               # NaN, which is not positive, passes some libraries' check
            if j.info[at]:
                break
            if not real_part(j.a + at * j.a_step + i * (j.n + 1) * j.size, j.kind) > 0.0:
                j.info[at] = <int>(i + 1)


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
    j.info = <int*>pointer(info)
    run(cholesky_range, &j, info.count, 0.03 * j.n * j.n * j.n)
    return info
