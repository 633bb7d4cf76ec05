# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Few rows by the transpose of a weight in codes (`codegen/tiles/quantised.py`), in one call.

A step of a decoder is a hundred such products, each of which streams a weight through the caches: what Python would do around them is
read anew from memory every time, and took as long as a small weight.
"""
from libc.stdint cimport int64_t, uintptr_t
from .bags cimport Work, kernel_t, run_work
from ...base.dtypes cimport U8
from ...base.tensor cimport MAX_DIMS, TensorBase, new_tensor, pointer

cdef enum: ALIGN = 64


cdef class FewRows:
    """Products of rows of one dtype by weights of one kind of codes: `few(x, codes, scales)`.

    x is (…, k), codes (n, k / `packed`) and scales (groups, n, `together`), in all or (n,); the result is (…, n).  It is None where x,
    codes and scales are not so, do not lie as kernels read them, or hold rows that have no digits; then nothing was computed.

    Args:
        split: the kernel that makes so many `digits` of each number, by vectors of `length` bytes of codes; 0 where rows are multiplied as
            floats.
        multiply: the kernel that multiplies, `columns` at a time.
        nanoseconds: that it takes for a byte of codes, about.
        most: rows.
    """

    cdef kernel_t split, multiply
    cdef int code, codes_code, together
    cdef int64_t length, digits, packed, group, columns, most
    cdef double nanoseconds

    def __init__(self, TensorBase x not None, TensorBase codes not None, int64_t packed, int64_t group, int together, int64_t length, int64_t digits,
                 uintptr_t split, uintptr_t multiply, int64_t columns, double nanoseconds, int64_t most):
        self.code, self.codes_code, self.packed, self.group, self.together = x.code, codes.code, packed, group, together
        self.length, self.digits, self.split, self.multiply = length, digits, <kernel_t><void*>split, <kernel_t><void*>multiply
        self.columns, self.nanoseconds, self.most = columns, nanoseconds, most

    def __call__(self, TensorBase x not None, TensorBase codes not None, TensorBase scales not None):
        cdef int64_t sizes[MAX_DIMS]
        cdef int64_t m, n, k, row, digits, factors, nbytes
        cdef TensorBase result, scratch
        cdef Work w
        cdef int64_t word = 0
        cdef double each
        cdef int d
        if (x.code != self.code or codes.code != self.codes_code or scales.code != self.code or x.rank == 0 or codes.rank != 2
                or not codes.contiguous or not scales.contiguous
                or x.storage.on is not None or codes.storage.on is not None or scales.storage.on is not None):
            return None
        n, k = codes.sizes[0], codes.sizes[1] * self.packed
        if n == 0 or k == 0 or x.count == 0 or x.sizes[x.rank - 1] != k or not self.has_scales(scales, n, k):
            return None
        m = x.count // k
        if m > self.most:
            return None
        if x.contiguous:
            row = k
        elif x.rank == 2 and x.strides[1] == 1:
            row = x.strides[0]
        else:
            return None
        for d in range(x.rank - 1):
            sizes[d] = x.sizes[d]
        sizes[x.rank - 1] = n
        if self.split != NULL:
            digits, factors = aligned(m * k * self.digits), aligned(m * (k // (2 * self.length)) * 2 * sizeof(float))
            nbytes = digits + factors + m
            scratch = new_tensor(1, &nbytes, U8)
            w.run, w.count = self.split, 2
            w.data[0] = pointer(scratch)
            w.data[1], w.data[3] = w.data[0] + digits, w.data[0] + digits + factors
            w.data[2], w.data[4] = pointer(x), <char*>&word
            w.numbers[0], w.numbers[1] = k, row
            with nogil:
                run_work(&w, m, k / 2)
            if word:
                return None
            result = new_tensor(x.rank, sizes, self.code)
            w.data[2], w.data[1], w.data[0] = w.data[1], w.data[0], pointer(result)
            each = m
        else:
            result = new_tensor(x.rank, sizes, self.code)
            w.data[0], w.data[1], w.numbers[4] = pointer(result), pointer(x), row
            each = 1 + m // 2
        d = 3 if self.split != NULL else 2
        w.run, w.count = self.multiply, 4 if self.split != NULL else 5
        w.data[d], w.data[d + 1], w.data[d + 2] = pointer(codes), pointer(scales), <char*>&word
        w.numbers[0], w.numbers[1], w.numbers[2], w.numbers[3] = n, k, m, self.group if self.group else k
        with nogil:
            run_work(&w, (n + self.columns - 1) // self.columns, each * self.nanoseconds * self.columns * codes.sizes[1])
        return result

    cdef bint has_scales(self, TensorBase scales, int64_t n, int64_t k) noexcept:
        if self.group == 0:
            return scales.rank == 1 and scales.sizes[0] == n
        return (k % self.group == 0 and scales.rank == (3 if self.together > 1 else 2) and scales.sizes[0] == k // self.group
                and scales.sizes[1] == n and (self.together == 1 or scales.sizes[2] == self.together))


cdef inline int64_t aligned(int64_t nbytes) noexcept nogil:
    return (nbytes + ALIGN - 1) // ALIGN * ALIGN
