# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""LAPACK's decompositions, from the library that `blas` has opened, in place on stacks of matrices: what all of them share.

LAPACK counts by columns: it sees a matrix that lies here row by row as its transpose.  A function says which of the two it wants:
`columns` are matrices that the caller has turned, (*, columns, rows); `rows` lie as everywhere.  All stacks are contiguous
and the caller's own, for most are written to.  Each matrix is computed by one thread, many by the pool.

What comes back as `info` (int32, one a matrix) is LAPACK's verdict: 0, or what failed.
"""
from libc.stdint cimport INT32_MAX, int32_t, int64_t
from ...base.device import OutOfMemoryError
from ...base.dtypes cimport C64, C128, F32, F64, dtype_of
from ...base.memory cimport check_memory, out_of_memory_message
from ...base.parallel cimport num_threads, parallel_interruptible, task_t
from ...base.tensor cimport TensorBase, new_tensor, pointer
from ..products.blas cimport ensure, routine

from ...base import settings

cdef Routines tables[KINDS]
cdef bint loaded[KINDS]
cdef bint narrow = settings.choice("FLAMBEAU_CPU_CAPABILITY", ("avx2",)) == "avx2"


cdef int kind_of(TensorBase x) except -1:
    """Which of the four types of numbers; its routines are taken from the library at the first use."""
    cdef int kind
    cdef Routines* r
    if x.code == F32:
        kind = 0
    elif x.code == F64:
        kind = 1
    elif x.code == C64:
        kind = 2
    elif x.code == C128:
        kind = 3
    else:
        raise TypeError(f"lapack: float32, float64, complex64 or complex128 expected, got {dtype_of(x.code)}")
    if not loaded[kind]:
        ensure()
        letter, unitary, hermitian = "sdcz"[kind], kind > 1, kind > 1
        r = &tables[kind]
        r.geqrf = <qr_t>routine(f"{letter}geqrf_")
        r.orgqr = <q_t>routine(f"{letter}{'ungqr' if unitary else 'orgqr'}_")
        r.geqrt3 = <panel_t>routine(f"{letter}geqrt3_")
        r.larfb = <reflect_t>routine(f"{letter}larfb_")
        r.trmm = <triangular_t>routine(f"{letter}trmm_")
        r.lasq1 = <bidiagonal_t>routine("dlasq1_")
        r.gesdd = <svd_t>routine(f"{letter}gesdd_")
        r.syevd = <symmetric_t>routine(f"{letter}{'heevd' if hermitian else 'syevd'}_")
        if not hermitian:
            r.stedc = <tridiagonal_t>routine(f"{letter}stedc_")
            r.sterf = <roots_t>routine(f"{letter}sterf_")
            r.ormtr = <apply_t>routine(f"{letter}ormtr_")
        else:
            r.gebal = <balance_t>routine(f"{letter}gebal_")
            r.gehrd = <hessenberg_t>routine(f"{letter}gehrd_")
            r.unghr = <hessenberg_t>routine(f"{letter}unghr_")
            r.trevc3 = <vectors_t>routine(f"{letter}trevc3_")
            r.gebak = <unbalance_t>routine(f"{letter}gebak_")
        r.geev = <general_t>routine(f"{letter}geev_")
        loaded[kind] = True
    return kind


cdef int begin(Job* job, TensorBase a, str who) except -1:
    """The job of a stack of matrices; TypeError unless it is contiguous, RuntimeError for sizes that LAPACK cannot count."""
    cdef int64_t rows = a.sizes[a.rank - 2], columns = a.sizes[a.rank - 1]
    if not a.contiguous or a.rank < 2:
        raise TypeError(f"{who}: contiguous matrices expected")
    if rows >= INT32_MAX or columns >= INT32_MAX:
        raise RuntimeError(f"{who}: matrices of {rows} by {columns} are more than LAPACK can count")
    job.kind, job.size, job.failed = kind_of(a), a.width, 0
    job.routines, job.blocks = &tables[job.kind], flambeau_blocks_of(job.kind, narrow)
    job.a, job.a_step = pointer(a) if a.count else NULL, rows * columns * a.width
    job.b, job.b_step, job.pivots, job.info = NULL, 0, NULL, NULL
    return 0


cdef int64_t matrices(TensorBase a) noexcept:
    """How many there are."""
    cdef int64_t count = 1
    cdef int d
    for d in range(a.rank - 2):
        count *= a.sizes[d]
    return count


cdef TensorBase one_each(TensorBase a, int code):
    """A new tensor with an element for each matrix."""
    return new_tensor(a.rank - 2, a.sizes, code)


cdef TensorBase vectors(TensorBase a, int64_t length, int code):
    """A new tensor with a vector for each matrix."""
    cdef int64_t sizes[64]
    cdef int d
    for d in range(a.rank - 2):
        sizes[d] = a.sizes[d]
    sizes[a.rank - 2] = length
    return new_tensor(a.rank - 1, sizes, code)


cdef TensorBase stack(TensorBase a, int64_t rows, int64_t columns):
    """A new stack of matrices of another size."""
    cdef int64_t sizes[64]
    cdef int d
    for d in range(a.rank - 2):
        sizes[d] = a.sizes[d]
    sizes[a.rank - 2], sizes[a.rank - 1] = rows, columns
    return new_tensor(a.rank, sizes, a.code)


cdef int real_code(TensorBase a) noexcept:
    return F32 if a.code == C64 else F64 if a.code == C128 else a.code


cdef int run(task_t task, Job* job, int64_t count, double nanoseconds) except -1:
    """All matrices, shared over the pool where that is worth it; OutOfMemoryError where there is no work space."""
    cdef int64_t workspace = <int64_t>job.lwork * job.size + <int64_t>job.lrwork * 8 + <int64_t>job.liwork * 4
    if workspace > 1 << 20:
        check_memory(workspace)
    with nogil:
        parallel_interruptible(task, job, count, 1 + <int64_t>(20000 / (nanoseconds + CALL)), nanoseconds + CALL)
    if job.failed:
        raise OutOfMemoryError(out_of_memory_message(workspace))
    return 0


cdef int by_threads(task_t task, Job* job, int64_t count, double nanoseconds) except -1:
    cdef int64_t at
    cdef Job one
    if count >= num_threads() or not large(job):
        return run(task, job, count, nanoseconds)
    for at in range(count):
        one = job[0]
        one.a += at * job.a_step
        one.b += at * job.b_step
        if one.info != NULL:
            one.info += at
        if one.pivots != NULL:
            one.pivots += at * job.k
        run(task, &one, 1, nanoseconds)
    return 0


cdef int workspace_size(Job* job, const char* work) noexcept nogil:
    """The work space that a routine wants, which it said in the first element; float32 holds 24 bits of it."""
    cdef double n = (<const float*>work)[0] if job.kind % 2 == 0 else (<const double*>work)[0]
    return <int>min(n * (1.000001 if job.kind % 2 == 0 else 1.0) + 1, <double>INT32_MAX)


def first_failure(TensorBase info not None):
    """The number of the first matrix whose verdict is not 0, and the verdict; None where all are."""
    cdef const int32_t* p
    cdef int64_t i
    if not info.count:
        return None
    p = <const int32_t*>pointer(info)
    for i in range(info.count):
        if p[i]:
            return i, p[i]
    return None


cdef bint finite(const Job* j, const char* a, int64_t rows, int64_t columns, char triangle) noexcept nogil:
    """Whether a matrix, or the triangle that the library would read, has no NaN or infinity, on which it prints, or goes astray."""
    cdef int64_t row, first, last, k, parts = 2 if j.kind > 1 else 1
    cdef int bad = 0
    cdef const float* narrow
    cdef const double* wide
    for row in range(rows):
        first, last = (row if triangle == b"L" else 0) * parts, (row + 1 if triangle == b"U" else columns) * parts
        if j.kind % 2:
            wide = <const double*>a + row * columns * parts
            for k in range(first, last):
                bad |= wide[k] - wide[k] != 0
        else:
            narrow = <const float*>a + row * columns * parts
            for k in range(first, last):
                bad |= narrow[k] - narrow[k] != 0
    return not bad
