# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Putting rows in order: a stable radix sort of keys and places.

Elements become unsigned keys of the same order: integers are shifted by the lowest one, the bits of negative floating-point
numbers turned over; -0 becomes 0, all NaN the largest key.  Descending order is that of the complements.  Rows are shared
over the threads.
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from ...base.device import OutOfMemoryError
from ...base.dtypes cimport BOOL, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, dtype_of
from ...base.memory cimport check_memory, out_of_memory_message
from ...base.parallel cimport parallel_interruptible
from ...base.tensor cimport TensorBase, MAX_DIMS, new_tensor_on, pointer
from ...views.views cimport compact

cdef enum:
    BY_INSERTION = 48          # elements up to which insertion beats counting
    PARALLEL_FROM = 1 << 14
    NANOSECONDS_AN_ELEMENT = 20

ctypedef fused Key:
    uint32_t
    uint64_t

cdef struct Order:
    int code
    int width
    bint descending
    const char* source
    int64_t* to
    int64_t length             # of a row
    int64_t wanted             # so many places of each row are written
    int failed                 # memory ran out


cdef inline void make_keys(Order* o, const char* row, Key* keys) noexcept nogil:
    cdef int64_t i, n = o.length
    cdef Key flip = 0
    cdef float f
    cdef double d
    cdef uint32_t narrow
    cdef uint64_t wide
    if o.descending:
        flip = ~flip
    if Key is uint64_t:
        for i in range(n):
            if o.code == I64:
                wide = (<const uint64_t*>row)[i] ^ (<uint64_t>1 << 63)
            elif o.code == U64:
                wide = (<const uint64_t*>row)[i]
            else:
                d = (<const double*>row)[i] + 0.0
                wide = (<uint64_t*>&d)[0]
                wide = ~wide if wide >> 63 else wide | (<uint64_t>1 << 63)
                if d != d:
                    wide = ~<uint64_t>0
            keys[i] = wide ^ flip
    elif o.code == F32:
        for i in range(n):
            f = (<const float*>row)[i] + <float>0
            narrow = (<uint32_t*>&f)[0]
            narrow = ~narrow if narrow >> 31 else narrow | (<uint32_t>1 << 31)
            if f != f:
                narrow = ~<uint32_t>0
            keys[i] = narrow ^ flip
    elif o.code == I32:
        for i in range(n):
            keys[i] = ((<const uint32_t*>row)[i] ^ (<uint32_t>1 << 31)) ^ flip
    elif o.code == U32:
        for i in range(n):
            keys[i] = (<const uint32_t*>row)[i] ^ flip
    elif o.code == U16:
        for i in range(n):
            keys[i] = <uint32_t>(<const uint16_t*>row)[i] ^ flip
    elif o.code == I16:
        for i in range(n):
            keys[i] = <uint32_t>((<const int16_t*>row)[i] + 32768) ^ flip
    elif o.code == I8:
        for i in range(n):
            keys[i] = <uint32_t>((<const int8_t*>row)[i] + 128) ^ flip
    else:
        for i in range(n):
            keys[i] = (<const uint8_t*>row)[i] ^ flip


cdef inline void insert_all(const Key* keys, int64_t n, Key* best, int64_t* places, int64_t wanted) noexcept nogil:
    """The smallest keys in order, each inserted among those before it; `best` is scratch for `wanted` keys."""
    cdef int64_t i, k, have = 0
    cdef Key key
    for i in range(n):
        key = keys[i]
        if have == wanted:
            if key >= best[have - 1]:
                continue
            k = have - 1
        else:
            k = have
            have += 1
        while k > 0 and best[k - 1] > key:
            best[k], places[k] = best[k - 1], places[k - 1]
            k -= 1
        best[k], places[k] = key, i


cdef inline void radix(Key* keys, uint32_t* places, Key* keys2, uint32_t* places2, int64_t n, int64_t* to,
                       int64_t wanted) noexcept nogil:
    """Byte by byte from the lowest: count, then put each element behind those of smaller or equal bytes before it."""
    cdef uint32_t counts[8][256]
    cdef int64_t i
    cdef int b, digit
    cdef uint32_t sum, c
    cdef Key key
    cdef Key* other
    cdef uint32_t* others
    memset(counts, 0, sizeof(counts))
    for i in range(n):
        key = keys[i]
        places[i] = <uint32_t>i
        for b in range(<int>sizeof(Key)):
            counts[b][(key >> 8 * b) & 255] += 1
    for b in range(<int>sizeof(Key)):
        if counts[b][(keys[0] >> 8 * b) & 255] == n:  # all alike
            continue
        sum = 0
        for digit in range(256):
            c = counts[b][digit]
            counts[b][digit] = sum
            sum += c
        for i in range(n):
            key = keys[i]
            digit = (key >> 8 * b) & 255
            c = counts[b][digit]
            counts[b][digit] = c + 1
            keys2[c], places2[c] = key, places[i]
        other, others = keys, places
        keys, places = keys2, places2
        keys2, places2 = other, others
    for i in range(wanted):
        to[i] = places[i]


cdef void order_rows(Key* tag, Order* o, int64_t begin, int64_t end) noexcept nogil:
    cdef int64_t row, n = o.length
    cdef char* workspace = <char*>malloc(n * 2 * (sizeof(Key) + 4))
    cdef Key* keys = <Key*>workspace
    cdef Key* keys2 = keys + n
    cdef uint32_t* places = <uint32_t*>(keys2 + n)
    cdef int64_t* to
    if workspace == NULL:
        o.failed = 1
        return
    for row in range(begin, end):
        make_keys(o, o.source + row * n * o.width, keys)
        to = o.to + row * o.wanted
        if n <= BY_INSERTION or o.wanted * 16 <= n and o.wanted <= BY_INSERTION:
            insert_all(keys, n, keys2, to, o.wanted)
        else:
            radix(keys, places, keys2, places + n, n, to, o.wanted)
    free(workspace)


cdef void order_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Order* o = <Order*>context
    if o.width == 8:
        order_rows(<uint64_t*>NULL, o, begin, end)
    else:
        order_rows(<uint32_t*>NULL, o, begin, end)


def order(TensorBase input not None, bint descending=False, int64_t wanted=-1) -> TensorBase:
    """Indices (int64) that put each row (the last dimension) in order; equal elements keep theirs.

    Only the first `wanted` of each row where it is not -1.  TypeError for half and complex dtypes, RuntimeError for rows
    of 2**32 elements and more.

    >>> import flambeau
    >>> order(flambeau.tensor([3., 1., 2.]))
    tensor([1, 2, 0])
    """
    cdef TensorBase x = compact(input), out
    cdef int64_t sizes[MAX_DIMS]
    cdef int64_t rows, grain
    cdef Order o
    cdef int d
    cdef bint blank = x.storage.on is not None and x.storage.on.blank
    if x.code not in (BOOL, U8, U16, U32, U64, I8, I16, I32, I64, F32, F64):
        raise TypeError(f"order(): no order of {dtype_of(x.code)}")
    if x.rank == 0:
        raise TypeError("order(): a tensor of at least one dimension expected")
    o.length = x.sizes[x.rank - 1]
    o.wanted = o.length if wanted < 0 or wanted > o.length else wanted
    if o.length >= <int64_t>1 << 32 and not blank:
        raise RuntimeError(f"order(): rows of {o.length} elements are too long")
    for d in range(x.rank):
        sizes[d] = x.sizes[d]
    sizes[x.rank - 1] = o.wanted
    out = new_tensor_on(x.storage.on, x.rank, sizes, I64)
    if out.count == 0 or blank:
        return out
    o.code, o.width, o.descending, o.failed = x.code, x.width, descending, 0
    o.source, o.to = pointer(x), <int64_t*>out.storage.data
    rows = x.count // o.length
    grain = PARALLEL_FROM // o.length
    check_memory(o.length * 2 * (o.width + 4))
    with nogil:
        parallel_interruptible(order_range, &o, rows, grain if grain > 0 else 1, <double>NANOSECONDS_AN_ELEMENT * o.length)
    if o.failed:
        raise OutOfMemoryError(out_of_memory_message(o.length * 2 * (o.width + 4)))
    return out
