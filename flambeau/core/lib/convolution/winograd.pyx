# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False
"""Winograd's convolutions: which squares are transformed and multiplied by which thread (codegen/tiles/winograd.py says how).

The output is cut into rows of squares, m by m places each.  A task takes some rows: their input goes, a vector of channels at
a time, through a workspace of pixels to the values V (plane, square, channel); products with the filters' values U give
M (plane, square, filter), and these go through a workspace of pixels to the output.  V and M stay in the cache.  Where rows are few,
threads share each of the three steps instead.
"""
from libc.string cimport memcpy, memset
from libc.stdint cimport int64_t, uintptr_t
from .driver cimport Driver
from .images cimport (
    LINE, MAX_SLOTS, Converting, Filters, Image, bring, convert_image, deliver, flambeau_leave_slot, flambeau_take_slot, lines,
    place_of_task, read_converting, read_filters, read_image, turn_filters, turn_t,
)
from ..tiles cimport Tile, tile_t
from ...base.memory cimport Storage, new_storage
from ...base.parallel cimport num_threads, parallel_interruptible
from ...base.tensor cimport TensorBase, pointer

ctypedef void (*spread_t)(const char* workspace, int64_t row, char* to, int64_t plane, int64_t step, int64_t squares) noexcept nogil
ctypedef void (*gather_t)(const char* source, int64_t plane, int64_t step, char* workspace, int64_t row, int64_t squares,
                          const char* terms, int64_t apart) noexcept nogil
ctypedef void (*lift_t)(const char* source, int64_t tap, int64_t from_step, char* to, int64_t plane, int64_t step,
                        int64_t channels) noexcept nogil

cdef enum:
    CHANNELS = 16              # that are lifted together: their values stay in the nearest cache
    MAX_ROWS = 32             # of a tile
    MAX_VECTORS = 4

cdef double NANOSECONDS_A_PRODUCT = 0.02
cdef int64_t ZERO = 0


cdef struct Work:
    Image x
    Image y
    Filters w
    bint flipped              # taps are taken from the last to the first
    int64_t images, m, t, before_row, before_column, down, across, rows, block     # rows of squares, of all images, of a task
    int64_t channels, filters, lanes, size, vector, vectors, panel, most
    int64_t v_step, v_plane, m_step, m_plane, workspace, out_workspace, slot_bytes, values_bytes
    const char* terms         # operands of the epilogue, each an element for each lane of each vector of filters, one after another
    char* u
    char* workspaces
    char* values              # of all rows, where threads share each step
    unsigned char* taken
    int slots
    turn_t turn
    Converting widens
    Converting narrows
    spread_t spread
    gather_t gather
    lift_t lift
    tile_t tiles[MAX_VECTORS + 1][MAX_ROWS + 1]


cdef void spread_rows(const Work* w, char* workspace, char* v, int64_t begin, int64_t end, int64_t first, int64_t last) noexcept nogil:
    """Rows of squares [begin, end) to v; vectors of channels [first, last)."""
    cdef int64_t r, n, top, a, row, k, channel, channels, pitch = (w.across * w.m + 2) * w.vector
    for r in range(begin, end):
        n, top = r // w.down, r % w.down * w.m - w.before_row
        for k in range(first, last):
            channel = k * w.lanes
            channels = min(w.lanes, w.channels - channel)
            for a in range(w.t):
                row = top + a
                if 0 <= row < w.x.height:
                    bring(w.turn, &w.x, n, channel, channels, row, -w.before_column, w.across * w.m + 2, workspace + a * pitch, w.vector)
                else:
                    memset(workspace + a * pitch, 0, pitch)
            w.spread(workspace, pitch, v + (r - begin) * w.across * w.v_step + k * w.vector, w.v_plane, w.v_step, w.across)


cdef void multiply(const Work* w, const char* v, char* m, int64_t squares, int64_t plane, int64_t panel) noexcept nogil:
    """M of one plane and panel of filters."""
    cdef Tile t
    cdef int64_t vectors = min(w.panel, w.vectors - panel * w.panel), runs = (squares + w.most - 1) // w.most, k, first, end
    memset(&t, 0, sizeof(Tile))
    t.row, t.step, t.offsets, t.terms, t.taps[0] = w.v_step, w.size, &ZERO, w.channels, 1
    t.b = w.u + (plane * w.vectors + panel * w.panel) * w.channels * w.vector
    t.b_step, t.b_vector = vectors * w.vector, w.vector
    t.c_row, t.columns = w.m_step, vectors * w.lanes
    for k in range(runs):
        first, end = squares * k // runs, squares * (k + 1) // runs
        t.a = v + plane * w.v_plane + first * w.v_step
        t.c = m + plane * w.m_plane + first * w.m_step + panel * w.panel * w.vector
        w.tiles[vectors][end - first](&t)


cdef void gather_rows(const Work* w, char* workspace, const char* m, int64_t begin, int64_t end, int64_t first, int64_t last) noexcept nogil:
    """Rows of squares [begin, end) of the output; vectors of filters [first, last)."""
    cdef int64_t r, n, top, a, k, pitch = w.across * w.m * w.vector
    for r in range(begin, end):
        n, top = r // w.down, r % w.down * w.m
        for k in range(first, last):
            w.gather(m + (r - begin) * w.across * w.m_step + k * w.vector, w.m_plane, w.m_step, workspace, pitch, w.across,
                     w.terms + k * w.vector, w.vectors * w.vector)
            for a in range(min(w.m, w.y.height - top)):
                deliver(w.turn, &w.y, n, k * w.lanes, min(w.lanes, w.filters - k * w.lanes), top + a, w.y.width, workspace + a * pitch,
                        w.vector)


cdef inline int64_t panels_of(const Work* w) noexcept nogil:
    return (w.vectors + w.panel - 1) // w.panel


cdef void blocks_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Work* w = <Work*>context
    cdef int slot = flambeau_take_slot(w.taken, w.slots)
    cdef char* workspace = w.workspaces + slot * w.slot_bytes
    cdef char* v = workspace + max(w.workspace, w.out_workspace)
    cdef char* m = v + w.t * w.t * w.v_plane
    cdef int64_t task, first, last, plane, panel, channels = (w.channels + w.lanes - 1) // w.lanes
    for task in range(begin, end):
        first, last = task * w.block, min((task + 1) * w.block, w.rows)
        spread_rows(w, workspace, v, first, last, 0, channels)
        for plane in range(w.t * w.t):
            for panel in range(panels_of(w)):
                multiply(w, v, m, (last - first) * w.across, plane, panel)
        gather_rows(w, workspace, m, first, last, 0, w.vectors)
    flambeau_leave_slot(w.taken, slot)


cdef void spread_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Work* w = <Work*>context
    cdef int slot = flambeau_take_slot(w.taken, w.slots)
    cdef int64_t task, row, vectors = (w.channels + w.lanes - 1) // w.lanes
    for task in range(begin, end):
        row = task // vectors
        spread_rows(w, w.workspaces + slot * w.slot_bytes, w.values + row * w.across * w.v_step, row, row + 1, task % vectors, task % vectors + 1)
    flambeau_leave_slot(w.taken, slot)


cdef void multiply_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Work* w = <Work*>context
    cdef int64_t task, panels = panels_of(w)
    for task in range(begin, end):
        multiply(w, w.values, w.values + w.t * w.t * w.v_plane, w.rows * w.across, task // panels, task % panels)


cdef void gather_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Work* w = <Work*>context
    cdef int slot = flambeau_take_slot(w.taken, w.slots)
    cdef int64_t task, row
    for task in range(begin, end):
        row = task // w.vectors
        gather_rows(w, w.workspaces + slot * w.slot_bytes, w.values + w.t * w.t * w.v_plane + row * w.across * w.m_step, row, row + 1,
                    task % w.vectors, task % w.vectors + 1)
    flambeau_leave_slot(w.taken, slot)


cdef void lift_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Tasks are (panel, some channels)."""
    cdef Work* w = <Work*>context
    cdef int slot = flambeau_take_slot(w.taken, w.slots)
    cdef char* turned = w.workspaces + slot * w.slot_bytes
    cdef char* values = turned + CHANNELS * 9 * w.vector
    cdef int64_t task, panel, vectors, channel, channels, k, plane, parts = (w.channels + CHANNELS - 1) // CHANNELS
    for task in range(begin, end):
        place_of_task(&w.w, task, panels_of(w), parts, &panel, &channel)
        panel, channel = panel * w.panel, channel * CHANNELS
        vectors, channels = min(w.panel, w.vectors - panel), min(<int64_t>CHANNELS, w.channels - channel)
        for k in range(vectors):
            turn_filters(w.turn, &w.w, (panel + k) * w.lanes, channel, channels, turned)
            w.lift(turned + (8 * w.vector if w.flipped else 0), -w.vector if w.flipped else w.vector, 9 * w.vector,
                   values + k * w.vector, channels * vectors * w.vector, vectors * w.vector, channels)
        for plane in range(w.t * w.t):  # in long runs: the planes are far apart
            memcpy(w.u + ((plane * w.vectors + panel) * w.channels + channel * vectors) * w.vector,
                   values + plane * channels * vectors * w.vector, channels * vectors * w.vector)
    flambeau_leave_slot(w.taken, slot)


cdef class Winograd(Driver):
    """F(m × m, 3 × 3) for one shape: `run(x, values, terms, out)`, where `values` are made of filters by `lift`."""
    cdef Work w
    cdef bint shared          # threads share each step
    cdef readonly tuple layout    # equal for drivers that read one layout of filters

    def __cinit__(self, int m, int size, int lanes, tuple x_shape, int64_t filters, tuple before, tuple out, int panel, int most,
                  int64_t block, bint shared, tuple steps, tuple tiles, tuple converting):
        """`steps`: addresses of turn, spread, gather, lift; `tiles`: (vectors, rows, address) of each tile; `converting`: see
        `read_converting`.
        """
        cdef Work* w = &self.w
        cdef int64_t t = m + 2, rows
        w.m, w.t, w.size, w.lanes, w.vector = m, t, size, lanes, lanes * size
        self.layout = "winograd", m, size, lanes, x_shape[1], filters, panel
        w.images, w.channels, w.filters = x_shape[0], x_shape[1], filters
        w.before_row, w.before_column = before
        w.down, w.across = (out[0] + m - 1) // m, (out[1] + m - 1) // m
        w.rows, w.block, self.shared = w.images * w.down, block, shared
        w.vectors, w.panel, w.most = (filters + lanes - 1) // lanes, panel, most
        rows = w.rows if shared else block
        w.v_step = (w.channels + lanes - 1) // lanes * w.vector
        w.m_step = w.vectors * w.vector
        w.v_plane, w.m_plane = rows * w.across * w.v_step + LINE, rows * w.across * w.m_step + LINE   # no power of two apart
        w.workspace, w.out_workspace = t * (w.across * m + 2) * w.vector, m * w.across * m * w.vector
        w.values_bytes = t * t * (w.v_plane + w.m_plane)
        w.slot_bytes = lines(max(w.workspace, w.out_workspace)) + (0 if shared else w.values_bytes)
        w.turn, w.spread = <turn_t><uintptr_t>steps[0], <spread_t><uintptr_t>steps[1]
        w.gather, w.lift = <gather_t><uintptr_t>steps[2], <lift_t><uintptr_t>steps[3]
        read_converting(converting, &w.widens, &w.narrows)
        w.workspace = lines(w.workspace)
        w.out_workspace = lines(w.out_workspace)
        for vectors, count, address in tiles:
            w.tiles[<int>vectors][<int>count] = <tile_t><uintptr_t>address

    cpdef int64_t values(self) except -1:
        """How many elements the filters' values are."""
        return self.w.t * self.w.t * self.w.vectors * self.w.lanes * self.w.channels

    def lift(self, TensorBase weight not None, TensorBase values not None, bint turned) -> None:
        """`weight` (K, C, 3, 3), contiguous, to values; `turned`: (C, K, 3, 3), whose taps are taken from the last to the first."""
        self.lift_at(pointer(weight), weight.width, pointer(values), turned)

    cdef int lift_at(self, const char* weight, int64_t size, char* values, bint turned) except -1:
        cdef Work w = self.w
        cdef int64_t tasks = panels_of(&w) * ((w.channels + CHANNELS - 1) // CHANNELS)
        cdef unsigned char taken[MAX_SLOTS]
        cdef Storage workspaces
        w.w.filters, w.w.channels, w.w.taps, w.w.lanes, w.flipped = w.filters, w.channels, 9, w.lanes, turned
        read_filters(&w.w, weight, size, w.vector, &w.widens, turned)
        w.u = values
        w.slots = <int>max(1, min(min(num_threads(), tasks), MAX_SLOTS))
        w.slot_bytes = lines(CHANNELS * w.vector * (9 + w.t * w.t * w.panel))
        workspaces = new_storage(w.slots * w.slot_bytes)
        w.workspaces, w.taken = workspaces.data, taken
        memset(taken, 0, MAX_SLOTS)
        with nogil:
            parallel_interruptible(lift_range, &w, tasks, 4, 4e3)
        return 0

    def run(self, TensorBase x not None, TensorBase values not None, TensorBase terms not None, TensorBase out not None) -> None:
        """`terms`: the operands of the gathering transform's epilogue."""
        cdef Image image, result
        read_image(&image, x)
        read_image(&result, out)
        convert_image(&image, &self.w.widens, self.w.size)
        convert_image(&result, &self.w.narrows, self.w.size)
        self.run_at(&image, &result, pointer(values), pointer(terms))

    cdef int compute(self, const Image* x, const Image* y, const char* weight, const char* terms) except -1:
        cdef Storage values = new_storage(self.values() * self.w.size)
        self.lift_at(weight, self.w.size, values.data, False)
        return self.run_at(x, y, values.data, terms)

    cdef int run_at(self, const Image* x, const Image* y, char* values, const char* terms) except -1:
        cdef Work w = self.w
        cdef int64_t tasks = (w.rows + w.block - 1) // w.block, work, planes = w.t * w.t, vectors
        cdef unsigned char taken[MAX_SLOTS]
        cdef Storage workspaces, all_values
        w.x, w.y, w.u, w.terms = x[0], y[0], values, terms
        memset(taken, 0, MAX_SLOTS)
        w.taken = taken
        w.slots = <int>max(1, min(num_threads(), MAX_SLOTS) if self.shared else min(min(num_threads(), tasks), MAX_SLOTS))
        workspaces = new_storage(w.slots * w.slot_bytes)
        w.workspaces = workspaces.data
        work = planes * w.across * w.channels * w.vectors * w.lanes    # products for a row of squares
        if not self.shared:
            with nogil:
                parallel_interruptible(blocks_range, &w, tasks, 1, w.block * work * NANOSECONDS_A_PRODUCT)
            return 0
        all_values = new_storage(w.values_bytes)
        w.values = all_values.data
        vectors = (w.channels + w.lanes - 1) // w.lanes
        with nogil:
            parallel_interruptible(spread_range, &w, w.rows * vectors, 1 + 64 // w.across, 1e3)
            parallel_interruptible(multiply_range, &w, planes * panels_of(&w), 1, w.rows * work // (planes * panels_of(&w)) * NANOSECONDS_A_PRODUCT)
            parallel_interruptible(gather_range, &w, w.rows * w.vectors, 1 + 64 // w.across, 1e3)
        return 0
