"""Single elements of float8 dtypes as numbers: what a printer, a literal or a fill needs.  Tensors of them are converted by kernels
(`operations/pointwise/storage_dtypes.py`), to the same bits.
"""
from libc.math cimport NAN, INFINITY, ldexp
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy
from .dtypes cimport F8_E4M3FN, F8_E4M3FNUZ, F8_E5M2, F8_E5M2FNUZ, F8_E8M0FNU


cdef inline int fraction_bits(int code) noexcept nogil:
    return 3 if code == F8_E4M3FN or code == F8_E4M3FNUZ else 2


cdef inline int bias_of(int code) noexcept nogil:
    return 7 if code == F8_E4M3FN else 8 if code == F8_E4M3FNUZ else 15 if code == F8_E5M2 else 16


cdef inline double from_float8(int code, uint8_t b) noexcept nogil:
    """The number that a byte stands for."""
    cdef int m = fraction_bits(code), bias = bias_of(code), rest = b & 127
    cdef double value
    if code == F8_E8M0FNU:
        return NAN if b == 255 else ldexp(1.0, b - 127)
    if (b == 128) if (code == F8_E4M3FNUZ or code == F8_E5M2FNUZ) else (rest == 127 if code == F8_E4M3FN else rest > 124):
        return NAN
    if code == F8_E5M2 and rest == 124:
        value = INFINITY
    elif rest >> m == 0:
        value = ldexp(rest, 1 - bias - m)
    else:
        value = ldexp((rest & ((1 << m) - 1)) + (1 << m), (rest >> m) - bias - m)
    return -value if b >> 7 else value


cdef inline uint8_t to_float8(int code, float f) noexcept nogil:
    """The byte of the nearest number, ties to even; what is too large becomes the largest number (e4m3fn), infinity (e5m2) or
    NaN.  e8m0fnu has powers of two only, and no signs.
    """
    cdef int m = fraction_bits(code), bias = bias_of(code)
    cdef uint32_t bits, rest, sign, result, least
    cdef float tiny
    memcpy(&bits, &f, 4)
    sign, bits = (bits >> 24) & 128, bits & 0x7FFFFFFF
    if code == F8_E8M0FNU:
        result, rest = bits >> 23, bits & 0x7FFFFF
        if result < 255 and (rest > 0x400000 or (rest == 0x400000 and result > 0)):
            result += 1
        return <uint8_t>result
    if bits >= <uint32_t>(128 - bias) << 23:
        result = (bits - (<uint32_t>(127 - bias) << 23) + (<uint32_t>1 << (22 - m)) - 1 + ((bits >> (23 - m)) & 1)) >> (23 - m)
    else:                                   # the sum is rounded at the last place of the smallest numbers
        least = <uint32_t>(151 - bias - m) << 23
        memcpy(&tiny, &least, 4)
        f = (-f if sign else f) + tiny
        memcpy(&result, &f, 4)
        result -= least
    if code == F8_E4M3FN or code == F8_E5M2:
        rest = 126 if code == F8_E4M3FN else 124
        return <uint8_t>(sign | (127 if bits > 0x7F800000 else min(result, rest)))
    if bits > 0x7F800000 or result > 127:
        return 128
    return <uint8_t>(sign | result) if result else 0
