# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Putting rows in order: a stable radix sort of keys and places.

Elements become unsigned keys of the same order: integers are shifted by the lowest one, the bits of negative floating-point
numbers turned over; -0 becomes 0, all NaN the largest key.  Descending order is that of the complements.  Threads share
rows, or, where there are few and long ones, the blocks of a row: each block counts its digits, and from the counts of all follows
where each puts its elements.  A stable order is unique, so the result does not depend on how the work was cut.
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from ...base.device import OutOfMemoryError
from ...base.dtypes cimport BOOL, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, dtype_of
from ...base.memory cimport Storage, check_memory, new_storage, out_of_memory_message
from ...base.parallel cimport num_threads, parallel_interruptible
from ...base.tensor cimport TensorBase, MAX_DIMS, new_tensor_on, pointer
from ...views.views cimport compact

cdef enum:
    BY_INSERTION = 48          # elements up to which insertion beats counting
    PARALLEL_FROM = 1 << 14
    NANOSECONDS_AN_ELEMENT = 20
    LONG = 1 << 16             # elements of a row from which threads share its blocks
    LEAST_BLOCK = 1 << 14      # elements of a block, of which a row has at most ...
    MOST_BLOCKS = 256

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


cdef inline void make_keys(Order* o, const char* row, Key* keys, int64_t n) noexcept nogil:
    cdef int64_t i
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


cdef bint by_insertion(const Order* o) noexcept nogil:
    return o.length <= BY_INSERTION or o.wanted * 16 <= o.length and o.wanted <= BY_INSERTION


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
        make_keys(o, o.source + row * n * o.width, keys, n)
        to = o.to + row * o.wanted
        if by_insertion(o):
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


# --- long rows -------------------------------------------------------------------------------------------------------------
cdef struct Long:              # a row that threads share
    Order* o
    const char* source
    int64_t* to
    char* keys                 # where a pass reads, and where it writes
    char* keys2
    uint32_t* places
    uint32_t* places2
    uint32_t* counts           # of the digits of each block, then where the next element of a digit goes
    int64_t block, blocks
    int digit                  # the byte that a pass goes by


cdef inline int64_t end_of(const Long* w, int64_t block) noexcept nogil:
    return min((block + 1) * w.block, w.o.length)


cdef inline void keys_of_blocks(Long* w, Key* keys, int64_t begin, int64_t end) noexcept nogil:
    cdef int64_t i, first = begin * w.block, last = end_of(w, end - 1)
    make_keys(w.o, w.source + first * w.o.width, keys + first, last - first)
    for i in range(first, last):
        w.places[i] = <uint32_t>i


cdef void key_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Long* w = <Long*>context
    if w.o.width == 8:
        keys_of_blocks(w, <uint64_t*>w.keys, begin, end)
    else:
        keys_of_blocks(w, <uint32_t*>w.keys, begin, end)


cdef inline void count_block(const Long* w, const Key* keys, int64_t block) noexcept nogil:
    cdef uint32_t* counts = w.counts + block * 256
    cdef int64_t i
    memset(counts, 0, 256 * sizeof(uint32_t))
    for i in range(block * w.block, end_of(w, block)):
        counts[(keys[i] >> 8 * w.digit) & 255] += 1


cdef void count_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Long* w = <Long*>context
    cdef int64_t block
    for block in range(begin, end):
        if w.o.width == 8:
            count_block(w, <const uint64_t*>w.keys, block)
        else:
            count_block(w, <const uint32_t*>w.keys, block)


cdef bint places_of_counts(Long* w) noexcept nogil:
    """Where the first element of each digit of each block goes; False where all elements have the same digit."""
    cdef int64_t block, of_digit
    cdef uint32_t sum = 0, count
    cdef int digit
    for digit in range(256):
        of_digit = sum
        for block in range(w.blocks):
            count = w.counts[block * 256 + digit]
            w.counts[block * 256 + digit] = sum
            sum += count
        if sum - of_digit == w.o.length:
            return False
    return True


cdef inline void put_block(const Long* w, const Key* keys, Key* keys2, int64_t block) noexcept nogil:
    cdef uint32_t* next = w.counts + block * 256
    cdef uint32_t at
    cdef int64_t i
    cdef int digit
    for i in range(block * w.block, end_of(w, block)):
        digit = (keys[i] >> 8 * w.digit) & 255
        at = next[digit]
        next[digit] = at + 1
        keys2[at], w.places2[at] = keys[i], w.places[i]


cdef void put_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Long* w = <Long*>context
    cdef int64_t block
    for block in range(begin, end):
        if w.o.width == 8:
            put_block(w, <const uint64_t*>w.keys, <uint64_t*>w.keys2, block)
        else:
            put_block(w, <const uint32_t*>w.keys, <uint32_t*>w.keys2, block)


cdef void give_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Long* w = <Long*>context
    cdef int64_t i
    for i in range(begin, end):
        w.to[i] = w.places[i]


cdef int order_long_rows(Order* o, int64_t rows) except -1:
    """One row after another, each shared by the threads."""
    cdef Long w
    cdef int64_t row, n = o.length
    cdef int width = 8 if o.width == 8 else 4, digit
    w.o, w.block = o, max((n + MOST_BLOCKS - 1) // MOST_BLOCKS, <int64_t>LEAST_BLOCK)
    w.blocks = (n + w.block - 1) // w.block
    cdef Storage workspace = new_storage(2 * n * (width + 4) + w.blocks * 256 * sizeof(uint32_t))
    cdef char* keys = workspace.data
    cdef uint32_t* places = <uint32_t*>(keys + 2 * n * width)
    w.counts = places + 2 * n
    for row in range(rows):
        w.source, w.to = o.source + row * n * o.width, o.to + row * o.wanted
        w.keys, w.keys2, w.places, w.places2 = keys, keys + n * width, places, places + n
        with nogil:
            parallel_interruptible(key_range, &w, w.blocks, 1, <double>w.block)
            for digit in range(o.width):
                w.digit = digit
                parallel_interruptible(count_range, &w, w.blocks, 1, <double>w.block)
                if places_of_counts(&w):
                    parallel_interruptible(put_range, &w, w.blocks, 1, 4.0 * w.block)
                    w.keys, w.keys2, w.places, w.places2 = w.keys2, w.keys, w.places2, w.places
            parallel_interruptible(give_range, &w, o.wanted, LEAST_BLOCK, 1.0)
    return 0


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
    if o.length >= LONG and rows < num_threads() and not by_insertion(&o):
        order_long_rows(&o, rows)
        return out
    grain = PARALLEL_FROM // o.length
    check_memory(o.length * 2 * (o.width + 4))
    with nogil:
        parallel_interruptible(order_range, &o, rows, grain if grain > 0 else 1, <double>NANOSECONDS_AN_ELEMENT * o.length)
    if o.failed:
        raise OutOfMemoryError(out_of_memory_message(o.length * 2 * (o.width + 4)))
    return out
