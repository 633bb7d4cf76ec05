# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""Convolutions of windows of one place over images with pixels side by side: filters times planes, by the register tile.

Rows of a tile are filters, read where they stand; terms are channels; columns are pixels of an image, which need not be turned.  Some
vectors of pixels of all channels are copied to a workspace first: planes lie pages apart.

Where several tasks read the same pixels, those are copied before, once.  Where an image's pixels do not fill vectors, the pixels of all
images are taken as one line, and results go by way of a workspace, too.
"""
from libc.string cimport memset
from libc.stdint cimport int64_t, uintptr_t
from .driver cimport Driver
from .images cimport MAX_SLOTS, Image, flambeau_leave_slot, flambeau_move_pixels, flambeau_take_slot, lines, read_image
from ..tiles cimport Tile, tile_t
from ...base.memory cimport Storage, new_storage
from ...base.parallel cimport num_threads, parallel_for, parallel_interruptible
from ...base.tensor cimport TensorBase, pointer

cdef enum:
    MAX_ROWS = 32             # of a tile
    MAX_VECTORS = 4
    SOME = 128                # channels whose pixels a task copies for others

cdef double NANOSECONDS_A_PRODUCT = 0.01
cdef int64_t ZERO = 0

cdef struct Work:
    Image x
    Image y
    int64_t images, channels, filters, pixels, lanes, size, vector
    int64_t lines             # images, or 1 where they are taken as one
    int64_t vectors, blocks   # of a line
    int64_t most, runs, splits
    int64_t workspace, out_workspace                          # bytes of a block's pixels, and of its results
    const char* weight
    int64_t filter, channel   # steps of the weight
    int operands              # of the epilogue, each an element a filter, one after another
    const char* terms
    char* workspaces
    char* laid                # pixels of all blocks, where tasks share them
    unsigned char* taken
    int slots
    tile_t tiles[MAX_VECTORS + 1][MAX_ROWS + 1]


cdef inline void find_block(const Work* w, int64_t block, int64_t* first, int64_t* count, int64_t* vectors) noexcept nogil:
    """Which pixels of a line a block has, and how many vectors they take."""
    first[0] = w.vectors * block // w.blocks
    vectors[0] = w.vectors * (block + 1) // w.blocks - first[0]
    first[0] *= w.lanes
    count[0] = min(vectors[0] * w.lanes, w.pixels * w.images // w.lines - first[0])


cdef void bring_block(const Work* w, int64_t line, int64_t block, int64_t channel, int64_t channels, char* workspace) noexcept nogil:
    """The pixels of a block, of some channels, to their rows of its workspace; zeros beyond the last."""
    cdef int64_t first, count, vectors, at = 0, n, pixel, some, c, step
    find_block(w, block, &first, &count, &vectors)
    step = vectors * w.vector
    workspace += channel * step
    first += line * w.pixels
    while at < count:
        n, pixel = (first + at) // w.pixels, (first + at) % w.pixels
        some = min(w.pixels - pixel, count - at)
        flambeau_move_pixels(workspace + at * w.size, step, w.x.data + n * w.x.image + channel * w.x.channel + pixel * w.size, w.x.channel,
                             channels, some * w.size)
        at += some
    if count < vectors * w.lanes:
        for c in range(channels):
            memset(workspace + c * step + count * w.size, 0, step - count * w.size)


cdef void lay_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Tasks are (line, block, some channels)."""
    cdef Work* w = <Work*>context
    cdef int64_t task, parts = (w.channels + SOME - 1) // SOME, channel
    for task in range(begin, end):
        channel = task % parts * SOME
        bring_block(w, task // parts // w.blocks, task // parts % w.blocks, channel, min(<int64_t>SOME, w.channels - channel),
                    w.laid + task // parts * w.workspace)


cdef void deliver_line(const Work* w, int64_t first, int64_t count, int64_t start, int64_t stop, const char* workspace, int64_t step) noexcept nogil:
    """Rows of a workspace to the same pixels of filters [start, stop)."""
    cdef int64_t at = 0, n, pixel, some
    while at < count:
        n, pixel = (first + at) // w.pixels, (first + at) % w.pixels
        some = min(w.pixels - pixel, count - at)
        flambeau_move_pixels(w.y.data + n * w.y.image + start * w.y.channel + pixel * w.size, w.y.channel, workspace + at * w.size, step,
                             stop - start, some * w.size)
        at += some


cdef void blocks_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Tasks are (line, block of vectors of pixels, some runs of filters)."""
    cdef Work* w = <Work*>context
    cdef int slot = flambeau_take_slot(w.taken, w.slots)
    cdef char* results = w.workspaces + slot * (w.out_workspace + (w.workspace if w.laid == NULL else 0))
    cdef char* own = results + w.out_workspace
    cdef bint joined = w.lines < w.images
    cdef Tile t
    cdef int64_t task, n, block, split, vectors, first, count, run, start, stop
    cdef int k
    memset(&t, 0, sizeof(Tile))
    t.row, t.step, t.offsets, t.terms, t.taps[0] = w.filter, w.channel, &ZERO, w.channels, 1
    t.b_vector = w.vector
    for k in range(w.operands):
        t.operands[k].row = w.size
    for task in range(begin, end):
        split = task % w.splits
        block, n = task // w.splits % w.blocks, task // w.splits // w.blocks
        find_block(w, block, &first, &count, &vectors)
        t.b_step, t.columns = vectors * w.vector, count
        t.c_row = t.b_step if joined else w.y.channel
        if w.laid == NULL:
            bring_block(w, n, block, 0, w.channels, own)
            t.b = own
        else:
            t.b = w.laid + task // w.splits * w.workspace
        for run in range(w.runs * split // w.splits, w.runs * (split + 1) // w.splits):
            start, stop = w.filters * run // w.runs, w.filters * (run + 1) // w.runs
            t.a = w.weight + start * w.filter
            for k in range(w.operands):
                t.operands[k].data = w.terms + (k * w.filters + start) * w.size
            t.c = results if joined else w.y.data + n * w.y.image + start * w.y.channel + first * w.size
            w.tiles[vectors][stop - start](&t)
            if joined:
                deliver_line(w, first, count, start, stop, t.c, t.c_row)
    flambeau_leave_slot(w.taken, slot)


cdef class Planes(Driver):
    """Products of filters and planes for one shape: `run(x, weight, terms, out)`."""
    cdef Work w

    def __cinit__(self, int size, int lanes, tuple x_shape, int64_t filters, bint joined, int panel, int most,
                  int64_t splits, tuple tiles, int operands):
        """`joined`: all images are one line; `tiles`: (vectors, rows, address) of each tile; `operands`: of their epilogue."""
        cdef Work* w = &self.w
        w.size, w.lanes, w.vector = size, lanes, lanes * size
        w.images, w.channels, w.filters = x_shape[0], x_shape[1], filters
        w.pixels = <int64_t>x_shape[2] * <int64_t>x_shape[3]
        w.lines = 1 if joined else w.images
        w.vectors = (w.pixels * (w.images if joined else 1) + lanes - 1) // lanes
        w.blocks = (w.vectors + panel - 1) // panel
        w.most, w.runs, w.splits, w.operands = most, (filters + most - 1) // most, splits, operands
        w.workspace = lines((w.vectors + w.blocks - 1) // w.blocks * w.vector * w.channels)
        w.out_workspace = lines(panel * w.vector * most) if joined else 0
        for vectors, rows, address in tiles:
            w.tiles[<int>vectors][<int>rows] = <tile_t><uintptr_t>address

    def run(self, TensorBase x not None, TensorBase weight not None, TensorBase terms not None, TensorBase out not None,
            bint turned=False) -> None:
        """`weight` (K, C), contiguous; `turned`: (C, K); `terms`: the epilogue's operands.  All rows of x and out lie one after another."""
        cdef Image image, result
        read_image(&image, x)
        read_image(&result, out)
        self.run_at(&image, &result, pointer(weight), pointer(terms), turned)

    cdef int compute(self, const Image* x, const Image* y, const char* weight, const char* terms) except -1:
        return self.run_at(x, y, weight, terms, False)

    cdef int run_at(self, const Image* x, const Image* y, const char* weight, const char* terms, bint turned) except -1:
        cdef Work w = self.w
        cdef unsigned char taken[MAX_SLOTS]
        cdef Storage workspaces
        cdef int64_t tasks = w.lines * w.blocks * w.splits, work = w.filters * w.channels * w.vectors * w.lanes // (w.blocks * w.splits)
        cdef int64_t each = w.out_workspace + (w.workspace if w.splits == 1 else 0)
        w.x, w.y, w.weight, w.terms = x[0], y[0], weight, terms
        w.filter, w.channel = (w.size, w.filters * w.size) if turned else (w.channels * w.size, w.size)
        memset(taken, 0, MAX_SLOTS)
        w.taken = taken
        w.slots = <int>max(1, min(min(num_threads(), tasks), MAX_SLOTS))
        workspaces = new_storage(w.slots * each + (w.lines * w.blocks * w.workspace if w.splits > 1 else 0))
        w.workspaces = workspaces.data
        w.laid = w.workspaces + w.slots * each if w.splits > 1 else NULL
        with nogil:
            if w.laid != NULL:
                parallel_for(lay_range, &w, w.lines * w.blocks * ((w.channels + SOME - 1) // SOME), 4)
            parallel_interruptible(blocks_range, &w, tasks, max((1 << 17) // max(work, 1), 1), work * NANOSECONDS_A_PRODUCT)
        return 0
