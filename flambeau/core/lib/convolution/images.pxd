"""What convolutions share: images in either layout, rows of them brought to workspaces of pixels and back, filters turned, buffers for
threads.  All steps are bytes.  Halves are converted on the way: workspaces hold float32.
"""
from libc.string cimport memcpy, memset
from libc.stdint cimport int64_t, uintptr_t
from ...base.tensor cimport TensorBase, pointer

ctypedef void (*turn_t)(const char* source, int64_t from_step, int64_t rows, int64_t columns, char* to, int64_t to_step) noexcept nogil
ctypedef void (*convert_t)(const char* source, char* to, int64_t count, float factor) noexcept nogil

cdef struct Converting:       # halves to float32, or back: matrices that are turned, and elements side by side; NULL: nothing is converted
    turn_t turn
    convert_t line

cdef extern from *:
    """
    #include <string.h>
    /* A slot that nobody has: at most as many threads as slots share a piece of work, so one is free, or soon is. */
    static int flambeau_take_slot(unsigned char* taken, int slots) {
        for (;;)
            for (int k = 0; k < slots; k++)
                if (!__atomic_exchange_n(&taken[k], 1, __ATOMIC_ACQUIRE)) return k;
    }
    static void flambeau_leave_slot(unsigned char* taken, int k) { __atomic_store_n(&taken[k], 0, __ATOMIC_RELEASE); }

    /* Ask for memory that is read soon. */
    static void flambeau_foresee(const char* p, int64_t bytes) {
        for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(p + i);
    }

    /* Few planes to pixels, an element at a time. */
    static void flambeau_weave(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t planes, int64_t pixels, int64_t size) {
        for (int64_t k = 0; k < planes; k++) {
            const char* p = from + k * from_step;
            char* q = to + k * size;
            if (size == 4) for (int64_t i = 0; i < pixels; i++) memcpy(q + i * to_step, p + i * 4, 4);
            else for (int64_t i = 0; i < pixels; i++) memcpy(q + i * to_step, p + i * 8, 8);
        }
    }

    /* Pixels of `bytes` each, from one pitch to another. */
    static void flambeau_move_pixels(char* to, int64_t to_step, const char* from, int64_t from_step, int64_t pixels, int64_t bytes) {
        if (bytes == to_step && bytes == from_step) memcpy(to, from, pixels * bytes);
        else if (bytes == 64) for (int64_t i = 0; i < pixels; i++) memcpy(to + i * to_step, from + i * from_step, 64);
        else for (int64_t i = 0; i < pixels; i++) memcpy(to + i * to_step, from + i * from_step, bytes);
    }
    """
    int flambeau_take_slot(unsigned char* taken, int slots) noexcept nogil
    void flambeau_leave_slot(unsigned char* taken, int k) noexcept nogil
    void flambeau_foresee(const char* p, int64_t nbytes) noexcept nogil
    void flambeau_weave(char* to, int64_t to_step, const char* source, int64_t from_step, int64_t planes, int64_t pixels, int64_t size) noexcept nogil
    void flambeau_move_pixels(char* to, int64_t to_step, const char* source, int64_t from_step, int64_t pixels, int64_t bytes) noexcept nogil

cdef enum:
    MAX_SLOTS = 1024
    LINE = 64
    AHEAD = 6                 # channels of filters that are asked for before they are turned
    FEW = 4                   # channels that are brought an element at a time


cdef inline int64_t lines(int64_t nbytes) noexcept nogil:
    return (nbytes + LINE - 1) // LINE * LINE


cdef struct Image:
    char* data
    int64_t image, channel, row, pixel
    int64_t height, width
    int64_t size              # of an element
    int64_t wide              # of one in a workspace
    Converting converting     # to a workspace, or from one
    bint last                 # channels lie side by side, else pixels


cdef inline int read_image(Image* image, TensorBase t) except -1:
    """Images (N, C, H, W) whose channels, or whose pixels in a row, lie side by side."""
    cdef int64_t size = t.width
    cdef bint pixels = t.strides[3] == 1 or t.sizes[3] == 1, channels = t.strides[1] == 1 or t.sizes[1] == 1
    image.data = pointer(t)
    image.image, image.channel, image.row, image.pixel = (
        t.strides[0] * size, t.strides[1] * size, t.strides[2] * size, t.strides[3] * size)
    image.height, image.width, image.size, image.wide = t.sizes[2], t.sizes[3], size, size
    image.converting.turn, image.converting.line = NULL, NULL
    if not pixels and not channels:
        raise ValueError("a convolution's image has neither channels nor pixels side by side")
    image.last = channels and not (pixels and t.sizes[1] == 1)
    return 0


cdef inline int convert_image(Image* image, const Converting* by, int64_t wide) except -1:
    """An image of halves: its elements are `wide` in workspaces."""
    if image.size == wide:
        return 0
    if by.turn == NULL:
        raise ValueError(f"a convolution's image has elements of {image.size} bytes, not of {wide}")
    image.wide, image.converting = wide, by[0]
    return 0


cdef inline void convert_pixels(const Converting* by, char* to, int64_t to_step, const char* source, int64_t from_step, int64_t pixels,
                                int64_t count) noexcept nogil:
    """Pixels of `count` elements each, from one pitch to another."""
    cdef int64_t i
    for i in range(pixels):
        by.line(source + i * from_step, to + i * to_step, count, 1.0)


cdef inline void bring(turn_t turn, const Image* x, int64_t n, int64_t channel, int64_t channels, int64_t row, int64_t left,
                       int64_t width, char* workspace, int64_t pitch) noexcept nogil:
    """Pixels `left` and after of a row, `width` of them, some channels, to pixels `pitch` apart; zeros beside the image."""
    cdef int64_t first = min(max(0, -left), width), end = max(min(width, x.width - left), first), j
    cdef int64_t bytes = channels * x.wide
    cdef const char* source
    for j in range(first):
        memset(workspace + j * pitch, 0, bytes)
    for j in range(end, width):
        memset(workspace + j * pitch, 0, bytes)
    if end == first:
        return
    source = x.data + n * x.image + row * x.row + channel * x.channel + (left + first) * x.pixel
    if x.converting.turn != NULL:
        if x.last:
            convert_pixels(&x.converting, workspace + first * pitch, pitch, source, x.pixel, end - first, channels)
        else:
            x.converting.turn(source, x.channel, channels, end - first, workspace + first * pitch, pitch)
    elif x.last:
        flambeau_move_pixels(workspace + first * pitch, pitch, source, x.pixel, end - first, bytes)
    elif channels <= FEW:
        flambeau_weave(workspace + first * pitch, pitch, source, x.channel, channels, end - first, x.size)
    else:
        turn(source, x.channel, channels, end - first, workspace + first * pitch, pitch)


cdef inline void deliver(turn_t turn, const Image* y, int64_t n, int64_t channel, int64_t channels, int64_t row, int64_t pixels,
                         const char* workspace, int64_t pitch) noexcept nogil:
    """The first pixels of a row and whole rows after it, from pixels `pitch` apart."""
    cdef char* to = y.data + n * y.image + row * y.row + channel * y.channel
    if y.converting.turn != NULL:
        if y.last:
            convert_pixels(&y.converting, to, y.pixel, workspace, pitch, pixels, channels)
        else:
            y.converting.turn(workspace, pitch, pixels, channels, to, y.channel)
    elif y.last:
        flambeau_move_pixels(to, y.pixel, workspace, pitch, pixels, channels * y.size)
    else:
        turn(workspace, pitch, pixels, channels, to, y.channel)


cdef struct Filters:
    const char* data
    int64_t filter, channel   # steps; taps lie side by side
    int64_t filters, channels, taps
    int64_t size, lanes
    int64_t vector            # bytes of a vector of filters that are turned
    Converting converting


cdef inline void turn_filters(turn_t turn, const Filters* w, int64_t first, int64_t channel, int64_t channels, char* to) noexcept nogil:
    """to (channels, taps, lanes): a vector of filters from `first` on; zeros for those beyond the last."""
    cdef int64_t count = min(w.lanes, w.filters - first), vector = w.vector, c
    cdef const char* source = w.data + first * w.filter + channel * w.channel
    if count < w.lanes:
        memset(to, 0, channels * w.taps * vector)
    if w.converting.turn != NULL:
        turn = w.converting.turn
    if w.taps == 1 and w.filter == w.size:
        if w.converting.turn != NULL:
            convert_pixels(&w.converting, to, vector, source, w.channel, channels, count)
        else:
            flambeau_move_pixels(to, vector, source, w.channel, channels, count * w.size)
        return
    if w.channel == w.taps * w.size:
        turn(source, w.filter, count, channels * w.taps, to, vector)
        return
    for c in range(channels):  # pages apart: the processor does not guess the next
        if c + AHEAD < channels:
            flambeau_foresee(source + (c + AHEAD) * w.channel, count * w.filter)
        turn(source + c * w.channel, w.filter, count, w.taps, to + c * w.taps * vector, vector)


cdef inline int read_filters(Filters* f, const char* weight, int64_t size, int64_t vector, const Converting* by, bint turned) except -1:
    """Weights (K, C, taps), or, `turned`, (C, K, taps), without gaps, of elements of `size` bytes; counts of filters, channels and taps, and
    lanes, are set.
    """
    f.data, f.size, f.vector = weight, size, vector
    f.filter, f.channel = f.channels * f.taps * size, f.taps * size
    if turned:
        f.filter, f.channel = f.taps * size, f.filters * f.taps * size
    f.converting.turn, f.converting.line = NULL, NULL
    if size * f.lanes != vector:
        if by.turn == NULL:
            raise ValueError(f"a convolution's filters have elements of {size} bytes, not of {vector // f.lanes}")
        f.converting = by[0]
    return 0


cdef inline void read_converting(tuple addresses, Converting* widens, Converting* narrows):
    """`addresses`: of the functions that turn and convert halves to float32, and of those back; none where nothing is converted."""
    widens.turn = narrows.turn = NULL
    widens.line = narrows.line = NULL
    if addresses:
        widens.turn, widens.line = <turn_t><uintptr_t>addresses[0], <convert_t><uintptr_t>addresses[1]
        narrows.turn, narrows.line = <turn_t><uintptr_t>addresses[2], <convert_t><uintptr_t>addresses[3]


cdef inline void place_of_task(const Filters* w, int64_t task, int64_t panels, int64_t parts, int64_t* panel, int64_t* part) noexcept nogil:
    """Which panel of filters and part of channels a task packs: neighbours read memory one after the other."""
    if w.channel < w.filter:
        panel[0], part[0] = task // parts, task % parts
    else:
        panel[0], part[0] = task % panels, task // panels
