"""Arithmetic of sizes, strides, offsets and bytes that tells where 64 bits do not hold the answer.

Whatever multiplies or adds such numbers does it here.  Each function returns True where the answer does not fit; what it
has then written is of no use, but nothing is undefined.  The errors are made by `tensor.storage_error` and `tensor.uncountable`.
"""
from libc.stdint cimport int64_t

cdef extern from *:
    bint mul_overflow "__builtin_mul_overflow"(int64_t a, int64_t b, int64_t* out) nogil
    bint add_overflow "__builtin_add_overflow"(int64_t a, int64_t b, int64_t* out) nogil


cdef inline bint product_of(int rank, const int64_t* sizes, int64_t* count) noexcept nogil:
    """How many elements those sizes have: none where one of them is zero, however large the others.  Negative sizes count
    as sizes that do not fit."""
    cdef int64_t n = 1
    cdef bint beyond = False
    cdef int d
    for d in range(rank):
        beyond |= mul_overflow(n, sizes[d], &n) or sizes[d] < 0
    if beyond:
        for d in range(rank):
            if sizes[d] < 0:
                return True
            if sizes[d] == 0:
                n, beyond = 0, False
    count[0] = n
    return beyond


cdef inline bint row_major(int rank, const int64_t* sizes, int64_t* strides) noexcept nogil:
    """The strides of those sizes without gaps; a size of zero counts as one."""
    cdef int64_t n = 1
    cdef bint beyond = False
    cdef int d
    for d in range(rank - 1, -1, -1):
        strides[d] = n
        if sizes[d] > 1:
            beyond |= mul_overflow(n, sizes[d], &n)
    return beyond


cdef inline bint span_of(int rank, const int64_t* sizes, const int64_t* strides, int64_t* span) noexcept nogil:
    """From the first to behind the last place that such a tensor uses; 0 for one without elements."""
    cdef int64_t last = 0, step = 0
    cdef bint beyond = False
    cdef int d
    for d in range(rank):
        if sizes[d] == 0:
            span[0] = 0
            return False
    for d in range(rank):
        if sizes[d] > 1:
            beyond |= mul_overflow(sizes[d] - 1, strides[d], &step)
            beyond |= add_overflow(last, step, &last)
    beyond |= add_overflow(last, 1, span)
    return beyond


cdef inline int64_t scaled(int64_t stride, int64_t by) noexcept nogil:
    """A stride times a step; the stride itself where that does not fit, which only a dimension that is never walked has."""
    cdef int64_t result
    return stride if mul_overflow(stride, by, &result) else result
