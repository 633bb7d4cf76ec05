# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Sampling images whose channels lie side by side: every point is a weighted sum of a few of an image's rows of channels.

Images are (batch, places + 1, channels); the row behind the last place is for what lies outside, and stays 0.  A point's places are
checked before anything is read.  `spread` adds in the order of the points, so sums have always the same bits: threads share images
and blocks of channels.
"""
from libc.stdint cimport int32_t, int64_t, uint64_t, uintptr_t
from libc.string cimport memset
from ..base.dtypes cimport F32, F64, I32, I64
from ..base.parallel cimport parallel_in_parts
from ..base.provided import provided
from ..base.tensor cimport TensorBase, new_tensor, pointer, same_shape, wrote

ctypedef void (*sample_t)(char* rows, char* points, const int64_t* at, char* weight, int64_t count, int64_t length, int64_t step,
                          int64_t each) noexcept nogil

cdef enum:
    POINTS = 256              # points that one task takes
    CHANNELS = 64             # channels that one task of `spread` takes
    MOST_TURNS = 4            # places of a point that are written out
    PARALLEL_FROM = 1 << 15   # elements from which threads pay off

cdef struct Work:
    sample_t run
    char* rows
    char* points
    char* weight
    const int64_t* at
    int64_t places, count, each, channels   # of an image: rows, points, places of a point
    int64_t parts             # of an image: blocks of points, or of channels
    bint spreads
    int bytes


cdef void run_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Work* w = <Work*>context
    cdef int64_t unit, image, first, number, table
    cdef char* rows
    cdef char* points
    for unit in range(begin, end):
        image, first = unit // w.parts, unit % w.parts
        rows = w.rows + image * w.places * w.channels * w.bytes
        points = w.points + image * w.count * w.channels * w.bytes
        table = image * w.count * w.each
        if w.spreads:
            first *= CHANNELS
            number = min(w.channels - first, <int64_t>CHANNELS)
            w.run(rows + first * w.bytes, points + first * w.bytes, w.at + table, w.weight + table * w.bytes, w.count, number,
                  w.channels, w.each)
        else:
            first *= POINTS
            number = min(w.count - first, <int64_t>POINTS)
            w.run(rows, points + first * w.channels * w.bytes, w.at + table + first * w.each,
                  w.weight + (table + first * w.each) * w.bytes, number, w.channels, w.channels, w.each)


cdef dict functions = {}


cdef int launch(Work* w, str which, TensorBase rows, TensorBase points, TensorBase at, TensorBase weight) except -1:
    cdef int64_t batch = rows.sizes[0], i, units, each
    cdef uint64_t bad = 0
    cdef tuple key
    w.places, w.channels, w.count, w.each = rows.sizes[1], rows.sizes[2], at.sizes[1], at.sizes[2]
    if (at.code != I64 or not (at.contiguous and rows.contiguous and points.contiguous and weight.contiguous) or weight.count != at.count
            or at.sizes[0] != batch or points.count != batch * w.count * w.channels or weight.code != rows.code
            or points.code != rows.code or (rows.code != F32 and rows.code != F64)):
        raise ValueError("samples: arguments do not go together")
    w.rows, w.points, w.weight, w.at = pointer(rows), pointer(points), pointer(weight), <const int64_t*>pointer(at)
    for i in range(at.count):
        bad |= <uint64_t>(<uint64_t>w.at[i] >= <uint64_t>w.places)
    if bad:
        raise IndexError("samples: a place is outside of its image")
    key = (which, "f4" if rows.code == F32 else "f8", w.each if w.each <= MOST_TURNS else 0)
    found = functions.get(key)
    if found is None:
        found = functions[key] = provided["samples.address"](*key)
    w.run, w.bytes, w.spreads = <sample_t><void*><uintptr_t>found, rows.width, which == "spread"
    w.parts = (w.channels + CHANNELS - 1) // CHANNELS if w.spreads else (w.count + POINTS - 1) // POINTS
    units = batch * w.parts
    if units == 0:
        return 0
    each = batch * w.count * w.each * w.channels // units + 1
    if each * units < PARALLEL_FROM:
        run_range(w, 0, units)
    else:
        with nogil:
            parallel_in_parts(run_range, w, units, max(PARALLEL_FROM // each, 1), <double>each)
    return 0


cdef TensorBase made(int64_t a, int64_t b, int64_t c, int code):
    cdef int64_t[3] sizes
    sizes[0], sizes[1], sizes[2] = a, b, c
    return new_tensor(3, sizes, code)


def summed(TensorBase image not None, TensorBase at not None, TensorBase weight not None) -> TensorBase:
    """(batch, points, channels): Σ weight[b, j, k] · image[b, at[b, j, k]] over k."""
    cdef Work w
    cdef TensorBase out = made(image.sizes[0], at.sizes[1], image.sizes[2], image.code)
    launch(&w, "rows", image, out, at, weight)
    wrote(out)
    return out


def spread(TensorBase image not None, TensorBase points not None, TensorBase at not None, TensorBase weight not None) -> TensorBase:
    """Add weight[b, j, k] · points[b, j] to image[b, at[b, j, k]]; returns the image."""
    cdef Work w
    launch(&w, "spread", image, points, at, weight)
    wrote(image)
    return image


def dots(TensorBase image not None, TensorBase points not None, TensorBase at not None) -> TensorBase:
    """(batch, points, places of a point): the products of points[b, j] and image[b, at[b, j, k]]."""
    cdef Work w
    cdef TensorBase out = made(at.sizes[0], at.sizes[1], at.sizes[2], image.code)
    launch(&w, "dots", image, points, at, out)
    wrote(out)
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
            parallel_in_parts(add_range, &a, sizes[0], max(PARALLEL_FROM // each, 1), <double>each)
    wrote(out)
    return out
