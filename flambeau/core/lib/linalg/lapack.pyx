# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""LAPACK's decompositions, from the library that `blas` has opened, in place on stacks of matrices.

LAPACK counts by columns: it sees a matrix that lies here row by row as its transpose.  A function says which of the two it wants:
`columns` are matrices that the caller has turned, (*, columns, rows); `rows` lie as everywhere.  All stacks are contiguous
and the caller's own, for most are written to.  Each matrix is computed by one thread, many by the pool.

What comes back as `info` (int32, one a matrix) is LAPACK's verdict: 0, or what failed.
"""
from libc.math cimport NAN, hypot, log
from libc.stdint cimport INT32_MAX, int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from ...base.device import OutOfMemoryError
from ...base.dtypes cimport C64, C128, F32, F64, I32, dtype_of
from ...base.memory cimport check_memory, out_of_memory_message
from ...base.parallel cimport parallel_interruptible, task_t
from ...base.tensor cimport TensorBase, new_tensor, pointer
from ..products.blas cimport ensure, routine

cdef enum:
    KINDS = 4                  # float32, float64, complex64, complex128
    PART = 128                 # columns of right sides that a thread takes at least
    NOT_FINITE = -4            # what LAPACK says of such a matrix
    CALL = 2000                # nanoseconds that a call takes beside its work
    ALONE = 1 << 14            # elements up to which LAPACK reflects one column after another
    COLUMNS = 64               # that a thread multiplies by a block of reflections
    SHARED = 1 << 23           # multiplications of a decomposition from which the threads share one matrix

# Lengths of characters follow the arguments, as compilers of Fortran hand them on.
ctypedef void (*qr_t)(const int* m, const int* n, void* a, const int* lda, void* tau, void* work, const int* lwork,
                      int* info) noexcept nogil
ctypedef void (*q_t)(const int* m, const int* n, const int* k, void* a, const int* lda, const void* tau, void* work,
                     const int* lwork, int* info) noexcept nogil
ctypedef void (*panel_t)(const int* m, const int* n, void* a, const int* lda, void* t, const int* ldt, int* info) noexcept nogil
ctypedef void (*reflect_t)(
    const char* side, const char* trans, const char* direct, const char* storev, const int* m, const int* n, const int* k,
    const void* v, const int* ldv, const void* t, const int* ldt, void* c, const int* ldc, void* work, const int* ldwork,
    size_t, size_t, size_t, size_t) noexcept nogil
ctypedef void (*lu_t)(const int* m, const int* n, void* a, const int* lda, int* pivots, int* info) noexcept nogil
ctypedef void (*inverse_t)(const int* n, void* a, const int* lda, const int* pivots, void* work, const int* lwork,
                           int* info) noexcept nogil
ctypedef void (*cholesky_t)(const char* uplo, const int* n, void* a, const int* lda, int* info, size_t) noexcept nogil
ctypedef void (*triangular_t)(
    const char* side, const char* uplo, const char* trans, const char* diag, const int* m, const int* n, const void* alpha,
    const void* a, const int* lda, void* b, const int* ldb, size_t, size_t, size_t, size_t) noexcept nogil
ctypedef void (*svd_t)(const char* job, const int* m, const int* n, void* a, const int* lda, void* s, void* u, const int* ldu,
                       void* vt, const int* ldvt, void* work, const int* lwork, int* iwork, int* info, size_t) noexcept nogil
ctypedef void (*bidiagonal_t)(const int* n, double* d, double* e, double* work, int* info) noexcept nogil
ctypedef void (*complex_svd_t)(
    const char* job, const int* m, const int* n, void* a, const int* lda, void* s, void* u, const int* ldu, void* vt,
    const int* ldvt, void* work, const int* lwork, void* rwork, int* iwork, int* info, size_t) noexcept nogil
ctypedef void (*symmetric_t)(
    const char* job, const char* uplo, const int* n, void* a, const int* lda, void* w, void* work, const int* lwork,
    int* iwork, const int* liwork, int* info, size_t, size_t) noexcept nogil
ctypedef void (*hermitian_t)(
    const char* job, const char* uplo, const int* n, void* a, const int* lda, void* w, void* work, const int* lwork,
    void* rwork, const int* lrwork, int* iwork, const int* liwork, int* info, size_t, size_t) noexcept nogil
ctypedef void (*general_t)(
    const char* left, const char* right, const int* n, void* a, const int* lda, void* wr, void* wi, void* vl, const int* ldvl,
    void* vr, const int* ldvr, void* work, const int* lwork, int* info, size_t, size_t) noexcept nogil
ctypedef void (*complex_general_t)(
    const char* left, const char* right, const int* n, void* a, const int* lda, void* w, void* vl, const int* ldvl, void* vr,
    const int* ldvr, void* work, const int* lwork, void* rwork, int* info, size_t, size_t) noexcept nogil

cdef struct Routines:
    qr_t geqrf
    q_t orgqr
    panel_t geqrt3
    reflect_t larfb
    triangular_t trmm
    lu_t getrf
    inverse_t getri
    cholesky_t potrf
    triangular_t trsm
    svd_t gesdd
    bidiagonal_t lasq1
    symmetric_t syevd
    general_t geev

cdef struct Job:
    Routines* routines
    int kind
    int size                   # bytes of an element
    int m, n, k
    int lead                   # from one column of `a` to the next
    int block                  # reflections that are applied at once
    int column                 # the first of the block in hand
    char* a                    # matrices, `a_step` bytes from one to the next (0: one for all)
    char* b
    char* c
    char* d
    int64_t a_step, b_step, c_step, d_step
    int* info                  # one for each
    int* pivots
    int lwork, liwork, lrwork  # elements of the work space
    char job, triangle, transposed, unit
    int failed                 # memory ran out

cdef Routines tables[KINDS]
cdef bint loaded[KINDS]


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
        r.getrf = <lu_t>routine(f"{letter}getrf_")
        r.getri = <inverse_t>routine(f"{letter}getri_")
        r.potrf = <cholesky_t>routine(f"{letter}potrf_")
        r.trsm = <triangular_t>routine(f"{letter}trsm_")
        r.lasq1 = <bidiagonal_t>routine("dlasq1_")
        r.gesdd = <svd_t>routine(f"{letter}gesdd_")
        r.syevd = <symmetric_t>routine(f"{letter}{'heevd' if hermitian else 'syevd'}_")
        r.geev = <general_t>routine(f"{letter}geev_")
        loaded[kind] = True
    return kind


# --- what all of them need -------------------------------------------------------------------------------------------------
cdef int begin(Job* job, TensorBase a, str who) except -1:
    """The job of a stack of matrices; TypeError unless it is contiguous, RuntimeError for sizes that LAPACK cannot count."""
    cdef int64_t rows = a.sizes[a.rank - 2], columns = a.sizes[a.rank - 1]
    if not a.contiguous or a.rank < 2:
        raise TypeError(f"{who}: contiguous matrices expected")
    if rows >= INT32_MAX or columns >= INT32_MAX:
        raise RuntimeError(f"{who}: matrices of {rows} by {columns} are more than LAPACK can count")
    job.kind, job.size, job.failed = kind_of(a), a.width, 0
    job.routines = &tables[job.kind]
    job.a, job.a_step = pointer(a) if a.count else NULL, rows * columns * a.width
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


# --- QR ----------------------------------------------------------------------------------------------------------------------
# Reflections are joined in blocks 1 - V T Vᴴ, so most of the work is in products (R. Schreiber, C. Van Loan, "A storage-efficient WY
# representation for products of Householder transformations", 1989); LAPACK's own `geqrf` takes single columns up to 128 of them.
# A block is made by recursion (E. Elmroth, F. Gustavson, "Applying recursion to serial and parallel QR factorization", 2000).
cdef int block_of(int64_t rows, int64_t reflections) noexcept:
    """Reflections in a block; 1 where LAPACK's routines for single ones take less time."""
    return 1 if rows * reflections <= ALONE else 8 if reflections <= 64 else 16 if reflections <= 128 else 48


cdef int begin_reflections(Job* j, TensorBase columns, TensorBase T, str who) except -1:
    """The job of matrices by columns, whose blocks have or will have these T."""
    begin(j, columns, who)
    j.n, j.m = <int>columns.sizes[columns.rank - 2], <int>columns.sizes[columns.rank - 1]
    j.k, j.block, j.lead = <int>T.sizes[T.rank - 2], <int>T.sizes[T.rank - 1], max(j.m, 1)
    j.b, j.b_step = pointer(T) if T.count else NULL, <int64_t>j.k * j.block * j.size
    j.transposed = b"C" if j.kind > 1 else b"T"
    j.lwork, j.lrwork, j.liwork = j.block * (COLUMNS + 2 * j.block), 0, 0
    return 0


cdef inline int width(const Job* j) noexcept nogil:
    """Columns of the block in hand."""
    return min(j.block, j.k - j.column)


cdef void reflect(const Job* j, const char* v, int rows, const char* t, char* to, int count, int lead,
                  char* work) noexcept nogil:
    """The block in hand, or its transpose (`transposed` says which), times some columns."""
    cdef int k = width(j)
    j.routines.larfb(b"L", &j.transposed, b"F", b"C", &rows, &count, &k, v, &j.lead, t, &j.block, to, &lead, work, &count, 1, 1, 1, 1)


cdef inline char* element(const Job* j, char* a, int64_t row, int64_t column) noexcept nogil:
    return a + (column * j.lead + row) * j.size


cdef int rest_of(const Job* j) noexcept nogil:
    """How many pieces the columns after the block in hand have."""
    return (j.n - j.column - width(j) + COLUMNS - 1) // COLUMNS


cdef void rest(const Job* j, int64_t first, int64_t last, char* work) noexcept nogil:
    """The block in hand times pieces of the columns after it, from its first row on."""
    cdef int64_t piece, column
    cdef char* v = element(j, j.a, j.column, j.column)
    for piece in range(first, last):
        column = j.column + width(j) + piece * COLUMNS
        reflect(j, v, j.m - j.column, j.b + <int64_t>j.column * j.block * j.size, element(j, j.a, j.column, column),
                <int>min(j.n - column, <int64_t>COLUMNS), j.lead, work)


cdef void panel(Job* j) noexcept nogil:
    """The reflections of the block in hand, and their T."""
    cdef int rows = j.m - j.column, columns = width(j), info = 0
    j.routines.geqrt3(&rows, &columns, element(j, j.a, j.column, j.column), &j.lead,
                      j.b + <int64_t>j.column * j.block * j.size, &j.block, &info)


cdef void own_columns(Job* j, char* work) noexcept nogil:
    """The block's own columns of Q, 1 - V T V₁ᴴ, in place of V = [V₁; V₂]: T V₁ᴴ is a triangle, so V₂ is multiplied where it lies."""
    cdef int b = width(j), below = j.m - j.column - b, r, c
    cdef int64_t row = <int64_t>b * j.size
    cdef double[2] one
    cdef double[2] minus
    cdef const char* t = j.b + <int64_t>j.column * j.block * j.size
    cdef char* v = element(j, j.a, j.column, j.column)
    cdef char* top = work + b * row
    unit_of(j, one)
    minus[0], minus[1] = -1.0, 0.0
    if j.kind % 2 == 0:
        minus[0] = 0.0
        (<float*>minus)[0] = -1.0
    memset(work, 0, b * row)
    for c in range(b):
        memcpy(work + c * row, t + <int64_t>c * j.block * j.size, (c + 1) * <int64_t>j.size)
    j.routines.trmm(b"R", b"L", b"C", b"U", &b, &b, one, v, &j.lead, work, &b, 1, 1, 1, 1)
    memcpy(top, work, b * row)
    j.routines.trmm(b"L", b"L", b"N", b"U", &b, &b, minus, v, &j.lead, top, &b, 1, 1, 1, 1)
    j.routines.trmm(b"R", b"U", b"N", b"N", &below, &b, minus, work, &b, v + row, &j.lead, 1, 1, 1, 1)
    for c in range(b):
        add_one(top + (c * b + c) * <int64_t>j.size, j.kind)
        memcpy(element(j, j.a, j.column, j.column + c), top + c * row, row)
        memset(element(j, j.a, 0, j.column + c), 0, <int64_t>j.column * j.size)


cdef inline void add_one(char* to, int kind) noexcept nogil:
    if kind % 2:
        (<double*>to)[0] += 1.0
    else:
        (<float*>to)[0] += 1.0


cdef void rest_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job* j = <Job*>context
    cdef char* work = <char*>malloc(<size_t>j.lwork * j.size)
    if work == NULL:
        j.failed = 1
        return
    rest(j, begin, end, work)
    free(work)


cdef int rest_by_threads(Job* j) except -1:
    return run(rest_range, j, rest_of(j), 0.02 * COLUMNS * (j.m - j.column) * j.block)


cdef void qr_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job j = (<Job*>context)[0]
    cdef int64_t at
    cdef int info = 0
    cdef char* work = <char*>malloc(<size_t>j.lwork * j.size)
    if work == NULL:
        (<Job*>context).failed = 1
        return
    for at in range(begin, end):
        j.a, j.b = (<Job*>context).a + at * j.a_step, (<Job*>context).b + at * j.b_step
        if j.block == 1:
            j.routines.geqrf(&j.m, &j.n, j.a, &j.lead, j.b, work, &j.lwork, &info)
            continue
        j.column = 0
        while j.column < j.k:
            panel(&j)
            rest(&j, 0, rest_of(&j), work)
            j.column += j.block
    free(work)


def qr(TensorBase columns not None) -> TensorBase:
    """R above the diagonal, reflections below it; the result are their blocks' T (*, min(rows, columns), block), upper triangles by
    columns, whose diagonals are the scales of the reflections.
    """
    cdef Job j
    cdef int info = 0
    cdef int64_t rows = columns.sizes[columns.rank - 1], k = min(rows, columns.sizes[columns.rank - 2]), _at
    cdef char[16] size
    T = stack(columns, k, block_of(rows, k))
    begin_reflections(&j, columns, T, "qr")
    if T.count == 0:
        return T
    if j.block == 1:
        j.lwork = -1
        j.routines.geqrf(&j.m, &j.n, j.a, &j.lead, j.b, size, &j.lwork, &info)
        j.lwork = workspace_size(&j, size)
    elif <int64_t>j.m * j.n * j.k >= SHARED:
        for _at in range(matrices(columns)):
            j.column = 0
            while j.column < j.k:
                with nogil:
                    panel(&j)
                rest_by_threads(&j)
                j.column += j.block
            j.a += j.a_step
            j.b += j.b_step
        return T
    run(qr_range, &j, matrices(columns), 0.1 * j.m * j.n * j.k)
    return T


def scales(TensorBase T not None) -> TensorBase:
    """The scales of the reflections in blocks as `qr` gives them."""
    cdef TensorBase tau = new_tensor(T.rank - 1, T.sizes, T.code)
    cdef int64_t i, block = T.sizes[T.rank - 1], k = T.sizes[T.rank - 2]
    for i in range(tau.count):
        memcpy(<char*>pointer(tau) + i * T.width, <char*>pointer(T) + (i * block + i % k % block) * T.width, T.width)
    return tau


cdef void identity_columns(const Job* j) noexcept nogil:
    """Columns of Q beyond the reflections' own, before these are applied."""
    cdef int c
    for c in range(j.k, j.n):
        memset(element(j, j.a, 0, c), 0, <int64_t>j.m * j.size)
        add_one(element(j, j.a, c, c), j.kind)


cdef void q_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job j = (<Job*>context)[0]
    cdef int64_t at
    cdef int info = 0
    cdef char* work = <char*>malloc(<size_t>j.lwork * j.size)
    if work == NULL:
        (<Job*>context).failed = 1
        return
    for at in range(begin, end):
        j.a, j.b = (<Job*>context).a + at * j.a_step, (<Job*>context).b + at * j.b_step
        if j.block == 1:
            j.routines.orgqr(&j.m, &j.n, &j.k, j.a, &j.lead, j.b, work, &j.lwork, &info)
            continue
        identity_columns(&j)
        j.column = last_block(&j)
        while j.column >= 0:
            rest(&j, 0, rest_of(&j), work)
            own_columns(&j, work)
            j.column -= j.block
    free(work)


cdef inline int last_block(const Job* j) noexcept nogil:
    return (j.k - 1) // j.block * j.block


def q(TensorBase columns not None, TensorBase T not None) -> None:
    """Reflections as `qr` left them become the first columns of their product."""
    cdef Job j
    cdef int info = 0
    cdef int64_t _at, length
    cdef char[16] size
    cdef char* work
    cdef TensorBase space
    begin_reflections(&j, columns, T, "q")
    j.transposed = b"N"
    if columns.count == 0:
        return
    if j.block == 1 or T.count == 0:
        j.block, j.lwork = 1, -1
        j.routines.orgqr(&j.m, &j.n, &j.k, j.a, &j.lead, j.b, size, &j.lwork, &info)
        j.lwork = workspace_size(&j, size)
    elif <int64_t>j.m * j.n * j.k >= SHARED:
        length = j.lwork
        space = new_tensor(1, &length, columns.code)
        work = pointer(space)
        for _at in range(matrices(columns)):
            identity_columns(&j)
            j.column = last_block(&j)
            while j.column >= 0:
                rest_by_threads(&j)
                with nogil:
                    own_columns(&j, work)
                j.column -= j.block
            j.a += j.a_step
            j.b += j.b_step
        return
    run(q_range, &j, matrices(columns), 0.1 * j.m * j.n * (j.k + 1))


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


cdef inline void unit_of(const Job* j, double* one) noexcept nogil:
    """1 in the matrices' type."""
    one[0], one[1] = 1.0, 0.0
    if j.kind % 2 == 0:
        one[0] = 0.0
        (<float*>one)[0] = 1.0


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


# --- eigenvalues -----------------------------------------------------------------------------------------------------------------
cdef void symmetric(Job* j, char* a, char* values, char* work, char* rwork, int* iwork, int* info) noexcept nogil:
    if j.kind < 2:
        j.routines.syevd(&j.job, &j.triangle, &j.n, a, &j.n, values, work, &j.lwork, iwork, &j.liwork, info, 1, 1)
    else:
        (<hermitian_t><void*>j.routines.syevd)(
            &j.job, &j.triangle, &j.n, a, &j.n, values, work, &j.lwork, rwork, &j.lrwork, iwork, &j.liwork, info, 1, 1)


cdef void symmetric_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job* j = <Job*>context
    cdef int64_t at, first = <int64_t>j.lwork * j.size, second = <int64_t>j.lrwork * 8
    cdef char* work = <char*>malloc(first + second + <int64_t>j.liwork * 4)
    if work == NULL:
        j.failed = 1
        return
    for at in range(begin, end):
        if not finite(j, j.a + at * j.a_step, j.n, j.n, j.triangle):
            j.info[at] = NOT_FINITE
            continue
        symmetric(j, j.a + at * j.a_step, j.b + at * j.b_step, work, work + first, <int*>(work + first + second), j.info + at)
    free(work)


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
    run(symmetric_range, &j, result.count, (0.3 if wanted else 0.1) * j.n * j.n * j.n)
    return values, result


cdef void general(Job* j, char* a, char* values, char* imaginary, char* right, char* work, char* rwork, int* info) noexcept nogil:
    cdef int one = 1
    if j.kind < 2:
        j.routines.geev(b"N", &j.job, &j.n, a, &j.n, values, imaginary, NULL, &one, right, &j.n, work, &j.lwork, info, 1, 1)
    else:
        (<complex_general_t><void*>j.routines.geev)(
            b"N", &j.job, &j.n, a, &j.n, values, NULL, &one, right, &j.n, work, &j.lwork, rwork, info, 1, 1)


cdef void general_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job* j = <Job*>context
    cdef int64_t at, first = <int64_t>j.lwork * j.size
    cdef char* work = <char*>malloc(first + <int64_t>j.lrwork * 8)
    if work == NULL:
        j.failed = 1
        return
    for at in range(begin, end):
        general(j, j.a + at * j.a_step, j.b + at * j.b_step, j.c + at * j.b_step, j.d + at * j.d_step, work, work + first,
                j.info + at)
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
