# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Many small matrices: Cholesky and LU factors, systems, inverses and singular values, where a call of LAPACK for each takes longer
than its work.

Matrices are real and of up to `LARGEST` rows.  Each is worked on by one thread, in the order of the textbook (Golub, Van Loan,
Matrix Computations, 3.1, 3.4 and 4.2), so bits depend on it alone.
"""
from libc.math cimport NAN, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy
from ...base.dtypes cimport F32, F64, I32
from ...base.parallel cimport parallel_interruptible
from ...base.tensor cimport TensorBase, new_tensor, pointer
from ...views.views cimport compact

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
    char* result
    int32_t* info
    int32_t* pivots


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
        low = <Real*>w.result + at * n * n
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
    cdef TensorBase a = compact(A), result, info
    cdef Work w
    w.n = a.sizes[a.rank - 1]
    result, info = new_tensor(a.rank, a.sizes, a.code), new_tensor(a.rank - 2, a.sizes, I32)
    if result.count == 0:
        if info.count:
            info.zero_()
        return result, info
    w.wide, w.matrices, w.result, w.info = a.code == F64, pointer(a), pointer(result), <int32_t*>pointer(info)
    with nogil:
        parallel_interruptible(factor_range, &w, info.count, GRAIN // (w.n * w.n * w.n) + 1, w.n * w.n * w.n * 0.5 + 20.0)
    return result, info


cdef void solve(Real* tag, Work* w, int64_t begin, int64_t end) noexcept nogil:
    cdef int64_t n = w.n, m = w.m, at, i, j, k, c
    cdef const Real* a
    cdef Real* x
    cdef Real* row
    cdef Real by
    for at in range(begin, end):
        a = <const Real*>w.matrices + at * n * n
        x = <Real*>w.result + at * n * m
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
    cdef TensorBase a = compact(A), b = compact(B), result
    cdef Work w
    cdef int64_t batch, each
    result = new_tensor(b.rank, b.sizes, b.code)
    if result.count == 0:
        return result
    w.n, w.m, w.upper, w.unit = a.sizes[a.rank - 1], b.sizes[b.rank - 1], upper, unit
    w.wide, w.matrices, w.result = a.code == F64, pointer(a), pointer(result)
    memcpy(w.result, pointer(b), b.count * b.width)
    batch = b.count // (w.n * w.m)
    each = w.n * w.n * w.m
    with nogil:
        parallel_interruptible(solve_range, &w, batch, GRAIN // each + 1, each * 0.5 + 20.0)
    return result


# --- LU, and what is made of it ----------------------------------------------------------------------------------------------
cdef inline int take_apart(Real* a, int64_t n, int32_t* pivots) noexcept nogil:
    """L and U in place, rows exchanged for the largest pivots; the number of the first pivot that is 0, from 1, or 0."""
    cdef int64_t i, j, k, best
    cdef Real most, by
    cdef int failed = 0
    for k in range(n):
        best, most = k, a[k * n + k] if a[k * n + k] >= 0 else -a[k * n + k]
        for i in range(k + 1, n):
            by = a[i * n + k] if a[i * n + k] >= 0 else -a[i * n + k]
            if by > most:
                best, most = i, by
        pivots[k] = <int32_t>(best + 1)
        if best != k:
            for j in range(n):
                by = a[k * n + j]
                a[k * n + j] = a[best * n + j]
                a[best * n + j] = by
        if a[k * n + k] == 0:
            if not failed:
                failed = <int>(k + 1)
            continue
        by = 1 / a[k * n + k]
        for i in range(k + 1, n):
            a[i * n + k] = a[i * n + k] * by
            subtract(a + i * n + k + 1, a + k * n + k + 1, a[i * n + k], n - k - 1)
    return failed


cdef inline void put_together(const Real* a, int64_t n, const int32_t* pivots, Real* x, int64_t m) noexcept nogil:
    """x with A x = b in place of b, of A as `take_apart` left it."""
    cdef int64_t i, k, c
    cdef Real by
    for k in range(n):
        if pivots[k] != k + 1:
            for c in range(m):
                by = x[k * m + c]
                x[k * m + c] = x[(pivots[k] - 1) * m + c]
                x[(pivots[k] - 1) * m + c] = by
    for i in range(n):
        for k in range(i):
            subtract(x + i * m, x + k * m, a[i * n + k], m)
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            subtract(x + i * m, x + k * m, a[i * n + k], m)
        by = a[i * n + i]
        for c in range(m):
            x[i * m + c] = x[i * m + c] / by


cdef void general(Real* tag, Work* w, int64_t begin, int64_t end) noexcept nogil:
    """Factors in `found` where there are no right sides, else solutions; `upper`: the right sides are the identity."""
    cdef int64_t n = w.n, m = w.m, at, i
    cdef Real[LARGEST * LARGEST] spare
    cdef int32_t[LARGEST] steps
    cdef Real* x
    for at in range(begin, end):
        x = <Real*>w.result + at * n * (m if m else n)
        if not m:
            memcpy(x, <const Real*>w.matrices + at * n * n, n * n * sizeof(Real))
            w.info[at] = take_apart(x, n, w.pivots + at * n)
            continue
        memcpy(spare, <const Real*>w.matrices + at * n * n, n * n * sizeof(Real))
        w.info[at] = take_apart(spare, n, steps)
        if w.upper:
            for i in range(n * n):
                x[i] = <Real>NAN if w.info[at] else 0
            if w.info[at]:
                continue
            for i in range(n):
                x[i * n + i] = 1
        put_together(spare, n, steps, x, m)


cdef void general_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    if (<Work*>context).wide:
        general(<double*>NULL, <Work*>context, begin, end)
    else:
        general(<float*>NULL, <Work*>context, begin, end)


cdef TensorBase run_general(TensorBase a, TensorBase result, int32_t* pivots, int64_t m, bint inverse):
    """The work of all matrices; the numbers of first pivots that are 0."""
    cdef Work w
    cdef TensorBase info = new_tensor(a.rank - 2, a.sizes, I32)
    cdef int64_t each
    if info.count == 0:
        return info
    w.n, w.m, w.upper, w.pivots, w.wide, w.info = a.sizes[a.rank - 1], m, inverse, pivots, a.code == F64, <int32_t*>pointer(info)
    if w.n == 0:
        return info.zero_()
    w.matrices, w.result, each = pointer(a), pointer(result), w.n * w.n * (w.n // 3 + m + 1)
    with nogil:
        parallel_interruptible(general_range, &w, info.count, GRAIN // each + 1, each * 0.3 + 20.0)
    return info


def lu(TensorBase A not None) -> tuple:
    """L and U in one matrix, the exchanged rows (from 1, int32), and for each matrix 0 or the first pivot that is 0."""
    cdef TensorBase a = compact(A), result = new_tensor(a.rank, a.sizes, a.code), pivots = new_tensor(a.rank - 1, a.sizes, I32)
    info = run_general(a, result, <int32_t*>pointer(pivots) if pivots.count else NULL, 0, False)
    return result, pivots, info


def inverse(TensorBase A not None) -> tuple:
    """Inverses, NaN where there is none, and for each matrix 0 or the first pivot that is 0."""
    cdef TensorBase a = compact(A), result = new_tensor(a.rank, a.sizes, a.code)
    return result, run_general(a, result, NULL, a.sizes[a.rank - 1], True)


def general_systems(TensorBase A not None, TensorBase B not None) -> tuple:
    """X with A X = B for A (*, n, n) and B (*, n, m), of one dtype and with the same batch, and `info` as of `lu`."""
    cdef TensorBase a = compact(A), b = compact(B), result = new_tensor(b.rank, b.sizes, b.code)
    if result.count == 0:
        return result, lu(a)[2]
    memcpy(pointer(result), pointer(b), b.count * b.width)
    return result, run_general(a, result, NULL, b.sizes[b.rank - 1], False)


# --- singular values ---------------------------------------------------------------------------------------------------------
def takes_rectangle(TensorBase A not None) -> bool:
    """As `takes`, of matrices that are not square; an empty one is not taken."""
    return takes(A) and A.sizes[A.rank - 2] <= LARGEST and A.count > 0


cdef double largest(Real* tag, const char* matrix, int64_t count, double* to) noexcept nogil:
    """A matrix in float64, and its largest modulus; NaN where an element is not finite."""
    cdef const Real* a = <const Real*>matrix
    cdef double most = 0.0, odd = 0.0, size
    cdef int64_t i
    for i in range(count):
        to[i] = a[i]
        size = to[i] if to[i] >= 0 else -to[i]
        odd += to[i] - to[i]
        most = size if size > most else most
    return most + odd


cdef inline double reflection(double* first, int64_t step, int64_t n, double* tau) noexcept nogil:
    """The vector v and the scale of the reflection 1 - tau v v' that leaves the first element alone, which it gives; v[0] is 1."""
    cdef double below = 0.0, whole, alpha = first[0]
    cdef int64_t i
    for i in range(1, n):
        below += first[i * step] * first[i * step]
    if below == 0.0:
        tau[0] = 0.0
        return alpha
    whole = sqrt(alpha * alpha + below)
    whole = -whole if alpha > 0 else whole
    tau[0] = (whole - alpha) / whole
    alpha = 1.0 / (alpha - whole)
    for i in range(1, n):
        first[i * step] = first[i * step] * alpha
    first[0] = 1.0
    return whole


cdef void bidiagonal_one(double* a, int64_t m, int64_t n, double* d, double* e) noexcept nogil:
    """The diagonals of Uᵀ A V by reflections from the left and the right (Golub, Van Loan, 5.4.8), for m >= n; A is lost."""
    cdef int64_t i, j, k
    cdef double tau, dot, by
    cdef double[LARGEST] sums
    for k in range(n):
        by = reflection(a + k * n + k, n, m - k, &tau)
        d[k], e[k] = by, 0.0
        if k == n - 1:
            break
        if tau != 0.0:
            for j in range(k + 1, n):
                sums[j] = a[k * n + j]
            for i in range(k + 1, m):
                by = a[i * n + k]
                for j in range(k + 1, n):
                    sums[j] = sums[j] + by * a[i * n + j]
            for j in range(k + 1, n):
                sums[j] = sums[j] * tau
                a[k * n + j] = a[k * n + j] - sums[j]
            for i in range(k + 1, m):
                by = a[i * n + k]
                for j in range(k + 1, n):
                    a[i * n + j] = a[i * n + j] - by * sums[j]
        by = reflection(a + k * n + k + 1, 1, n - k - 1, &tau)
        e[k] = by
        if tau != 0.0:
            for i in range(k + 1, m):
                dot = 0.0
                for j in range(k + 1, n):
                    dot += a[k * n + j] * a[i * n + j]
                dot *= tau
                for j in range(k + 1, n):
                    a[i * n + j] = a[i * n + j] - dot * a[k * n + j]


cdef void bidiagonal_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Work* w = <Work*>context
    cdef int64_t at, i, m = w.n, n = w.m
    cdef double[LARGEST * LARGEST] a
    cdef double most, by
    cdef double* d
    cdef double* e
    for at in range(begin, end):
        d, e = <double*>w.result + at * 2 * n, <double*>w.result + (at * 2 + 1) * n
        if w.wide:
            most = largest(<double*>NULL, w.matrices + at * m * n * 8, m * n, a)
        else:
            most = largest(<float*>NULL, w.matrices + at * m * n * 4, m * n, a)
        w.info[at] = most - most != 0.0
        if w.info[at]:
            continue
        by = 1.0
        if w.wide and most != 0.0 and not 1e-100 < most < 1e100:      # squares stay in range
            by = most
            for i in range(m * n):
                a[i] = a[i] / by
        bidiagonal_one(a, m, n, d, e)
        for i in range(n):
            d[i], e[i] = d[i] * by, e[i] * by


def bidiagonal(TensorBase A not None) -> tuple:
    """Bidiagonal matrices with the same singular values, (*, 2, n) in float64: diagonals, and what stands above them, then 0; and for
    each 1 where it is not finite.  The matrices have no more columns than rows.
    """
    cdef TensorBase a = compact(A), result, info = new_tensor(A.rank - 2, A.sizes, I32)
    cdef int64_t[64] sizes
    cdef Work w
    cdef int64_t each
    w.n, w.m = a.sizes[a.rank - 2], a.sizes[a.rank - 1]
    memcpy(sizes, a.sizes, (a.rank - 2) * sizeof(int64_t))
    sizes[a.rank - 2], sizes[a.rank - 1] = 2, w.m
    result = new_tensor(a.rank, sizes, F64)
    w.wide, w.matrices, w.result, w.info = a.code == F64, pointer(a), pointer(result), <int32_t*>pointer(info)
    each = 3 * w.n * w.m * w.m
    with nogil:
        parallel_interruptible(bidiagonal_range, &w, info.count, GRAIN // each + 1, each * 0.5 + 50.0)
    return result, info
