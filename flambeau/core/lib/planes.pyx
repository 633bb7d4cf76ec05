# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""Convolutions of windows of one place over images with pixels side by side: filters times planes, by the register tile.

Rows of a tile are filters, read where they stand; terms are channels; columns are pixels of an image, which need not be turned.  Some
vectors of pixels of all channels are copied to a room first: planes lie pages apart.
"""
from libc.string cimport memcpy, memset
from libc.stdint cimport int64_t, uintptr_t
from .images cimport MAX_SLOTS, Image, flambeau_leave_slot, flambeau_take_slot, read_image
from .tiles cimport Tile, tile_t
from ..base.memory cimport Storage, new_storage
from ..base.parallel cimport num_threads, parallel_in_parts
from ..base.tensor cimport TensorBase, pointer

cdef enum:
    MAX_ROWS = 32             # of a tile
    MAX_VECTORS = 4

cdef double NANOSECONDS_A_PRODUCT = 0.01
cdef int64_t ZERO = 0

cdef struct Work:
    Image x
    Image y
    int64_t images, channels, filters, pixels, lanes, size, vector
    int64_t vectors, blocks   # of an image
    int64_t most, runs, splits
    int64_t room
    const char* weight
    int64_t filter, channel   # steps of the weight
    const char* bias
    char* rooms
    unsigned char* taken
    int slots
    tile_t tiles[MAX_VECTORS + 1][MAX_ROWS + 1]


cdef void blocks_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Tasks are (image, block of vectors of pixels, some runs of filters)."""
    cdef Work* w = <Work*>context
    cdef int slot = flambeau_take_slot(w.taken, w.slots)
    cdef char* room = w.rooms + slot * w.room
    cdef Tile t
    cdef const char* source
    cdef int64_t task, n, block, split, vectors, first, count, c, run, start, stop
    memset(&t, 0, sizeof(Tile))
    t.row, t.step, t.offsets, t.terms, t.taps[0] = w.filter, w.channel, &ZERO, w.channels, 1
    t.b, t.b_vector, t.c_row = room, w.vector, w.y.channel
    for task in range(begin, end):
        split = task % w.splits
        block, n = task // w.splits % w.blocks, task // w.splits // w.blocks
        first = w.vectors * block // w.blocks
        vectors = w.vectors * (block + 1) // w.blocks - first
        first *= w.lanes
        count = min(vectors * w.lanes, w.pixels - first)
        t.b_step, t.columns = vectors * w.vector, count
        source = w.x.data + n * w.x.image + first * w.size
        for c in range(w.channels):
            memcpy(room + c * t.b_step, source + c * w.x.channel, count * w.size)
            if count < vectors * w.lanes:
                memset(room + c * t.b_step + count * w.size, 0, t.b_step - count * w.size)
        for run in range(w.runs * split // w.splits, w.runs * (split + 1) // w.splits):
            start, stop = w.filters * run // w.runs, w.filters * (run + 1) // w.runs
            t.a, t.bias = w.weight + start * w.filter, w.bias + start * w.size
            t.c = w.y.data + n * w.y.image + start * w.y.channel + first * w.size
            w.tiles[vectors][stop - start](&t)
    flambeau_leave_slot(w.taken, slot)


cdef class Planes:
    """Products of filters and planes for one shape: `run(x, weight, bias, out)`."""
    cdef Work w

    def __cinit__(self, int size, int lanes, tuple x_shape, int64_t filters, int panel, int most, int64_t splits, tuple tiles):
        """`tiles`: (vectors, rows, address) of each tile."""
        cdef Work* w = &self.w
        w.size, w.lanes, w.vector = size, lanes, lanes * size
        w.images, w.channels, w.filters = x_shape[0], x_shape[1], filters
        w.pixels = <int64_t>x_shape[2] * <int64_t>x_shape[3]
        w.vectors = (w.pixels + lanes - 1) // lanes
        w.blocks = (w.vectors + panel - 1) // panel
        w.most, w.runs, w.splits = most, (filters + most - 1) // most, splits
        w.room = (w.vectors + w.blocks - 1) // w.blocks * w.vector * w.channels
        for vectors, rows, address in tiles:
            w.tiles[<int>vectors][<int>rows] = <tile_t><uintptr_t>address

    def run(self, TensorBase x not None, TensorBase weight not None, TensorBase bias not None, TensorBase out not None,
            bint turned=False) -> None:
        """`weight` (K, C), contiguous; `turned`: (C, K).  All rows of x and out lie one after another."""
        cdef Work w = self.w
        cdef unsigned char taken[MAX_SLOTS]
        cdef Storage rooms
        cdef int64_t tasks = w.images * w.blocks * w.splits, work = w.filters * w.channels * w.pixels // (w.blocks * w.splits)
        read_image(&w.x, x)
        read_image(&w.y, out)
        w.weight, w.bias = pointer(weight), pointer(bias)
        w.filter, w.channel = (w.size, w.filters * w.size) if turned else (w.channels * w.size, w.size)
        memset(taken, 0, MAX_SLOTS)
        w.taken = taken
        w.slots = <int>max(1, min(min(num_threads(), tasks), MAX_SLOTS))
        rooms = new_storage(w.slots * w.room)
        w.rooms = rooms.data
        with nogil:
            parallel_in_parts(blocks_range, &w, tasks, max((1 << 17) // max(work, 1), 1), work * NANOSECONDS_A_PRODUCT)
