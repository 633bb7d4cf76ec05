"""What all calls of LAPACK share: its routines, and the job that describes a stack of matrices to the threads."""
from libc.stdint cimport int64_t
from ...base.parallel cimport task_t
from ...base.tensor cimport TensorBase

cdef enum:
    KINDS = 4                  # float32, float64, complex64, complex128
    CALL = 2000                # nanoseconds that a call takes beside its work
    NOT_FINITE = -4            # what LAPACK says of such a matrix
    STRIP = 128                # rows or columns that a thread takes at least
    SHARED = 1 << 22           # multiplications of a factorisation from which threads share a matrix

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
ctypedef void (*tridiagonal_t)(const char* job, const int* n, void* d, void* e, void* z, const int* ldz, void* work, const int* lwork,
                               int* iwork, const int* liwork, int* info, size_t) noexcept nogil
ctypedef void (*roots_t)(const int* n, void* d, void* e, int* info) noexcept nogil
ctypedef void (*apply_t)(
    const char* side, const char* triangle, const char* trans, const int* m, const int* n, const void* a, const int* lda, const void* tau,
    void* c, const int* ldc, void* work, const int* lwork, int* info, size_t, size_t, size_t) noexcept nogil
ctypedef void (*balance_t)(const char* job, const int* n, void* a, const int* lda, int* first, int* last, void* scale, int* info,
                           size_t) noexcept nogil
ctypedef void (*hessenberg_t)(const int* n, const int* first, const int* last, void* a, const int* lda, void* tau, void* work,
                              const int* lwork, int* info) noexcept nogil
ctypedef void (*vectors_t)(
    const char* side, const char* how, const int* select, const int* n, void* t, const int* ldt, void* vl, const int* ldvl, void* vr,
    const int* ldvr, const int* mm, int* m, void* work, const int* lwork, void* rwork, const int* lrwork, int* info, size_t,
    size_t) noexcept nogil
ctypedef void (*unbalance_t)(const char* job, const char* side, const int* n, const int* first, const int* last, const void* scale,
                             const int* m, void* v, const int* ldv, int* info, size_t, size_t) noexcept nogil
ctypedef void (*general_t)(
    const char* left, const char* right, const int* n, void* a, const int* lda, void* wr, void* wi, void* vl, const int* ldvl,
    void* vr, const int* ldvr, void* work, const int* lwork, int* info, size_t, size_t) noexcept nogil
ctypedef void (*complex_general_t)(
    const char* left, const char* right, const int* n, void* a, const int* lda, void* w, void* vl, const int* ldvl, void* vr,
    const int* ldvr, void* work, const int* lwork, void* rwork, int* info, size_t, size_t) noexcept nogil

cdef extern from "linalg/blocks.h" nogil:
    enum: FLAMBEAU_LINE
    ctypedef struct flambeau_blocks:
        void (*subtract)(void* c, int64_t c_row, const void* a, int64_t a_row, int64_t a_col, const void* b, int64_t b_row, int64_t m,
                         int64_t n, int64_t k, int64_t below, int conjugate) noexcept nogil
        void (*solve)(const void* a, int64_t a_row, int64_t a_col, void* x, int64_t x_row, int64_t n, int64_t columns, int upper,
                      int unit) noexcept nogil
        int64_t (*lu)(void* a, int64_t a_row, int64_t m, int64_t n, int* pivots, void* work) noexcept nogil
        int64_t (*cholesky)(void* a, int64_t a_row, int64_t n, void* work) noexcept nogil
        void (*exchange)(void* a, int64_t a_row, int64_t columns, const int* pivots, int64_t first, int64_t last) noexcept nogil
        void (*adjoint)(void* to, int64_t to_row, const void* source, int64_t from_row, int64_t rows, int64_t columns) noexcept nogil
        void (*mirror)(void* a, int64_t a_row, int64_t n) noexcept nogil
        double (*symmetric)(void* to, int64_t to_row, const void* source, int64_t n, int lower) noexcept nogil
        void (*tridiagonal)(void* a, int64_t a_row, int64_t n, void* diagonal, void* beside, void* scales, void* work) noexcept nogil
        int64_t (*schur)(void* h, int64_t h_row, int64_t n, int64_t begin, int64_t end, void* z, int64_t z_row, void* work) noexcept nogil
    const flambeau_blocks* flambeau_blocks_of(int kind, int narrow)

cdef struct Routines:
    qr_t geqrf
    q_t orgqr
    panel_t geqrt3
    reflect_t larfb
    triangular_t trmm
    svd_t gesdd
    bidiagonal_t lasq1
    symmetric_t syevd
    tridiagonal_t stedc        # of real numbers, as the two after it
    roots_t sterf
    apply_t ormtr
    balance_t gebal            # of complex numbers, as the four after it
    hessenberg_t gehrd
    hessenberg_t unghr
    vectors_t trevc3
    unbalance_t gebak
    general_t geev

cdef struct Job:
    Routines* routines
    const flambeau_blocks* blocks
    int kind
    int size                   # bytes of an element
    int m, n, k
    int lead                   # from one column of `a` to the next; of matrices by rows, from one row
    int block                  # reflections that are applied at once, or columns that are factored
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

# Which of the four types of numbers; its routines are taken from the library at the first use.
cdef int kind_of(TensorBase x) except -1
# The job of a stack of matrices; TypeError unless it is contiguous, RuntimeError for sizes that LAPACK cannot count.
cdef int begin(Job* job, TensorBase a, str who) except -1
# How many matrices there are.
cdef int64_t matrices(TensorBase a) noexcept
# A new tensor with an element, or a vector, for each matrix; a new stack of matrices of another size.
cdef TensorBase one_each(TensorBase a, int code)
cdef TensorBase vectors(TensorBase a, int64_t length, int code)
cdef TensorBase stack(TensorBase a, int64_t rows, int64_t columns)
# The dtype of the real parts.
cdef int real_code(TensorBase a) noexcept
# All matrices, shared over the pool where that is worth it; OutOfMemoryError where there is no work space.
cdef int run(task_t task, Job* job, int64_t count, double nanoseconds) except -1
# The same for factorisations, of which threads share large matrices where there are fewer of them than threads.  The bits do not change.
cdef int by_threads(task_t task, Job* job, int64_t count, double nanoseconds) except -1
# The work space that a routine wants, which it said in the first element; float32 holds 24 bits of it.
cdef int workspace_size(Job* job, const char* work) noexcept nogil
# Whether a matrix, or the triangle that the library would read, has no NaN or infinity, on which it prints, or goes astray.
cdef bint finite(const Job* j, const char* a, int64_t rows, int64_t columns, char triangle) noexcept nogil

cdef inline char* element(const Job* j, char* a, int64_t row, int64_t column) noexcept nogil:
    return a + (column * j.lead + row) * j.size


cdef inline char* cell(const Job* j, char* a, int64_t row, int64_t column) noexcept nogil:
    """An element of a matrix by rows."""
    return a + (row * j.lead + column) * j.size


cdef inline bint large(const Job* j) noexcept nogil:
    """Whether threads share a matrix."""
    return j.k >= STRIP and <double>j.m * j.n * j.k >= SHARED


cdef inline int width(const Job* j) noexcept nogil:
    """Columns of the block in hand."""
    return min(j.block, j.k - j.column)


cdef inline void unit_of(const Job* j, double* one) noexcept nogil:
    """1 in the matrices' type."""
    one[0], one[1] = 1.0, 0.0
    if j.kind % 2 == 0:
        one[0] = 0.0
        (<float*>one)[0] = 1.0


cdef inline void minus_of(const Job* j, double* minus) noexcept nogil:
    """-1 in the matrices' type."""
    minus[0], minus[1] = -1.0, 0.0
    if j.kind % 2 == 0:
        minus[0] = 0.0
        (<float*>minus)[0] = -1.0


cdef inline void add_one(char* to, int kind) noexcept nogil:
    if kind % 2:
        (<double*>to)[0] += 1.0
    else:
        (<float*>to)[0] += 1.0
