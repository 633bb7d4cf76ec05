# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Ways of walking over a storage, what views make of them, and copies between them."""
from libc.string cimport memcpy
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from ..base.tensor cimport TensorBase, MAX_DIMS
from ..base.parallel cimport parallel_for
from ..base.sizes cimport row_major, scaled

cdef enum:
    PARALLEL_FROM = 1 << 18    # bytes from which a copy is shared over the threads
    TILE = 32                  # side of the squares that a transposing copy goes by


# --- geometry ------------------------------
cdef void load(Shape* s, TensorBase t) noexcept:
    s.rank, s.offset = t.rank, t.offset
    memcpy(s.sizes, t.sizes, t.rank * sizeof(int64_t))
    memcpy(s.strides, t.strides, t.rank * sizeof(int64_t))


cdef void compact_strides(int rank, const int64_t* sizes, int64_t* strides) noexcept nogil:
    row_major(rank, sizes, strides)    # what does not fit is of a tensor without elements


cdef void load_compact(Shape* s, TensorBase t) noexcept:
    """t's shape as it would be in a contiguous tensor with a storage of its own."""
    s.rank, s.offset = t.rank, 0
    memcpy(s.sizes, t.sizes, t.rank * sizeof(int64_t))
    compact_strides(t.rank, t.sizes, s.strides)


cdef inline void erase(Shape* s, int dim) noexcept:
    cdef int d
    s.rank -= 1
    for d in range(dim, s.rank):
        s.sizes[d], s.strides[d] = s.sizes[d + 1], s.strides[d + 1]


cdef inline void insert(Shape* s, int dim, int64_t size, int64_t stride) noexcept:
    cdef int d
    for d in range(s.rank, dim, -1):
        s.sizes[d], s.strides[d] = s.sizes[d - 1], s.strides[d - 1]
    s.sizes[dim], s.strides[dim] = size, stride
    s.rank += 1


cdef void select_cut(Shape* s, const int64_t* a) noexcept:
    s.offset += a[1] * s.strides[a[0]]
    erase(s, <int>a[0])


cdef void slice_cut(Shape* s, const int64_t* a) noexcept:
    s.offset += a[1] * s.strides[a[0]]
    s.strides[a[0]] = scaled(s.strides[a[0]], a[2])
    s.sizes[a[0]] = a[3]


cdef void unsqueeze_cut(Shape* s, const int64_t* a) noexcept:
    cdef int dim = <int>a[0]
    insert(s, dim, 1, scaled(s.strides[dim], s.sizes[dim]) if dim < s.rank else 1)


cdef void diagonal_cut(Shape* s, const int64_t* a) noexcept:
    """offset, dim1, dim2, length"""
    cdef int64_t first = s.strides[a[1]], second = s.strides[a[2]]
    if a[3] > 0:
        s.offset += a[0] * second if a[0] >= 0 else -a[0] * first
    erase(s, <int>max(a[1], a[2]))
    erase(s, <int>min(a[1], a[2]))
    insert(s, s.rank, a[3], first + second)


cdef void unfold_cut(Shape* s, const int64_t* a) noexcept:
    """dim, size, step; a 0-dim tensor counts as one element along a dimension"""
    cdef int64_t stride
    if s.rank == 0:
        insert(s, 0, a[1], 1)
        return
    stride = s.strides[a[0]]
    s.sizes[a[0]] = (s.sizes[a[0]] - a[1]) // a[2] + 1
    s.strides[a[0]] = scaled(stride, a[2])
    insert(s, s.rank, a[1], stride)


cdef bint overlaps(Shape* s) noexcept:
    """Whether two elements may share a place: sorted by stride, each dimension must step over all the smaller ones."""
    cdef int order[MAX_DIMS]
    cdef int used = 0, d, k
    cdef int64_t reach = 0
    for d in range(s.rank):
        if s.sizes[d] == 0:
            return False
        if s.sizes[d] == 1:
            continue
        k = used
        while k > 0 and s.strides[order[k - 1]] > s.strides[d]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = d
        used += 1
    for k in range(used):
        if s.strides[order[k]] <= reach:
            return True
        reach += (s.sizes[order[k]] - 1) * s.strides[order[k]]
    return False


cdef int64_t reach_of(Shape* s) noexcept:
    """The place behind the last element."""
    cdef int64_t last = s.offset
    cdef int d
    for d in range(s.rank):
        if s.sizes[d] == 0:
            return s.offset
        last += (s.sizes[d] - 1) * s.strides[d]
    return last + 1


# --- copies ------------------------------
cdef struct Wide:
    uint64_t low
    uint64_t high

ctypedef fused Unit:
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    Wide

cdef struct Copy:
    char* to
    const char* source
    int width
    int rank                  # at least 1; dimension 0 is the innermost of the destination
    int64_t sizes[MAX_DIMS]
    int64_t ahead[MAX_DIMS]   # strides of the destination
    int64_t back[MAX_DIMS]    # and of the source


cdef void copy_strided(char* to, const int64_t* to_strides, const char* source, const int64_t* from_strides,
                       int rank, const int64_t* sizes, int width) noexcept nogil:
    cdef Copy c
    cdef int d, k, best
    cdef int64_t count = 1, grain
    c.to, c.source, c.width, c.rank = to, source, width, 0
    for d in range(rank - 1, -1, -1):
        count *= sizes[d]
        if sizes[d] == 1:
            continue
        k = c.rank
        while k > 0 and c.ahead[k - 1] > to_strides[d]:
            c.sizes[k], c.ahead[k], c.back[k] = c.sizes[k - 1], c.ahead[k - 1], c.back[k - 1]
            k -= 1
        c.sizes[k], c.ahead[k], c.back[k] = sizes[d], to_strides[d], from_strides[d]
        c.rank += 1
    if count == 0:
        return
    k = 0
    for d in range(1, c.rank):  # merge what lies one after another on both sides
        if c.ahead[d] == c.ahead[k] * c.sizes[k] and c.back[d] == c.back[k] * c.sizes[k]:
            c.sizes[k] *= c.sizes[d]
        else:
            k += 1
            c.sizes[k], c.ahead[k], c.back[k] = c.sizes[d], c.ahead[d], c.back[d]
    if c.rank == 0:
        c.sizes[0], c.ahead[0], c.back[0] = 1, 1, 1
    c.rank = k + 1
    if c.rank > 2 and c.back[0] != 1:  # dimension 1 becomes the one that the source is fastest along
        best = 1
        for d in range(2, c.rank):
            if c.back[d] < c.back[best]:
                best = d
        c.sizes[1], c.sizes[best] = c.sizes[best], c.sizes[1]
        c.ahead[1], c.ahead[best] = c.ahead[best], c.ahead[1]
        c.back[1], c.back[best] = c.back[best], c.back[1]
    d = c.rank - 1
    if count * width < PARALLEL_FROM:
        copy_range(&c, 0, c.sizes[d])
    else:
        grain = c.sizes[d] * PARALLEL_FROM // (count * width)
        parallel_for(copy_range, &c, c.sizes[d], grain if grain > 0 else 1)


cdef void copy_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """The copy with its outermost dimension restricted to [begin, end)."""
    cdef Copy* c = <Copy*>context
    cdef int last = c.rank - 1, d
    cdef int64_t place[MAX_DIMS]
    cdef int64_t n0 = c.sizes[0], n1 = c.sizes[1] if last else 1
    cdef char* to = c.to + begin * c.ahead[last] * c.width
    cdef const char* source = c.source + begin * c.back[last] * c.width
    if last == 0:
        n0 = end - begin
    elif last == 1:
        n1 = end - begin
    for d in range(2, c.rank):
        place[d] = 0
    while True:
        copy_plane(c, to, source, n0, n1)
        d = 2
        while d <= last:
            place[d] += 1
            to += c.ahead[d] * c.width
            source += c.back[d] * c.width
            if place[d] < (c.sizes[d] if d < last else end - begin):
                break
            to -= c.ahead[d] * place[d] * c.width
            source -= c.back[d] * place[d] * c.width
            place[d] = 0
            d += 1
        if d > last:
            return


cdef void copy_plane(Copy* c, char* to, const char* source, int64_t n0, int64_t n1) noexcept nogil:
    cdef int64_t a1 = c.ahead[1] if c.rank > 1 else 0, b1 = c.back[1] if c.rank > 1 else 0, k
    if c.ahead[0] == 1 and c.back[0] == 1:
        for k in range(n1):
            memcpy(to + k * a1 * c.width, source + k * b1 * c.width, n0 * c.width)
    elif c.width == 4:
        copy_units(<uint32_t*>to, <const uint32_t*>source, n0, n1, c.ahead[0], a1, c.back[0], b1)
    elif c.width == 8:
        copy_units(<uint64_t*>to, <const uint64_t*>source, n0, n1, c.ahead[0], a1, c.back[0], b1)
    elif c.width == 2:
        copy_units(<uint16_t*>to, <const uint16_t*>source, n0, n1, c.ahead[0], a1, c.back[0], b1)
    elif c.width == 1:
        copy_units(<uint8_t*>to, <const uint8_t*>source, n0, n1, c.ahead[0], a1, c.back[0], b1)
    else:
        copy_units(<Wide*>to, <const Wide*>source, n0, n1, c.ahead[0], a1, c.back[0], b1)


cdef void copy_units(Unit* to, const Unit* source, int64_t n0, int64_t n1,
                     int64_t a0, int64_t a1, int64_t b0, int64_t b1) noexcept nogil:
    cdef int64_t i, j, top, i0, j0
    if a0 == 1 and b0 == -1:  # mirrored rows: apart, so that the compiler sees neighbours
        for j in range(n1):
            for i in range(n0):
                to[j * a1 + i] = source[j * b1 - i]
        return
    if n1 == 1 or b1 >= b0:
        for j in range(n1):
            for i in range(n0):
                to[i * a0 + j * a1] = source[i * b0 + j * b1]
        return
    j0 = 0
    while j0 < n1:  # the source runs across: by squares, so that its cache lines are used whole
        i0 = 0
        while i0 < n0:
            for j in range(j0, min(j0 + TILE, n1)):
                for i in range(i0, min(i0 + TILE, n0)):
                    to[i * a0 + j * a1] = source[i * b0 + j * b1]
            i0 += TILE
        j0 += TILE
