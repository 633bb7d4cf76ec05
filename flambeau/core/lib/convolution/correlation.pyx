# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The weight's gradient of dense convolutions by the register tile (see `operations/neural/convolution/weights.py`)."""
from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from ...base.tensor cimport TensorBase, pointer
from ...base.parallel cimport parallel_interruptible
from ..tiles cimport Tile, tile_t

cdef enum:
    BAND_BYTES = 3 << 16          # of the gradient, turned: with its part of the input it stays in the second cache
    STEPS_A_TASK = 1 << 18        # multiplications below which a task is not worth a thread

cdef double NANOSECONDS_A_STEP = 0.01

ctypedef void (*turn_t)(const char* source, int64_t source_step, int64_t rows, int64_t columns, char* to, int64_t to_step) noexcept nogil

cdef struct Work:
    tile_t tile[2][2]             # [columns of the smaller size][rows of the smaller size]
    turn_t turn
    char* x
    char* grad
    char* sums                    # (groups, channels, taps, padded filters)
    int64_t* offsets
    int64_t grad_size             # of an element: halves are converted as they are turned
    int64_t size, lanes, groups, channels, filters, padded
    int64_t blocks, vectors, more_blocks      # of filters in a group: the first `more_blocks` are a vector wider than `vectors`
    int64_t tiles, rows, more_tiles           # of rows: of channels, or of the taps of a line
    bint along                                # rows are taps of a line
    int64_t kernel[3]
    int64_t stride[3]
    int64_t before[3]
    int64_t dilation[3]
    int64_t sizes[3]
    int64_t out[3]
    int64_t x_image, x_channel, grad_image, grad_channel
    int64_t x_step[3]
    int64_t slabs, slabs_a_band, rows_a_band, columns_a_band    # of the gradient; part of a line where there is one line
    bint flat                                 # lines follow one another in both operands
    bint failed


cdef inline int64_t first_place(Work* w, int d, int64_t k) noexcept nogil:
    """The first output place in dimension d that reads the input at tap k."""
    cdef int64_t short = w.before[d] - k * w.dilation[d]
    return (short + w.stride[d] - 1) // w.stride[d] if short > 0 else 0


cdef inline int64_t last_place(Work* w, int d, int64_t k) noexcept nogil:
    """One behind the last."""
    cdef int64_t span = w.sizes[d] - 1 + w.before[d] - k * w.dilation[d]
    return 0 if span < 0 else min(span // w.stride[d] + 1, w.out[d])


cdef struct Band:                 # what is turned at once: slabs are planes of all images
    int64_t slab, slabs, row, rows, column, columns


cdef void turn_band(Work* w, char* buffer, int64_t group, int64_t first, int64_t vectors, const Band* band) noexcept nogil:
    """The gradient of a band, filters side by side."""
    cdef int64_t s, image, plane, wide = vectors * w.lanes * w.size, places = band.rows * band.columns
    for s in range(band.slab, band.slab + band.slabs):
        image = s // w.out[0]
        plane = s - image * w.out[0]
        w.turn(w.grad + image * w.grad_image + (group * w.filters + first) * w.grad_channel
               + ((plane * w.out[1] + band.row) * w.out[2] + band.column) * w.grad_size,
               w.grad_channel, min(w.filters - first, vectors * w.lanes), places, buffer + (s - band.slab) * places * wide, wide)


cdef void add_tile(Work* w, Tile* t, tile_t tile, char* buffer, int64_t wide, int64_t group, int64_t channel, int64_t kw, char* sums,
                   const Band* band, int64_t kd, int64_t kh) noexcept nogil:
    """Some rows' sums at one tap, over the lines of a band."""
    cdef int64_t s, image, z, zd
    cdef int64_t x0 = max(first_place(w, 2, kw), band.column), x1 = min(last_place(w, 2, kw), band.column + band.columns)
    cdef int64_t y0 = max(first_place(w, 1, kh), band.row), y1 = min(last_place(w, 1, kh), band.row + band.rows)
    cdef int64_t z0 = first_place(w, 0, kd), z1 = last_place(w, 0, kd)
    if x0 >= x1 or y0 >= y1:
        return
    t.c = t.operands[0].data = sums
    if w.flat and band.columns == w.out[2]:
        t.taps[0], t.terms = 1, (y1 - y0) * (x1 - x0)
    else:
        t.taps[0], t.terms = y1 - y0, x1 - x0
    for s in range(band.slab, band.slab + band.slabs):
        image = s // w.out[0]
        z = s - image * w.out[0]
        if z < z0 or z >= z1:
            continue
        zd = z * w.stride[0] - w.before[0] + kd * w.dilation[0]
        t.a = (w.x + image * w.x_image + (group * w.channels + channel) * w.x_channel + zd * w.x_step[0]
               + (y0 * w.stride[1] - w.before[1] + kh * w.dilation[1]) * w.x_step[1]
               + (x0 * w.stride[2] - w.before[2] + kw * w.dilation[2]) * w.x_step[2])
        t.b = buffer + (((s - band.slab) * band.rows + y0 - band.row) * band.columns + x0 - band.column) * wide
        tile(t)


cdef void weight_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Tasks are (group, block of filters, tile of rows): all of a sum is in one task, band after band."""
    cdef Work* w = <Work*>context
    cdef Tile t
    cdef int64_t taps = w.kernel[0] * w.kernel[1] * w.kernel[2], line = w.padded * w.size
    cdef int64_t most = (w.vectors + (w.more_blocks > 0)) * w.lanes * w.size
    cdef int64_t task, block, item, group, first, vectors, wide, kd, kh, kw, tap, channel, part, last
    cdef Band band
    cdef int narrow, short
    cdef char* memory
    cdef char* buffer
    cdef char* sums
    memory = <char*>calloc(w.slabs_a_band * w.rows_a_band * w.columns_a_band * most + 64, 1)  # zeros for filters that do not exist
    if memory is NULL:
        w.failed = True
        return
    buffer = memory + (64 - <int64_t><uintptr_t>memory % 64)
    t.row = w.dilation[2] * w.x_step[2] if w.along else w.x_channel
    t.step, t.offsets = w.stride[2] * w.x_step[2], w.offsets
    t.b_vector = w.lanes * w.size
    t.c_row = t.operands[0].row = line if w.along else line * taps
    t.taps[1] = t.taps[2] = 0
    band.slab = band.row = band.column = 0
    while band.slab < w.slabs:
        band.slabs = min(w.slabs_a_band, w.slabs - band.slab)
        band.rows, band.columns = min(w.rows_a_band, w.out[1] - band.row), min(w.columns_a_band, w.out[2] - band.column)
        last = -1
        for task in range(begin, end):
            block, item = task // w.tiles, task % w.tiles
            group = block // w.blocks
            first = block - group * w.blocks
            narrow = first >= w.more_blocks
            vectors = w.vectors + (not narrow)
            first = (first * w.vectors + min(first, w.more_blocks)) * w.lanes
            wide = vectors * w.lanes * w.size
            if block != last:
                turn_band(w, buffer, group, first, vectors, &band)
                last = block
            t.b_step, t.b_tap, t.columns = wide, wide * band.columns, vectors * w.lanes
            sums = w.sums + group * w.channels * taps * line + first * w.size
            for kd in range(w.kernel[0]):
                for kh in range(w.kernel[1]):
                    tap = (kd * w.kernel[1] + kh) * w.kernel[2]
                    if w.along:
                        channel = item
                        for part in range(w.kernel[2] // w.rows + 1):
                            kw = part * w.rows + min(part, w.more_tiles)
                            if kw >= w.kernel[2]:
                                break
                            short = part >= w.more_tiles
                            add_tile(w, &t, w.tile[narrow][short], buffer, wide, group, channel, kw,
                                     sums + (channel * taps + tap + kw) * line, &band, kd, kh)
                    else:
                        channel = item * w.rows + min(item, w.more_tiles)
                        short = item >= w.more_tiles
                        for kw in range(w.kernel[2]):
                            add_tile(w, &t, w.tile[narrow][short], buffer, wide, group, channel, kw,
                                     sums + (channel * taps + tap + kw) * line, &band, kd, kh)
        band.column += band.columns
        if band.column == w.out[2]:
            band.column, band.row = 0, band.row + band.rows
        if band.row == w.out[1]:
            band.row, band.slab = 0, band.slab + band.slabs
    free(memory)


def weight_gradient(tuple tiles not None, int64_t turn, TensorBase x not None, TensorBase grad not None, TensorBase sums not None,
                    int64_t groups, tuple kernel not None, tuple stride not None, tuple before not None, tuple dilation not None,
                    int64_t lanes, tuple filters not None, tuple rows not None, bint along) -> None:
    """Adds to sums (groups, channels, taps, padded filters): x (N, C, D, H, W), grad (N, O, D', H', W'), contiguous.

    `tiles`: functions of the register tile that add to what stands there, [smaller blocks of filters][smaller rows]; `turn`: the function
    that turns matrices of the gradient's elements to the input's.  `filters`: (blocks, vectors of the smaller, how many are a vector wider); `rows`: (tiles, rows of the smaller, how
    many have a row more), of channels, or `along` lines, of taps: then the input has its padding.
    """
    cdef Work w
    cdef int64_t d, plane, wide, tasks, steps
    cdef int i, j
    for i in range(2):
        for j in range(2):
            w.tile[i][j] = <tile_t><void*><uintptr_t><int64_t>tiles[i][j]
    w.turn = <turn_t><void*><uintptr_t>turn
    w.size, w.lanes, w.groups, w.along, w.failed = x.width, lanes, groups, along, False
    w.x, w.grad, w.sums = pointer(x), pointer(grad), pointer(sums)
    w.channels, w.filters, w.padded = x.sizes[1] // groups, grad.sizes[1] // groups, sums.sizes[3]
    w.blocks, w.vectors, w.more_blocks = filters
    w.tiles, w.rows, w.more_tiles = rows
    if along:
        w.tiles = w.channels
    for d in range(3):
        w.kernel[d], w.stride[d], w.before[d], w.dilation[d] = kernel[d], stride[d], before[d], dilation[d]
        w.sizes[d], w.out[d], w.x_step[d] = x.sizes[2 + d], grad.sizes[2 + d], x.strides[2 + d] * w.size
    w.x_image, w.x_channel = x.strides[0] * w.size, x.strides[1] * w.size
    w.grad_size = grad.width
    w.grad_image, w.grad_channel = grad.strides[0] * w.grad_size, grad.strides[1] * w.grad_size
    w.slabs = x.sizes[0] * w.out[0]
    wide = (w.vectors + (w.more_blocks > 0)) * lanes * w.size
    plane = w.out[1] * w.out[2] * wide
    w.slabs_a_band = min(max(BAND_BYTES // plane, 1), w.slabs)
    w.rows_a_band = min(max(BAND_BYTES // (w.out[2] * wide), 1), w.out[1])
    w.columns_a_band = min(max(BAND_BYTES // wide, 1), w.out[2])
    w.flat = (w.kernel[1] == 1 and w.kernel[2] == 1 and w.before[1] == 0 and w.before[2] == 0
              and w.stride[1] * w.x_step[1] == w.out[2] * w.stride[2] * w.x_step[2])
    w.offsets = <int64_t*>malloc(w.out[1] * sizeof(int64_t))
    if w.offsets is NULL:
        raise MemoryError()
    for d in range(w.out[1]):
        w.offsets[d] = d * w.stride[1] * w.x_step[1]
    tasks = groups * w.blocks * w.tiles
    steps = w.slabs * w.out[1] * w.out[2] * w.channels * w.filters * w.kernel[0] * w.kernel[1] * w.kernel[2] * groups // tasks + 1
    try:
        with nogil:
            parallel_interruptible(weight_range, &w, tasks, max(STEPS_A_TASK // steps, 1), steps * NANOSECONDS_A_STEP)
    finally:
        free(w.offsets)
    if w.failed:
        raise MemoryError()
