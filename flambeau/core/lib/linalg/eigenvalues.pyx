# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Eigenvalues and singular values."""
from libc.math cimport fabs, sqrt
from libc.stdint cimport INT32_MAX, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from ...base.dtypes cimport I32
from ...base.tensor cimport TensorBase, pointer
from .jobs cimport FLAMBEAU_LINE, NOT_FINITE, Job, begin, complex_general_t, complex_svd_t, finite, hermitian_t, one_each, real_code, run, stack, vectors, workspace_size

cdef enum:
    MOST_BYTES = 1 << 21       # of a matrix that becomes tridiagonal by our own loops,
    MOST_SCHUR = 1 << 19       # and of one that becomes triangular: of larger ones, the library's sweeps are products

ctypedef fused Real:
    float
    double


# --- eigenvalues -----------------------------------------------------------------------------------------------------------------
cdef void symmetric(Job* j, char* a, char* values, char* work, char* rwork, int* iwork, int* info) noexcept nogil:
    if j.kind < 2:
        j.routines.syevd(&j.job, &j.triangle, &j.n, a, &j.n, values, work, &j.lwork, iwork, &j.liwork, info, 1, 1)
    else:
        (<hermitian_t><void*>j.routines.syevd)(
            &j.job, &j.triangle, &j.n, a, &j.n, values, work, &j.lwork, rwork, &j.lrwork, iwork, &j.liwork, info, 1, 1)


cdef inline int row_of(const Job* j) noexcept nogil:
    """Elements of a row of the matrix while it becomes tridiagonal: whole vectors."""
    return (j.n + FLAMBEAU_LINE - 1) // FLAMBEAU_LINE * FLAMBEAU_LINE


cdef inline int64_t own_work(const Job* j) noexcept nogil:
    """Elements that `by_tridiagonal` takes: the matrix and four rows more, what is beside the diagonal, scales, and LAPACK's."""
    return <int64_t>row_of(j) * (j.n + 4) + 2 * <int64_t>j.n + library_work(j)


cdef inline int64_t library_work(const Job* j) noexcept nogil:
    return <int64_t>j.n * j.n + 64 * <int64_t>j.n + 65 * 64


cdef bint by_tridiagonal(Job* j, char* a, char* values, char* work, int* iwork, int* info) noexcept nogil:
    """Real matrices: by our own tridiagonal form, the library's division and conquest, and the reflections again.  False, and nothing done, where
    elements are so large or small that their squares are not safe; the library scales these."""
    cdef int row = row_of(j), left = <int>library_work(j)
    cdef char* whole = work
    cdef char* beside = work + <int64_t>row * (j.n + 4) * j.size
    cdef char* scales = beside + <int64_t>j.n * j.size
    cdef char* rest = scales + <int64_t>j.n * j.size
    cdef double largest = j.blocks.symmetric(whole, row, a, j.n, j.triangle == b"U"), safe = 1e100 if j.kind else 1e12
    if not 1 / safe < largest < safe:
        return False
    j.blocks.tridiagonal(whole, row, j.n, values, beside, scales, whole + <int64_t>row * j.n * j.size)
    if j.job == b"N":
        j.routines.sterf(&j.n, values, beside, info)
        return True
    j.routines.stedc(b"I", &j.n, values, beside, a, &j.n, rest, &left, iwork, &j.liwork, info, 1)
    if info[0] == 0:
        j.routines.ormtr(b"L", b"L", b"N", &j.n, &j.n, whole, &row, scales, a, &j.n, rest, &left, info, 1, 1, 1)
    return True


cdef void symmetric_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job* j = <Job*>context
    cdef int64_t at, first = <int64_t>j.lwork * j.size, second = <int64_t>j.lrwork * 8
    cdef char* work = <char*>malloc(first + second + <int64_t>j.liwork * 4)
    cdef char* a
    cdef char* values
    cdef int* iwork = <int*>(work + first + second)
    if work == NULL:
        j.failed = 1
        return
    for at in range(begin, end):
        a, values = j.a + at * j.a_step, j.b + at * j.b_step
        if not finite(j, a, j.n, j.n, j.triangle):
            j.info[at] = NOT_FINITE
            continue
        j.info[at] = 0
        if not (own(j) and by_tridiagonal(j, a, values, work, iwork, j.info + at)):
            symmetric(j, a, values, work, work + first, iwork, j.info + at)
    free(work)


cdef inline bint own(const Job* j) noexcept nogil:
    """Whether a matrix becomes tridiagonal by our own loops: real, and kept in the nearer caches; of larger ones LAPACK makes products."""
    return j.kind < 2 and <int64_t>j.n * j.n * j.size <= MOST_BYTES


def eigh(TensorBase rows not None, bint lower, bint wanted) -> tuple:
    """Eigenvalues of Hermitian matrices, and `info`; where `wanted`, the matrices become their eigenvectors, conjugate, row by row."""
    cdef Job j
    cdef char[16] size
    cdef char[16] rsize
    cdef int isize = 0, info = 0
    begin(&j, rows, "eigh")
    j.n, j.lwork, j.lrwork, j.liwork = <int>rows.sizes[rows.rank - 1], -1, -1, -1
    values, result = vectors(rows, j.n, real_code(rows)), one_each(rows, I32)
    if rows.count == 0:
        return values, result.zero_() if result.count else result
    j.job, j.triangle = b"V" if wanted else b"N", b"U" if lower else b"L"
    j.b, j.b_step, j.info = pointer(values), <int64_t>j.n * values.width, <int*>pointer(result)
    symmetric(&j, j.a, j.b, size, rsize, &isize, &info)
    j.lwork, j.liwork, j.lrwork = workspace_size(&j, size), isize, workspace_size(&j, rsize) if j.kind > 1 else 0
    if own(&j):
        j.lwork = <int>max(<int64_t>j.lwork, own_work(&j))
    run(symmetric_range, &j, result.count, (0.3 if wanted else 0.1) * j.n * j.n * j.n)
    return values, result


cdef void general(Job* j, char* a, char* values, char* imaginary, char* right, char* work, char* rwork, int* info) noexcept nogil:
    cdef int one = 1
    if j.kind < 2:
        j.routines.geev(b"N", &j.job, &j.n, a, &j.n, values, imaginary, NULL, &one, right, &j.n, work, &j.lwork, info, 1, 1)
    else:
        (<complex_general_t><void*>j.routines.geev)(
            b"N", &j.job, &j.n, a, &j.n, values, NULL, &one, right, &j.n, work, &j.lwork, rwork, info, 1, 1)


cdef inline bint own_schur(const Job* j) noexcept nogil:
    """Whether QR's sweeps are our own: of complex matrices in the nearer caches, where the library's take numbers one by one."""
    return j.kind > 1 and j.job == b"V" and <int64_t>j.n * j.n * j.size <= MOST_SCHUR


cdef inline int64_t schur_work(const Job* j) noexcept nogil:
    """Elements that `by_schur` takes: a matrix, scales of reflections, and LAPACK's."""
    return <int64_t>j.n * j.n + j.n + 130 * <int64_t>j.n + 65 * 64


cdef double largest_of(const Job* j, const char* a) noexcept nogil:
    cdef int64_t i
    cdef double most = 0.0, size
    for i in range(2 * <int64_t>j.n * j.n):
        size = fabs((<const double*>a)[i] if j.kind == 3 else (<const float*>a)[i])
        most = size if size > most else most
    return most


cdef bint by_schur(Job* j, char* a, char* values, char* right, char* work, char* rwork, int* info) noexcept nogil:
    """Complex matrices: balanced, in Hessenberg form and with vectors of triangles by the library, sweeps of QR by our own loops.  False, and
    nothing done, where elements are so large or small that their squares are not safe; the library scales these."""
    cdef double safe = 1e100 if j.kind == 3 else 1e12, largest = largest_of(j, a)
    cdef int first = 0, last = 0, left = <int>(schur_work(j) - <int64_t>j.n * j.n - j.n), count = 0, none = 0
    cdef int64_t i, row = <int64_t>j.n * j.size
    cdef char* scales = work + row * j.n
    cdef char* rest = scales + row
    cdef char* columns = work
    if not 1 / safe < largest < safe:
        return False
    j.routines.gebal(b"B", &j.n, a, &j.n, &first, &last, rwork, info, 1)
    j.routines.gehrd(&j.n, &first, &last, a, &j.n, scales, rest, &left, info)
    memcpy(right, a, row * j.n)
    j.routines.unghr(&j.n, &first, &last, right, &j.n, scales, rest, &left, info)
    for i in range(j.n - 2):           # the reflections, below H
        memset(a + i * row + (i + 2) * j.size, 0, (j.n - i - 2) * j.size)
    turn(j, work, a)
    info[0] = <int>j.blocks.schur(work, j.n, j.n, first - 1, last, right, j.n, rest)
    if info[0]:
        return True
    turn(j, a, work)
    for i in range(j.n):
        memcpy(values + i * j.size, a + i * (row + j.size), j.size)
    j.routines.trevc3(b"R", b"B", &none, &j.n, a, &j.n, NULL, &j.n, right, &j.n, &j.n, &count, rest, &left, rwork + <int64_t>j.n * 8, &j.n,
                      info, 1, 1)
    j.routines.gebak(b"B", b"R", &j.n, &first, &last, rwork, &j.n, right, &j.n, info, 1, 1)
    for i in range(j.n):
        if j.kind == 3:
            normalize(<double*>(right + i * row), j.n)
        else:
            normalize(<float*>(right + i * row), j.n)
    return True


cdef void turn(const Job* j, char* to, const char* source) noexcept nogil:
    """The transpose of a matrix, in squares that the cache holds."""
    cdef int64_t top, left, i, k, n = j.n
    for top in range(0, n, 16):
        for left in range(0, n, 16):
            for i in range(top, min(top + 16, n)):
                for k in range(left, min(left + 16, n)):
                    memcpy(to + (k * n + i) * j.size, source + (i * n + k) * j.size, j.size)


cdef void normalize(Real* v, int64_t n) noexcept nogil:
    """A vector of length 1, whose largest element is real, as LAPACK gives it."""
    cdef double sum = 0.0, most = -1.0, size, re, im, x, y
    cdef int64_t i, best = 0
    for i in range(n):
        size = <double>v[2 * i] * v[2 * i] + <double>v[2 * i + 1] * v[2 * i + 1]
        sum += size
        if size > most:
            most, best = size, i
    size = sqrt(most) * sqrt(sum)
    if not size > 0.0:
        return
    re, im = v[2 * best] / size, -v[2 * best + 1] / size
    for i in range(n):
        x, y = v[2 * i], v[2 * i + 1]
        v[2 * i], v[2 * i + 1] = <Real>(x * re - y * im), <Real>(x * im + y * re)
    v[2 * best + 1] = 0


cdef void general_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job* j = <Job*>context
    cdef int64_t at, first = <int64_t>j.lwork * j.size
    cdef char* work = <char*>malloc(first + <int64_t>j.lrwork * 8)
    cdef char* a
    cdef char* values
    cdef char* right
    if work == NULL:
        j.failed = 1
        return
    for at in range(begin, end):
        a, values, right = j.a + at * j.a_step, j.b + at * j.b_step, j.d + at * j.d_step
        if not (own_schur(j) and by_schur(j, a, values, right, work, work + first, j.info + at)):
            general(j, a, values, j.c + at * j.b_step, right, work, work + first, j.info + at)
    free(work)


def eig(TensorBase columns not None, bint wanted) -> tuple:
    """Eigenvalues (of real matrices as two tensors, real and imaginary parts), eigenvectors row by row (or None), and `info`.

    Of real matrices, LAPACK gives the real and the imaginary part of a vector of a conjugate pair as two rows.
    """
    cdef Job j
    cdef char[16] size
    cdef char[16] rsize
    cdef int info = 0
    begin(&j, columns, "eig")
    j.n, j.lwork, j.lrwork, j.liwork = <int>columns.sizes[columns.rank - 1], -1, 0, 0
    values, imaginary, result = vectors(columns, j.n, columns.code), None, one_each(columns, I32)
    if j.kind < 2:
        imaginary = vectors(columns, j.n, columns.code)
    right = stack(columns, j.n, j.n) if wanted else None
    if columns.count == 0:
        return values, imaginary, right, result.zero_() if result.count else result
    j.job, j.info = b"V" if wanted else b"N", <int*>pointer(result)
    j.b, j.b_step = pointer(values), <int64_t>j.n * j.size
    j.c = pointer(imaginary) if imaginary is not None else NULL
    j.d, j.d_step = pointer(right) if wanted else NULL, j.a_step if wanted else 0
    general(&j, j.a, j.b, j.c, j.d, size, rsize, &info)
    j.lwork, j.lrwork = workspace_size(&j, size), 2 * j.n if j.kind > 1 else 0
    if own_schur(&j):
        j.lwork = <int>max(<int64_t>j.lwork, schur_work(&j))
    run(general_range, &j, result.count, (1.0 if wanted else 0.5) * j.n * j.n * j.n)
    return values, imaginary, right, result


# --- singular values -----------------------------------------------------------------------------------------------------------------
cdef void singular(Job* j, char* a, char* values, char* u, char* v, char* work, char* rwork, int* iwork, int* info) noexcept nogil:
    cdef int leading = max(j.m if j.job == b"A" else min(j.m, j.n), 1)     # of what the library calls V'
    if j.kind < 2:
        j.routines.gesdd(&j.job, &j.n, &j.m, a, &j.lead, values, v, &j.lead, u, &leading, work, &j.lwork, iwork, info, 1)
    else:
        (<complex_svd_t><void*>j.routines.gesdd)(
            &j.job, &j.n, &j.m, a, &j.lead, values, v, &j.lead, u, &leading, work, &j.lwork, rwork, iwork, info, 1)


cdef void singular_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job* j = <Job*>context
    cdef int64_t at, first = <int64_t>j.lwork * j.size, second = <int64_t>j.lrwork * 8
    cdef char* work = <char*>malloc(first + second + <int64_t>j.liwork * 4)
    if work == NULL:
        j.failed = 1
        return
    for at in range(begin, end):
        if not finite(j, j.a + at * j.a_step, j.m, j.n, 0):
            j.info[at] = NOT_FINITE
            continue
        singular(j, j.a + at * j.a_step, j.b + at * j.b_step, j.c + at * j.c_step, j.d + at * j.d_step, work, work + first,
                 <int*>(work + first + second), j.info + at)
    free(work)


def svd(TensorBase rows not None, bint full, bint wanted) -> tuple:
    """U, S and Vh (U and Vh None unless `wanted`), and `info`; what was in the matrices is lost.

    The library sees V* S U' where A = U S Vh, and its results lie as U and Vh do by rows: nothing is turned.
    """
    cdef Job j
    cdef char[16] size
    cdef char[16] rsize
    cdef int info = 0, isize = 0
    cdef int64_t least, most
    begin(&j, rows, "svd")
    j.m, j.n, j.lwork, j.lrwork, j.liwork = <int>rows.sizes[rows.rank - 2], <int>rows.sizes[rows.rank - 1], -1, 0, 0
    least, most = min(j.m, j.n), max(j.m, j.n)
    values, result = vectors(rows, least, real_code(rows)), one_each(rows, I32)
    U = stack(rows, j.m, j.m if full else least) if wanted else None
    Vh = stack(rows, j.n if full else least, j.n) if wanted else None
    if rows.count == 0:
        return U, values, Vh, result.zero_() if result.count else result
    j.job, j.lead = b"N" if not wanted else b"A" if full else b"S", max(j.n, 1)
    j.b, j.b_step, j.info = pointer(values), least * values.width, <int*>pointer(result)
    j.c = j.d = NULL
    j.c_step = j.d_step = 0
    if wanted:
        j.c, j.c_step = pointer(U), <int64_t>j.m * (j.m if full else least) * j.size
        j.d, j.d_step = pointer(Vh), <int64_t>j.n * (j.n if full else least) * j.size
    singular(&j, j.a, j.b, j.c, j.d, size, rsize, &isize, &info)
    j.lwork = workspace_size(&j, size)
    j.liwork = 8 * <int>least
    if j.kind > 1:
        j.lrwork = <int>min(
            (least * max(5 * least + 7, 2 * most + 2 * least + 1) if wanted else 7 * least) + 16, <int64_t>INT32_MAX)
    run(singular_range, &j, result.count, (0.6 if wanted else 0.3) * j.m * j.n * least)
    return U, values, Vh, result


cdef void bidiagonal_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job* j = <Job*>context
    cdef int64_t at
    cdef double* d
    cdef double* work = <double*>malloc(<size_t>j.lwork * j.size)
    if work == NULL:
        j.failed = 1
        return
    for at in range(begin, end):
        if j.info[at]:
            j.info[at] = NOT_FINITE
            continue
        d = <double*>(j.a + at * j.a_step)
        j.routines.lasq1(&j.n, d, d + j.n, work, j.info + at)
    free(work)


def values_of_bidiagonals(TensorBase pairs not None, TensorBase info not None) -> None:
    """Diagonals and what stands above them, (*, 2, n) of float64 as `small.bidiagonal` gives them, become singular values (the
    first of each pair) and nothing; `info`, 1 for what is not finite, becomes LAPACK's.
    """
    cdef Job j
    begin(&j, pairs, "values_of_bidiagonals")
    j.n, j.lrwork, j.liwork, j.info = <int>pairs.sizes[pairs.rank - 1], 0, 0, <int*>pointer(info)
    j.lwork = 4 * j.n
    run(bidiagonal_range, &j, info.count, 20.0 * j.n * j.n)
