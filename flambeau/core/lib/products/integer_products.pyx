# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Products of matrices of integers: by float64's where no sum can leave the integers that it has, else modulo 2**64."""
from libc.stdlib cimport free, malloc
from libc.math cimport fabs
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint64_t
from .blas cimport INTERRUPTED, OK, gemm_f64
from ...base.dtypes cimport I8, I16, I32, U8, U16, U32

cdef enum:
    WIDTH = 128               # columns that are summed at once

cdef enum: IMPOSSIBLE = -1               # beside the statuses of BLAS
cdef double EXACT = 9007199254740992.0  # 2**53: float64 has all integers up to here


ctypedef fused Integer:
    uint8_t
    int8_t
    int16_t
    int32_t
    int64_t


cdef double to_floats(double* to, const Integer* source, int64_t rows, int64_t cols, int64_t row, int64_t col) noexcept nogil:
    """A matrix of integers as float64; returns the largest magnitude in it, rounded like the elements."""
    cdef int64_t i, j
    cdef double x, most = 0
    for i in range(rows):
        for j in range(cols):
            x = <double>source[i * row + j * col]
            to[i * cols + j] = x
            most = max(most, fabs(x))
    return most


cdef int multiply_as_floats(Integer* c, const Integer* a, const Integer* b, const Integers* p) noexcept nogil:
    """The product by float64's, where no sum can leave the integers that float64 has; IMPOSSIBLE where one could, where the
    product is small, and where there is no memory.
    """
    cdef int64_t i, j
    cdef int64_t most_floats = <int64_t>1 << 57     # of each matrix, so that the bytes of all three fit 64 bits
    cdef int done = IMPOSSIBLE
    cdef double most
    cdef double* space
    cdef double* right
    cdef double* sums
    if p.m < 8 or p.n < 8 or p.k < 8:
        return IMPOSSIBLE
    if p.m > most_floats // p.k or p.n > most_floats // p.k or p.m > most_floats // p.n:
        return IMPOSSIBLE
    space = <double*>malloc((p.m * p.k + p.k * p.n + p.m * p.n) * sizeof(double))
    if space == NULL:
        return IMPOSSIBLE
    right = space + p.m * p.k
    sums = right + p.k * p.n
    most = to_floats(space, a, p.m, p.k, p.a_row, p.a_col) * to_floats(right, b, p.k, p.n, p.b_row, p.b_col)
    if most * p.k <= EXACT:
        done = gemm_f64(p.m, p.n, p.k, 1.0, space, p.k, 1, right, p.n, 1, 0.0, sums, p.n)
    if done == OK:
        for i in range(p.m):
            for j in range(p.n):
                write_sum(&c[i * p.c_row + j], <uint64_t><int64_t>sums[i * p.n + j], p.alpha, p.beta)
    free(space)
    return done


cdef inline void write_sum(Integer* c, uint64_t sum, int64_t alpha, int64_t beta) noexcept nogil:
    sum *= <uint64_t>alpha
    if beta:
        sum += <uint64_t>beta * <uint64_t>c[0]
    c[0] = <Integer>sum


cdef int multiply(Integer* c, const Integer* a, const Integer* b, const Integers* p) noexcept nogil:
    """Sums of products modulo 2**64, of which the result keeps the low bits."""
    cdef uint64_t sums[WIDTH]
    cdef uint64_t factor
    cdef int64_t i, j, s, first = 0, width
    cdef int status = multiply_as_floats(c, a, b, p)
    if status == OK or status == INTERRUPTED:
        return status
    while first < p.n:
        width = min(WIDTH, p.n - first)
        for i in range(p.m):
            for j in range(width):
                sums[j] = 0
            for s in range(p.k):
                factor = <uint64_t>a[i * p.a_row + s * p.a_col]
                if p.b_col == 1:
                    for j in range(width):
                        sums[j] += factor * <uint64_t>b[s * p.b_row + first + j]
                else:
                    for j in range(width):
                        sums[j] += factor * <uint64_t>b[s * p.b_row + (first + j) * p.b_col]
            for j in range(width):
                write_sum(&c[i * p.c_row + first + j], sums[j], p.alpha, p.beta)
        first += WIDTH
    return OK


cdef int multiply_integers(char* c, const char* a, const char* b, const Integers* p) noexcept nogil:
    if p.code == U8:
        return multiply(<uint8_t*>c, <const uint8_t*>a, <const uint8_t*>b, p)
    if p.code == I8:
        return multiply(<int8_t*>c, <const int8_t*>a, <const int8_t*>b, p)
    if p.code == I16 or p.code == U16:  # sums wrap around, to the same bits
        return multiply(<int16_t*>c, <const int16_t*>a, <const int16_t*>b, p)
    if p.code == I32 or p.code == U32:
        return multiply(<int32_t*>c, <const int32_t*>a, <const int32_t*>b, p)
    return multiply(<int64_t*>c, <const int64_t*>a, <const int64_t*>b, p)
