# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""QR by blocks of reflections, and their product Q.

Reflections are joined in blocks 1 - V T Vᴴ, so most of the work is in products (R. Schreiber, C. Van Loan, "A storage-efficient WY
representation for products of Householder transformations", 1989); LAPACK's own `geqrf` takes single columns up to 128 of them.
A block is made by recursion (E. Elmroth, F. Gustavson, "Applying recursion to serial and parallel QR factorization", 2000).
"""
from libc.stdint cimport INT32_MAX, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from ...base.tensor cimport TensorBase, new_tensor, pointer
from .jobs cimport Job, add_one, begin, element, matrices, minus_of, run, stack, unit_of, width, workspace_size

cdef extern from *:
    """
    #include <math.h>
    #include <string.h>
    #include "each_processor.h"
    #define NUMBER float
    #define OF_NUMBER f32
    #define LOWEST 1e-30f
    #define HIGHEST 1e30f
    #include "linalg/single_reflections.h"
    #undef NUMBER
    #undef OF_NUMBER
    #undef LOWEST
    #undef HIGHEST
    #define NUMBER double
    #define OF_NUMBER f64
    #define LOWEST 1e-140
    #define HIGHEST 1e140
    #include "linalg/single_reflections.h"
    """
    bint qr_f32(float* a, int64_t lead, int64_t m, int64_t n, float* scales, float* rows, int64_t wide) nogil
    bint qr_f64(double* a, int64_t lead, int64_t m, int64_t n, double* scales, double* rows, int64_t wide) nogil
    bint q_f32(float* a, int64_t lead, int64_t m, int64_t n, int64_t k, const float* scales, float* rows, int64_t wide) nogil
    bint q_f64(double* a, int64_t lead, int64_t m, int64_t n, int64_t k, const double* scales, double* rows, int64_t wide) nogil

cdef enum:
    ALONE = 1 << 14            # elements up to which one column after another is reflected: by loops of our own, or by LAPACK
    SMALL = 128                # rows up to which those are less work for any number of columns
    COLUMNS = 64               # that a thread multiplies by a block of reflections
    SHARED = 1 << 23           # multiplications of a decomposition from which the threads share one matrix


cdef int block_of(int64_t rows, int64_t reflections) noexcept:
    """Reflections in a block; 1 where LAPACK's routines for single ones take less time."""
    return 1 if rows * reflections <= ALONE else 8 if reflections <= 64 else 16 if reflections <= 128 else 48


cdef inline int64_t wide_of(const Job* j) noexcept nogil:
    """Numbers in a row of the workspace of our own loops; 0 where LAPACK is called: for complex numbers, and for few columns or long ones."""
    cdef int64_t lanes = 64 // j.size, columns = max(j.n, j.k)
    if j.block != 1 or j.kind > 1 or (j.m > 32 and j.n < lanes) or (j.m > SMALL and j.m > 2 * j.n):
        return 0
    return (columns + lanes - 1) // lanes * lanes


cdef inline char* workspace_of(const Job* j) noexcept nogil:
    return <char*>malloc(<size_t>max(<int64_t>j.lwork, j.m * (wide_of(j) + 1)) * j.size)


cdef inline bint reflected_alone(const Job* j, char* work) noexcept nogil:
    """`geqrf` of one matrix by our own loops; False, with nothing done, where it is for LAPACK."""
    cdef int64_t wide = wide_of(j)
    if not wide:
        return False
    if j.kind == 0:
        return qr_f32(<float*>j.a, j.lead, j.m, j.n, <float*>j.b, <float*>work, wide)
    return qr_f64(<double*>j.a, j.lead, j.m, j.n, <double*>j.b, <double*>work, wide)


cdef inline bint product_alone(const Job* j, char* work) noexcept nogil:
    """`orgqr` of one matrix, in the same way."""
    cdef int64_t wide = wide_of(j)
    if not wide:
        return False
    if j.kind == 0:
        return q_f32(<float*>j.a, j.lead, j.m, j.n, j.k, <const float*>j.b, <float*>work, wide)
    return q_f64(<double*>j.a, j.lead, j.m, j.n, j.k, <const double*>j.b, <double*>work, wide)


cdef int begin_reflections(Job* j, TensorBase columns, TensorBase T, str who) except -1:
    """The job of matrices by columns, whose blocks have or will have these T."""
    begin(j, columns, who)
    j.n, j.m = <int>columns.sizes[columns.rank - 2], <int>columns.sizes[columns.rank - 1]
    j.k, j.block, j.lead = <int>T.sizes[T.rank - 2], <int>T.sizes[T.rank - 1], max(j.m, 1)
    j.b, j.b_step = pointer(T) if T.count else NULL, <int64_t>j.k * j.block * j.size
    j.transposed = b"C" if j.kind > 1 else b"T"
    j.lwork, j.lrwork, j.liwork = j.block * (COLUMNS + 2 * j.block), 0, 0
    return 0


cdef void reflect(const Job* j, const char* v, int rows, const char* t, char* to, int count, int lead,
                  char* work) noexcept nogil:
    """The block in hand, or its transpose (`transposed` says which), times some columns."""
    cdef int k = width(j)
    j.routines.larfb(b"L", &j.transposed, b"F", b"C", &rows, &count, &k, v, &j.lead, t, &j.block, to, &lead, work, &count, 1, 1, 1, 1)


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
    minus_of(j, minus)
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
    cdef char* work = workspace_of(&j)
    if work == NULL:
        (<Job*>context).failed = 1
        return
    for at in range(begin, end):
        j.a, j.b = (<Job*>context).a + at * j.a_step, (<Job*>context).b + at * j.b_step
        if j.block == 1:
            if not reflected_alone(&j, work):
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
    cdef char* work = workspace_of(&j)
    if work == NULL:
        (<Job*>context).failed = 1
        return
    for at in range(begin, end):
        j.a, j.b = (<Job*>context).a + at * j.a_step, (<Job*>context).b + at * j.b_step
        if j.block == 1:
            if not product_alone(&j, work):
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


cdef void adjoint_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Job j = (<Job*>context)[0]
    cdef int64_t at
    cdef char* right
    cdef char* work = <char*>malloc(<size_t>j.lwork * j.size)
    if work == NULL:
        (<Job*>context).failed = 1
        return
    for at in range(begin, end):
        j.a, j.b = (<Job*>context).a + at * j.a_step, (<Job*>context).b + at * j.b_step
        right, j.column = j.c + at * j.c_step, 0
        while j.column < j.k:
            reflect(&j, element(&j, j.a, j.column, j.column), j.m - j.column, j.b + <int64_t>j.column * j.block * j.size,
                    right + <int64_t>j.column * j.size, j.liwork, j.m, work)
            j.column += j.block
    free(work)


def multiply_adjoint(TensorBase columns not None, TensorBase T not None, TensorBase right not None) -> None:
    """Qᴴ B in place of matrices B, which lie by columns as those of `qr` do; Q itself is not formed."""
    cdef Job j
    begin_reflections(&j, columns, T, "multiply_adjoint")
    if not right.contiguous or right.code != columns.code or matrices(right) != matrices(columns) or right.sizes[right.rank - 1] != j.m:
        raise TypeError("multiply_adjoint: contiguous matrices of one dtype and of as many rows expected")
    if T.count == 0 or right.count == 0:
        return
    j.c, j.c_step, j.liwork = pointer(right), right.sizes[right.rank - 2] * j.m * j.size, <int>right.sizes[right.rank - 2]
    j.lwork = <int>min(<int64_t>j.block * j.liwork, <int64_t>INT32_MAX)
    run(adjoint_range, &j, matrices(columns), 0.05 * j.m * j.k * j.liwork)
