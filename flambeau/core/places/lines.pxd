"""Lines of elements read and written at places: the innermost loops of `gather`, `scatter` and indexing.

`far` is the step from element to element on the indexed side, `near` on the other; an index (the next one is `along` further)
is worth `step` elements of the indexed side.  A line goes in order, so what is written at equal places has always the same
bits.  The functions stand here for the compiler, which makes loops of their own for the steps that a caller knows.
"""
from libc.string cimport memcpy
from libc.stdint cimport INT64_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from ..base.dtypes cimport U16, U32, U64, I8, I16, I32, I64, F32, F64, C64, C128

cdef enum:
    SET = -1                          # how a line is written: over what is there, or combined with it
    ADD, MULTIPLY, LEAST, GREATEST

cdef struct Wide:
    uint64_t low
    uint64_t high

ctypedef fused Unit:
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    Wide

ctypedef fused Number:
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    int8_t
    int16_t
    int32_t
    int64_t
    float
    double


cdef inline bint inside(int64_t at, int64_t bound) noexcept nogil:
    return <uint64_t>at < <uint64_t>bound


cdef inline bint read_units(Unit* to, int64_t near, const Unit* source, int64_t far, const int64_t* index, int64_t along,
                     int64_t step, int64_t bound, int64_t n) noexcept nogil:
    cdef int64_t i = 0, at
    cdef Unit a, b, c, d
    if near == 1 and along == 1 and far == 0 and step == 1:  # the usual lines have loops without products
        while i + 4 <= n:  # four in a turn: one in a turn takes up to twice as long, as the loop's code happens to lie
            if bound != INT64_MAX and not (
                    inside(index[i], bound) & inside(index[i + 1], bound) & inside(index[i + 2], bound) & inside(index[i + 3], bound)):
                break
            a, b, c, d = source[index[i]], source[index[i + 1]], source[index[i + 2]], source[index[i + 3]]
            to[i], to[i + 1], to[i + 2], to[i + 3] = a, b, c, d
            i += 4
        for i in range(i, n):
            at = index[i]
            if <uint64_t>at >= <uint64_t>bound:
                return False
            to[i] = source[at]
        return True
    if near == 1 and along == 1 and far == 1:
        for i in range(n):
            at = index[i]
            if <uint64_t>at >= <uint64_t>bound:
                return False
            to[i] = source[i + at * step]
        return True
    for i in range(n):
        at = index[i * along]
        if <uint64_t>at >= <uint64_t>bound:
            return False
        to[i * near] = source[i * far + at * step]
    return True


cdef inline bint read_line(int width, char* to, int64_t near, const char* source, int64_t far, const int64_t* index, int64_t along,
                    int64_t step, int64_t bound, int64_t n) noexcept nogil:
    """to[i * near] = source[i * far + index[i * along] * step]; False, with the rest left out, where an index is out of bounds."""
    if along == 0 and near == 1 and far == 1 and <uint64_t>index[0] < <uint64_t>bound:
        memcpy(to, source + index[0] * step * width, n * width)
        return True
    if width == 4:
        return read_units(<uint32_t*>to, near, <const uint32_t*>source, far, index, along, step, bound, n)
    if width == 8:
        return read_units(<uint64_t*>to, near, <const uint64_t*>source, far, index, along, step, bound, n)
    if width == 1:
        return read_units(<uint8_t*>to, near, <const uint8_t*>source, far, index, along, step, bound, n)
    if width == 2:
        return read_units(<uint16_t*>to, near, <const uint16_t*>source, far, index, along, step, bound, n)
    return read_units(<Wide*>to, near, <const Wide*>source, far, index, along, step, bound, n)


cdef inline void set_units(Unit* to, int64_t far, const Unit* source, int64_t near, const int64_t* index, int64_t along,
                    int64_t step, int64_t n) noexcept nogil:
    cdef int64_t i = 0
    cdef Unit a, b, c, d
    if near == 1 and along == 1 and far == 0 and step == 1:
        while i + 4 <= n:
            a, b, c, d = source[i], source[i + 1], source[i + 2], source[i + 3]
            to[index[i]] = a
            to[index[i + 1]] = b
            to[index[i + 2]] = c
            to[index[i + 3]] = d
            i += 4
        for i in range(i, n):
            to[index[i]] = source[i]
        return
    if near == 1 and along == 1 and far == 1:
        for i in range(n):
            to[i + index[i] * step] = source[i]
        return
    for i in range(n):
        to[i * far + index[i * along] * step] = source[i * near]


cdef inline void set_line(int width, char* to, int64_t far, const char* source, int64_t near, const int64_t* index, int64_t along,
                   int64_t step, int64_t n) noexcept nogil:
    if along == 0 and near == 1 and far == 1:
        memcpy(to + index[0] * step * width, source, n * width)
    elif width == 4:
        set_units(<uint32_t*>to, far, <const uint32_t*>source, near, index, along, step, n)
    elif width == 8:
        set_units(<uint64_t*>to, far, <const uint64_t*>source, near, index, along, step, n)
    elif width == 1:
        set_units(<uint8_t*>to, far, <const uint8_t*>source, near, index, along, step, n)
    elif width == 2:
        set_units(<uint16_t*>to, far, <const uint16_t*>source, near, index, along, step, n)
    else:
        set_units(<Wide*>to, far, <const Wide*>source, near, index, along, step, n)


cdef inline void combine(Number* to, int64_t far, const Number* source, int64_t near, const int64_t* index, int64_t along,
                  int64_t step, int64_t n, int how, int parts) noexcept nogil:
    """NaN wins over every number; a complex number has two parts."""
    cdef int64_t i
    cdef int k
    cdef Number* at
    cdef Number value
    if how == ADD and along == 0 and near == 1 and far == 1:
        to += index[0] * step * parts
        for i in range(n * parts):
            to[i] += source[i]
        return
    if how == ADD and parts == 1 and near == 1 and along == 1:
        if far == 0 and step == 1:
            for i in range(n):
                to[index[i]] += source[i]
        else:
            for i in range(n):
                to[i * far + index[i] * step] += source[i]
        return
    for i in range(n):
        at = to + (i * far + index[i * along] * step) * parts
        for k in range(parts):
            value = source[i * near * parts + k]
            if how == ADD:
                at[k] += value
            elif how == MULTIPLY:
                at[k] *= value
            elif how == LEAST:
                if value < at[k] or value != value:
                    at[k] = value
            elif value > at[k] or value != value:
                at[k] = value


cdef inline void write_line(int code, int width, int how, char* to, int64_t far, const char* source, int64_t near,
                     const int64_t* index, int64_t along, int64_t step, int64_t n) noexcept nogil:
    """to[i * far + index[i * along] * step] gets source[i * near]; the dtype's code matters only where they are combined."""
    if how == SET:
        set_line(width, to, far, source, near, index, along, step, n)
    elif code == F32:
        combine(<float*>to, far, <const float*>source, near, index, along, step, n, how, 1)
    elif code == F64:
        combine(<double*>to, far, <const double*>source, near, index, along, step, n, how, 1)
    elif code == I64:
        combine(<int64_t*>to, far, <const int64_t*>source, near, index, along, step, n, how, 1)
    elif code == I32:
        combine(<int32_t*>to, far, <const int32_t*>source, near, index, along, step, n, how, 1)
    elif code == I16:
        combine(<int16_t*>to, far, <const int16_t*>source, near, index, along, step, n, how, 1)
    elif code == I8:
        combine(<int8_t*>to, far, <const int8_t*>source, near, index, along, step, n, how, 1)
    elif code == U16:
        combine(<uint16_t*>to, far, <const uint16_t*>source, near, index, along, step, n, how, 1)
    elif code == U32:
        combine(<uint32_t*>to, far, <const uint32_t*>source, near, index, along, step, n, how, 1)
    elif code == U64:
        combine(<uint64_t*>to, far, <const uint64_t*>source, near, index, along, step, n, how, 1)
    elif code == C64:
        combine(<float*>to, far, <const float*>source, near, index, along, step, n, how, 2)
    elif code == C128:
        combine(<double*>to, far, <const double*>source, near, index, along, step, n, how, 2)
    else:
        combine(<uint8_t*>to, far, <const uint8_t*>source, near, index, along, step, n, how, 1)
