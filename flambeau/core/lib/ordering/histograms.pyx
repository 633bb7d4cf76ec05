# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Counting numbers, and finding where numbers belong in ascending rows.

Counts are made in four tables by turns, since a number that comes again at once would wait for its count to be stored.  Searches halve
the row without branches, several of them side by side, since each step waits for a load.
"""
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memset
from ...base.dtypes cimport F32, F64, I32, I64, dtype_of
from ...base.parallel cimport parallel_interruptible
from ...base.tensor cimport TensorBase, new_tensor, pointer

ctypedef fused Real:
    float
    double

cdef enum:
    FEW = 1024                 # different numbers up to which counts fit the processor's first cache four times
    ABREAST = 8                # searches side by side
    GRAIN = 4096


cdef inline void count_in(const int64_t* x, int64_t n, int64_t low, int64_t* counts, int64_t step) noexcept nogil:
    """Numbers from `low` on, in four tables that are `step` apart; they have been checked to lie in them."""
    cdef int64_t i = 0
    counts -= low
    while i + 4 <= n:
        counts[x[i]] += 1
        counts[step + x[i + 1]] += 1
        counts[2 * step + x[i + 2]] += 1
        counts[3 * step + x[i + 3]] += 1
        i += 4
    while i < n:
        counts[x[i]] += 1
        i += 1


cdef int64_t count_few(const int64_t* x, int64_t n, int64_t* counts) noexcept nogil:
    """Numbers in [0, FEW), looked at and counted in one pass; returns the largest and 1, or -1 where another number comes."""
    cdef int64_t i = 0, k, largest = FEW
    cdef uint64_t a, b, c, d
    memset(counts, 0, 4 * FEW * sizeof(int64_t))
    while i + 4 <= n:
        a, b, c, d = x[i], x[i + 1], x[i + 2], x[i + 3]
        if (a | b | c | d) >= FEW:
            return -1
        counts[a] += 1
        counts[FEW + b] += 1
        counts[2 * FEW + c] += 1
        counts[3 * FEW + d] += 1
        i += 4
    while i < n:
        a = x[i]
        if a >= FEW:
            return -1
        counts[a] += 1
        i += 1
    for k in range(FEW):
        counts[k] += counts[FEW + k] + counts[2 * FEW + k] + counts[3 * FEW + k]
    while largest and not counts[largest - 1]:
        largest -= 1
    return largest


cdef TensorBase checked(TensorBase x, str who):
    if x.code != I64 or not x.contiguous:
        raise TypeError(f"{who}: a contiguous tensor of int64 expected, got {dtype_of(x.code)}")
    return x


def small_bincount(TensorBase x not None, int64_t least) -> TensorBase | None:
    """Counts of 0, 1, … up to the largest number, at least `least` of them; None where one is negative or FEW and more."""
    cdef int64_t[4 * FEW] counts
    cdef int64_t size, k
    cdef TensorBase result
    checked(x, "few")
    size = count_few(<int64_t*>pointer(x) if x.count else NULL, x.count, counts)
    if size < 0:
        return None
    least = max(size, least)
    result = new_tensor(1, &least, I64)
    for k in range(least):
        (<int64_t*>result.storage.data)[k] = counts[k] if k < size else 0
    return result


def count(TensorBase x not None, int64_t low, int64_t size) -> TensorBase:
    """Counts of low, low + 1, …, `size` of them, between which all numbers are known to lie."""
    cdef TensorBase result = new_tensor(1, &size, I64)
    checked(x, "count")
    if size:
        memset(result.storage.data, 0, size * sizeof(int64_t))
    if x.count:
        count_in(<int64_t*>pointer(x), x.count, low, <int64_t*>result.storage.data, 0)
    return result


def weighted_bincount(TensorBase x not None, TensorBase weights not None, int64_t size) -> TensorBase:
    """Sums, in order, of the float64 weights of 0, 1, …, `size` of them, between which all numbers are known to lie."""
    cdef TensorBase result = new_tensor(1, &size, F64)
    cdef const int64_t* at
    cdef const double* weight
    cdef double* to = <double*>result.storage.data
    cdef int64_t i
    checked(x, "weighed")
    if weights.code != F64 or not weights.contiguous or weights.count != x.count:
        raise TypeError("weighed: as many float64 as numbers expected")
    if size:
        memset(to, 0, size * sizeof(double))
    if x.count:
        at, weight = <int64_t*>pointer(x), <double*>pointer(weights)
        for i in range(x.count):
            to[at[i]] += weight[i]
    return result


cdef int64_t count_parts(const Real* x, int64_t n, Real low, Real high, int64_t parts, int64_t* counts) noexcept nogil:
    """How many numbers lie in each of equal parts of [low, high]; two tables by turns."""
    cdef int64_t i, k
    cdef Real width = high - low, many = <Real>parts
    for i in range(n):
        if x[i] >= low and x[i] <= high:
            k = <int64_t>((x[i] - low) / width * many)
            counts[(i & 1) * parts + (k if k < parts else parts - 1)] += 1
    for k in range(parts):
        counts[k] += counts[parts + k]
    return 0


def parts(TensorBase x not None, double low, double high, int64_t number) -> TensorBase:
    """How many of contiguous numbers (float32 or float64) lie in each of so many equal parts of [low, high], in int64."""
    cdef int64_t twice = 2 * number
    cdef TensorBase result = new_tensor(1, &twice, I64)
    if x.code not in (F32, F64) or not x.contiguous:
        raise TypeError(f"parts: contiguous float32 or float64 expected, got {dtype_of(x.code)}")
    memset(result.storage.data, 0, twice * sizeof(int64_t))
    if x.count and x.code == F32:
        count_parts(<const float*>pointer(x), x.count, <float>low, <float>high, number, <int64_t*>result.storage.data)
    elif x.count:
        count_parts(<const double*>pointer(x), x.count, low, high, number, <int64_t*>result.storage.data)
    return result


# --- where numbers belong --------------------------------------------------------------------------------------------------------
ctypedef fused Number:
    int32_t
    int64_t
    float
    double

cdef struct Search:
    const char* rows
    const char* values
    int64_t* result
    int64_t length             # of a row of bounds
    int64_t each               # values of one row
    int code
    bint one                   # row for all
    bint behind


cdef inline int64_t advance(Number bound, Number value, bint behind, int64_t half) noexcept nogil:
    """`half` where the search goes on behind the bound; all numbers come before NaN."""
    if behind:
        return half & -<int64_t>(not bound > value)
    return half & -<int64_t>(not bound >= value)


cdef inline void search(Number* tag, const Search* s, int64_t begin, int64_t end, bint behind) noexcept nogil:
    cdef const Number* values = <const Number*>s.values
    cdef const Number* row = <const Number*>s.rows
    cdef const Number* at[ABREAST]
    cdef Number value[ABREAST]
    cdef int64_t i = begin, k, left, half, many, number
    while i < end:
        many, number = min(<int64_t>ABREAST, end - i), 0
        if not s.one:
            number = i // s.each
            many = min(many, (number + 1) * s.each - i)
            row = <const Number*>s.rows + number * s.length
        for k in range(ABREAST):
            at[k], value[k] = row, values[i + (k if k < many else 0)]
        left = s.length
        while left > 1:
            half = left >> 1
            for k in range(ABREAST):
                at[k] += advance(at[k][half - 1], value[k], behind, half)
            left -= half
        for k in range(many):
            s.result[i + k] = at[k] - row + (advance(at[k][0], value[k], behind, 1) if left else 0)
        i += many


cdef void search_typed(Number* tag, const Search* s, int64_t begin, int64_t end) noexcept nogil:
    if s.behind:
        search(tag, s, begin, end, True)
    else:
        search(tag, s, begin, end, False)


cdef void search_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef const Search* s = <const Search*>context
    if s.code == F32:
        search_typed(<float*>NULL, s, begin, end)
    elif s.code == F64:
        search_typed(<double*>NULL, s, begin, end)
    elif s.code == I32:
        search_typed(<int32_t*>NULL, s, begin, end)
    else:
        search_typed(<int64_t*>NULL, s, begin, end)


def search_sorted(TensorBase bounds not None, TensorBase values not None, bint behind) -> TensorBase:
    """How many bounds come before each value (`behind`: or are equal), by halving ascending rows: the bounds' last dimension, which
    are one row, or have the values' dimensions but the last.  Both are contiguous, of one of float32, float64, int32 and int64.
    """
    cdef Search s
    cdef TensorBase result = new_tensor(values.rank, values.sizes, I64)
    if bounds.code != values.code or bounds.code not in (F32, F64, I32, I64) or not bounds.contiguous or not values.contiguous:
        raise TypeError(f"belong: {dtype_of(bounds.code)} and {dtype_of(values.code)}")
    if values.count == 0:
        return result
    s.length, s.one, s.behind, s.code = bounds.sizes[bounds.rank - 1], bounds.rank == 1, behind, bounds.code
    s.each = values.sizes[values.rank - 1] if values.rank else 1
    s.result = <int64_t*>pointer(result)
    s.values, s.rows = pointer(values), pointer(bounds) if bounds.count else pointer(values)
    with nogil:
        parallel_interruptible(search_range, &s, values.count, GRAIN, 5.0)
    return result
