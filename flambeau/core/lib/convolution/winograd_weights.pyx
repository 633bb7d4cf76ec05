# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The weight's gradient by Winograd's (codegen/tiles/winograd_weights.py): squares of a block of rows are transformed, then multiplied.

A block's values V of the input (plane, square, channel) and G of the gradient (plane, square, filter) are made by all threads; then
each plane's product V' G is added to the sums S (plane, channel, filter), and in the end S goes to the gradient.  An element of S is
always added to in the order of the blocks, which depends on the shape alone.
"""
from libc.string cimport memset
from libc.stdint cimport int64_t, uintptr_t
from .images cimport (
    LINE, MAX_SLOTS, Converting, Image, bring, convert_image, flambeau_leave_slot, flambeau_take_slot, lines, read_converting, read_image,
    turn_t,
)
from ..tiles cimport Tile, tile_t
from ...base.memory cimport Storage, new_storage
from ...base.parallel cimport num_threads, parallel_interruptible
from ...base.tensor cimport TensorBase, pointer

ctypedef void (*spread_t)(const char* workspace, int64_t row, char* to, int64_t plane, int64_t step, int64_t squares) noexcept nogil
ctypedef void (*lower_t)(const char* source, int64_t plane, int64_t step, char* to, int64_t channels) noexcept nogil

cdef enum:
    M = 4
    T = 6
    CHANNELS = 16             # that are lowered together
    BLOCK_BYTES = 1 << 22     # of V and G

cdef double NANOSECONDS_A_PRODUCT = 0.01
cdef int64_t ZERO = 0

cdef struct Work:
    Image x
    Image g
    int64_t before_row, before_column, down, across, rows, channels, filters, lanes, vector
    int64_t x_vectors, g_vectors, v_step, v_plane, g_step, g_plane, s_step, s_plane, workspace
    int64_t first, last                       # rows of squares of the block
    int64_t blocks, vectors, more_blocks, tiles, tile_rows, more_tiles       # as in `correlation.pyx`
    char* v
    char* values                              # G
    char* s
    char* out
    char* workspaces
    unsigned char* taken
    int slots
    turn_t turn
    spread_t spread
    spread_t expand
    lower_t lower
    tile_t tile[2][2]


cdef void bring_square_row(const Work* w, const Image* image, int64_t n, int64_t top, int64_t high, int64_t left, int64_t wide, int64_t first,
                           int64_t channels, char* workspace) noexcept nogil:
    """A row of squares, `high` rows of pixels, of a vector of channels: zeros beside the image."""
    cdef int64_t a, pitch = wide * w.vector
    for a in range(high):
        if 0 <= top + a < image.height:
            bring(w.turn, image, n, first, channels, top + a, left, wide, workspace + a * pitch, w.vector)
        else:
            memset(workspace + a * pitch, 0, pitch)


cdef void spread_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Tasks are (row of squares, vector of channels or of filters)."""
    cdef Work* w = <Work*>context
    cdef int slot = flambeau_take_slot(w.taken, w.slots)
    cdef char* workspace = w.workspaces + slot * w.workspace
    cdef int64_t task, r, k, n, top, both = w.x_vectors + w.g_vectors
    for task in range(begin, end):
        r, k = w.first + task // both, task % both
        n, top = r // w.down, r % w.down * M
        if k < w.x_vectors:
            bring_square_row(w, &w.x, n, top - w.before_row, T, -w.before_column, w.across * M + 2, k * w.lanes,
                             min(w.lanes, w.channels - k * w.lanes), workspace)
            w.spread(workspace, (w.across * M + 2) * w.vector, w.v + (r - w.first) * w.across * w.v_step + k * w.vector, w.v_plane, w.v_step,
                     w.across)
        else:
            k -= w.x_vectors
            bring_square_row(w, &w.g, n, top, M, 0, w.across * M, k * w.lanes, min(w.lanes, w.filters - k * w.lanes), workspace)
            w.expand(workspace, w.across * M * w.vector, w.values + (r - w.first) * w.across * w.g_step + k * w.vector, w.g_plane, w.g_step,
                     w.across)
    flambeau_leave_slot(w.taken, slot)


cdef void multiply_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Tasks are (plane, block of filters)."""
    cdef Work* w = <Work*>context
    cdef Tile t
    cdef int64_t task, plane, block, vectors, first, item, channel
    cdef int narrow
    memset(&t, 0, sizeof(Tile))
    t.row, t.step, t.offsets, t.terms, t.taps[0] = w.vector // w.lanes, w.v_step, &ZERO, (w.last - w.first) * w.across, 1
    t.b_step, t.b_vector, t.c_row = w.g_step, w.vector, w.s_step
    t.operands[0].row = t.c_row
    for task in range(begin, end):
        plane, block = task // w.blocks, task % w.blocks
        narrow = block >= w.more_blocks
        vectors = w.vectors + (not narrow)
        first = block * w.vectors + min(block, w.more_blocks)
        t.b = w.values + plane * w.g_plane + first * w.vector
        t.columns = vectors * w.lanes
        for item in range(w.tiles):
            channel = item * w.tile_rows + min(item, w.more_tiles)
            t.a = w.v + plane * w.v_plane + channel * t.row
            t.c = w.s + plane * w.s_plane + channel * w.s_step + first * w.vector
            t.operands[0].data = t.c
            w.tile[narrow][item >= w.more_tiles](&t)


cdef void lower_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Tasks are (vector of filters, some channels)."""
    cdef Work* w = <Work*>context
    cdef int slot = flambeau_take_slot(w.taken, w.slots)
    cdef char* workspace = w.workspaces + slot * w.workspace
    cdef int64_t task, k, channel, channels, size = w.vector // w.lanes, parts = (w.channels + CHANNELS - 1) // CHANNELS
    for task in range(begin, end):
        k, channel = task // parts, task % parts * CHANNELS
        channels = min(<int64_t>CHANNELS, w.channels - channel)
        w.lower(w.s + channel * w.s_step + k * w.vector, w.s_plane, w.s_step, workspace, channels)
        w.turn(workspace, w.vector, channels * 9, min(w.lanes, w.filters - k * w.lanes),
               w.out + (k * w.lanes * w.channels + channel) * 9 * size, w.channels * 9 * size)
    flambeau_leave_slot(w.taken, slot)


def weight_gradient(TensorBase x not None, TensorBase grad not None, TensorBase out not None, tuple before not None, int64_t lanes,
                    tuple steps not None, tuple tiles not None, tuple filters not None, tuple rows not None, tuple converting not None) -> None:
    """x (N, C, H, W) and grad (N, K, H', W') to out (K, C, 3, 3), contiguous; of halves to float32.

    `steps`: addresses of turn, spread, expand, lower; `tiles`, `filters`, `rows`: as in `correlation.weight_gradient`; `converting`: see
    `read_converting`.
    """
    cdef Work w
    cdef unsigned char taken[MAX_SLOTS]
    cdef Storage workspaces, values, sums
    cdef Converting widens, narrows
    cdef int64_t size = out.width, block, squares, tasks
    cdef int i, j
    read_image(&w.x, x)
    read_image(&w.g, grad)
    read_converting(converting, &widens, &narrows)
    convert_image(&w.x, &widens, size)
    convert_image(&w.g, &widens, size)
    w.turn, w.spread = <turn_t><uintptr_t>steps[0], <spread_t><uintptr_t>steps[1]
    w.expand, w.lower = <spread_t><uintptr_t>steps[2], <lower_t><uintptr_t>steps[3]
    for i in range(2):
        for j in range(2):
            w.tile[i][j] = <tile_t><void*><uintptr_t><int64_t>tiles[i][j]
    w.blocks, w.vectors, w.more_blocks = filters
    w.tiles, w.tile_rows, w.more_tiles = rows
    w.before_row, w.before_column = before
    w.channels, w.filters, w.lanes, w.vector = x.sizes[1], grad.sizes[1], lanes, lanes * size
    w.down, w.across = (grad.sizes[2] + M - 1) // M, (grad.sizes[3] + M - 1) // M
    w.rows = x.sizes[0] * w.down
    w.x_vectors, w.g_vectors = (w.channels + lanes - 1) // lanes, (w.filters + lanes - 1) // lanes
    w.v_step, w.g_step = (w.x_vectors | 1) * w.vector, (w.g_vectors | 1) * w.vector     # odd: squares do not share sets of the cache
    block = min(max(BLOCK_BYTES // (T * T * (w.v_step + w.g_step) * w.across), 1), w.rows)
    block = (w.rows + (w.rows + block - 1) // block - 1) // ((w.rows + block - 1) // block)     # blocks of nearly one size
    squares = block * w.across
    w.v_plane, w.g_plane = squares * w.v_step + LINE, squares * w.g_step + LINE         # no power of two apart
    w.s_step = w.g_vectors * w.vector
    w.s_plane = w.channels * w.s_step + LINE
    w.workspace = lines(max(T * (w.across * M + 2), <int64_t>CHANNELS * 9) * w.vector)
    w.slots = <int>max(1, min(num_threads(), MAX_SLOTS))
    workspaces, values = new_storage(w.slots * w.workspace), new_storage(T * T * (w.v_plane + w.g_plane))
    sums = new_storage(T * T * w.s_plane)
    w.workspaces, w.v, w.s, w.out, w.taken = workspaces.data, values.data, sums.data, pointer(out), taken
    w.values = w.v + T * T * w.v_plane
    memset(taken, 0, MAX_SLOTS)
    memset(w.s, 0, T * T * w.s_plane)
    w.first = 0
    while w.first < w.rows:
        w.last = min(w.first + block, w.rows)
        with nogil:
            parallel_interruptible(spread_range, &w, (w.last - w.first) * (w.x_vectors + w.g_vectors), 1 + 64 // w.across, 1e3)
            tasks = (w.last - w.first) * w.across * w.channels * w.vectors * lanes
            parallel_interruptible(multiply_range, &w, T * T * w.blocks, 1, tasks * NANOSECONDS_A_PRODUCT)
        w.first = w.last
    with nogil:
        parallel_interruptible(lower_range, &w, w.g_vectors * ((w.channels + CHANNELS - 1) // CHANNELS), 8, 2e3)
