# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Systems of equations: by LU factors, and triangular ones."""
from libc.stdint cimport int64_t
from ...base.tensor cimport TensorBase, pointer
from .factors import lu
from .jobs cimport Job, begin, matrices, run
from .triangles cimport Triangle, solve_triangle

cdef enum:
    PART = 128                 # columns of right sides that a thread takes at least


cdef void solve_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """A = P L U: rows are exchanged, then by the one triangle, then by the other."""
    cdef Job* j = <Job*>context
    cdef Triangle first
    cdef Triangle second
    cdef int64_t at, matrix
    cdef int columns
    cdef char* x
    first.turned = second.turned = first.upper = second.unit = False
    second.upper = first.unit = True
    first.lead = second.lead = j.n
    for at in range(begin, end):
        matrix = at // j.k
        first.a = second.a = j.a + matrix * j.a_step
        x = part(j, at, &columns)
        j.blocks.exchange(x, j.m, columns, j.pivots + (matrix * j.n if j.a_step else 0), 0, j.n)
        solve_triangle(j, &first, x, j.m, j.n, columns, 0)
        solve_triangle(j, &second, x, j.m, j.n, columns, 0)


cdef inline char* part(const Job* j, int64_t at, int* columns) noexcept nogil:
    """Where a part of the right sides begins, and how many columns it has; parts are cut by the size alone."""
    cdef int64_t first = at % j.k * PART
    columns[0] = <int>(j.m - first if at % j.k == j.k - 1 else PART)
    return j.b + at // j.k * j.b_step + first * j.size


cdef int parts_of(Job* j) noexcept:
    """Right sides that are worth more than one thread."""
    return max(j.m // PART, 1) if j.n >= PART else 1


def solve(TensorBase rows not None, TensorBase right not None) -> TensorBase:
    """x with A x = b in place of b, (*, n, m); A, one for each or one for all, becomes its factors.  `info` as of `lu`, one for each A."""
    cdef Job j
    cdef int64_t count
    begin(&j, rows, "solve")
    pivots, info = lu(rows)
    j.n, j.m, j.lwork, j.lrwork, j.liwork = <int>rows.sizes[rows.rank - 1], <int>right.sizes[right.rank - 1], 0, 0, 0
    if right.count == 0:
        return info
    if not right.contiguous or right.code != rows.code or right.sizes[right.rank - 2] != j.n or rows.sizes[rows.rank - 2] != j.n:
        raise TypeError("solve: contiguous matrices of one dtype, and right sides of as many rows, expected")
    count = matrices(right)
    if count != (<TensorBase>info).count:
        j.a_step = 0
    j.b, j.b_step, j.pivots = pointer(right), <int64_t>j.n * j.m * j.size, <int*>pointer(pivots)
    j.k = parts_of(&j)
    run(solve_range, &j, count * j.k, 0.06 * j.n * j.n * j.m / j.k)
    return info


cdef void triangular_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job* j = <Job*>context
    cdef Triangle t
    cdef int64_t at
    cdef int columns
    cdef char* x
    t.lead, t.turned, t.unit, t.upper = j.n, j.transposed == b"T", j.unit == b"U", j.triangle == b"U"
    for at in range(begin, end):
        x = part(j, at, &columns)
        t.a = j.a + at // j.k * j.a_step
        solve_triangle(j, &t, x, j.m, j.n, columns, 0)


cdef void conjugate(const Job* j, char* x, int columns) noexcept nogil:
    """Some columns of the right sides, in place."""
    cdef int64_t i
    cdef int c
    if j.kind < 2:
        return
    for i in range(j.n):
        for c in range(columns):
            if j.kind == 3:
                (<double*>x)[2 * c + 1] = -(<double*>x)[2 * c + 1]
            else:
                (<float*>x)[2 * c + 1] = -(<float*>x)[2 * c + 1]
        x += <int64_t>j.m * j.size


cdef void factored_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """By L and then Lᴴ, or by Uᴴ and then U: conj(M) x = b is M conj(x) = conj(b)."""
    cdef Job* j = <Job*>context
    cdef Triangle first
    cdef Triangle second
    cdef int64_t at
    cdef int columns
    cdef bint upper = j.triangle == b"U"
    cdef char* x
    first.lead, first.turned, first.upper, first.unit = j.n, upper, False, False
    second.lead, second.turned, second.upper, second.unit = j.n, not upper, True, False
    for at in range(begin, end):
        first.a = second.a = j.a + at // j.k * j.a_step
        x = part(j, at, &columns)
        if upper:
            conjugate(j, x, columns)
        solve_triangle(j, &first, x, j.m, j.n, columns, 0)
        conjugate(j, x, columns)
        solve_triangle(j, &second, x, j.m, j.n, columns, 0)
        if not upper:
            conjugate(j, x, columns)


cdef int begin_triangles(Job* j, TensorBase matrix, TensorBase right, bint upper, str who) except -1:
    begin(j, matrix, who)
    j.n, j.m, j.lwork, j.lrwork, j.liwork = <int>matrix.sizes[matrix.rank - 1], <int>right.sizes[right.rank - 1], 0, 0, 0
    if not right.contiguous or right.code != matrix.code or right.sizes[right.rank - 2] != j.n or matrix.sizes[matrix.rank - 2] != j.n:
        raise TypeError(f"{who}: contiguous matrices of one dtype, and right sides of as many rows, expected")
    if matrices(right) != matrices(matrix):
        j.a_step = 0
    j.triangle = b"U" if upper else b"L"
    j.b, j.b_step = pointer(right) if right.count else NULL, <int64_t>j.n * j.m * j.size
    j.k = parts_of(j)
    return 0


def factored(TensorBase factor not None, TensorBase right not None, bint upper) -> None:
    """x with L Lᴴ x = b (Uᴴ U x = b where `upper`) in place of b, (*, n, m), for triangular factors, one for each or one for all."""
    cdef Job j
    begin_triangles(&j, factor, right, upper, "factored")
    if right.count:
        run(factored_range, &j, matrices(right) * j.k, 0.06 * j.n * j.n * j.m / j.k)


def triangular(TensorBase matrix not None, TensorBase right not None, bint upper, bint unit, bint turned) -> None:
    """x with A x = b in place of b, (*, n, m), for triangular A, one for each or one for all; `turned`: `matrix` holds its transposes."""
    cdef Job j
    begin_triangles(&j, matrix, right, upper, "triangular")
    j.transposed = b"T" if turned else b"N"
    j.unit = b"U" if unit else b"N"
    if right.count:
        run(triangular_range, &j, matrices(right) * j.k, 0.03 * j.n * j.n * j.m / j.k)
