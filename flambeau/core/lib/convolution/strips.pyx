# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Depthwise convolutions as strips of planes (see `codegen/tiles/depthwise.py`): which planes are computed by which thread."""
from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport free, malloc
from ...base.tensor cimport TensorBase, pointer
from ...base.parallel cimport parallel_interruptible

cdef enum:
    RUN_BYTES = 1 << 18           # of planes that are computed strip by strip before the next ones are begun
    STEPS_A_TASK = 1 << 16        # multiplications below which a task is not worth a thread

cdef double NANOSECONDS_A_STEP = 0.05

cdef struct Arguments:            # what a function takes: words of eight bytes in the order of codegen/tiles/depthwise.py
    char* x
    int64_t x_plane
    int64_t x_row
    char* out
    int64_t out_plane
    int64_t out_row
    char* w
    int64_t w_plane
    int64_t w_tap
    char* bias
    int64_t bias_plane
    int64_t planes
    int64_t strips
    int64_t first
    int64_t before
    int64_t columns
    int64_t out_columns
    int64_t rows
    int64_t out_rows
    int64_t above
    int64_t whole_from
    int64_t whole_to
    int64_t steps
    int64_t images
    int64_t x_image
    int64_t out_image
    int64_t channels              # of groups
    int64_t x_channel
    int64_t out_filter
    int64_t w_filter
    int64_t w_channel
    int64_t bias_step

ctypedef void (*strip_t)(const Arguments* t) noexcept nogil

cdef struct Call:                 # some strips of a plane, and of its rows those that one class of a dilation has
    strip_t run
    strip_t add                   # the same, added to what stands there
    int64_t first
    int64_t strips
    int64_t x_start               # rows
    int64_t out_start
    int64_t rows
    int64_t out_rows
    int64_t above
    int64_t whole_from
    int64_t whole_to
    int64_t steps
    int64_t tap                   # the first that takes part


cdef class Plan:
    """The calls that make a plane's result.

    `calls`: for each the fields of `Call`, functions as addresses; `row_step`: rows between two of a class; `before`: columns of padding.
    """
    cdef Call* calls
    cdef int64_t count, row_step, before

    def __cinit__(self, list calls not None, int64_t row_step, int64_t before):
        cdef int64_t k
        cdef Call* c
        self.calls = <Call*>malloc(max(len(calls), 1) * sizeof(Call))
        if self.calls is NULL:
            raise MemoryError()
        self.count, self.row_step, self.before = len(calls), row_step, before
        for k in range(self.count):
            c = &self.calls[k]
            run, add, c.first, c.strips, c.x_start, c.out_start, c.rows, c.out_rows, c.above, c.whole_from, c.whole_to, c.steps, c.tap = (
                calls[k])
            c.run, c.add = <strip_t><void*><uintptr_t>run, <strip_t><void*><uintptr_t>add

    def __dealloc__(self):
        free(self.calls)


cdef struct Work:
    Arguments a
    Call* calls
    int64_t count, channels, times, run, row_step, width
    int64_t x_turn, out_turn, w_turn, bias_turn       # from one of a channel's `times` filters to the next
    bint inner, sums                                  # a weight's gradient; filters are added up


cdef void planes_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Tasks are planes (image, channel), of a weight's gradient channels."""
    cdef Work* w = <Work*>context
    cdef Arguments a = w.a
    cdef int64_t image, channel, turn, k
    cdef char* x
    cdef char* out
    cdef Call* c
    while begin < end:
        image = 0 if w.inner else begin // w.channels
        channel = begin - image * w.channels
        a.planes = min(min(end - begin, w.channels - channel), w.run)
        for turn in range(w.times):
            x = w.a.x + image * w.a.x_image + channel * w.a.x_plane + turn * w.x_turn
            out = w.a.out + image * w.a.out_image + channel * w.a.out_plane + turn * w.out_turn
            a.bias = w.a.bias + channel * w.a.bias_plane + turn * w.bias_turn
            for k in range(w.count):
                c = &w.calls[k]
                a.x, a.out = x + c.x_start * (w.a.x_row // w.row_step), out + c.out_start * (w.a.out_row // w.row_step)
                a.w = w.a.w + channel * w.a.w_plane + turn * w.w_turn + c.tap * w.width
                a.strips, a.first, a.rows, a.out_rows, a.above = c.strips, c.first, c.rows, c.out_rows, c.above
                a.whole_from, a.whole_to, a.steps = c.whole_from, c.whole_to, c.steps
                if turn and w.sums:
                    c.add(&a)
                else:
                    c.run(&a)
        begin += a.planes


def run(Plan plan not None, str kind not None, TensorBase x not None, TensorBase w not None, TensorBase bias not None, TensorBase out not None,
        bint turned) -> None:
    """x and out (N, C, H, W) with columns side by side, w (planes, 1, taps) with taps side by side, planes as the one has channels that has more.

    `kind`: "forward" (x, w -> out, with a bias of one or as many as there are channels), "input" (x is the gradient and has at least as
    many channels as out), "weight" (added to w; x the input, out the gradient).  `turned`: w is read from its last tap on.  Planes of halves have
    weights and a bias of float32.
    """
    cdef Work work
    cdef Arguments* a = &work.a
    cdef int64_t size = x.width, weight = w.width, taps = w.count // w.sizes[0], fewer, tasks, steps, plane
    cdef bint wide_x = x.sizes[1] > out.sizes[1]
    work.inner, work.sums = kind == "weight", kind == "input"
    fewer = min(x.sizes[1], out.sizes[1])
    work.channels, work.times = fewer, max(x.sizes[1], out.sizes[1]) // fewer
    work.calls, work.count, work.row_step, work.width = plan.calls, plan.count, plan.row_step, weight
    a.x, a.out, a.w, a.bias = pointer(x), pointer(out), pointer(w), pointer(bias)
    a.x_image, a.out_image = x.strides[0] * size, out.strides[0] * size
    work.x_turn, work.out_turn = x.strides[1] * size, out.strides[1] * size
    a.x_plane = work.x_turn * (work.times if wide_x else 1)
    a.out_plane = work.out_turn * (1 if wide_x else work.times)
    if wide_x:
        work.out_turn = 0
    elif work.times > 1:
        work.x_turn = 0
    a.x_row, a.out_row = x.strides[2] * size * plan.row_step, out.strides[2] * size * plan.row_step
    work.w_turn = w.strides[0] * weight
    a.w_plane, a.w_tap = work.w_turn * work.times, -weight if turned else weight
    if turned:
        a.w += (taps - 1) * weight
    work.bias_turn = bias.width if bias.count > 1 else 0
    a.bias_plane = work.bias_turn * work.times
    a.before, a.columns, a.out_columns = plan.before, x.sizes[3], out.sizes[3]
    a.images = x.sizes[0]
    plane = (x.sizes[2] * x.sizes[3] + out.sizes[2] * out.sizes[3]) * size
    steps = min(x.sizes[2] * x.sizes[3], out.sizes[2] * out.sizes[3]) * taps * work.times
    tasks = fewer * (1 if work.inner else x.sizes[0])
    if work.inner:
        plane, steps = plane * a.images, steps * a.images
    work.run = max(RUN_BYTES // max(plane, 1), 1)
    with nogil:
        parallel_interruptible(planes_range, &work, tasks, max(STEPS_A_TASK // max(steps, 1), 1), steps * NANOSECONDS_A_STEP)


def run_groups(Plan plan not None, TensorBase x not None, TensorBase w not None, TensorBase bias not None, TensorBase out not None,
               int64_t groups, int64_t filters, bint turned) -> None:
    """x and out (N, C, H, W) with columns side by side; `filters` channels of out, a divisor of a group's, at once.

    w (K, C / groups, taps), contiguous; `turned`: (C, K / groups, taps), from the last tap on.  bias: one, or as many as out's channels.
    """
    cdef Work work
    cdef Arguments* a = &work.a
    cdef int64_t size = x.width, weight = w.width, channels = x.sizes[1] // groups, all_filters = out.sizes[1] // groups, tasks, steps, plane
    cdef int64_t taps = w.count // (groups * channels * all_filters)
    work.inner = work.sums = False
    work.channels, work.times = groups, all_filters // filters
    work.calls, work.count, work.row_step, work.width = plan.calls, plan.count, plan.row_step, weight
    a.x, a.out, a.w, a.bias = pointer(x), pointer(out), pointer(w), pointer(bias)
    a.x_image, a.out_image = x.strides[0] * size, out.strides[0] * size
    a.channels, a.x_channel, a.out_filter = channels, x.strides[1] * size, out.strides[1] * size
    a.x_plane, a.out_plane, a.w_plane = channels * a.x_channel, all_filters * a.out_filter, channels * all_filters * taps * weight
    a.w_filter, a.w_channel = taps * weight * (1 if turned else channels), taps * weight * (all_filters if turned else 1)
    if turned:
        a.w += (taps - 1) * weight
    a.bias_step = bias.width if bias.count > 1 else 0
    a.bias_plane, work.bias_turn = a.bias_step * all_filters, a.bias_step * filters
    work.x_turn, work.out_turn, work.w_turn = 0, filters * a.out_filter, filters * a.w_filter
    a.x_row, a.out_row = x.strides[2] * size * plan.row_step, out.strides[2] * size * plan.row_step
    a.before, a.columns, a.out_columns = plan.before, x.sizes[3], out.sizes[3]
    plane = (x.sizes[2] * x.sizes[3] * channels + out.sizes[2] * out.sizes[3] * all_filters) * size
    steps = out.sizes[2] * out.sizes[3] * taps * channels * all_filters
    work.run = max(RUN_BYTES // max(plane, 1), 1)
    tasks = groups * x.sizes[0]
    with nogil:
        parallel_interruptible(planes_range, &work, tasks, max(STEPS_A_TASK // max(steps, 1), 1), steps * NANOSECONDS_A_STEP)
