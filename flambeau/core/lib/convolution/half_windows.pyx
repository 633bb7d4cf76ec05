# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""Convolutions of bfloat16 in two dimensions by the processor's matrix unit (codegen/tiles/matrix_unit.py).

Rows of a block are filters, read where they lie; columns are places, and depth is channels.  A task brings the rows of the input that a
band of places reaches to a workspace: pairs of channels side by side, with zeros around the image, and for a stride each phase by itself,
so that a tap of the window is one distance in the workspace for all places.  A band's places are counted with what lies beside the
image, and what is computed there is not written.  Where channels are few, taps are more channels: those of a row, or all.
"""
from libc.string cimport memset
from libc.stdint cimport int64_t, uint16_t, uint32_t
from .images cimport MAX_SLOTS, flambeau_leave_slot, flambeau_take_slot
from ..products.halves cimport blocks, give_back, has_blocks, has_unit, rounds, set_up
from ...base.memory cimport Storage, new_storage
from ...base.parallel cimport num_threads, parallel_for, parallel_interruptible
from ...base.tensor cimport TensorBase, pointer

cdef enum:
    SIDE = 16                 # of a register: rows, pairs, columns
    DEEP = 32                 # channels of a step
    TALL = 32                 # filters and places of a block
    MOST_TAPS = 1024
    BAND_BYTES = 1 << 18      # bytes that a band may take beside one row of places
    PLACES = 512              # of a band
    TASKS = 16                # that there should be for threads
    LINE = 32                 # halves that lie in a line of the cache

cdef double NANOSECONDS_A_PRODUCT = 0.001

cdef struct Work:
    const uint16_t* x
    const char* w
    const float* bias
    char* y
    int64_t images, channels, height, width, filters, high, wide         # of input, result
    int64_t kernel_high, kernel_wide, stride_high, stride_wide, above, left, apart_high, apart_wide
    int fold                  # taps that are channels: 0 none, 1 those of a row, 2 all
    int64_t deep, pairs       # channels with those taps, and pairs of them, filled up
    int64_t phases_high, phases_wide, reach, pitch                       # further rows of a phase, places of a row
    int64_t band, bands, splits, plane, workspace                             # words of a pair's plane, bytes
    int64_t taps
    int64_t offsets[MOST_TAPS]
    char* workspaces
    unsigned char* taken
    int slots


cdef inline void bring_row(const uint16_t* first, const uint16_t* other, int64_t width, int64_t start, int64_t step, uint32_t* to,
                           int64_t count) noexcept nogil:
    """Words of two rows of pixels, from pixel `start` on; NULL and what lies beside them is 0."""
    cdef int64_t i, low = 0, high = 0
    if start < 0:
        low = min(count, (-start + step - 1) // step)
    if width > start:
        high = min(count, (width - start + step - 1) // step)
    high = max(low, high)
    for i in range(low):
        to[i] = 0
    if first == NULL:
        high = low
    elif other == NULL:
        for i in range(low, high):
            to[i] = first[start + i * step]
    elif step == 1:
        for i in range(low, high):
            to[i] = first[start + i] | <uint32_t>other[start + i] << 16
    else:
        for i in range(low, high):
            to[i] = first[start + i * step] | <uint32_t>other[start + i * step] << 16
    for i in range(high, count):
        to[i] = 0


cdef inline const uint16_t* row_of(const Work* w, int64_t n, int64_t deep, int64_t row, int64_t* shift) noexcept nogil:
    """The row of pixels of a channel, or of a tap of one, and how far right the tap is; NULL where there is none."""
    cdef int64_t tap = deep // w.channels, channel = deep % w.channels
    shift[0] = 0
    if deep >= w.deep:
        return NULL
    if w.fold == 1:
        shift[0] = tap * w.apart_wide
    elif w.fold == 2:
        shift[0] = tap % w.kernel_wide * w.apart_wide
        row += tap // w.kernel_wide * w.apart_high
    if not 0 <= row < w.height:
        return NULL
    return w.x + ((n * w.channels + channel) * w.height + row) * w.width


cdef void bring(const Work* w, int64_t n, int64_t begin, int64_t rows, char* workspace) noexcept nogil:
    """What rows of places [begin, begin + rows) of an image reach."""
    cdef int64_t a, b, pair, q, row, shift, further, used = (rows + w.reach) * w.pitch
    cdef const uint16_t* first
    cdef const uint16_t* other
    cdef uint32_t* plane
    cdef uint32_t* to
    for a in range(w.phases_high):
        for b in range(w.phases_wide):
            for pair in range(w.pairs):
                plane = <uint32_t*>workspace + ((a * w.phases_wide + b) * w.pairs + pair) * w.plane
                memset(plane + used, 0, (w.plane - used) * 4)
                if 2 * pair >= w.deep:
                    memset(plane, 0, used * 4)
                    continue
                for q in range(rows + w.reach):
                    row = (begin + q) * w.stride_high + a - w.above
                    first, other = row_of(w, n, 2 * pair, row, &shift), row_of(w, n, 2 * pair + 1, row, &further)
                    to = plane + q * w.pitch
                    shift += b - w.left
                    further += b - w.left
                    if first != NULL and other != NULL and shift != further:
                        bring_row(first, NULL, w.width, shift, w.stride_wide, to, w.pitch)
                        mix(other, w.width, further, w.stride_wide, to, w.pitch)
                    elif first == NULL and other != NULL:
                        memset(to, 0, w.pitch * 4)
                        mix(other, w.width, further, w.stride_wide, to, w.pitch)
                    else:
                        bring_row(first, other, w.width, shift, w.stride_wide, to, w.pitch)


cdef inline void mix(const uint16_t* other, int64_t width, int64_t start, int64_t step, uint32_t* to, int64_t count) noexcept nogil:
    """The upper halves of words, of a row of pixels that lies elsewhere than that of the lower ones."""
    cdef int64_t i, at
    for i in range(count):
        at = start + i * step
        to[i] = to[i] & 0xFFFF | (<uint32_t>other[at] << 16 if 0 <= at < width else 0)


cdef void compute(const Work* w, int64_t n, int64_t begin, int64_t rows, int64_t panel, const char* workspace) noexcept nogil:
    """32 filters for rows of places [begin, begin + rows) of an image."""
    cdef float sums[TALL * TALL + SIDE]
    cdef int64_t first = panel * TALL, filters = min(<int64_t>TALL, w.filters - first), depth = w.pairs * 4
    cdef int64_t tall = 2 if filters > SIDE else 1, last = (rows - 1) * w.pitch + w.wide, place = 0, i, j, at, end, row, column, some, wide
    cdef char* to
    while place < last:
        wide = 2 if last - place > SIDE else 1
        for i in range(filters):
            for j in range(TALL):
                sums[i * TALL + j] = w.bias[first + i]
        blocks[tall - 1][wide - 1](w.w + first * w.taps * depth, w.taps * depth, 64, workspace + place * 4, w.plane * 4, SIDE * w.plane * 4, 64,
                                   w.offsets, w.taps, w.pairs // SIDE, sums, TALL * 4, 1)
        at, end = place, min(last, place + wide * SIDE)
        while at < end:
            row, column = at // w.pitch, at % w.pitch
            some = min(min(end - at, w.wide - column), <int64_t>SIDE)
            if column >= w.wide:
                at += w.pitch - column
                continue
            to = w.y + (((n * w.filters + first) * w.high + begin + row) * w.wide + column) * 2
            rounds(sums + (at - place), to, w.high * w.wide * 2, filters, some, 1.0, 0.0)
            at += some
        place = place + TALL


cdef void bands_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Tasks are (image, band of rows of places, some panels of filters)."""
    cdef Work* w = <Work*>context
    cdef int slot = flambeau_take_slot(w.taken, w.slots)
    cdef char* workspace = w.workspaces + slot * w.workspace
    cdef int64_t task, n, band, split, first, rows, panel, panels = (w.filters + TALL - 1) // TALL
    set_up(SIDE)
    for task in range(begin, end):
        split = task % w.splits
        band, n = task // w.splits % w.bands, task // w.splits // w.bands
        first = band * w.band
        rows = min(w.band, w.high - first)
        bring(w, n, first, rows, workspace)
        for panel in range(panels * split // w.splits, panels * (split + 1) // w.splits):
            compute(w, n, first, rows, panel, workspace)
    give_back()
    flambeau_leave_slot(w.taken, slot)


cdef struct Filters:
    const uint16_t* w
    uint16_t* to
    int64_t filters, channels, kernel, row, taps                     # of the weights; elements of a row that is laid out; taps that are
    bint turned
    int64_t source[MOST_TAPS]
    int64_t target[MOST_TAPS]


cdef void lay_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Rows [begin, end) of weights that are laid out; turned ones by as many filters as a line of the cache holds."""
    cdef Filters* f = <Filters*>context
    cdef int64_t r, t, c, some, first = 0, step = f.channels * f.kernel
    cdef const uint16_t* w
    cdef uint16_t* to
    memset(f.to + begin * f.row, 0, (end - begin) * f.row * 2)
    if not f.turned:
        for r in range(begin, min(end, f.filters)):
            for t in range(f.taps):
                w, to = f.w + r * step + f.source[t], f.to + r * f.row + f.target[t]
                for c in range(f.channels):
                    to[c] = w[c * f.kernel]
        return
    while first < f.filters:
        some = min(<int64_t>LINE, f.filters - first)
        for r in range(begin, min(end, f.channels)):
            for t in range(f.taps):
                w, to = f.w + first * step + r * f.kernel + f.source[t], f.to + r * f.row + f.target[t] + first
                for c in range(some):
                    to[c] = w[c * step]
        first += LINE


cdef void collect_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Channels [begin, end) of (taps, channels, filters) as (filters, channels, taps)."""
    cdef Filters* f = <Filters*>context
    cdef int64_t c, k, t, first = 0, step = f.channels * f.filters
    cdef const uint16_t* w
    cdef uint16_t* to
    while first < f.filters:
        for c in range(begin, end):
            for k in range(first, min(first + LINE, f.filters)):
                w, to = f.w + c * f.filters + k, f.to + (k * f.channels + c) * f.kernel
                for t in range(f.kernel):
                    to[t] = w[t * step]
        first += LINE


def lay(TensorBase weight not None, TensorBase to not None, list source, list target, bint turned) -> None:
    """Fill `to` (rows, taps, depth) by contiguous weights (K, C, kh, kw) and zeros: tap source[i] of filter r and channel c goes to element
    target[i] + c of row r; where they are `turned`, that of filter c and channel r.
    """
    cdef Filters f
    cdef int64_t i, deep = weight.sizes[0] if turned else weight.sizes[1]
    f.w, f.to, f.turned = <const uint16_t*>pointer(weight), <uint16_t*>pointer(to), turned
    f.filters, f.channels, f.kernel = weight.sizes[0], weight.sizes[1], weight.sizes[2] * weight.sizes[3]
    f.row, f.taps = to.sizes[1] * to.sizes[2], len(source)
    if f.taps > MOST_TAPS or len(target) != f.taps or to.sizes[0] < (f.channels if turned else f.filters):
        raise ValueError(f"weights are laid out for {f.taps} taps in {to.sizes[0]} rows")
    for i in range(f.taps):
        f.source[i], f.target[i] = source[i], target[i]
        if not (0 <= f.source[i] < f.kernel and 0 <= f.target[i] <= f.row - deep):
            raise ValueError(f"weights are laid out from tap {source[i]} to element {target[i]}")
    with nogil:
        parallel_for(lay_range, &f, to.sizes[0], 1 + (1 << 15) // max(f.row, <int64_t>1))


def collect(TensorBase products not None, TensorBase to not None) -> None:
    """Fill `to` (K, C, kh, kw) by (kh, kw, C, K): both contiguous."""
    cdef Filters f
    f.w, f.to = <const uint16_t*>pointer(products), <uint16_t*>pointer(to)
    f.filters, f.channels, f.kernel = to.sizes[0], to.sizes[1], to.sizes[2] * to.sizes[3]
    with nogil:
        parallel_for(collect_range, &f, f.channels, 1 + (1 << 15) // max(f.filters * f.kernel, <int64_t>1))


def possible() -> bool:
    """Whether the processor multiplies bfloat16: by a matrix unit that this process may use, or by pairs."""
    return bool(has_blocks())


def by_unit() -> bool:
    """Whether the matrix unit does."""
    return bool(has_unit())


def run(TensorBase x not None, TensorBase weight not None, TensorBase bias not None, TensorBase out not None, tuple kernel, tuple stride,
        tuple before, tuple apart, int fold) -> None:
    """`x` (N, C, H, W) and `out` (N, K, oh, ow) contiguous; `weight` (K, taps, deep), filled up to 32 filters and 32 channels with 0;
    `bias` a float32 for each of those filters.
    """
    cdef Work w
    cdef unsigned char taken[MAX_SLOTS]
    cdef Storage workspaces
    cdef int64_t a, b, tasks, work
    w.x, w.w, w.bias, w.y = <const uint16_t*>pointer(x), pointer(weight), <const float*>pointer(bias), pointer(out)
    w.images, w.channels, w.height, w.width = x.sizes[0], x.sizes[1], x.sizes[2], x.sizes[3]
    w.filters, w.high, w.wide = out.sizes[1], out.sizes[2], out.sizes[3]
    w.kernel_high, w.kernel_wide = kernel
    w.stride_high, w.stride_wide = stride
    w.above, w.left = before
    w.apart_high, w.apart_wide = apart
    w.fold, w.taps, w.pairs = fold, weight.sizes[1], weight.sizes[2] // 2
    w.deep = w.channels * (1 if fold == 0 else w.kernel_wide if fold == 1 else w.kernel_wide * w.kernel_high)
    if not has_blocks():
        raise RuntimeError("a convolution of bfloat16: the processor does not multiply them")
    if w.taps > MOST_TAPS or weight.sizes[2] % DEEP or weight.sizes[0] % TALL:
        raise ValueError(f"a convolution of bfloat16: weights of {weight.sizes[0]}, {weight.sizes[1]}, {weight.sizes[2]}")
    a = 0 if fold == 2 else (w.kernel_high - 1) * w.apart_high
    b = 0 if fold else (w.kernel_wide - 1) * w.apart_wide
    w.phases_high, w.phases_wide = min(w.stride_high, a + 1), min(w.stride_wide, b + 1)
    w.reach, w.pitch = a // w.stride_high, w.wide + b // w.stride_wide
    work = w.phases_high * w.phases_wide * w.pairs * w.pitch * 4           # bytes of a row
    w.band = max(<int64_t>1, min(min(w.high, PLACES // w.pitch), BAND_BYTES // work - w.reach))
    w.bands = (w.high + w.band - 1) // w.band
    w.band = (w.high + w.bands - 1) // w.bands
    w.bands = (w.high + w.band - 1) // w.band
    w.plane = ((w.band + w.reach) * w.pitch + b // w.stride_wide + TALL + SIDE - 1) // SIDE
    w.plane = (w.plane | 1) * SIDE                          # planes lie in all sets of a cache
    w.workspace = w.phases_high * w.phases_wide * w.pairs * w.plane * 4
    for tap in range(w.taps):
        a = 0 if fold == 2 else (tap if fold == 1 else tap // w.kernel_wide) * w.apart_high
        b = 0 if fold else tap % w.kernel_wide * w.apart_wide
        w.offsets[tap] = (((a % w.stride_high) * w.phases_wide + b % w.stride_wide) * w.pairs * w.plane
                          + a // w.stride_high * w.pitch + b // w.stride_wide) * 4
    tasks = w.images * w.bands
    w.splits = max(<int64_t>1, min((w.filters + TALL - 1) // TALL, TASKS // max(tasks, <int64_t>1) // 2))
    tasks *= w.splits
    work = max(<int64_t>1, w.filters // w.splits) * w.taps * w.pairs * 2 * w.band * w.pitch
    memset(taken, 0, MAX_SLOTS)
    w.taken = taken
    w.slots = <int>max(1, min(min(num_threads(), tasks), MAX_SLOTS))
    workspaces = new_storage(w.slots * w.workspace)
    w.workspaces = workspaces.data
    with nogil:
        parallel_interruptible(bands_range, &w, tasks, max((1 << 20) // max(work, 1), 1), work * NANOSECONDS_A_PRODUCT)
