# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Views on the tape: tensors over another tensor's storage, and the way of gradients back through them.

Whatever the view, its elements lie at places `offset + index · strides` of its source.  So there are few kinds of
history: a gradient is reshaped, permuted, summed (after expand), or put in its place among zeros; the last two kinds are
the adjoints of each other, which makes derivatives of any order come out of the same code.
"""
from libc.stdlib cimport malloc, free
from libc.string cimport memcpy, memset
from libc.stdint cimport int64_t
from ..base.dtypes cimport F16, BF16, CATEGORY, dtype_of, is_stored, size_from
from ..base.tensor cimport (
    MAX_DIMS, ON_TAPE, OP_ADD, OP_DIV, OP_EQ, UNRECORDED, TensorBase, alias, runtime, new_tensor_on, operator_for, pointer,
)
from ..base.callbacks import callbacks
from ..tape.modes cimport REVERSE, grad_enabled, set_grad, wants_grad
from ..tape.nodes cimport Node, check_swapped
from ..tape.history cimport attach
from ..tape.inplace cimport check_refresh, part_of
from ..call.function import FunctionOp
from ..call.kernels cimport device_launcher
from ..call.pointwise cimport sum_to, wider
from .geometry cimport Shape, compact_strides, copy_strided, cut_t, load, load_compact, overlaps, reach_of
cimport cython

cdef enum: ALONE_FROM = 1 << 16    # elements from which a copy lets other threads of Python run

cdef enum:                     # how the gradient of a view becomes that of its source
    RESHAPE, PERMUTE, EXPAND
    PLACE                      # put it in its place among zeros
    TAKE                       # the adjoint of PLACE: take the view of it
    STRIDED                    # as_strided of a tensor with gaps: place it in a flat storage, take the source from there


# --- elements ------------------------------
cdef int clear(TensorBase out) except -1:
    """Zeros in a new tensor without gaps."""
    cdef char pattern[16]
    memset(pattern, 0, 16)
    if out.storage.on is not None:
        return device_launcher.fill(out, pattern)
    memset(out.storage.data, 0, out.count * out.width)
    return 0


cdef int put(TensorBase out, int64_t offset, const int64_t* strides, TensorBase g) except -1:
    """Copy g to the places of out that start at `offset` elements from its first and have those strides."""
    cdef char* to
    cdef const char* source
    if out.storage.on is not None:
        return device_launcher.copy(alias(out, g.rank, g.sizes, strides, out.offset + offset), g)
    to, source = pointer(out) + offset * out.width, pointer(g)
    if g.count < ALONE_FROM:
        copy_strided(to, strides, source, g.strides, g.rank, g.sizes, g.width)
    else:
        with nogil:
            copy_strided(to, strides, source, g.strides, g.rank, g.sizes, g.width)
    return 0


# --- the tape's side ------------------------------
cdef bint is_tracked(TensorBase t):
    """Whether an operation on t is to be recorded now."""
    return grad_enabled() and wants_grad(t) and CATEGORY[t.code] >= 2


@cython.no_gc
@cython.binding(False)
cdef class GeometryNode(Node):
    """A node whose gradients follow from those that arrive and from shapes alone; it is shown as one operation."""

    cdef list run(self, list grads):
        return list(through_op(self, *grads)) if runtime.interceptors else self.through(grads)

    cdef list through(self, list grads):
        raise NotImplementedError(self.name())

    def described(self) -> tuple:
        """What happens to a gradient, for those that do it by operations: a word, and the sizes and places that it takes."""
        raise NotImplementedError(self.name())


def gradient_through(GeometryNode node, *grads) -> tuple:
    """The gradients of a view's or a join's inputs from those of its results."""
    return tuple(node.through(list(grads)))


through_op = FunctionOp(gradient_through, owns=False)


@cython.no_gc
@cython.binding(False)
cdef class ViewNode(GeometryNode):
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
    cdef int64_t* buffer

    def name(self) -> str:
        return self.label

    cdef list through(self, list grads):
        cdef TensorBase g = <TensorBase>grads[0], result
        if g is None:
            return [None]
        if self.kind == RESHAPE:
            result = reshaped(g, self.source_rank, self.source_sizes)
        elif self.kind == PERMUTE:
            result = permuted(g, self.sizes, "PermuteBackward0")
        elif self.kind == EXPAND:
            result = <TensorBase>sum_to(g, size_from(self.source_rank, self.source_sizes))
        elif self.kind == PLACE:
            result = placed(g, self)
        elif self.kind == TAKE:
            result = taken(g, self.source_rank, self.source_sizes, self.strides, self.offset)
        else:
            result = through_storage(g, self)
        if result is not g and not grad_enabled():
            result.base = None  # nobody else sees it: a leaf may take over its memory
        return [result]

    def described(self) -> tuple:
        """The kind of view, the source's sizes, and for all but "reshape" and "expand" sizes (or the permutation back), strides, offset."""
        cdef int d
        source = tuple([self.source_sizes[d] for d in range(self.source_rank)])
        return (
            ("reshape", "permute", "expand", "place", "take", "strided")[self.kind], source, tuple([self.sizes[d] for d in range(self.rank)]),
            tuple([self.strides[d] for d in range(self.rank)]), self.offset)

    cdef dict saved_places(self):
        return {"self_sym_sizes": 0} if self.kind in (RESHAPE, EXPAND, PLACE) else {}

    cdef object saved_value(self, str name, int place):
        return tuple([self.source_sizes[d] for d in range(self.source_rank)])

    def __dealloc__(self):
        if self.buffer != NULL and self.buffer != self.few:
            free(self.buffer)


cdef ViewNode view_node(int kind, str label, TensorBase source, int rank):
    """A node with room for the source's sizes, and for `rank` sizes and strides to be filled in."""
    cdef ViewNode node = ViewNode.__new__(ViewNode)
    cdef int total = source.rank * (2 if kind == STRIDED else 1) + 2 * rank
    node.kind, node.label, node.source_rank, node.rank = kind, label, source.rank, rank
    node.buffer = node.few
    if total > 15:
        node.buffer = <int64_t*>malloc(total * sizeof(int64_t))
        if node.buffer == NULL:
            raise MemoryError
    node.source_sizes = node.buffer
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
    cdef int k
    s.rank, s.offset = g.rank, offset
    memcpy(s.sizes, g.sizes, g.rank * sizeof(int64_t))
    memcpy(s.strides, strides, g.rank * sizeof(int64_t))
    cdef bint adds = overlaps(&s)
    if adds and (g.code == F16 or g.code == BF16 or is_stored(g.code)):  # sums of halves are made in float32
        kept = dtype_of(g.code)
        return <TensorBase>put_in_place(<TensorBase>(<object>g).to(dtype_of(wider(g.code))), rank, sizes, strides, offset).to(kept)
    out = new_tensor_on(g.storage.on, rank, sizes, g.code)
    clear(out)
    if g.count:
        if adds:
            callbacks["device.add_strided"](out, g, [strides[k] for k in range(g.rank)], offset)
        else:
            put(out, offset, strides, g)
    if is_tracked(g):
        node = place_node(TAKE, "PlaceBackward0", g, &s)
        attach(out, node, 0)
    return out


cdef TensorBase taken(TensorBase g, int rank, const int64_t* sizes, const int64_t* strides, int64_t offset):
    """The view of g, which is made contiguous first, with that shape."""
    cdef TensorBase whole = compact(g), out
    cdef Shape s
    s.rank, s.offset = rank, whole.offset + offset
    memcpy(s.sizes, sizes, rank * sizeof(int64_t))
    memcpy(s.strides, strides, rank * sizeof(int64_t))
    out = view_of(whole, &s)
    if is_tracked(whole):
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
        counts = runtime.binary(operator_for(OP_ADD), counts, runtime.binary(operator_for(OP_EQ), counts, 0))
        flat = runtime.binary(operator_for(OP_DIV), flat, counts)
    return taken(flat, source.rank, source.sizes, source.strides, source.offset - low)


cdef TensorBase view_of(TensorBase source, Shape* s):
    """A view, not recorded yet."""
    cdef TensorBase t = alias(source, s.rank, s.sizes, s.strides, s.offset)
    t.base = source.base if source.base is not None else source
    t.fn_version = source.storage.version
    t.made = source.made
    if not grad_enabled() and t.made == ON_TAPE:
        t.made = UNRECORDED
    return t


cdef TensorBase cut(TensorBase t, cut_t how, const int64_t* arguments, str label):
    """A view of a part of t (or of parts that overlap)."""
    cdef Shape s
    cdef TensorBase out
    load(&s, t)
    how(&s, arguments)
    out = view_of(t, &s)
    if is_tracked(t):
        if t.contiguous:
            s.offset -= t.offset
        else:  # the gradient is contiguous: where in it does the view lie?
            load_compact(&s, t)
            how(&s, arguments)
        attach(out, place_node(PLACE, label, t, &s), 0)
    return out


cdef TensorBase copy_as(TensorBase t, int rank, const int64_t* sizes, str label):
    """A contiguous copy, read as those sizes."""
    cdef TensorBase out = new_tensor_on(t.storage.on, rank, sizes, t.code)
    cdef int64_t strides[MAX_DIMS]
    compact_strides(t.rank, t.sizes, strides)
    if t.storage.on is not None:
        put(out, 0, strides, t)
    else:
        with nogil:
            copy_strided(out.storage.data, strides, pointer(t), t.strides, t.rank, t.sizes, t.width)
    if is_tracked(t):
        attach(out, view_node(RESHAPE, label, t, 0), 0)
    return out


cdef TensorBase compact(TensorBase t):
    """t itself where it is contiguous, else a contiguous copy."""
    return t if t.contiguous else copy_as(t, t.rank, t.sizes, "CloneBackward0")


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
    s.rank, s.offset = rank, t.offset
    if not fit_strides(t, rank, sizes, s.strides):
        return None
    memcpy(s.sizes, sizes, rank * sizeof(int64_t))
    return same_elements(t, &s, label)


cdef TensorBase same_elements(TensorBase t, Shape* s, str label):
    """A view of all elements in their order."""
    cdef TensorBase out = view_of(t, s)
    if is_tracked(t):
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
    return out if out is not None else copy_as(t, rank, sizes, "UnsafeViewBackward0")


cdef TensorBase permuted(TensorBase t, const int64_t* dims, str label):
    cdef Shape s
    cdef TensorBase out
    cdef ViewNode node
    cdef int d
    s.rank, s.offset = t.rank, t.offset
    for d in range(t.rank):
        s.sizes[d], s.strides[d] = t.sizes[dims[d]], t.strides[dims[d]]
    out = view_of(t, &s)
    if is_tracked(t):
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


def expand_gradient(TensorBase value not None, sizes, tuple dims, bint keepdim) -> TensorBase:
    """The result of a reduction over `dims` of a tensor of those sizes, repeated along them: a view."""
    cdef Shape s
    cdef int d, k = 0
    if is_tracked(value) and not keepdim and len(sizes):
        value = (<object>value).reshape([1 if place in dims else n for place, n in enumerate(sizes)])
        keepdim = True
    s.rank, s.offset = len(sizes), value.offset
    for d in range(s.rank):
        s.sizes[d], s.strides[d] = sizes[d], 0
        if d not in dims:
            s.strides[d] = value.strides[k]
            k += 1
        elif keepdim:
            k += 1
    if is_tracked(value):
        return expanded(value, s.rank, s.sizes)
    return view_of(value, &s)


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
    if is_tracked(t):
        attach(out, view_node(EXPAND, "ExpandBackward0", t, 0), 0)
    return out


# --- a view's history after its base was written ------------------------------
cdef object refresh(TensorBase t):
    """The base has new elements: the view's history starts from the base's anew."""
    cdef TensorBase base = t.base, again
    cdef int modes = grad_enabled()
    check_swapped(t)
    if wants_grad(base) and CATEGORY[t.code] >= 2:
        if t.made != ON_TAPE:
            if modes:
                check_refresh(t)
            return t.fn
        if t.code == base.code:
            attach(t, strided_node(base, t), 0)
        elif CATEGORY[t.code] + CATEGORY[base.code] == 5:  # the real numbers of complex ones, or the other way round
            set_grad(modes | REVERSE)
            try:
                again = as_written(base, t)
            finally:
                set_grad(modes)
            attach(t, <Node>again.fn, again.output_number)
    t.fn_version = t.storage.version
    return t.fn


cdef TensorBase as_written(TensorBase base, TensorBase t):
    """t made anew from its base, of another dtype."""
    return part_of(base, t.code, size_from(t.rank, t.sizes), size_from(t.rank, t.strides), t.offset)


cdef TensorBase strided(TensorBase t, Shape* s):
    """Any view of t's storage."""
    cdef TensorBase out = view_of(t, s)
    if is_tracked(t):
        attach(out, strided_node(t, out), 0)
    return out


cdef ViewNode strided_node(TensorBase source, TensorBase view):
    cdef Shape s
    cdef int64_t offset
    load(&s, view)
    if source.contiguous and s.offset >= source.offset and reach_of(&s) <= source.offset + source.count:
        s.offset -= source.offset
        return place_node(PLACE, "AsStridedBackward0", source, &s)
    return place_node(STRIDED, "AsStridedBackward0", source, &s)


runtime.grad_fn = refresh
