# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Systems of equations: by LU factors, and triangular ones."""
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from ...base.tensor cimport TensorBase, pointer
from .factors import lu
from .jobs cimport Job, begin, matrices, run, unit_of

cdef enum:
    PART = 128                 # columns of right sides that a thread takes at least


cdef void solve_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """x with x A' = b': first by the one triangle, then by the other, then rows are exchanged, the last first."""
    cdef Job* j = <Job*>context
    cdef int64_t at, matrix, row = <int64_t>j.m * j.size, length
    cdef int i, other, columns
    cdef double[2] one
    cdef int* pivots
    cdef char* x
    cdef char* factors
    cdef char* spare = <char*>malloc(row)
    if spare == NULL:
        j.failed = 1
        return
    unit_of(j, one)
    for at in range(begin, end):
        matrix = at // j.k
        factors, pivots = j.a + matrix * j.a_step, j.pivots + (matrix * j.n if j.a_step else 0)
        x = part(j, at, &columns)
        j.routines.trsm(b"R", b"U", b"N", b"N", &columns, &j.n, one, factors, &j.n, x, &j.m, 1, 1, 1, 1)
        j.routines.trsm(b"R", b"L", b"N", b"U", &columns, &j.n, one, factors, &j.n, x, &j.m, 1, 1, 1, 1)
        length = <int64_t>columns * j.size
        for i in range(j.n - 1, -1, -1):
            other = pivots[i] - 1
            if other != i:
                memcpy(spare, x + i * row, length)
                memcpy(x + i * row, x + other * row, length)
                memcpy(x + other * row, spare, length)
    free(spare)


cdef inline char* part(const Job* j, int64_t at, int* columns) noexcept nogil:
    """Where a part of the right sides begins, and how many columns it has; parts are cut by the size alone."""
    cdef int64_t first = at % j.k * PART
    columns[0] = <int>(j.m - first if at % j.k == j.k - 1 else PART)
    return j.b + at // j.k * j.b_step + first * j.size


cdef int parts_of(Job* j) noexcept:
    """Right sides that are worth more than one thread."""
    return max(j.m // PART, 1) if j.n >= PART else 1


def solve(TensorBase rows not None, TensorBase right not None) -> TensorBase:
    """x with A x = b in place of b, (*, n, m); A, one for each or one for all, is taken apart.  `info` as of `lu`, one for each A.

    The library sees A' and b', and finds x' from the right of A', so nothing is turned.
    """
    cdef Job j
    cdef int64_t count
    begin(&j, rows, "solve")
    pivots, info = lu(rows)
    j.n, j.m, j.lwork, j.lrwork, j.liwork = <int>rows.sizes[rows.rank - 1], <int>right.sizes[right.rank - 1], 0, 0, 0
    if right.count == 0:
        return info
    if not right.contiguous or right.code != rows.code:
        raise TypeError("solve: contiguous matrices of one dtype expected")
    count = matrices(right)
    if count != (<TensorBase>info).count:
        j.a_step = 0
    j.b, j.b_step, j.pivots = pointer(right), <int64_t>j.n * j.m * j.size, <int*>pointer(pivots)
    j.k = parts_of(&j)
    run(solve_range, &j, count * j.k, 0.06 * j.n * j.n * j.m / j.k)
    return info


cdef void triangular_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job* j = <Job*>context
    cdef int64_t at
    cdef int columns
    cdef char* x
    cdef double[2] one
    unit_of(j, one)
    for at in range(begin, end):
        x = part(j, at, &columns)
        j.routines.trsm(b"R", &j.triangle, &j.transposed, &j.unit, &columns, &j.n, one, j.a + at // j.k * j.a_step, &j.n,
                        x, &j.m, 1, 1, 1, 1)


def triangular(TensorBase matrix not None, TensorBase right not None, bint upper, bint unit, bint turned) -> None:
    """x with A x = b in place of b, (*, n, m), for triangular A, one for each or one for all; `turned`: `matrix` holds its transposes."""
    cdef Job j
    begin(&j, matrix, "triangular")
    j.n, j.m, j.lwork, j.lrwork, j.liwork = <int>matrix.sizes[matrix.rank - 1], <int>right.sizes[right.rank - 1], 0, 0, 0
    if right.count == 0:
        return
    if not right.contiguous or right.code != matrix.code:
        raise TypeError("triangular: contiguous matrices of one dtype expected")
    if matrices(right) != matrices(matrix):
        j.a_step = 0
    j.triangle = b"U" if upper == turned else b"L"
    j.transposed = b"T" if turned else b"N"
    j.unit = b"U" if unit else b"N"
    j.b, j.b_step = pointer(right), <int64_t>j.n * j.m * j.size
    j.k = parts_of(&j)
    run(triangular_range, &j, matrices(right) * j.k, 0.03 * j.n * j.n * j.m / j.k)
