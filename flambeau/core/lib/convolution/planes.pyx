# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""Convolutions of windows of one place over images with pixels side by side: filters times planes, by the register tile.

Rows of a tile are filters, read where they stand; terms are channels; columns are pixels of an image, which need not be turned.  Some
vectors of pixels of all channels are copied to a workspace first: planes lie pages apart.

Where an image's pixels do not fill vectors, the pixels of all images are taken as one line, and results go by way of a workspace, too.
"""
from libc.string cimport memcpy, memset
from libc.stdint cimport int64_t, uintptr_t
from .driver cimport Driver
from .images cimport MAX_SLOTS, Image, flambeau_leave_slot, flambeau_take_slot, lines, read_image
from ..tiles cimport Tile, tile_t
from ...base.memory cimport Storage, new_storage
from ...base.parallel cimport num_threads, parallel_interruptible
from ...base.tensor cimport TensorBase, pointer

cdef enum:
    MAX_ROWS = 32             # of a tile
    MAX_VECTORS = 4

cdef double NANOSECONDS_A_PRODUCT = 0.01
cdef int64_t ZERO = 0

cdef struct Work:
    Image x
    Image y
    int64_t images, channels, filters, pixels, lanes, size, vector
    int64_t lines             # images, or 1 where they are taken as one
    int64_t vectors, blocks   # of a line
    int64_t most, runs, splits
    int64_t workspace, out_workspace
    const char* weight
    int64_t filter, channel   # steps of the weight
    int operands              # of the epilogue, each an element a filter, one after another
    const char* terms
    char* workspaces
    unsigned char* taken
    int slots
    tile_t tiles[MAX_VECTORS + 1][MAX_ROWS + 1]


cdef void bring_line(const Work* w, int64_t first, int64_t count, char* workspace, int64_t step) noexcept nogil:
    """Pixels [first, first + count) of the line of all images, of all channels, to rows `step` apart."""
    cdef int64_t at = 0, n, pixel, some, c
    cdef const char* source
    while at < count:
        n, pixel = (first + at) // w.pixels, (first + at) % w.pixels
        some = min(w.pixels - pixel, count - at)
        source = w.x.data + n * w.x.image + pixel * w.size
        for c in range(w.channels):
            memcpy(workspace + c * step + at * w.size, source + c * w.x.channel, some * w.size)
        at += some


cdef void deliver_line(const Work* w, int64_t first, int64_t count, int64_t start, int64_t stop, const char* workspace, int64_t step) noexcept nogil:
    """Rows of a workspace to the same pixels of filters [start, stop)."""
    cdef int64_t at = 0, n, pixel, some, k
    cdef char* to
    while at < count:
        n, pixel = (first + at) // w.pixels, (first + at) % w.pixels
        some = min(w.pixels - pixel, count - at)
        to = w.y.data + n * w.y.image + start * w.y.channel + pixel * w.size
        for k in range(stop - start):
            memcpy(to + k * w.y.channel, workspace + k * step + at * w.size, some * w.size)
        at += some


cdef void blocks_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Tasks are (line, block of vectors of pixels, some runs of filters)."""
    cdef Work* w = <Work*>context
    cdef int slot = flambeau_take_slot(w.taken, w.slots)
    cdef char* workspace = w.workspaces + slot * (w.workspace + w.out_workspace)
    cdef bint joined = w.lines < w.images
    cdef Tile t
    cdef int64_t task, n, block, split, vectors, first, count, c, run, start, stop
    cdef int k
    memset(&t, 0, sizeof(Tile))
    t.row, t.step, t.offsets, t.terms, t.taps[0] = w.filter, w.channel, &ZERO, w.channels, 1
    t.b, t.b_vector = workspace, w.vector
    for k in range(w.operands):
        t.operands[k].row = w.size
    for task in range(begin, end):
        split = task % w.splits
        block, n = task // w.splits % w.blocks, task // w.splits // w.blocks
        first = w.vectors * block // w.blocks
        vectors = w.vectors * (block + 1) // w.blocks - first
        first *= w.lanes
        count = min(vectors * w.lanes, w.pixels * w.images // w.lines - first)
        t.b_step, t.columns = vectors * w.vector, count
        t.c_row = t.b_step if joined else w.y.channel
        bring_line(w, n * w.pixels + first, count, workspace, t.b_step)
        if count < vectors * w.lanes:
            for c in range(w.channels):
                memset(workspace + c * t.b_step + count * w.size, 0, t.b_step - count * w.size)
        for run in range(w.runs * split // w.splits, w.runs * (split + 1) // w.splits):
            start, stop = w.filters * run // w.runs, w.filters * (run + 1) // w.runs
            t.a = w.weight + start * w.filter
            for k in range(w.operands):
                t.operands[k].data = w.terms + (k * w.filters + start) * w.size
            t.c = workspace + w.workspace if joined else w.y.data + n * w.y.image + start * w.y.channel + first * w.size
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
        w.out_workspace = panel * w.vector * most if joined else 0
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
        w.x, w.y, w.weight, w.terms = x[0], y[0], weight, terms
        w.filter, w.channel = (w.size, w.filters * w.size) if turned else (w.channels * w.size, w.size)
        memset(taken, 0, MAX_SLOTS)
        w.taken = taken
        w.slots = <int>max(1, min(min(num_threads(), tasks), MAX_SLOTS))
        workspaces = new_storage(w.slots * (w.workspace + w.out_workspace))
        w.workspaces = workspaces.data
        with nogil:
            parallel_interruptible(blocks_range, &w, tasks, max((1 << 17) // max(work, 1), 1), work * NANOSECONDS_A_PRODUCT)
        return 0
