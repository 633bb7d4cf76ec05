# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Views: tensors over another tensor's storage, and the way of gradients back through them.

Whatever the view, its elements lie at places `offset + index · strides` of its source.  So there are few kinds of
history: a gradient is reshaped, permuted, summed (after expand), or put in its place among zeros; the last two kinds are
the adjoints of each other, which makes derivatives of any order come out of the same code.
"""
from libc.stdlib cimport malloc, free
from libc.string cimport memcpy, memset
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from .memory cimport Storage, new_storage
from .dtypes cimport F16, BF16, F32, F64, C64, C128, CATEGORY, as_dtype, dtype as DType, dtype_of, size_from
from .tensor cimport (
    TensorBase, MAX_DIMS, OP_ADD, OP_DIV, OP_EQ, alias, as_int, find_contiguous, late, new_tensor, operator_for,
    parse_dims, parse_sizes, pointer, same_shape, wrap_dim, wrote,
)
from .tape cimport Node, attach, check_in_place, grad_enabled, wants_grad
from .dispatch cimport sum_to
from .parallel cimport parallel_for
from .tape import record
import warnings
cimport cython

cdef extern from "Python.h":
    bint PyLong_Check(object o)
    bint PyTuple_Check(object o)
    bint PyList_Check(object o)

cdef enum:
    PARALLEL_FROM = 1 << 18    # bytes from which a copy is shared over the threads
    TILE = 32                  # side of the squares that a transposing copy goes by

cdef enum:                     # how the gradient of a view becomes that of its source
    RESHAPE, PERMUTE, EXPAND
    PLACE                      # put it in its place among zeros
    TAKE                       # the adjoint of PLACE: take the view of it
    STRIDED                    # as_strided of a tensor with gaps: place it in a flat storage, take the source from there


# --- geometry ------------------------------
cdef void load(Shape* s, TensorBase t) noexcept:
    s.rank, s.offset = t.rank, t.offset
    memcpy(s.sizes, t.sizes, t.rank * sizeof(int64_t))
    memcpy(s.strides, t.strides, t.rank * sizeof(int64_t))


cdef void compact_strides(int rank, const int64_t* sizes, int64_t* strides) noexcept nogil:
    cdef int64_t n = 1
    cdef int d
    for d in range(rank - 1, -1, -1):
        strides[d] = n
        n *= sizes[d] if sizes[d] > 0 else 1


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
    s.strides[a[0]] *= a[2]
    s.sizes[a[0]] = a[3]


cdef void unsqueeze_cut(Shape* s, const int64_t* a) noexcept:
    cdef int dim = <int>a[0]
    insert(s, dim, 1, s.sizes[dim] * s.strides[dim] if dim < s.rank else 1)


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
    s.strides[a[0]] = stride * a[2]
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


ctypedef fused Real:
    float
    double


cdef void add_strided(Real* to, const int64_t* to_strides, const Real* source, const int64_t* from_strides,
                      int rank, const int64_t* sizes) noexcept nogil:
    """to += source where places of `to` may coincide; in the order of the elements, so always the same bits."""
    cdef int64_t i
    if rank == 0:
        to[0] += source[0]
        return
    for i in range(sizes[0]):
        if rank == 1:
            to[i * to_strides[0]] += source[i * from_strides[0]]
        else:
            add_strided(to + i * to_strides[0], to_strides + 1, source + i * from_strides[0], from_strides + 1,
                        rank - 1, sizes + 1)


# --- the tape's side ------------------------------
cdef bint taped(TensorBase t):
    """Whether an operation on t is to be recorded now."""
    return grad_enabled() and wants_grad(t) and CATEGORY[t.code] >= 2


@cython.no_gc
@cython.freelist(64)
cdef class ViewNode(Node):
    """A recorded view of one tensor."""

    cdef int kind
    cdef str label
    cdef int source_rank, rank
    cdef int64_t offset, source_offset
    cdef int64_t* source_sizes
    cdef int64_t* sizes
    cdef int64_t* strides
    cdef int64_t* source_strides      # for STRIDED only
    cdef int64_t few[15]
    cdef int64_t* room

    def name(self) -> str:
        return self.label

    cdef list run(self, list grads):
        cdef TensorBase g = <TensorBase>grads[0], found
        if g is None:
            return [None]
        if self.kind == RESHAPE:
            found = reshaped(g, self.source_rank, self.source_sizes)
        elif self.kind == PERMUTE:
            found = permuted(g, self.sizes, "PermuteBackward0")
        elif self.kind == EXPAND:
            found = <TensorBase>sum_to(g, size_from(self.source_rank, self.source_sizes))
        elif self.kind == PLACE:
            found = placed(g, self)
        elif self.kind == TAKE:
            found = taken(g, self.source_rank, self.source_sizes, self.strides, self.offset)
        else:
            found = through_storage(g, self)
        if found is not g and not grad_enabled():
            found.base = None  # nobody else sees it: a leaf may take over its memory
        return [found]

    def __dealloc__(self):
        if self.room != NULL and self.room != self.few:
            free(self.room)


cdef ViewNode view_node(int kind, str label, TensorBase source, int rank):
    """A node with room for the source's sizes, and for `rank` sizes and strides to be filled in."""
    cdef ViewNode node = ViewNode.__new__(ViewNode)
    cdef int total = source.rank * (2 if kind == STRIDED else 1) + 2 * rank
    node.kind, node.label, node.source_rank, node.rank = kind, label, source.rank, rank
    node.room = node.few
    if total > 15:
        node.room = <int64_t*>malloc(total * sizeof(int64_t))
        if node.room == NULL:
            raise MemoryError
    node.source_sizes = node.room
    node.sizes = node.source_sizes + source.rank
    node.strides = node.sizes + rank
    memcpy(node.source_sizes, source.sizes, source.rank * sizeof(int64_t))
    if kind == STRIDED:
        node.source_strides = node.strides + rank
        memcpy(node.source_strides, source.strides, source.rank * sizeof(int64_t))
        node.source_offset = source.offset
    node.set_edges(1)
    node.connect(0, source)
    return node


cdef ViewNode place_node(int kind, str label, TensorBase source, Shape* s):
    """The view `s` of a source with no gaps (PLACE), or of a storage (STRIDED)."""
    cdef ViewNode node = view_node(kind, label, source, s.rank)
    memcpy(node.sizes, s.sizes, s.rank * sizeof(int64_t))
    memcpy(node.strides, s.strides, s.rank * sizeof(int64_t))
    node.offset = s.offset
    return node


cdef TensorBase placed(TensorBase g, ViewNode node):
    return put_in_place(g, node.source_rank, node.source_sizes, node.strides, node.offset)


cdef TensorBase put_in_place(TensorBase g, int rank, const int64_t* sizes, const int64_t* strides, int64_t offset):
    """Zeros of that shape with g added at the given places."""
    cdef Shape s
    cdef TensorBase out
    cdef ViewNode node
    s.rank, s.offset = g.rank, offset
    memcpy(s.sizes, g.sizes, g.rank * sizeof(int64_t))
    memcpy(s.strides, strides, g.rank * sizeof(int64_t))
    cdef bint adds = overlaps(&s)
    if adds and (g.code == F16 or g.code == BF16):  # sums of halves are made in float32
        kept = dtype_of(g.code)
        return <TensorBase>put_in_place(<TensorBase>(<object>g).to(dtype_of(F32)), rank, sizes, strides, offset).to(kept)
    out = new_tensor(rank, sizes, g.code)
    memset(out.storage.data, 0, out.count * out.width)
    if g.count:
        if adds:
            add_in_place(out.storage.data + offset * g.width, strides, g)
        else:
            copy_strided(out.storage.data + offset * g.width, strides, pointer(g), g.strides, g.rank, g.sizes, g.width)
    if taped(g):
        node = place_node(TAKE, "PlaceBackward0", g, &s)
        attach(out, node, 0)
    return out


cdef int add_in_place(char* to, const int64_t* strides, TensorBase g) except -1:
    cdef int64_t ahead[MAX_DIMS + 1]
    cdef int64_t back[MAX_DIMS + 1]
    cdef int64_t sizes[MAX_DIMS + 1]
    cdef int d, rank = g.rank, parts = 2 if CATEGORY[g.code] == 3 else 1
    for d in range(rank):
        sizes[d], ahead[d], back[d] = g.sizes[d], strides[d] * parts, g.strides[d] * parts
    if parts == 2:  # a complex number is two real ones side by side
        sizes[rank], ahead[rank], back[rank] = 2, 1, 1
        rank += 1
    if g.code == F32 or g.code == C64:
        add_strided(<float*>to, ahead, <const float*>pointer(g), back, rank, sizes)
    elif g.code == F64 or g.code == C128:
        add_strided(<double*>to, ahead, <const double*>pointer(g), back, rank, sizes)
    else:
        raise RuntimeError(f"a view's gradient must be floating point or complex, got {dtype_of(g.code)}")
    return 0


cdef TensorBase taken(TensorBase g, int rank, const int64_t* sizes, const int64_t* strides, int64_t offset):
    """The view of g, which is made contiguous first, with that shape."""
    cdef TensorBase whole = compact(g), out
    cdef Shape s
    s.rank, s.offset = rank, whole.offset + offset
    memcpy(s.sizes, sizes, rank * sizeof(int64_t))
    memcpy(s.strides, strides, rank * sizeof(int64_t))
    out = view_of(whole, &s)
    if taped(whole):
        s.offset = offset
        attach(out, place_node(PLACE, "TakeBackward0", whole, &s), 0)
    return out


cdef TensorBase through_storage(TensorBase g, ViewNode node):
    """Gradient of as_strided where the source has gaps or overlaps itself: g is added up in a flat storage, and the source
    takes its elements from there, each place's sum shared among the elements that lie in it."""
    cdef Shape source, view
    cdef int64_t low, span
    cdef TensorBase flat, counts
    source.rank, source.offset = node.source_rank, node.source_offset
    memcpy(source.sizes, node.source_sizes, source.rank * sizeof(int64_t))
    memcpy(source.strides, node.source_strides, source.rank * sizeof(int64_t))
    view.rank, view.offset = node.rank, node.offset
    memcpy(view.sizes, node.sizes, view.rank * sizeof(int64_t))
    memcpy(view.strides, node.strides, view.rank * sizeof(int64_t))
    low = min(source.offset, view.offset)
    span = max(reach_of(&source), reach_of(&view)) - low
    flat = put_in_place(g, 1, &span, view.strides, view.offset - low)
    if overlaps(&source):
        ones = (<object>g).new_ones(size_from(source.rank, source.sizes))
        counts = put_in_place(<TensorBase>ones, 1, &span, source.strides, source.offset - low)
        counts = late.binary(operator_for(OP_ADD), counts, late.binary(operator_for(OP_EQ), counts, 0))
        flat = late.binary(operator_for(OP_DIV), flat, counts)
    return taken(flat, source.rank, source.sizes, source.strides, source.offset - low)


cdef TensorBase view_of(TensorBase source, Shape* s):
    """A view, not recorded yet."""
    cdef TensorBase t = alias(source, s.rank, s.sizes, s.strides, s.offset)
    t.base = source.base if source.base is not None else source
    t.fn_version = source.storage.version
    return t


cdef TensorBase cut(TensorBase t, cut_t how, const int64_t* arguments, str label):
    """A view of a part of t (or of parts that overlap)."""
    cdef Shape s
    cdef TensorBase out
    load(&s, t)
    how(&s, arguments)
    out = view_of(t, &s)
    if taped(t):
        if t.contiguous:
            s.offset -= t.offset
        else:  # the gradient is contiguous: where in it does the view lie?
            load_compact(&s, t)
            how(&s, arguments)
        attach(out, place_node(PLACE, label, t, &s), 0)
    return out


cdef TensorBase copied(TensorBase t, int rank, const int64_t* sizes, str label):
    """A contiguous copy, read as those sizes."""
    cdef TensorBase out = new_tensor(rank, sizes, t.code)
    cdef int64_t strides[MAX_DIMS]
    compact_strides(t.rank, t.sizes, strides)
    with nogil:
        copy_strided(out.storage.data, strides, pointer(t), t.strides, t.rank, t.sizes, t.width)
    if taped(t):
        attach(out, view_node(RESHAPE, label, t, 0), 0)
    return out


cdef TensorBase compact(TensorBase t):
    """t itself where it is contiguous, else a contiguous copy."""
    return t if t.contiguous else copied(t, t.rank, t.sizes, "CloneBackward0")


cdef bint fit_strides(TensorBase t, int rank, const int64_t* sizes, int64_t* strides) noexcept:
    """Strides with which t's elements read as those sizes; False where only a copy has such."""
    cdef int d = t.rank - 1, k = rank - 1
    cdef int64_t length, step, filled
    if t.contiguous or t.count == 0:
        compact_strides(rank, sizes, strides)
        return True
    while d >= 0:
        if t.sizes[d] == 1:
            d -= 1
            continue
        length, step = t.sizes[d], t.strides[d]  # a run of dimensions that lie one after another
        d -= 1
        while d >= 0 and (t.sizes[d] == 1 or t.strides[d] == length * step):
            length *= t.sizes[d]
            d -= 1
        filled = 1
        while filled < length:
            strides[k] = filled * step
            filled *= sizes[k]
            k -= 1
        if filled != length:
            return False
    while k >= 0:  # what is left are sizes of 1
        strides[k] = sizes[k + 1] * strides[k + 1] if k + 1 < rank else 1
        k -= 1
    return True


cdef TensorBase viewed(TensorBase t, int rank, const int64_t* sizes, str label):
    """The same elements in the same order with other sizes; None where their strides do not allow a view."""
    cdef Shape s
    cdef TensorBase out
    s.rank, s.offset = rank, t.offset
    if not fit_strides(t, rank, sizes, s.strides):
        return None
    memcpy(s.sizes, sizes, rank * sizeof(int64_t))
    out = view_of(t, &s)
    if taped(t):
        attach(out, view_node(RESHAPE, label, t, 0), 0)
    return out


cdef TensorBase reshaped(TensorBase t, int rank, const int64_t* sizes):
    """t itself, a view, or a copy."""
    cdef TensorBase out
    cdef int d
    if t.rank == rank:
        for d in range(rank):
            if t.sizes[d] != sizes[d]:
                break
        else:
            return t
    out = viewed(t, rank, sizes, "ViewBackward0")
    return out if out is not None else copied(t, rank, sizes, "UnsafeViewBackward0")


cdef TensorBase permuted(TensorBase t, const int64_t* dims, str label):
    cdef Shape s
    cdef TensorBase out
    cdef ViewNode node
    cdef int d
    s.rank, s.offset = t.rank, t.offset
    for d in range(t.rank):
        s.sizes[d], s.strides[d] = t.sizes[dims[d]], t.strides[dims[d]]
    out = view_of(t, &s)
    if taped(t):
        node = view_node(PERMUTE, label, t, t.rank)
        for d in range(t.rank):
            node.sizes[dims[d]] = d  # the permutation back
        attach(out, node, 0)
    return out


cdef TensorBase swapped(TensorBase t, int a, int b, str label):
    cdef int64_t dims[MAX_DIMS]
    cdef int d
    for d in range(t.rank):
        dims[d] = d
    if t.rank:
        dims[a], dims[b] = b, a
    return permuted(t, dims, label)


cdef TensorBase expanded(TensorBase t, int rank, const int64_t* sizes):
    """t repeated along new dimensions and those of size 1; -1 keeps a size."""
    cdef Shape s
    cdef TensorBase out
    cdef int d, k, new = rank - t.rank
    if new < 0:
        raise RuntimeError(f"expand(): the number of sizes provided ({rank}) must be greater or equal to the number of "
                           f"dimensions in the tensor ({t.rank})")
    s.rank, s.offset = rank, t.offset
    for d in range(rank):
        k = d - new
        s.sizes[d] = sizes[d]
        if k < 0:
            if sizes[d] < 0:
                raise RuntimeError(f"expand(): The expanded size of the tensor ({sizes[d]}) isn't allowed in a leading, "
                                   f"non-existing dimension {d}")
            s.strides[d] = 0
            continue
        if sizes[d] == -1:
            s.sizes[d] = t.sizes[k]
        s.strides[d] = t.strides[k]
        if s.sizes[d] != t.sizes[k]:
            if t.sizes[k] != 1 or sizes[d] < 0:
                raise RuntimeError(
                    f"expand(): The expanded size of the tensor ({sizes[d]}) must match the existing size ({t.sizes[k]}) at "
                    f"non-singleton dimension {d}.  Target sizes: {list(size_from(rank, sizes))}.  Tensor sizes: "
                    f"{list(t.shape)}")
            s.strides[d] = 0
    out = view_of(t, &s)
    if taped(t):
        attach(out, view_node(EXPAND, "ExpandBackward0", t, 0), 0)
    return out


# --- a view's history after its base was written ------------------------------
cdef object refresh(TensorBase t):
    """The base has new elements: the view's history starts from the base's anew."""
    cdef TensorBase base = t.base
    t.fn_version = t.storage.version
    if t.code == base.code and wants_grad(base):
        attach(t, strided_node(base, t), 0)
    return t.fn


cdef ViewNode strided_node(TensorBase source, TensorBase view):
    cdef Shape s
    cdef int64_t offset
    load(&s, view)
    if source.contiguous and s.offset >= source.offset and reach_of(&s) <= source.offset + source.count:
        s.offset -= source.offset
        return place_node(PLACE, "AsStridedBackward0", source, &s)
    return place_node(STRIDED, "AsStridedBackward0", source, &s)


late.grad_fn = refresh


# --- arguments ------------------------------
cdef int read_sizes(tuple given, object named, int64_t* out, str who, str argument) except -1:
    """Sizes or dimensions given one by one, as one sequence, or by keyword; returns how many."""
    cdef int n = 0
    cdef object values = given
    if named is not None:
        if given:
            raise TypeError(f"{who}(): got '{argument}' by position and by keyword")
        values = named
    elif len(given) == 1 and not PyLong_Check(given[0]):
        values = given[0]
    elif not given:
        raise TypeError(f'{who}() missing 1 required positional argument: "{argument}"')
    if not (PyTuple_Check(values) or PyList_Check(values)):
        if hasattr(values, "__index__") and not hasattr(values, "__len__") or PyLong_Check(values) or is_scalar(values):
            out[0] = as_int(values, who, argument)
            return 1
        try:
            values = tuple(values)
        except TypeError:
            raise TypeError(f"{who}(): argument '{argument}' must be tuple of ints, not {type(values).__name__}") from None
    for value in values:
        if n == MAX_DIMS:
            raise RuntimeError(f"{who}(): a tensor has at most {MAX_DIMS} dimensions, got {len(values)}")
        out[n] = as_int(value, who, argument)
        n += 1
    return n


cdef bint is_scalar(object value):
    return isinstance(value, TensorBase) and (<TensorBase>value).rank == 0


cdef int infer_size(TensorBase t, int rank, int64_t* sizes, str who) except -1:
    """Put a number for -1 and check the product."""
    cdef int d, unknown = -1
    cdef int64_t n = 1
    for d in range(rank):
        if sizes[d] == -1:
            if unknown >= 0:
                raise RuntimeError(f"{who}(): only one dimension can be inferred, got {list(size_from(rank, sizes))}")
            unknown = d
        elif sizes[d] < 0:
            raise RuntimeError(f"{who}(): invalid shape dimension {sizes[d]} at index {d} of shape "
                               f"{list(size_from(rank, sizes))}")
        else:
            n *= sizes[d]
    if unknown < 0:
        if n != t.count:
            raise RuntimeError(f"{who}(): shape '{list(size_from(rank, sizes))}' is invalid for input of size {t.count}")
        return 0
    if n == 0 and t.count == 0:
        raise RuntimeError(f"{who}(): cannot reshape tensor of 0 elements into shape {list(size_from(rank, sizes))} because "
                           f"the unspecified dimension size -1 can be any value and is ambiguous")
    if n == 0 or t.count % n:
        raise RuntimeError(f"{who}(): shape '{list(size_from(rank, sizes))}' is invalid for input of size {t.count}")
    sizes[unknown] = t.count // n
    return 0


cdef inline int read_dim(object dim, int rank, str who, str argument="dim") except -1:
    return wrap_dim(as_int(dim, who, argument), rank, who)


# --- shapes ------------------------------
def view(TensorBase input not None, *shape, size=None, dtype=None):
    """The same elements with another shape (one size may be -1) or, given a dtype, their bytes read as that dtype.

    RuntimeError where the sizes do not fit, or the strides allow no view: `reshape` copies then.
    """
    cdef int64_t sizes[MAX_DIMS]
    cdef TensorBase out
    cdef int rank
    if dtype is not None or (len(shape) == 1 and isinstance(shape[0], DType)):
        return view_as_dtype(input, as_dtype(dtype if dtype is not None else shape[0], "view"))
    rank = read_sizes(shape, size, sizes, "view", "size")
    infer_size(input, rank, sizes, "view")
    out = viewed(input, rank, sizes, "ViewBackward0")
    if out is None:
        raise RuntimeError(f"view(): view size is not compatible with input tensor's size and stride: shape "
                           f"{list(input.shape)} with strides {list(input.stride())} does not read as "
                           f"{list(size_from(rank, sizes))}. Use .reshape(...) instead.")
    return out


cdef TensorBase view_as_dtype(TensorBase t, DType wanted):
    """The bytes read as another dtype; the last dimension grows or shrinks with the size of an element."""
    cdef Shape s
    cdef TensorBase out
    cdef int d, last = t.rank - 1
    cdef int64_t ratio
    if wanted.code == t.code:
        return viewed_as_itself(t)
    load(&s, t)
    if wanted.itemsize != t.width:
        if t.rank == 0:
            raise RuntimeError(f"view(): self.dim() cannot be 0 to view {dtype_of(t.code)} as {wanted} (different element sizes)")
        if t.strides[last] != 1:
            raise RuntimeError(f"view(): self.stride(-1) must be 1 to view {dtype_of(t.code)} as {wanted} (different element "
                               f"sizes), but got {t.strides[last]}")
    if wanted.itemsize < t.width:
        ratio = t.width // wanted.itemsize
        for d in range(last):
            s.strides[d] *= ratio
        s.sizes[last] *= ratio
        s.offset *= ratio
    elif wanted.itemsize > t.width:
        ratio = wanted.itemsize // t.width
        for d in range(-1, last):
            if (t.offset if d < 0 else t.strides[d]) % ratio:
                raise RuntimeError(f"view(): {'the storage offset' if d < 0 else 'self.stride(' + str(d) + ')'} must be divisible "
                                   f"by {ratio} to view {dtype_of(t.code)} as {wanted} (different element sizes), but got "
                                   f"{t.offset if d < 0 else t.strides[d]}")
        if t.sizes[last] % ratio:
            raise RuntimeError(f"view(): self.size(-1) must be divisible by {ratio} to view {dtype_of(t.code)} as {wanted} "
                               f"(different element sizes), but got {t.sizes[last]}")
        for d in range(last):
            s.strides[d] //= ratio
        s.sizes[last] //= ratio
        s.offset //= ratio
    out = view_of(t, &s)
    out.code, out.width = wanted.code, wanted.itemsize
    out.offset = s.offset
    find_contiguous(out)
    return out


cdef TensorBase viewed_as_itself(TensorBase t):
    return viewed(t, t.rank, t.sizes, "ViewBackward0")


def view_as(TensorBase input not None, TensorBase other not None):
    """`input.view(other.size())`."""
    return view(input, size=other.shape)


def reshape(TensorBase input not None, *shape_, shape=None):
    """The elements in the same order with another shape: a view where the strides allow it, else a copy.

    One size may be -1.  RuntimeError where the sizes do not fit the number of elements.
    """
    cdef int64_t sizes[MAX_DIMS]
    cdef TensorBase out
    cdef int rank = read_sizes(shape_, shape, sizes, "reshape", "shape")
    infer_size(input, rank, sizes, "reshape")
    out = viewed(input, rank, sizes, "ViewBackward0")
    return out if out is not None else copied(input, rank, sizes, "UnsafeViewBackward0")


def reshape_as(TensorBase input not None, TensorBase other not None):
    """`input.reshape(other.size())`."""
    return reshape(input, shape=other.shape)


def flatten(TensorBase input not None, start_dim=0, end_dim=-1):
    """Dimensions start_dim … end_dim made one; a 0-dim tensor gets one dimension."""
    cdef int64_t sizes[MAX_DIMS]
    cdef int first = read_dim(start_dim, input.rank, "flatten", "start_dim"), last = read_dim(end_dim, input.rank, "flatten", "end_dim")
    cdef int d, rank = 0
    if first > last:
        raise RuntimeError(f"flatten() has invalid args: start_dim cannot come after end_dim, got {start_dim} and {end_dim}")
    if input.rank == 0:
        sizes[0] = 1
        return reshaped(input, 1, sizes)
    for d in range(input.rank):
        if first < d <= last:
            sizes[rank - 1] *= input.sizes[d]
        else:
            sizes[rank] = input.sizes[d]
            rank += 1
    return reshaped(input, rank, sizes)


def ravel(TensorBase input not None):
    """One dimension: `input.reshape(-1)`, itself where it is contiguous and 1-dim already."""
    cdef int64_t n = input.count
    return reshaped(input, 1, &n)


def unflatten(TensorBase input not None, dim, sizes):
    """Dimension `dim` split into `sizes`, whose product is its size; one may be -1."""
    cdef int64_t parts[MAX_DIMS]
    cdef int64_t shape[MAX_DIMS]
    cdef int d = read_dim(dim, input.rank, "unflatten"), k, n = parse_sizes(sizes, parts, "unflatten"), unknown = -1
    cdef int64_t product = 1
    if input.rank == 0:
        raise IndexError("unflatten(): the tensor has no dimensions")
    if n == 0:
        raise RuntimeError("unflatten(): sizes must be non-empty")
    for k in range(n):
        if parts[k] == -1 and unknown < 0:
            unknown = k
        else:
            product *= parts[k]
    if unknown >= 0 and product > 0 and input.sizes[d] % product == 0:
        parts[unknown] = input.sizes[d] // product
        product = input.sizes[d]
    if product != input.sizes[d]:
        raise RuntimeError(f"unflatten(): Provided sizes {list(sizes)} don't multiply up to the size of dim {d} "
                           f"({input.sizes[d]}) in the input tensor")
    if input.rank - 1 + n > MAX_DIMS:
        raise RuntimeError(f"unflatten(): a tensor has at most {MAX_DIMS} dimensions")
    for k in range(d):
        shape[k] = input.sizes[k]
    for k in range(n):
        shape[d + k] = parts[k]
    for k in range(d + 1, input.rank):
        shape[k + n - 1] = input.sizes[k]
    return viewed(input, input.rank - 1 + n, shape, "ViewBackward0")


def squeeze(TensorBase input not None, *dims, dim=None):
    """Without the dimensions of size 1: all of them, or those given."""
    cdef Shape s
    cdef TensorBase out
    cdef int64_t given[MAX_DIMS]
    cdef bint drop[MAX_DIMS]
    cdef int d, k, n
    cdef bint every = dim is None and not dims
    for d in range(max(input.rank, 1)):
        drop[d] = every
    if not every:
        n = read_sizes(dims, dim, given, "squeeze", "dim")
        for k in range(n):
            d = wrap_dim(given[k], input.rank, "squeeze")
            if drop[d]:
                raise RuntimeError(f"squeeze(): dim {d} appears multiple times in the list of dims")
            drop[d] = True
    s.rank, s.offset = 0, input.offset
    for d in range(input.rank):
        if input.sizes[d] != 1 or not drop[d]:
            s.sizes[s.rank], s.strides[s.rank] = input.sizes[d], input.strides[d]
            s.rank += 1
    out = view_of(input, &s)
    if taped(input):
        attach(out, view_node(RESHAPE, "SqueezeBackward0" if every else "SqueezeBackward1", input, 0), 0)
    return out


def unsqueeze(TensorBase input not None, dim):
    """A new dimension of size 1 at `dim`."""
    cdef Shape s
    cdef TensorBase out
    cdef int64_t d = wrap_dim(as_int(dim, "unsqueeze", "dim"), input.rank + 1, "unsqueeze")
    load(&s, input)
    unsqueeze_cut(&s, &d)
    out = view_of(input, &s)
    if taped(input):
        attach(out, view_node(RESHAPE, "UnsqueezeBackward0", input, 0), 0)
    return out


# --- order of dimensions ------------------------------
def transpose(TensorBase input not None, dim0, dim1):
    """Dimensions dim0 and dim1 exchanged."""
    cdef int a = read_dim(dim0, input.rank, "transpose", "dim0"), b = read_dim(dim1, input.rank, "transpose", "dim1")
    return swapped(input, a, b, "TransposeBackward0")


def swapaxes(TensorBase input not None, axis0, axis1):
    """`transpose` by NumPy's name."""
    return transpose(input, axis0, axis1)


def swapdims(TensorBase input not None, dim0, dim1):
    """Another name of `transpose`."""
    return transpose(input, dim0, dim1)


def t(TensorBase input not None):
    """The transpose of a matrix; tensors of fewer dimensions are returned as they are, as a view."""
    if input.rank > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.rank}D")
    return swapped(input, 0, input.rank - 1 if input.rank else 0, "TBackward0")


def permute(TensorBase input not None, *dims_, dims=None):
    """Dimensions in another order: dimension k of the result is dimension dims[k] of the input."""
    cdef int64_t order[MAX_DIMS]
    cdef bint seen[MAX_DIMS]
    cdef int k, n = read_sizes(dims_, dims, order, "permute", "dims")
    if n != input.rank:
        raise RuntimeError(f"permute(): number of dimensions in the tensor input does not match the length of the desired "
                           f"ordering of dimensions i.e. input.dim() = {input.rank} is not equal to len(dims) = {n}")
    for k in range(n):
        seen[k] = False
    for k in range(n):
        order[k] = wrap_dim(order[k], n, "permute")
        if seen[order[k]]:
            raise RuntimeError(f"permute(): duplicate dims are not allowed, got {list(size_from(n, order))}")
        seen[order[k]] = True
    return permuted(input, order, "PermuteBackward0")


def movedim(TensorBase input not None, source, destination):
    """Dimensions `source` (an int or several) moved to `destination`; the others keep their order."""
    cdef int given[MAX_DIMS]
    cdef int goal[MAX_DIMS]
    cdef int64_t order[MAX_DIMS]
    cdef bint taken_[MAX_DIMS]
    cdef int n, m, k, d = 0
    n = read_moved(source, input.rank, given, "source")
    m = read_moved(destination, input.rank, goal, "destination")
    if n != m:
        raise RuntimeError(f"movedim(): Invalid source or destination dims: source ({source}) should contain the same number of "
                           f"dims as destination ({destination})")
    for k in range(input.rank):
        order[k], taken_[k] = -1, False
    if input.rank:
        for k in range(n):
            order[goal[k]], taken_[given[k]] = given[k], True
    for k in range(input.rank):
        if order[k] < 0:
            while taken_[d]:
                d += 1
            order[k] = d
            d += 1
    return permuted(input, order, "PermuteBackward0")


cdef int read_moved(object dims, int rank, int* out, str which) except -1:
    cdef int n = 0, k, d
    for given in (dims if PyTuple_Check(dims) or PyList_Check(dims) else (dims,)):
        d = read_dim(given, rank, "movedim", which)
        for k in range(n):
            if out[k] == d:
                raise RuntimeError(f"movedim(): repeated dim in `{which}` ({list(dims)})")
        out[n] = d
        n += 1
    return n


def moveaxis(TensorBase input not None, source, destination):
    """`movedim` by NumPy's name."""
    return movedim(input, source, destination)


def get_T(TensorBase input not None):
    """Dimensions in reverse order."""
    cdef int64_t dims[MAX_DIMS]
    cdef int d
    if input.rank != 2 and input.rank != 0:
        warnings.warn("the use of x.T on tensors of dimension other than 2 is deprecated: use x.mT for batches of matrices or "
                      "x.permute(*range(x.ndim - 1, -1, -1)) to reverse all dimensions", UserWarning, stacklevel=2)
    for d in range(input.rank):
        dims[d] = input.rank - 1 - d
    return permuted(input, dims, "PermuteBackward0")


def get_mT(TensorBase input not None):
    """The last two dimensions exchanged."""
    if input.rank == 0:
        return viewed_as_itself(input)
    if input.rank == 1:
        raise RuntimeError(f"tensor.mT is only supported on matrices or batches of matrices. Got {input.rank}-D tensor.")
    return swapped(input, input.rank - 2, input.rank - 1, "TransposeBackward0")


cdef object conjugated(TensorBase t):
    return (<object>t).conj() if CATEGORY[t.code] == 3 else t


def get_H(TensorBase input not None):
    """The conjugate transpose of a matrix."""
    if input.rank != 2 and input.rank != 0:
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {input.rank}-D tensor."
                           + (" For batches of matrices, consider using tensor.mH" if input.rank > 2 else ""))
    return conjugated(swapped(input, 0, 1 if input.rank else 0, "TransposeBackward0"))


def get_mH(TensorBase input not None):
    """The last two dimensions exchanged, and complex numbers conjugated."""
    if input.rank == 0:
        return conjugated(viewed_as_itself(input))
    if input.rank == 1:
        raise RuntimeError(f"tensor.mH is only supported on matrices or batches of matrices. Got {input.rank}-D tensor.")
    return conjugated(swapped(input, input.rank - 2, input.rank - 1, "TransposeBackward0"))


def adjoint(TensorBase input not None):
    """The last two dimensions exchanged, and complex numbers conjugated; RuntimeError for a vector."""
    if input.rank < 2:
        raise RuntimeError(f"adjoint() is only supported on matrices or batches of matrices. Got {input.rank}-D tensor.")
    return get_mH(input)


# --- repetition ------------------------------
def expand(TensorBase input not None, *sizes, size=None, implicit=False):
    """Dimensions of size 1 repeated to the given sizes without a copy; -1 keeps a size, new dimensions come first."""
    cdef int64_t wanted[MAX_DIMS]
    cdef int rank = read_sizes(sizes, size, wanted, "expand", "size")
    return expanded(input, rank, wanted)


def expand_as(TensorBase input not None, TensorBase other not None):
    """`input.expand(other.size())`."""
    return expanded(input, other.rank, other.sizes)


def broadcast_to(TensorBase input not None, size):
    """`input.expand(size)`."""
    cdef int64_t wanted[MAX_DIMS]
    return expanded(input, parse_sizes(size, wanted, "broadcast_to"), wanted)


# --- parts ------------------------------
def select(TensorBase input not None, dim, index):
    """The part at position `index` of dimension `dim`, which the result lacks."""
    cdef int64_t a[2]
    if input.rank == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    a[0], a[1] = read_dim(dim, input.rank, "select"), as_int(index, "select", "index")
    if a[1] < -input.sizes[a[0]] or a[1] >= input.sizes[a[0]]:
        raise IndexError(f"select(): index {a[1]} out of range for tensor of size {list(input.shape)} at dimension {a[0]}")
    if a[1] < 0:
        a[1] += input.sizes[a[0]]
    return cut(input, select_cut, a, "SelectBackward0")


def narrow(TensorBase input not None, dim, start, length):
    """Positions start … start + length - 1 of dimension `dim`; a negative start counts from the end."""
    cdef int64_t a[4]
    cdef int64_t size
    if input.rank == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    a[3] = as_int(length, "narrow", "length")
    if a[3] < 0:
        raise RuntimeError(f"narrow(): length must be non-negative, got {a[3]}")
    a[0], a[1], a[2] = read_dim(dim, input.rank, "narrow"), as_int(start, "narrow", "start"), 1
    size = input.sizes[a[0]]
    if a[1] < -size or a[1] > size:
        raise IndexError(f"narrow(): start out of range (expected to be in range of [{-size}, {size}], but got {a[1]})")
    if a[1] < 0:
        a[1] += size
    if a[1] + a[3] > size:
        raise RuntimeError(f"narrow(): start ({a[1]}) + length ({a[3]}) exceeds dimension size ({size}).")
    return cut(input, slice_cut, a, "SliceBackward0")


def diagonal(TensorBase input not None, offset=0, dim1=0, dim2=1):
    """The diagonal of the matrices along dim1 and dim2, as a new last dimension; `offset` > 0 lies above the main one."""
    cdef int64_t a[4]
    cdef int64_t rows, columns
    a[0] = as_int(offset, "diagonal", "offset")
    a[1], a[2] = read_dim(dim1, input.rank, "diagonal", "dim1"), read_dim(dim2, input.rank, "diagonal", "dim2")
    if a[1] == a[2]:
        raise RuntimeError(f"diagonal(): diagonal dimensions cannot be identical {dim1}, {dim2}")
    rows, columns = input.sizes[a[1]], input.sizes[a[2]]
    a[3] = max(min(rows, columns - a[0]) if a[0] >= 0 else min(rows + a[0], columns), 0)
    return cut(input, diagonal_cut, a, "DiagonalBackward0")


def unfold(TensorBase input not None, dimension, size, step):
    """Windows of `size` elements, `step` apart, along a dimension; the last dimension of the result runs inside a window."""
    cdef int64_t a[3]
    cdef int64_t length
    a[0] = read_dim(dimension, input.rank, "unfold", "dimension")
    a[1], a[2] = as_int(size, "unfold", "size"), as_int(step, "unfold", "step")
    length = input.sizes[a[0]] if input.rank else 1
    if a[1] < 0:
        raise RuntimeError(f"unfold(): size is {a[1]} but must be >= 0")
    if a[1] > length:
        raise RuntimeError(f"unfold(): maximum size for tensor at dimension {a[0]} is {length} but size is {a[1]}")
    if a[2] <= 0:
        raise RuntimeError(f"unfold(): step is {a[2]} but must be > 0")
    return cut(input, unfold_cut, a, "UnfoldBackward0")


cdef int read_geometry(TensorBase t, object size, object stride, object offset, Shape* s, str who) except -1:
    """Sizes, strides and offset into t's storage, inside of it."""
    cdef int d
    cdef int64_t length = <int64_t>t.storage.length
    s.rank = parse_sizes(size, s.sizes, who)
    if parse_sizes(stride, s.strides, who) != s.rank:
        raise RuntimeError(f"{who}(): mismatch in length of strides and shape: got {list(size)} and {list(stride)}")
    s.offset = t.offset if offset is None else as_int(offset, who, "storage_offset")
    for d in range(s.rank):
        if s.sizes[d] < 0:
            raise RuntimeError(f"{who}(): negative sizes are not allowed, got {list(size_from(s.rank, s.sizes))}")
        if s.strides[d] < 0:
            raise RuntimeError(f"{who}(): Negative strides are not supported at the moment, got strides: "
                               f"{list(size_from(s.rank, s.strides))}")
    if s.offset < 0:
        raise RuntimeError(f"{who}(): Tensor: invalid storage offset {s.offset}")
    if out_of_bounds(s, length // t.width):
        raise RuntimeError(f"{who}(): setStorage: sizes {list(size_from(s.rank, s.sizes))}, strides "
                           f"{list(size_from(s.rank, s.strides))}, storage offset {s.offset}, and itemsize {t.width} are out of "
                           f"bounds for storage of size {length}")
    return 0


cdef bint out_of_bounds(Shape* s, int64_t room) noexcept:
    """Whether an element lies behind the storage's end, by arithmetic that cannot overflow."""
    cdef int64_t last = s.offset
    cdef int d
    for d in range(s.rank):
        if s.sizes[d] == 0:
            return False
    for d in range(s.rank):
        if s.sizes[d] > 1 and s.strides[d] > 0:
            if s.strides[d] > room or s.sizes[d] - 1 > room // s.strides[d]:
                return True
            last += (s.sizes[d] - 1) * s.strides[d]
            if last >= room:
                return True
    return last >= room


def as_strided(TensorBase input not None, size, stride, storage_offset=None):
    """Any view of the storage: element `i` lies at storage_offset + i · stride, counted in elements.

    RuntimeError for negative sizes or strides and for places outside the storage.
    """
    cdef Shape s
    cdef TensorBase out
    read_geometry(input, size, stride, storage_offset, &s, "as_strided")
    out = view_of(input, &s)
    if taped(input):
        attach(out, strided_node(input, out), 0)
    return out


def detach(TensorBase input not None):
    """The same elements without history; writes to it are seen by the tape as writes to the input."""
    return alias(input, input.rank, input.sizes, input.strides, input.offset)


# --- several parts at once ------------------------------
@cython.no_gc
cdef class SplitNode(Node):
    """A tensor taken apart along a dimension; the pieces' gradients are put together in one pass."""

    cdef str label
    cdef int dim, code
    cdef bint drop_dim
    cdef object sizes
    cdef list lengths

    def name(self) -> str:
        return self.label

    cdef list run(self, list grads):
        for g in grads:
            if g is not None:
                return [joined(grads, self)]
        return [None]


cdef TensorBase joined(list grads, SplitNode node):
    cdef int64_t sizes[MAX_DIMS]
    cdef int rank = parse_sizes(node.sizes, sizes, "split"), k
    cdef TensorBase out = new_tensor(rank, sizes, node.code), g
    cdef Shape s
    cdef int64_t a[4]
    cdef bint recorded = False
    if None in grads:
        memset(out.storage.data, 0, out.count * out.width)
    a[0], a[1], a[2] = node.dim, 0, 1
    for k in range(len(grads)):
        a[3] = node.lengths[k]
        g = <TensorBase>grads[k]
        if g is not None:
            recorded = recorded or taped(g)
            load_compact(&s, out)
            if node.drop_dim:
                select_cut(&s, a)
            else:
                slice_cut(&s, a)
            copy_strided(out.storage.data + s.offset * out.width, s.strides, pointer(g), g.strides, g.rank, g.sizes, out.width)
        a[1] += a[3]
    if recorded:
        back = unbind_back if node.drop_dim else split_back
        record("CatBackward0", back, tuple(grads), out, (), (node.lengths, node.dim))
    return out


def split_back(grad, list lengths, int dim):
    """Derivative of joining pieces: the pieces of the gradient."""
    return split_with_sizes(grad, lengths, dim)


def unbind_back(grad, list lengths, int dim):
    return unbind(grad, dim)


cdef tuple take_apart(TensorBase t, int dim, list lengths, bint drop_dim, str label):
    """Pieces of these lengths one after another; with drop_dim all have length 1 and lose the dimension."""
    cdef Shape s
    cdef int64_t a[4]
    cdef list pieces = []
    cdef TensorBase piece
    cdef SplitNode node
    cdef int k
    a[0], a[1], a[2] = dim, 0, 1
    for k in range(len(lengths)):
        a[3] = lengths[k]
        load(&s, t)
        if drop_dim:
            select_cut(&s, a)
        else:
            slice_cut(&s, a)
        pieces.append(view_of(t, &s))
        a[1] += a[3]
    if pieces and taped(t):
        node = SplitNode.__new__(SplitNode)
        node.label, node.dim, node.drop_dim, node.lengths = label, dim, drop_dim, lengths
        node.sizes, node.code, node.outputs = size_from(t.rank, t.sizes), t.code, len(pieces)
        node.set_edges(1)
        node.connect(0, t)
        for k in range(len(pieces)):
            attach(<TensorBase>pieces[k], node, k)
    return tuple(pieces)


def split(TensorBase tensor not None, split_size_or_sections=None, dim=0, *, split_size=None):
    """Pieces of `split_size_or_sections` elements (the last may be shorter), or of the lengths in that list."""
    cdef object wanted = split_size if split_size_or_sections is None else split_size_or_sections
    cdef int64_t size, length
    cdef int d
    if PyTuple_Check(wanted) or PyList_Check(wanted):
        return split_with_sizes(tensor, wanted, dim)
    size = as_int(wanted, "split", "split_size")
    if tensor.rank == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    if size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    d = read_dim(dim, tensor.rank, "split")
    length = tensor.sizes[d]
    if size == 0 and length > 0:
        raise RuntimeError(f"split(): split_size can only be 0 if dimension size is 0, but got dimension size of {length}")
    if length == 0:
        return take_apart(tensor, d, [0], False, "SplitBackward0")
    return take_apart(tensor, d, [min(size, length - k) for k in range(0, length, size)], False, "SplitBackward0")


def split_with_sizes(TensorBase input not None, split_sizes, dim=0):
    """Pieces of the given lengths, whose sum is the size of the dimension."""
    cdef int d
    cdef list lengths = [as_int(n, "split_with_sizes", "split_sizes") for n in split_sizes]
    if input.rank == 0:
        raise RuntimeError("split_with_sizes(): split expects at least a 1-dimensional tensor")
    d = read_dim(dim, input.rank, "split_with_sizes")
    for n in lengths:
        if n < 0:
            raise RuntimeError(f"split_with_sizes expects split_sizes have only non-negative entries, but got "
                               f"split_sizes={lengths}")
    if sum(lengths) != input.sizes[d]:
        raise RuntimeError(f"split_with_sizes expects split_sizes to sum exactly to {input.sizes[d]} (input tensor's size at "
                           f"dimension {d}), but got split_sizes={lengths}")
    return take_apart(input, d, lengths, False, "SplitWithSizesBackward0")


def chunk(TensorBase input not None, chunks, dim=0):
    """At most `chunks` pieces of equal length; the last may be shorter."""
    cdef int64_t n = as_int(chunks, "chunk", "chunks"), size
    cdef int d
    if input.rank == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if n <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {n}")
    d = read_dim(dim, input.rank, "chunk")
    if input.sizes[d] == 0:
        return take_apart(input, d, [0] * n, False, "SplitBackward0")
    return split(input, (input.sizes[d] + n - 1) // n, d)


def tensor_split(TensorBase input not None, indices_or_sections=None, dim=0, *, sections=None, indices=None):
    """That many pieces of nearly equal length, or the pieces between the given positions."""
    cdef object wanted = indices_or_sections
    cdef int64_t n, length, start, stop
    cdef int d
    cdef list lengths = []
    if wanted is None:
        wanted = sections if indices is None else indices
    if input.rank == 0:
        raise RuntimeError("tensor_split(): expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    d = read_dim(dim, input.rank, "tensor_split")
    length = input.sizes[d]
    if isinstance(wanted, TensorBase):
        wanted = (<TensorBase>wanted).tolist()
    if PyTuple_Check(wanted) or PyList_Check(wanted):
        return pieces_between(input, d, [as_int(i, "tensor_split", "indices") for i in wanted])
    n = as_int(wanted, "tensor_split", "sections")
    if n <= 0:
        raise RuntimeError(f"tensor_split(): number of sections must be larger than 0, got {n}")
    return take_apart(input, d, [length // n + (k < length % n) for k in range(n)], False, "SplitBackward0")


cdef tuple pieces_between(TensorBase t, int dim, list places):
    """Slices [0, places[0]), [places[0], places[1]) …, as Python's slices read them; they may overlap."""
    cdef int64_t a[4]
    cdef list found = []
    before = 0
    for place in places + [None]:
        start, stop, _ = slice(before, place).indices(t.sizes[dim])
        a[0], a[1], a[2], a[3] = dim, start, 1, max(stop - start, 0)
        found.append(cut(t, slice_cut, a, "SliceBackward0"))
        before = place
    return tuple(found)


def unbind(TensorBase input not None, dim=0):
    """The parts along a dimension, each without it."""
    cdef int d
    if input.rank == 0:
        raise IndexError(f"unbind(): Dimension specified as {dim} but tensor has no dimensions")
    d = read_dim(dim, input.rank, "unbind")
    return take_apart(input, d, [1] * input.sizes[d], True, "UnbindBackward0")


cdef tuple split_along(TensorBase t, object wanted, int dim, str who):
    """`tensor_split` that insists on pieces of equal length."""
    if not (PyTuple_Check(wanted) or PyList_Check(wanted)):
        n = as_int(wanted, who, "sections")
        if n <= 0 or t.sizes[dim] % n:
            raise RuntimeError(f"{who}(): attempted to split along dimension {dim}, but the size of the dimension {t.sizes[dim]} is "
                               f"not divisible by the split_size {n}!")
    return tensor_split(t, wanted, dim)


def hsplit(TensorBase input not None, indices_or_sections):
    """`tensor_split` along columns: dimension 1, or 0 of a vector; sections must be of equal length."""
    if input.rank < 1:
        raise RuntimeError("hsplit(): requires a tensor with at least 1 dimension, but got a tensor with 0 dimensions!")
    return split_along(input, indices_or_sections, 0 if input.rank == 1 else 1, "hsplit")


def vsplit(TensorBase input not None, indices_or_sections):
    """`tensor_split` along rows, dimension 0 of at least 2; sections must be of equal length."""
    if input.rank < 2:
        raise RuntimeError(f"vsplit(): requires a tensor with at least 2 dimension, but got a tensor with {input.rank} dimensions!")
    return split_along(input, indices_or_sections, 0, "vsplit")


def dsplit(TensorBase input not None, indices_or_sections):
    """`tensor_split` along depth, dimension 2 of at least 3; sections must be of equal length."""
    if input.rank < 3:
        raise RuntimeError(f"dsplit(): requires a tensor with at least 3 dimension, but got a tensor with {input.rank} dimensions!")
    return split_along(input, indices_or_sections, 2, "dsplit")


cdef TensorBase padded_view(TensorBase t, int rank, int behind):
    """Dimensions of size 1 in front until there are `rank`, of which the last `behind` go to the end."""
    cdef int64_t sizes[MAX_DIMS]
    cdef int d, new = rank - t.rank, front
    if new <= 0:
        return t
    front = new - min(new, behind)
    for d in range(rank):
        sizes[d] = t.sizes[d - front] if front <= d < front + t.rank else 1
    return viewed(t, rank, sizes, "ViewBackward0")


cdef object at_least(tuple tensors, int rank, int behind, str who):
    cdef list found = []
    cdef bint several = len(tensors) != 1 or PyTuple_Check(tensors[0]) or PyList_Check(tensors[0])
    for x in (tensors[0] if several and len(tensors) == 1 else tensors):
        if not isinstance(x, TensorBase):
            raise TypeError(f"{who}(): argument 'tensors' must be Tensors, not {type(x).__name__}")
        found.append(padded_view(<TensorBase>x, rank, behind))
    return tuple(found) if several else found[0]


def atleast_1d(*tensors):
    """0-dim tensors as vectors of one element; several tensors give a tuple."""
    return at_least(tensors, 1, 0, "atleast_1d")


def atleast_2d(*tensors):
    """Tensors of fewer than two dimensions with new ones in front; several tensors give a tuple."""
    return at_least(tensors, 2, 0, "atleast_2d")


def atleast_3d(*tensors):
    """Tensors of fewer than three dimensions with new ones: behind a matrix, on both sides of a vector."""
    return at_least(tensors, 3, 1, "atleast_3d")


# --- in place ------------------------------
cdef TensorBase become(TensorBase input, TensorBase made):
    """input takes over the geometry and the history of a view of it."""
    (<object>input)._take(made)
    wrote(input)
    if made.fn is not None:
        attach(input, <Node>made.fn, 0)
    return input


cdef int check(TensorBase t, str who) except -1:
    if grad_enabled():
        check_in_place(t, who)
    return 0


def squeeze_(TensorBase input not None, *dims, dim=None):
    """`squeeze` in place: the tensor itself gets the new shape."""
    check(input, "squeeze_")
    return become(input, squeeze(input, *dims, dim=dim))


def unsqueeze_(TensorBase input not None, dim):
    """`unsqueeze` in place: the tensor itself gets the new shape."""
    check(input, "unsqueeze_")
    return become(input, unsqueeze(input, dim))


def t_(TensorBase input not None):
    """`t` in place: the tensor itself gets the new shape."""
    check(input, "t_")
    return become(input, t(input))


def transpose_(TensorBase input not None, dim0, dim1):
    """`transpose` in place: the tensor itself gets the new shape."""
    check(input, "transpose_")
    return become(input, transpose(input, dim0, dim1))


def swapaxes_(TensorBase input not None, axis0, axis1):
    """`swapaxes` in place."""
    return transpose_(input, axis0, axis1)


def swapdims_(TensorBase input not None, dim0, dim1):
    """`swapdims` in place."""
    return transpose_(input, dim0, dim1)


def as_strided_(TensorBase input not None, size, stride, storage_offset=None):
    """`as_strided` in place: the tensor itself gets the new shape."""
    check(input, "as_strided_")
    return become(input, as_strided(input, size, stride, storage_offset))


def detach_(TensorBase input not None):
    """Cut the tensor off from its history; RuntimeError for a view."""
    if input.base is not None:
        raise RuntimeError("detach_(): Can't detach views in-place. Use detach() instead.")
    input.fn, input.requires, input.output_number = None, False, 0
    return input


def resize_(TensorBase input not None, *sizes, size=None, memory_format=None):
    """Give the tensor another shape, contiguous, over the memory it has or, where that is too small, over more of it.

    Elements keep their places; new ones are not set.  Where memory grows it is new memory: tensors that shared the old
    keep that.  RuntimeError for tensors that require a gradient and for negative sizes.
    """
    cdef Shape s
    cdef TensorBase made
    cdef Storage larger
    cdef int d
    cdef int64_t n = 1, needed
    if wants_grad(input):
        raise RuntimeError("resize_(): cannot resize variables that require grad")
    s.rank = read_sizes(sizes, size, s.sizes, "resize_", "size") if sizes or size is not None else 0
    for d in range(s.rank):
        if s.sizes[d] < 0:
            raise RuntimeError(f"resize_(): negative sizes are not allowed, got {list(size_from(s.rank, s.sizes))}")
        if s.sizes[d] > 0 and n > (<int64_t>1 << 58) // s.sizes[d]:
            raise RuntimeError(f"resize_(): numel: integer multiplication overflow for {list(size_from(s.rank, s.sizes))}")
        n *= s.sizes[d]
    s.offset = input.offset
    compact_strides(s.rank, s.sizes, s.strides)
    needed = (input.offset + n) * input.width
    if n and needed > <int64_t>input.storage.length:
        larger = new_storage(<size_t>needed)
        memcpy(larger.data, input.storage.data, input.storage.length)
        larger.version = input.storage.version
        input.storage = larger
    made = alias(input, s.rank, s.sizes, s.strides, s.offset)
    (<object>input)._take(made)
    return input


def resize_as_(TensorBase input not None, TensorBase the_template not None, *, memory_format=None):
    """`resize_` to the shape of another tensor."""
    return resize_(input, size=the_template.shape)


def set_(TensorBase input not None, source=None, storage_offset=0, size=None, stride=None):
    """Let the tensor lie over another storage (or another tensor's); without arguments it becomes empty.

    RuntimeError where sizes and strides reach out of the storage, or the tensor requires a gradient.
    """
    cdef Shape s
    cdef TensorBase made
    cdef int64_t none = 0
    if grad_enabled():
        check_in_place(input, "set_")
    if isinstance(source, TensorBase) and size is None:
        made = <TensorBase>source
        if made.code != input.code:
            raise RuntimeError(f"set_(): the source must have dtype {dtype_of(input.code)}, got {dtype_of(made.code)}")
        return (<object>input)._take(made)
    made = new_tensor(1, &none, input.code)
    if source is not None:
        if isinstance(source, TensorBase):
            source = (<TensorBase>source).storage
        if not isinstance(source, Storage):
            raise TypeError(f"set_(): argument 'source' must be Tensor or UntypedStorage, not {type(source).__name__}")
        made.storage = <Storage>source
        if size is None:
            size = (made.storage.length // input.width,)
        if stride is None:
            s.rank = parse_sizes(size, s.sizes, "set_")
            compact_strides(s.rank, s.sizes, s.strides)
            stride = tuple(size_from(s.rank, s.strides))
        read_geometry(made, size, stride, storage_offset, &s, "set_")
        made = alias(made, s.rank, s.sizes, s.strides, s.offset)
    return (<object>input)._take(made)


def is_contiguous(TensorBase input not None, memory_format=None) -> bool:
    """Whether the elements lie in row-major order without gaps; with `channels_last` (or `channels_last_3d`), whether they
    lie in the order batch, height, width, channel."""
    cdef int64_t n = 1
    cdef int k, d
    cdef str wanted = "" if memory_format is None else str(memory_format).rpartition(".")[2]
    if wanted in ("", "contiguous_format", "preserve_format"):
        return input.contiguous
    if input.rank != (5 if wanted == "channels_last_3d" else 4):
        return False
    for k in range(input.rank):  # channels, then the others from the last to the first
        d = 1 if k == 0 else input.rank - k if k < input.rank - 1 else 0
        if input.sizes[d] != 1:
            if input.strides[d] != n:
                return input.count == 0
            n *= input.sizes[d]
    return True
