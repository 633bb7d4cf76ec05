# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Sampling images: every point is a weighted sum of what stands at a few places, the same for all channels.

Images are (batch, places + 1, channels), their last row, for what lies outside, being 0; or, with `planes`, (batch, channels, places).
Points are (batch, points, channels), or (batch, channels, points).  The table of places and that of weights are (batch, taps, points); a
place behind the last one is outside.  Places are checked before anything is read.  `spread` adds in the order of the points, so sums
have always the same bits: threads share images and channels.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memset
from ...base.dtypes cimport F32, F64, I32, I64
from ...base.parallel cimport parallel_interruptible
from ...base.callbacks import callbacks
from ...base.tensor cimport TensorBase, bump_version, new_tensor, pointer, same_shape

ctypedef void (*sample_t)(char* rows, char* points, const int32_t* at, char* weight, int64_t count, int64_t length, int64_t step,
                          int64_t far, int64_t each, int64_t apart) noexcept nogil

cdef enum:
    POINTS = 512              # points that one task takes
    CHANNELS = 64             # channels side by side that one task of `spread` takes
    MOST_TURNS = 4            # places of a point that are written out
    PARALLEL_FROM = 1 << 15   # elements from which threads pay off

cdef struct Work:
    sample_t run
    char* rows
    char* points
    char* weight
    const int32_t* at
    int64_t places, count, each, channels   # of an image: places with that outside (planes: without), points; taps of a point
    int64_t parts             # of an image: blocks of points, or of channels
    bint spreads, planes
    int bytes


cdef void run_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Work* w = <Work*>context
    cdef int64_t unit, image, first, number, table
    cdef int64_t step = w.places if w.planes else w.channels, far = w.count if w.planes else w.channels
    cdef char* rows
    cdef char* points
    for unit in range(begin, end):
        image, first = unit // w.parts, unit % w.parts
        rows = w.rows + image * w.places * w.channels * w.bytes
        points = w.points + image * w.count * w.channels * w.bytes
        table = image * w.count * w.each
        if w.spreads and w.planes:
            w.run(rows + first * step * w.bytes, points + first * far * w.bytes, w.at + table, w.weight + table * w.bytes, w.count, 1,
                  step, far, w.each, w.count)
        elif w.spreads:
            first *= CHANNELS
            number = min(w.channels - first, <int64_t>CHANNELS)
            w.run(rows + first * w.bytes, points + first * w.bytes, w.at + table, w.weight + table * w.bytes, w.count, number,
                  step, far, w.each, w.count)
        else:
            first *= POINTS
            number = min(w.count - first, <int64_t>POINTS)
            w.run(rows, points + (first if w.planes else first * far) * w.bytes, w.at + table + first,
                  w.weight + (table + first) * w.bytes, number, w.channels, step, far, w.each, w.count)


cdef dict functions = {}


cdef int launch(Work* w, str which, TensorBase rows, TensorBase points, TensorBase at, TensorBase weight, bint planes) except -1:
    cdef int64_t batch = rows.sizes[0], i, units, each
    cdef const int32_t* place
    cdef uint64_t bad = 0, bound
    cdef tuple key
    w.places, w.channels = rows.sizes[2 if planes else 1], rows.sizes[1 if planes else 2]
    w.each, w.count, w.planes = at.sizes[1], at.sizes[2], planes
    if (at.code != I32 or not (at.contiguous and rows.contiguous and points.contiguous and weight.contiguous) or weight.count != at.count
            or at.sizes[0] != batch or points.count != batch * w.count * w.channels or weight.code != rows.code
            or points.code != rows.code or (rows.code != F32 and rows.code != F64) or w.places >= 1 << 31):
        raise ValueError("samples: arguments do not go together")
    w.rows, w.points, w.weight, w.at = pointer(rows), pointer(points), pointer(weight), <const int32_t*>pointer(at)
    place, bound = w.at, <uint64_t>(w.places + planes)
    for i in range(at.count):
        bad |= <uint64_t>(<uint64_t><uint32_t>place[i] >= bound)
    if bad:
        raise IndexError("samples: a place is outside of its image")
    key = (which, "f4" if rows.code == F32 else "f8", w.each if w.each <= MOST_TURNS else 0, planes)
    result = functions.get(key)
    if result is None:
        result = functions[key] = callbacks["samples.address"](*key)
    w.run, w.bytes, w.spreads = <sample_t><void*><uintptr_t>result, rows.width, which == "spread"
    w.parts = (w.count + POINTS - 1) // POINTS
    if w.spreads:
        w.parts = w.channels if planes else (w.channels + CHANNELS - 1) // CHANNELS
    units = batch * w.parts
    if units == 0:
        return 0
    each = batch * w.count * w.each * w.channels // units + 1
    if each * units < PARALLEL_FROM:
        run_range(w, 0, units)
    else:
        with nogil:
            parallel_interruptible(run_range, w, units, max(PARALLEL_FROM // each, 1), <double>each)
    return 0


cdef TensorBase made(int64_t a, int64_t b, int64_t c, int code):
    cdef int64_t[3] sizes
    sizes[0], sizes[1], sizes[2] = a, b, c
    return new_tensor(3, sizes, code)


def summed(TensorBase image not None, TensorBase at not None, TensorBase weight not None, bint planes) -> TensorBase:
    """The points: Σ weight[b, k, j] · image[b, at[b, k, j]] over k."""
    cdef Work w
    cdef int64_t channels = image.sizes[1 if planes else 2], points = at.sizes[2]
    cdef TensorBase out = made(image.sizes[0], channels if planes else points, points if planes else channels, image.code)
    launch(&w, "rows", image, out, at, weight, planes)
    bump_version(out)
    return out


def spread(TensorBase image not None, TensorBase points not None, TensorBase at not None, TensorBase weight not None,
           bint planes) -> TensorBase:
    """Add weight[b, k, j] · points[b, j] to image[b, at[b, k, j]]; returns the image."""
    cdef Work w
    launch(&w, "spread", image, points, at, weight, planes)
    bump_version(image)
    return image


def dots(TensorBase image not None, TensorBase points not None, TensorBase at not None, bint planes) -> TensorBase:
    """(batch, taps, points): the products of points[b, j] and image[b, at[b, k, j]]."""
    cdef Work w
    cdef TensorBase out = made(at.sizes[0], at.sizes[1], at.sizes[2], image.code)
    launch(&w, "dots", image, points, at, out, planes)
    bump_version(out)
    return out


# --- single elements -------------------------------------------------------------------------------------------------------------
ctypedef fused Real:
    float
    double

ctypedef fused Place:
    int32_t
    int64_t

cdef struct Added:
    char* to
    const char* values
    const char* at
    int64_t size, count       # of a plane: elements, and values
    bint single, short


cdef inline void add_plane(Real* to, const Real* values, const Place* at, int64_t size, int64_t count) noexcept nogil:
    cdef int64_t i
    memset(to, 0, size * sizeof(Real))
    for i in range(count):
        if <uint64_t>at[i] < <uint64_t>size:
            to[at[i]] += values[i]


cdef void add_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Added* a = <Added*>context
    cdef int64_t p
    cdef const int32_t* narrow
    cdef const int64_t* wide
    for p in range(begin, end):
        narrow, wide = <const int32_t*>a.at + p * a.count, <const int64_t*>a.at + p * a.count
        if a.single and a.short:
            add_plane(<float*>a.to + p * a.size, <const float*>a.values + p * a.count, narrow, a.size, a.count)
        elif a.single:
            add_plane(<float*>a.to + p * a.size, <const float*>a.values + p * a.count, wide, a.size, a.count)
        elif a.short:
            add_plane(<double*>a.to + p * a.size, <const double*>a.values + p * a.count, narrow, a.size, a.count)
        else:
            add_plane(<double*>a.to + p * a.size, <const double*>a.values + p * a.count, wide, a.size, a.count)


def added(TensorBase values not None, TensorBase at not None, int64_t size) -> TensorBase:
    """(planes, size): zeros, to which values[p, i] is added at place at[p, i] of each plane, in order; places outside are left out."""
    cdef TensorBase out
    cdef Added a
    cdef int64_t[2] sizes
    cdef int64_t each
    if (values.rank != 2 or at.rank != 2 or not values.contiguous or not at.contiguous or not same_shape(values, at)
            or (values.code != F32 and values.code != F64) or (at.code != I64 and at.code != I32)):
        raise ValueError("samples: arguments do not go together")
    sizes[0], sizes[1] = values.sizes[0], size
    out = new_tensor(2, sizes, values.code)
    a.to, a.values, a.at, a.size, a.count = pointer(out), pointer(values), pointer(at), size, values.sizes[1]
    a.single, a.short = values.code == F32, at.code == I32
    each = a.size + a.count + 1
    if each < PARALLEL_FROM and each * sizes[0] < PARALLEL_FROM:
        add_range(&a, 0, sizes[0])
    else:
        with nogil:
            parallel_interruptible(add_range, &a, sizes[0], max(PARALLEL_FROM // each, 1), <double>each)
    bump_version(out)
    return out
