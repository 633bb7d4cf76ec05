# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""Convolutions as sums over a window, by the register tile: rows are pixels, terms channels, columns filters.

A task takes a band of rows of the output.  The rows of the input that it reads are brought to a buffer in which a pixel's channels lie
side by side, with zeros beside the image; where the input is so already, it is read in place.  Rows of the window that lie
outside are left out.  Then panels of filters go over the band, and their sums to the output: by way of a workspace that is turned
where the output has its pixels side by side.  Halves are converted in these two steps.

The output may have parts with windows of their own, `apart` from pixel to pixel: the phases of a strided convolution's gradient.
"""
from libc.string cimport memset
from libc.stdlib cimport calloc, free
from libc.stdint cimport int64_t, uintptr_t
from .driver cimport Driver
from .images cimport (
    MAX_SLOTS, Converting, Filters, Image, bring, convert_image, deliver, flambeau_leave_slot, flambeau_move_pixels, flambeau_take_slot,
    lines, place_of_task, read_converting, read_filters, read_image, turn_filters, turn_t,
)
from ..tiles cimport Tile, tile_t
from ...base.memory cimport Storage, new_storage
from ...base.parallel cimport num_threads, parallel_interruptible
from ...base.tensor cimport TensorBase, pointer

cdef enum:
    MAX_ROWS = 32             # of a tile
    MAX_VECTORS = 4
    SET_BYTES = 4096          # pixels so far apart share one set of the nearest cache
    TURNED = 1024             # vectors of filters that are turned together: long runs of memory are read, and the cache holds them

cdef double NANOSECONDS_A_PRODUCT = 0.01

cdef struct Part:
    int64_t rows, columns     # how many places
    int64_t row, column       # the first
    int64_t high, wide        # taps of its window
    int64_t* down             # where a row of the window lies, from the place's own row of the input; ascending
    int64_t* right
    int64_t* order            # taps in that order
    int64_t before            # taps of the parts before
    int64_t* offsets          # in bytes, when it runs

cdef struct Work:
    Image x
    Image y
    Filters w
    int64_t images, channels, filters, lanes, size, vector, vectors, panel, most, taps
    int64_t stride_row, stride_column, apart_row, apart_column
    int64_t lines, band, bands, splits                            # rows of places of all images, of a task
    int64_t low, high, left, width                                # rows and columns of the input that a place reaches
    int64_t pitch, row_pitch, workspace, out_workspace, panel_workspace
    bint in_place             # the input is read where it lies
    bint written              # the output is written where it lies
    bint joined               # a row of the window is one tap
    int parts
    Part* part
    int64_t down              # rows of places an image
    int operands              # of the epilogue, each an element for each lane of each vector of filters, one after another
    const char* terms
    char* packed              # all panels; NULL where the task that reads a panel packs it
    char* workspaces
    unsigned char* taken
    int slots
    turn_t turn
    Converting widens
    Converting narrows
    tile_t tiles[MAX_VECTORS + 1][MAX_ROWS + 1]


cdef inline int64_t panels_of(const Work* w) noexcept nogil:
    return (w.vectors + w.panel - 1) // w.panel


cdef inline int64_t height_of(const Work* w, int64_t rows) noexcept nogil:
    """Rows of the input that rows of places reach."""
    return (rows - 1) * w.stride_row + w.high - w.low + 1


cdef void fill(const Work* w, int64_t n, int64_t begin, int64_t end, char* workspace) noexcept nogil:
    """The input's rows for rows of places [begin, end) of an image."""
    cdef int64_t k, row
    for k in range(height_of(w, end - begin)):
        row = begin * w.stride_row + w.low + k
        if 0 <= row < w.x.height and k % w.stride_row <= w.high - w.low:
            bring(w.turn, &w.x, n, 0, w.channels, row, w.left, w.width, workspace + k * w.row_pitch, w.pitch)


cdef void compute(const Work* w, int64_t n, int64_t begin, int64_t end, const char* workspace, int64_t panel, const char* packed,
                  char* sums) noexcept nogil:
    """One panel of filters, which are `packed`, for rows of places [begin, end) of an image."""
    cdef Tile t
    cdef Part* p
    cdef const char* base
    cdef char* to
    cdef int64_t i, k, first, last, run, runs, start, stop, each, c_line
    cdef int64_t vectors = min(w.panel, w.vectors - panel * w.panel), filter = panel * w.panel * w.lanes
    cdef int64_t c_step = w.apart_column * (w.y.pixel if w.written else vectors * w.vector)
    memset(&t, 0, sizeof(Tile))
    t.row, t.step = w.stride_column * w.pitch, w.size
    t.b_step, t.b_vector = vectors * w.vector, w.vector
    t.c_row = c_step
    for k in range(w.operands):
        t.operands[k].data = w.terms + (k * w.vectors * w.lanes + filter) * w.size
    t.columns = min(vectors * w.lanes, w.filters - filter) if w.written else vectors * w.lanes
    if w.in_place:
        base = w.x.data + n * w.x.image
    else:
        base = workspace - (begin * w.stride_row + w.low) * w.row_pitch - w.left * w.pitch
    for k in range(w.parts):
        p = &w.part[k]
        each = 1 if w.joined else p.wide
        t.terms = w.channels * (p.wide if w.joined else 1)
        t.b_tap = t.terms * vectors * w.vector
        runs = (p.columns + w.most - 1) // w.most
        for i in range(begin, min(end, p.rows)):
            first, last = 0, p.high
            while first < last and i * w.stride_row + p.down[first] < 0:
                first += 1
            while last > first and i * w.stride_row + p.down[last - 1] >= w.x.height:
                last -= 1
            t.offsets, t.taps[0] = p.offsets + first * each, (last - first) * each
            t.b = packed + p.before * vectors * w.channels * w.vector + first * each * t.b_tap
            if w.written:
                to = (w.y.data + n * w.y.image + (i * w.apart_row + p.row) * w.y.row + p.column * w.y.pixel + filter * w.size)
            else:
                to = sums + (((i - begin) * w.apart_row + p.row) * w.y.width + p.column) * vectors * w.vector
            for run in range(runs):
                start, stop = p.columns * run // runs, p.columns * (run + 1) // runs
                t.a = base + i * w.stride_row * w.row_pitch + start * w.stride_column * w.pitch
                t.c = to + start * c_step
                w.tiles[vectors][stop - start](&t)
    if w.written:
        return
    start, stop = begin * w.apart_row, min(end * w.apart_row, w.y.height)
    c_line = w.y.width * vectors * w.vector
    if w.y.row == w.y.width * w.y.pixel:
        deliver(w.turn, &w.y, n, filter, min(vectors * w.lanes, w.filters - filter), start, (stop - start) * w.y.width, sums, vectors * w.vector)
        return
    for i in range(start, stop):
        deliver(w.turn, &w.y, n, filter, min(vectors * w.lanes, w.filters - filter), i, w.y.width, sums + (i - start) * c_line,
                vectors * w.vector)


cdef inline int64_t panel_bytes(const Work* w) noexcept nogil:
    """Of a panel's filters, if it is as wide as most."""
    return w.panel * w.taps * w.channels * w.vector


cdef void pack(const Work* w, int64_t panel, int64_t first, int64_t channels, char* packed, char* turned) noexcept nogil:
    """Some channels of a panel's filters to (part, tap, channel, vector); `turned`: a buffer."""
    cdef int64_t vectors = min(w.panel, w.vectors - panel * w.panel), few = max(TURNED // w.w.taps, 1), end = first + channels
    cdef int64_t channel = first, some, k, v, tap
    cdef Part* p
    while channel < end:
        some = min(few, end - channel)
        for v in range(vectors):
            turn_filters(w.turn, &w.w, (panel * w.panel + v) * w.lanes, channel, some, turned)
            for k in range(w.parts):
                p = &w.part[k]
                for tap in range(p.high * p.wide):
                    flambeau_move_pixels(packed + (((p.before + tap) * w.channels + channel) * vectors + v) * w.vector, vectors * w.vector,
                                         turned + p.order[tap] * w.vector, w.w.taps * w.vector, some, w.vector)
        channel += some


cdef void bands_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Tasks are (band of rows of places, some panels), the band's part in each image one after another."""
    cdef Work* w = <Work*>context
    cdef int slot = flambeau_take_slot(w.taken, w.slots)
    cdef char* workspace = w.workspaces + slot * (w.workspace + w.out_workspace + w.panel_workspace)
    cdef char* sums = workspace + w.workspace
    cdef char* own = sums + w.out_workspace
    cdef char* packed
    cdef int64_t task, first, last, panel, at, stop, n, start, line, panels = panels_of(w), split
    for task in range(begin, end):
        split = task % w.splits
        first = task // w.splits * w.band
        last = min(first + w.band, w.lines)
        for panel in range(panels * split // w.splits - 1, panels * (split + 1) // w.splits):
            # the turn before the first fills the workspace
            packed = own if w.packed == NULL else w.packed + panel * panel_bytes(w)
            if w.packed == NULL and panel >= panels * split // w.splits:
                pack(w, panel, 0, w.channels, packed, own + lines(panel_bytes(w)))
            line, at = first, 0
            while line < last:
                n, start = line // w.down, line % w.down
                stop = min(w.down, start + last - line)
                if panel < panels * split // w.splits:
                    if not w.in_place:
                        fill(w, n, start, stop, workspace + at)
                else:
                    compute(w, n, start, stop, workspace + at, panel, packed, sums)
                at += height_of(w, stop - start) * w.row_pitch
                line += stop - start
    flambeau_leave_slot(w.taken, slot)


cdef void pack_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Filters to packed (panel, part, tap, channel, vector): tasks are (panel, some channels)."""
    cdef Work* w = <Work*>context
    cdef int slot = flambeau_take_slot(w.taken, w.slots)
    cdef char* turned = w.workspaces + slot * (w.workspace + w.out_workspace + w.panel_workspace)
    cdef int64_t few = max(TURNED // w.w.taps, 1), parts = (w.channels + few - 1) // few, task, panel, part
    for task in range(begin, end):
        place_of_task(&w.w, task, panels_of(w), parts, &panel, &part)
        pack(w, panel, part * few, min(few, w.channels - part * few), w.packed + panel * panel_bytes(w), turned)
    flambeau_leave_slot(w.taken, slot)


cdef class Direct(Driver):
    """Convolutions of one shape: `run(x, weight, terms, out)`."""
    cdef Work w
    cdef int64_t* numbers
    cdef readonly tuple layout    # equal for drivers that read one layout of filters

    def __cinit__(self, int size, int lanes, tuple x_shape, int64_t filters, tuple out, tuple stride, tuple apart, tuple parts, int window,
                  int panel, int most, int64_t band, int64_t splits, int64_t pitch, uintptr_t turn, tuple tiles, int operands,
                  tuple converting):
        """`parts`: (rows, columns, first row, first column, rows of the window, columns of it, taps in that order) of each part of
        the output; `window`: taps of the weight; `pitch`: elements from pixel to pixel of the workspace; `tiles`: (vectors, rows, address); `operands`: of their epilogue;
        `converting`: see `read_converting`.
        """
        cdef Work* w = &self.w
        cdef int64_t count = 0, k, number
        cdef int64_t* at
        cdef Part* p
        w.size, w.lanes, w.vector = size, lanes, lanes * size
        self.layout = "direct", size, lanes, x_shape[1], filters, panel, window, tuple([order for *_, order in parts])
        w.images, w.channels, w.filters = x_shape[0], x_shape[1], filters
        w.stride_row, w.stride_column = stride
        w.apart_row, w.apart_column = apart
        w.vectors, w.panel, w.most, w.operands = (filters + lanes - 1) // lanes, panel, most, operands
        w.w.taps = window
        w.parts, w.down, w.taps = len(parts), 0, 0
        w.low, w.high, w.left = 1 << 60, -(1 << 60), 1 << 60
        self.w.part = <Part*>calloc(len(parts), sizeof(Part))
        for rows, columns, row, column, down, right, order in parts:
            count += len(down) + len(right) + 2 * len(order)
        self.numbers = at = <int64_t*>calloc(count + 1, 8)
        if self.numbers == NULL or w.part == NULL:
            raise MemoryError()
        number = -(1 << 60)                       # the last column
        for k in range(len(parts)):
            p = &w.part[k]
            p.rows, p.columns, p.row, p.column, down, right, order = parts[k]
            p.high, p.wide, p.before = len(down), len(right), w.taps
            p.down, p.right, p.order = at, at + p.high, at + p.high + p.wide
            p.offsets = p.order + p.high * p.wide
            at = p.offsets + p.high * p.wide
            for index, value in enumerate((*down, *right, *order)):
                p.down[<int64_t>index] = value
            w.taps += p.high * p.wide
            w.down = max(w.down, p.rows)
            if p.high * p.wide:
                w.low, w.high = min(w.low, p.down[0]), max(w.high, p.down[p.high - 1])
                w.left = min(w.left, p.right[0])
                number = max(number, (p.columns - 1) * w.stride_column + p.right[p.wide - 1])
        if w.taps == 0:
            w.low = w.high = w.left = number = 0
        w.width = number - w.left + 1
        w.lines, w.band, w.splits = w.images * w.down, band, splits
        w.bands = (w.lines + band - 1) // band
        w.pitch = pitch * size
        w.row_pitch = w.width * w.pitch
        number = (band + w.down - 2) // w.down + 1    # images that a band has parts of
        w.workspace = lines((number * max(height_of(w, 1) - w.stride_row, 0) + band * w.stride_row) * w.row_pitch)
        w.out_workspace = lines(min(band, w.down) * w.apart_row * <int64_t>out[1] * panel * w.vector)
        w.workspace = max(w.workspace, lines(max(TURNED, window) * w.vector) - w.out_workspace)
        w.turn = <turn_t>turn
        w.w.filters, w.w.channels, w.w.lanes = filters, w.channels, lanes
        read_converting(converting, &w.widens, &w.narrows)
        for vectors, rows, address in tiles:
            w.tiles[<int>vectors][<int>rows] = <tile_t><uintptr_t>address

    def __dealloc__(self):
        free(self.w.part)
        free(self.numbers)

    def values(self) -> int:
        """How many elements the filters are when `lay` has laid them out."""
        return self.w.vectors * self.w.lanes * self.w.taps * self.w.channels

    def lay(self, TensorBase weight not None, TensorBase values not None, bint turned=False) -> None:
        """`weight` (K, C, *), contiguous, or, `turned`, (C, K, *), to values."""
        cdef Work w = self.w
        cdef unsigned char taken[MAX_SLOTS]
        cdef Storage workspaces
        cdef int64_t few = max(TURNED // w.w.taps, 1), tasks = panels_of(&w) * ((w.channels + few - 1) // few)
        read_filters(&w.w, pointer(weight), weight.width, w.vector, &w.widens, turned)
        w.packed, w.taken, w.panel_workspace = pointer(values), taken, 0
        memset(taken, 0, MAX_SLOTS)
        w.slots = <int>max(1, min(min(num_threads(), tasks), MAX_SLOTS))
        w.workspace, w.out_workspace = lines(max(TURNED, w.w.taps) * w.vector), 0
        workspaces = new_storage(w.slots * w.workspace)
        w.workspaces = workspaces.data
        with nogil:
            parallel_interruptible(pack_range, &w, tasks, 4, 2e3)

    def run(self, TensorBase x not None, TensorBase weight not None, TensorBase terms not None, TensorBase out not None,
            bint turned=False, bint laid=False) -> None:
        """`weight` (K, C, *), contiguous; `turned`: (C, K, *); `laid`: values.  `terms`: the epilogue's operands."""
        cdef Image image, result
        read_image(&image, x)
        read_image(&result, out)
        convert_image(&image, &self.w.widens, self.w.size)
        convert_image(&result, &self.w.narrows, self.w.size)
        self.run_at(&image, &result, pointer(weight), weight.width, pointer(terms), turned, laid)

    cdef int compute(self, const Image* x, const Image* y, const char* weight, const char* terms) except -1:
        return self.run_at(x, y, weight, self.w.size, terms, False, False)

    cdef int run_at(self, const Image* x, const Image* y, const char* weight, int64_t element, const char* terms, bint turned,
                    bint laid) except -1:
        cdef Work w = self.w
        cdef unsigned char taken[MAX_SLOTS]
        cdef Storage workspaces, packed
        cdef Part* p
        cdef int64_t k, i, j, tasks = w.bands * w.splits, few = max(TURNED // w.w.taps, 1), work, each, size
        cdef int64_t* offsets
        w.x, w.y = x[0], y[0]
        w.in_place = (w.x.last and w.x.size == w.size and w.left >= 0 and w.left + w.width <= w.x.width
                      and w.stride_column * w.x.pixel % SET_BYTES != 0)
        if w.in_place:
            w.pitch, w.row_pitch, w.workspace = w.x.pixel, w.x.row, lines(max(TURNED, w.w.taps) * w.vector)
        w.written = w.y.last and w.y.size == w.size
        if w.written:
            w.out_workspace = 0
            w.workspace = max(w.workspace, lines(max(TURNED, w.w.taps) * w.vector))
        w.joined = w.pitch == w.channels * w.size
        for k in range(w.parts):
            for j in range(1, w.part[k].wide):
                w.joined = w.joined and w.part[k].right[j] == w.part[k].right[j - 1] + 1
        if not laid:
            read_filters(&w.w, weight, element, w.vector, &w.widens, turned)
        w.terms = terms
        w.panel_workspace = 0
        if not laid and w.bands == 1:    # each panel is read by one task, which packs it right before: it stays in the second cache
            w.panel_workspace = lines(panel_bytes(&w)) + lines(max(TURNED, w.w.taps) * w.vector)
        size = 0 if laid or w.panel_workspace else lines(w.vectors * w.vector * w.taps * w.channels)
        packed = new_storage(size + w.taps * 8 + w.parts * sizeof(Part))
        w.packed = <char*>weight if laid else NULL if w.panel_workspace else packed.data
        # a call's own offsets: another thread may run this plan on other strides
        offsets = <int64_t*>(packed.data + size)
        p = <Part*>(offsets + w.taps)
        for k in range(w.parts):
            p[k] = w.part[k]
            each = 1 if w.joined else p[k].wide
            for i in range(p[k].high):
                for j in range(each):
                    offsets[i * each + j] = p[k].down[i] * w.row_pitch + p[k].right[j] * w.pitch
            p[k].offsets = offsets
            offsets += p[k].high * each
        w.part = p
        w.taken = taken
        memset(taken, 0, MAX_SLOTS)
        w.slots = <int>max(1, min(min(num_threads(), max(tasks, panels_of(&w) * ((w.channels + few - 1) // few))), MAX_SLOTS))
        workspaces = new_storage(w.slots * (w.workspace + w.out_workspace + w.panel_workspace))
        w.workspaces = workspaces.data
        work = w.band * w.apart_row * w.y.width * w.channels * w.taps // (w.apart_row * w.apart_column) * w.vectors * w.lanes // w.splits
        with nogil:
            if not laid and w.packed != NULL:
                parallel_interruptible(pack_range, &w, panels_of(&w) * ((w.channels + few - 1) // few), 4, 2e3)
            parallel_interruptible(bands_range, &w, tasks, max((1 << 17) // max(work, 1), 1), work * NANOSECONDS_A_PRODUCT)
        return 0
