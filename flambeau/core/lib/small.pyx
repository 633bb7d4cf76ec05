# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Many small matrices: Cholesky factors and triangular systems, where a call of LAPACK for each takes longer than its work.

Matrices are real and of up to `LARGEST` rows.  Each is worked on by one thread, in the order of the textbook (Golub, Van Loan,
Matrix Computations, 3.1 and 4.2), so bits depend on it alone.
"""
from libc.math cimport sqrt
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy
from ..base.dtypes cimport F32, F64, I32
from ..base.parallel cimport parallel_in_parts
from ..base.tensor cimport TensorBase, new_tensor, pointer
from ..views.views cimport compact

cdef enum:
    LARGEST = 32
    GRAIN = 1 << 14            # multiplications that a thread takes at least

ctypedef fused Real:
    float
    double

cdef struct Work:
    int64_t n, m               # rows of a matrix, columns of its right side
    int upper, unit
    int wide
    const char* matrices
    char* found
    int32_t* info


def takes(TensorBase A not None) -> bool:
    """Whether these matrices are small, real, and on the host."""
    return (A.code in (F32, F64) and A.rank >= 2 and A.sizes[A.rank - 1] <= LARGEST and A.storage.on is None)


cdef void factor(Real* tag, Work* w, int64_t begin, int64_t end) noexcept nogil:
    cdef int64_t n = w.n, at, i, j, k
    cdef const Real* a
    cdef Real* low
    cdef double sum, pivot
    for at in range(begin, end):
        a = <const Real*>w.matrices + at * n * n
        low = <Real*>w.found + at * n * n
        w.info[at] = 0
        for j in range(n):
            sum = a[j * n + j]
            for k in range(j):
                sum -= <double>low[j * n + k] * low[j * n + k]
            if not sum > 0.0:              # nor NaN
                w.info[at] = <int32_t>(j + 1)
                break
            pivot = sqrt(sum)
            low[j * n + j] = <Real>pivot
            for i in range(j + 1, n):
                sum = a[i * n + j]
                for k in range(j):
                    sum -= <double>low[i * n + k] * low[j * n + k]
                low[i * n + j] = <Real>(sum / pivot)
                low[j * n + i] = 0
        if w.info[at]:                     # what LAPACK leaves: the matrix from the failing minor on
            for i in range(w.info[at] - 1, n):
                for k in range(i + 1):
                    if k >= w.info[at] - 1:
                        low[i * n + k] = a[i * n + k]
                    if k < i:
                        low[k * n + i] = 0


cdef void factor_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    if (<Work*>context).wide:
        factor(<double*>NULL, <Work*>context, begin, end)
    else:
        factor(<float*>NULL, <Work*>context, begin, end)


def cholesky(TensorBase A not None) -> tuple:
    """Lower factors, and for each 0 or the order of the first leading minor that is not positive; only lower triangles are read."""
    cdef TensorBase a = compact(A), found, info
    cdef Work w
    w.n = a.sizes[a.rank - 1]
    found, info = new_tensor(a.rank, a.sizes, a.code), new_tensor(a.rank - 2, a.sizes, I32)
    if found.count == 0:
        if info.count:
            info.zero_()
        return found, info
    w.wide, w.matrices, w.found, w.info = a.code == F64, pointer(a), pointer(found), <int32_t*>pointer(info)
    with nogil:
        parallel_in_parts(factor_range, &w, info.count, GRAIN // (w.n * w.n * w.n) + 1, w.n * w.n * w.n * 0.5 + 20.0)
    return found, info


cdef void solve(Real* tag, Work* w, int64_t begin, int64_t end) noexcept nogil:
    cdef int64_t n = w.n, m = w.m, at, i, j, k, c
    cdef const Real* a
    cdef Real* x
    cdef Real* row
    cdef Real by
    for at in range(begin, end):
        a = <const Real*>w.matrices + at * n * n
        x = <Real*>w.found + at * n * m
        for k in range(n):
            i = n - 1 - k if w.upper else k
            row = x + i * m
            for j in range(k):
                by = a[i * n + (n - 1 - j if w.upper else j)]
                if m == 1:
                    row[0] -= by * x[n - 1 - j if w.upper else j]
                else:
                    subtract(row, x + (n - 1 - j if w.upper else j) * m, by, m)
            if not w.unit:
                by = a[i * n + i]
                for c in range(m):
                    row[c] = row[c] / by


cdef inline void subtract(Real* row, const Real* other, Real by, int64_t m) noexcept nogil:
    cdef int64_t c
    for c in range(m):
        row[c] = row[c] - by * other[c]


cdef void solve_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    if (<Work*>context).wide:
        solve(<double*>NULL, <Work*>context, begin, end)
    else:
        solve(<float*>NULL, <Work*>context, begin, end)


def triangular(TensorBase A not None, TensorBase B not None, bint upper, bint unit) -> TensorBase:
    """X with A X = B for triangular A (*, n, n) and B (*, n, m), of one dtype and with the same batch."""
    cdef TensorBase a = compact(A), b = compact(B), found
    cdef Work w
    cdef int64_t batch, each
    found = new_tensor(b.rank, b.sizes, b.code)
    if found.count == 0:
        return found
    w.n, w.m, w.upper, w.unit = a.sizes[a.rank - 1], b.sizes[b.rank - 1], upper, unit
    w.wide, w.matrices, w.found = a.code == F64, pointer(a), pointer(found)
    memcpy(w.found, pointer(b), b.count * b.width)
    batch = b.count // (w.n * w.m)
    each = w.n * w.n * w.m
    with nogil:
        parallel_in_parts(solve_range, &w, batch, GRAIN // each + 1, each * 0.5 + 20.0)
    return found
