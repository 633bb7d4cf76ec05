# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Convolutions as tiles (see `codegen/convolution.py`): which tile is computed by which thread."""
from libc.string cimport memcpy
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from ...base.tensor cimport TensorBase, pointer
from ...base.parallel cimport parallel_interruptible

cdef enum:
    MAX_KINDS = 8
    STEPS_A_TASK = 1 << 18        # multiplications below which a task is not worth a thread

cdef double NANOSECONDS_A_STEP = 0.1

ctypedef void (*kernel_t)(char** data, const int64_t* geometry, const uint64_t* scalars) noexcept nogil

cdef struct Kind:                 # tiles of one size
    kernel_t run
    int64_t size                  # output channels (or rows of the gradient) a tile
    int64_t first                 # the first of them
    int64_t tiles                 # in a group
    char* weight                  # (group, tile, r, size)


cdef int read_kinds(Kind* kinds, tuple given) except -1:
    cdef int k
    if len(given) > MAX_KINDS:
        raise ValueError("convolution: too many kinds of tiles")
    for k in range(len(given)):
        address, kinds[k].size, kinds[k].first, kinds[k].tiles, weight = given[k]
        kinds[k].run = <kernel_t><void*><uintptr_t>address
        kinds[k].weight = NULL if weight is None else pointer(<TensorBase?>weight)
    return 0


# --- products -------------------------------------------------------------------------------------------------------------------
cdef struct Work:
    int kinds
    Kind kind[MAX_KINDS]
    int64_t tiles                 # a group
    int64_t groups, chunks, chunk, vectors, places, depth, width
    int64_t grid_image, grid_group, out_image, out_group, out_step
    int64_t channels              # output channels a group
    char* out
    char* grid
    char* bias
    char* offsets
    char* firsts
    char* masks
    char* spots


cdef void products_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Tasks are (image, group, chunk of places, tile of channels), the last fastest: a chunk stays in the cache."""
    cdef Work* w = <Work*>context
    cdef char* data[8]
    cdef int64_t geometry[5]
    cdef int64_t task, rest, tile, group, image, chunk, first
    cdef Kind* kind
    data[4], data[5], data[6], data[7] = w.offsets, w.firsts, w.masks, w.spots
    geometry[0], geometry[3], geometry[4] = w.depth, w.places, w.out_step
    for task in range(begin, end):
        tile, rest = task % w.tiles, task // w.tiles
        chunk, rest = rest % w.chunks, rest // w.chunks
        group, image = rest % w.groups, rest // w.groups
        kind = &w.kind[0]
        while tile >= kind.tiles:
            tile -= kind.tiles
            kind += 1
        first = kind.first + tile * kind.size
        data[0] = w.out + (image * w.out_image + group * w.out_group + first * w.out_step) * w.width
        data[1] = w.grid + (image * w.grid_image + group * w.grid_group) * w.width
        data[2] = kind.weight + (group * kind.tiles + tile) * w.depth * kind.size * w.width
        data[3] = w.bias + (group * w.channels + first) * w.width
        geometry[1], geometry[2] = chunk * w.chunk, min((chunk + 1) * w.chunk, w.vectors)
        kind.run(data, geometry, NULL)


def products(tuple kinds, TensorBase out not None, TensorBase grid not None, TensorBase bias not None, TensorBase offsets not None,
             TensorBase firsts not None, TensorBase masks not None, TensorBase spots not None, int64_t groups, int64_t places,
             int64_t lanes, int64_t chunk) -> None:
    """out (N, O, *) from a grid (N, C, cells), both contiguous; `places` a channel, `chunk` vectors of them a task.

    `kinds`: (kernel, channels, first channel, tiles, weights (groups, tiles, r, channels)) for each size of tile.
    """
    cdef Work w
    cdef int64_t images = out.sizes[0], tasks, grain, steps
    cdef int k
    read_kinds(w.kind, kinds)
    w.tiles = 0
    for k in range(len(kinds)):
        w.tiles += w.kind[k].tiles
    w.groups, w.places, w.depth, w.width = groups, places, offsets.count, out.width
    w.vectors = (places + lanes - 1) // lanes
    w.chunk, w.chunks = chunk, (w.vectors + chunk - 1) // chunk
    w.grid_image, w.grid_group = grid.count // images, grid.count // images // groups
    w.out_image, w.out_group = out.count // images, out.count // images // groups
    w.channels = out.sizes[1] // groups
    w.out_step = w.out_image // out.sizes[1]
    w.out, w.grid, w.bias = pointer(out), pointer(grid), pointer(bias)
    w.offsets, w.firsts, w.masks, w.spots = pointer(offsets), pointer(firsts), pointer(masks), pointer(spots)
    tasks = images * groups * w.chunks * w.tiles
    steps = (images * out.sizes[1] * places * w.depth) // max(tasks, 1) + 1
    grain = max(STEPS_A_TASK // steps, 1)
    with nogil:
        parallel_interruptible(products_range, &w, tasks, grain, steps * NANOSECONDS_A_STEP)


# --- the weight's gradient --------------------------------------------------------------------------------------------------------
cdef struct Sums:
    int kinds
    Kind kind[MAX_KINDS]
    int64_t tiles, groups, blocks           # blocks of output channels
    int64_t block                           # channels of a block
    int64_t images, rows, width, grid_image, grid_row, grid_group, grad_image, channels, group_channels, depth, bytes
    int64_t chunk_images, chunk_rows
    char* gradient
    char* grid
    char* grad
    char* offsets


cdef void sums_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Tasks are (group, block of channels, tile of r); a task's images and rows are added up in their order."""
    cdef Sums* w = <Sums*>context
    cdef char* data[4]
    cdef int64_t geometry[8]
    cdef int64_t task, rest, tile, group, block, first, image, row
    cdef Kind* kind
    geometry[2], geometry[3], geometry[4], geometry[5] = w.width, w.grid_image, w.grid_row, w.grad_image
    geometry[6], geometry[7] = w.group_channels, w.channels
    image = 0
    while image < w.images:
        geometry[0] = min(w.chunk_images, w.images - image)
        row = 0
        while row < w.rows:
            geometry[1] = min(w.chunk_rows, w.rows - row)
            for task in range(begin, end):
                tile, rest = task % w.tiles, task // w.tiles
                block, group = rest % w.blocks, rest // w.blocks
                kind = &w.kind[0]
                while tile >= kind.tiles:
                    tile -= kind.tiles
                    kind += 1
                first = kind.first + tile * kind.size
                data[0] = w.gradient + ((group * w.depth + first) * w.group_channels + block * w.block) * w.bytes
                data[1] = w.grid + (image * w.grid_image + group * w.grid_group + row * w.grid_row) * w.bytes
                data[2] = w.grad + (image * w.grad_image + group * w.group_channels * (1 if w.channels > 1 else w.rows * w.width)
                                    + row * w.width * w.channels + block * w.block) * w.bytes
                data[3] = w.offsets + first * 8
                kind.run(data, geometry, NULL)
            row += w.chunk_rows
        image += w.chunk_images


def correlations(tuple kinds, TensorBase gradient not None, TensorBase grid not None, TensorBase grad not None,
                 TensorBase offsets not None, int64_t images, int64_t rows, int64_t width, int64_t grid_row, int64_t block,
                 bint lanes_along_places) -> None:
    """Adds to gradient (groups, r, channels): grid (N, C, cells), grad (N, rows * width, groups * channels), all contiguous.

    `block`: output channels a tile.  With `lanes_along_places`, grad is (N, groups, rows * width) and channels is 1.
    """
    cdef Sums w
    cdef int64_t tasks, grain, steps, most
    cdef int k
    read_kinds(w.kind, kinds)
    w.tiles = 0
    for k in range(len(kinds)):
        w.tiles += w.kind[k].tiles
    w.groups, w.depth, w.group_channels = gradient.sizes[0], gradient.sizes[1], gradient.sizes[2]
    w.block, w.blocks = block, w.group_channels // block
    w.images, w.rows, w.width, w.grid_row, w.bytes = images, rows, width, grid_row, grad.width
    w.grid_image, w.grid_group = grid.count // images, grid.count // images // w.groups
    w.grad_image = grad.count // images
    w.channels = 1 if lanes_along_places else w.groups * w.group_channels
    # so many images and rows at a time that their part of grad stays in the nearest cache
    most = max(24576 // (w.block * width * w.bytes), 1)
    w.chunk_rows = min(most, rows)
    w.chunk_images = max(most // rows, 1)
    w.gradient, w.grid, w.grad, w.offsets = pointer(gradient), pointer(grid), pointer(grad), pointer(offsets)
    tasks = w.groups * w.blocks * w.tiles
    steps = images * rows * width * w.depth * w.groups * w.group_channels // max(tasks, 1) + 1
    grain = max(STEPS_A_TASK // steps, 1)
    with nogil:
        parallel_interruptible(sums_range, &w, tasks, grain, steps * NANOSECONDS_A_STEP)
