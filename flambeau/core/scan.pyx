# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Scans: every element becomes the sum, product, maximum … of itself and those before it along a dimension.

A contiguous tensor is `outer` times `length` times `inner` elements.  Along rows (inner 1) a sum is made of blocks of fixed
length, each summed from zero and shifted by the total before it, so that blocks can be shared over the threads; the cut
depends on the length alone, and results have the same bits for any number of threads.  Sums and products of float32 are
kept in float64.
"""
from libc.math cimport exp, log1p, isfinite
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from .dtypes cimport BOOL, CATEGORY, F32, F64, I8, I16, I32, I64, U8, dtype_of
from .parallel cimport num_threads, parallel_for
from .tensor cimport TensorBase, new_tensor, pointer, wrap_dim
from .views cimport compact

cdef enum:
    SUM, PROD, LOGADDEXP, MAX, MIN

cdef enum:
    BLOCK = 1 << 14            # elements of a row that are summed from zero
    COLUMNS = 128              # columns that are scanned together
    PARALLEL_FROM = 1 << 16    # elements from which threads pay off

ctypedef fused Element:
    uint8_t
    int8_t
    int16_t
    int32_t
    int64_t
    float
    double

cdef struct Scan:
    int kind
    int code
    const char* source
    char* to
    int64_t* places            # MAX, MIN: where each extreme stands
    int64_t outer, length, inner
    double* totals             # of a row's blocks, when blocks are shared over the threads
    int64_t* whole_totals


# --- one row -----------------------------------------------------------------------------------------------------------------
cdef inline double total_of(const Element* x, int64_t n) noexcept nogil:
    """The sum as `sum_block` finds it: groups of four, then the rest."""
    cdef double sum = 0
    cdef int64_t i = 0
    while i + 4 <= n:
        sum += ((<double>x[i] + <double>x[i + 1]) + <double>x[i + 2]) + <double>x[i + 3]
        i += 4
    while i < n:
        sum += <double>x[i]
        i += 1
    return sum


cdef inline double sum_block(const Element* x, Element* out, int64_t n, double before) noexcept nogil:
    """out = before + running sum; sums of four wait for no other, so additions overlap.  Returns the block's own sum."""
    cdef double sum = 0, a, b, c, d
    cdef int64_t i = 0
    while i + 4 <= n:
        a = <double>x[i]
        b = a + <double>x[i + 1]
        c = b + <double>x[i + 2]
        d = c + <double>x[i + 3]
        out[i] = <Element>(before + (sum + a))
        out[i + 1] = <Element>(before + (sum + b))
        out[i + 2] = <Element>(before + (sum + c))
        sum += d
        out[i + 3] = <Element>(before + sum)
        i += 4
    while i < n:
        sum += <double>x[i]
        out[i] = <Element>(before + sum)
        i += 1
    return sum


cdef inline int64_t whole_block(const Element* x, Element* out, int64_t n, int64_t before) noexcept nogil:
    """The same for integers, whose sums wrap."""
    cdef int64_t i, sum = before
    for i in range(n):
        sum += <int64_t>x[i]
        out[i] = <Element>sum
    return sum - before


cdef inline int64_t whole_total(const Element* x, int64_t n) noexcept nogil:
    cdef int64_t i, sum = 0
    for i in range(n):
        sum += <int64_t>x[i]
    return sum


cdef inline double log_add_exp(double a, double b) noexcept nogil:
    """log(e^a + e^b)."""
    cdef double low = b if b < a else a, high = a if b < a else b
    if a != a or b != b:
        return a + b
    if low == high and not isfinite(low):
        return low
    return high + log1p(exp(low - high))


cdef inline bint beats(Element x, Element best, int kind) noexcept nogil:
    """Of equal elements the later one counts, and NaN beats all."""
    if x != x:
        return True
    if best != best:
        return False
    return x >= best if kind == MAX else x <= best


cdef void scan_row(Scan* s, const Element* x, Element* out, int64_t* places) noexcept nogil:
    cdef int64_t i, start = 0, n = s.length, whole = 1
    cdef double running
    cdef Element best
    cdef int64_t place = 0
    if s.kind == SUM:
        if Element is float or Element is double:
            running = 0
            while start < n:
                running += sum_block(x + start, out + start, min(n - start, <int64_t>BLOCK), running)
                start += BLOCK
        else:
            whole_block(x, out, n, 0)
    elif s.kind == PROD:
        if Element is float or Element is double:
            running = 1
            for i in range(n):
                running *= <double>x[i]
                out[i] = <Element>running
        else:
            for i in range(n):
                whole *= <int64_t>x[i]
                out[i] = <Element>whole
    elif s.kind == LOGADDEXP:
        running = <double>x[0]
        out[0] = x[0]
        for i in range(1, n):
            running = log_add_exp(running, <double>x[i])
            out[i] = <Element>running
    else:
        best = x[0]
        for i in range(n):
            if beats(x[i], best, s.kind):
                best, place = x[i], i
            out[i], places[i] = best, place


# --- columns -------------------------------------------------------------------------------------------------------------------
cdef void scan_columns(Scan* s, const Element* x, Element* out, int64_t* places, int64_t columns) noexcept nogil:
    """Some columns side by side, row by row."""
    cdef double running[COLUMNS]
    cdef int64_t whole[COLUMNS]
    cdef int64_t i, k, step = s.inner
    if s.kind == SUM or s.kind == PROD:
        for k in range(columns):
            running[k], whole[k] = s.kind == PROD, s.kind == PROD
        for i in range(s.length):
            if Element is float or Element is double:
                if s.kind == SUM:
                    for k in range(columns):
                        running[k] += <double>x[k]
                        out[k] = <Element>running[k]
                else:
                    for k in range(columns):
                        running[k] *= <double>x[k]
                        out[k] = <Element>running[k]
            elif s.kind == SUM:
                for k in range(columns):
                    whole[k] += <int64_t>x[k]
                    out[k] = <Element>whole[k]
            else:
                for k in range(columns):
                    whole[k] *= <int64_t>x[k]
                    out[k] = <Element>whole[k]
            x += step
            out += step
    elif s.kind == LOGADDEXP:
        for k in range(columns):
            running[k] = <double>x[k]
            out[k] = x[k]
        for i in range(1, s.length):
            x += step
            out += step
            for k in range(columns):
                running[k] = log_add_exp(running[k], <double>x[k])
                out[k] = <Element>running[k]
    else:
        for k in range(columns):
            out[k], places[k] = x[k], 0
        for i in range(1, s.length):
            for k in range(columns):
                if beats(x[step + k], out[k], s.kind):
                    out[step + k], places[step + k] = x[step + k], i
                else:
                    out[step + k], places[step + k] = out[k], places[k]
            x += step
            out += step
            places += step


# --- work for the threads ----------------------------------------------------------------------------------------------------------
cdef void scan_task(Element* tag, Scan* s, int64_t number) noexcept nogil:
    """One row, or one strip of columns."""
    cdef int64_t strips = (s.inner + COLUMNS - 1) // COLUMNS
    cdef int64_t outer = number // strips, first = number % strips * COLUMNS
    cdef int64_t at = outer * s.length * s.inner + first
    cdef int64_t* places = s.places + at if s.places != NULL else NULL
    if s.inner == 1:
        scan_row(s, <const Element*>s.source + at, <Element*>s.to + at, places)
    else:
        scan_columns(s, <const Element*>s.source + at, <Element*>s.to + at, places, min(s.inner - first, <int64_t>COLUMNS))


cdef void scan_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Scan* s = <Scan*>context
    cdef int64_t k
    for k in range(begin, end):
        if s.code == U8:
            scan_task(<uint8_t*>NULL, s, k)
        elif s.code == I8:
            scan_task(<int8_t*>NULL, s, k)
        elif s.code == I16:
            scan_task(<int16_t*>NULL, s, k)
        elif s.code == I32:
            scan_task(<int32_t*>NULL, s, k)
        elif s.code == I64:
            scan_task(<int64_t*>NULL, s, k)
        elif s.code == F32:
            scan_task(<float*>NULL, s, k)
        else:
            scan_task(<double*>NULL, s, k)


cdef void total_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """The sums of some blocks of the one long row."""
    cdef Scan* s = <Scan*>context
    cdef int64_t k, n
    for k in range(begin, end):
        n = min(s.length - k * BLOCK, <int64_t>BLOCK)
        if s.code == F32:
            s.totals[k] = total_of(<const float*>s.source + k * BLOCK, n)
        elif s.code == F64:
            s.totals[k] = total_of(<const double*>s.source + k * BLOCK, n)
        else:
            s.whole_totals[k] = whole_total(<const int64_t*>s.source + k * BLOCK, n)


cdef void block_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Running sums of some blocks, when `totals` holds the sums before them."""
    cdef Scan* s = <Scan*>context
    cdef int64_t k, n, at
    for k in range(begin, end):
        at, n = k * BLOCK, min(s.length - k * BLOCK, <int64_t>BLOCK)
        if s.code == F32:
            sum_block(<const float*>s.source + at, <float*>s.to + at, n, s.totals[k])
        elif s.code == F64:
            sum_block(<const double*>s.source + at, <double*>s.to + at, n, s.totals[k])
        else:
            whole_block(<const int64_t*>s.source + at, <int64_t*>s.to + at, n, s.whole_totals[k])


cdef int scan_blocks(Scan* s) except -1:
    """One long row: the sums of its blocks, then each block from the sum before it."""
    cdef int64_t blocks = (s.length + BLOCK - 1) // BLOCK, k, whole = 0, w
    cdef double sum = 0, d
    s.totals = <double*>malloc(blocks * 8)
    s.whole_totals = <int64_t*>s.totals
    if s.totals == NULL:
        raise MemoryError
    with nogil:
        parallel_for(total_range, s, blocks, 4)
        for k in range(blocks):
            if s.code == I64:
                w = s.whole_totals[k]
                s.whole_totals[k] = whole
                whole += w
            else:
                d = s.totals[k]
                s.totals[k] = sum
                sum += d
        parallel_for(block_range, s, blocks, 4)
    free(s.totals)
    return 0


KINDS = {"sum": SUM, "prod": PROD, "logaddexp": LOGADDEXP, "max": MAX, "min": MIN}


def scan(TensorBase input not None, dim, str kind):
    """The scan along `dim`, not recorded: a tensor, or, for "max" and "min", values and their indices (int64).

    Takes bool ("max", "min"), integer, float32 and float64 tensors; TypeError for others.
    """
    cdef TensorBase x = compact(input), out, places = None
    cdef Scan s
    cdef int axis = wrap_dim(dim, input.rank, "scan"), d
    cdef int64_t tasks, grain
    s.kind, s.code, s.places, s.totals = KINDS[kind], input.code, NULL, NULL
    if s.code == BOOL and s.kind >= MAX:
        s.code = U8
    if s.code not in (U8, I8, I16, I32, I64, F32, F64) or (s.kind == LOGADDEXP and CATEGORY[s.code] != 2):
        raise TypeError(f"scan(): no scan {kind} of {dtype_of(input.code)}")
    out = new_tensor(x.rank, x.sizes, x.code)
    if s.kind >= MAX:
        places = new_tensor(x.rank, x.sizes, I64)
        s.places = <int64_t*>places.storage.data
    s.source, s.to = pointer(x), out.storage.data
    s.outer, s.inner, s.length = 1, 1, x.sizes[axis] if x.rank else 1
    for d in range(x.rank):
        if d < axis:
            s.outer *= x.sizes[d]
        elif d > axis:
            s.inner *= x.sizes[d]
    if x.count:
        tasks = s.outer * ((s.inner + COLUMNS - 1) // COLUMNS)
        if x.count < PARALLEL_FROM:
            scan_range(&s, 0, tasks)
        elif tasks == 1 and s.inner == 1 and s.kind == SUM and s.code in (I64, F32, F64) and num_threads() > 1:
            scan_blocks(&s)
        else:
            grain = tasks * PARALLEL_FROM // x.count
            with nogil:
                parallel_for(scan_range, &s, tasks, grain if grain > 0 else 1)
    return out if places is None else (out, places)
