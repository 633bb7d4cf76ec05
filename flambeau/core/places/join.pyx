# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Joining tensors along a dimension: `cat`, and `stack`, which makes the dimension.

Both see the result as `outer` lines, in each of which every tensor has a run of bytes.  Tensors in one piece are
copied run by run, large results in shares for the threads; tensors with other strides take the copy that `views` has.
"""
from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from cpython.object cimport PyObject
from ..base.dtypes cimport CATEGORY, dtype_of, promoted, size_from
from ..base.tensor cimport TensorBase, MAX_DIMS, alias, as_int, new_tensor_on, new_strided_on, pointer, wrap_dim, bump_version
from ..tape.modes cimport grad_enabled, wants_grad
from ..tape.nodes cimport Node
from ..tape.history cimport attach
from ..views.geometry cimport select_cut, slice_cut
from ..views.strided cimport GeometryNode, put
from ..views.views cimport cut
from ..base.device cimport Device
from ..base.parallel cimport parallel_for
from ..base.callbacks import callbacks
from ..base.sizes cimport add_overflow
from ..call.signature cimport MAX_BOUND, Signature
from ..call.destination cimport GIVEN, KIND, apart_from, check_destination, partly_below
from ..call.destination import check_out
from ..call.operation cimport Op, make_callable, prepare_op
from ..call.pointwise cimport copied
from ..call.kernels cimport device_launcher, one_device
cimport cython

cdef extern from *:
    """
    #include "each_processor.h"
    #if defined(__GNUC__)
    typedef int64_t flambeau_part __attribute__((vector_size(32), aligned(1), may_alias));
    /* memcpy's wide vectors cross cache lines where the two sides lie differently in these, and a load waits for a store that lies
       a page or more behind it. Narrower ones take three quarters of its time from a distant cache. */
    FOR_EACH_PROCESSOR
    static void flambeau_copy_across(char *to, const char *from, int64_t n) {
        int64_t i = 0;
        for (; i + 128 <= n; i += 128) {
            flambeau_part a = *(const flambeau_part *)(from + i), b = *(const flambeau_part *)(from + i + 32);
            flambeau_part c = *(const flambeau_part *)(from + i + 64), d = *(const flambeau_part *)(from + i + 96);
            *(flambeau_part *)(to + i) = a, *(flambeau_part *)(to + i + 32) = b;
            *(flambeau_part *)(to + i + 64) = c, *(flambeau_part *)(to + i + 96) = d;
        }
        memcpy(to + i, from + i, n - i);
    }
    #else
    #define flambeau_copy_across memcpy
    #endif
    """
    void flambeau_copy_across(char* to, const char* source, int64_t n) nogil

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t n)
    bint PyTuple_Check(object o)
    bint PyList_Check(object o)
    Py_ssize_t PySequence_Fast_GET_SIZE(object o)
    PyObject** PySequence_Fast_ITEMS(object o)

cdef enum: BY_RUNS = 1 << 16         # bytes up to which copying run by run is best


@cython.no_gc
@cython.binding(False)
cdef class JoinNode(GeometryNode):
    """A recorded `cat` or `stack`: every input's gradient is its part of the result's."""

    cdef bint new
    cdef int dim
    cdef list parts           # for each input: (start, length) along dim, or None where it was skipped

    def name(self) -> str:
        return "StackBackward0" if self.new else "CatBackward0"

    cdef list through(self, list grads):
        cdef TensorBase g = <TensorBase>grads[0]
        cdef int64_t arguments[4]
        cdef int k
        cdef list result = []
        if g is None:
            return [None] * self.edges
        for k in range(self.edges):
            if self.targets[k] == NULL or self.parts[k] is None:
                result.append(None)
                continue
            arguments[0] = self.dim
            arguments[1], arguments[3] = self.parts[k]
            arguments[2] = 1
            if self.new:
                result.append(cut(g, select_cut, arguments, "SelectBackward0"))
            else:
                result.append(cut(g, slice_cut, arguments, "SliceBackward0"))
        return result

    cdef dict saved_places(self):
        return {"dim": 0}

    cdef object saved_value(self, str name, int place):
        return self.dim

    def described(self) -> tuple:
        """"join", whether along a new dimension, the dimension, and for each input where along it and how long, None where it has none."""
        return "join", self.new, self.dim, [None if self.targets[k] == NULL else self.parts[k] for k in range(self.edges)]


cdef bint skipped(TensorBase t) noexcept nogil:
    """An empty 1-dim tensor may stand beside tensors of any shape, as it could when there were no others of size 0."""
    return t.rank == 1 and t.sizes[0] == 0


cdef bint channels_last(TensorBase t) noexcept nogil:
    """Four or five dimensions, the second innermost in memory and not contiguous as well."""
    cdef int64_t step
    cdef int d
    if (t.rank != 4 and t.rank != 5) or t.contiguous or t.strides[1] != 1:
        return False
    step = t.sizes[1]
    for d in range(t.rank - 1, 1, -1):
        if t.strides[d] != step:
            return False
        step *= t.sizes[d]
    return t.strides[0] == step


cdef TensorBase empty_result(Device device, int rank, const int64_t* sizes, int code, bint last):
    """A new tensor, its second dimension innermost in memory where `last`."""
    cdef int64_t strides[MAX_DIMS]
    cdef int64_t step
    cdef int d
    if not last:
        return new_tensor_on(device, rank, sizes, code)
    strides[1], step = 1, sizes[1]
    for d in range(rank - 1, 1, -1):
        strides[d] = step
        step *= sizes[d]
    strides[0] = step
    return new_strided_on(device, rank, sizes, strides, code)


cdef TensorBase given_result(TensorBase into, PyObject** items, Py_ssize_t n, int rank, const int64_t* sizes, int code, bint is_tracked,
                             str who):
    """`into` itself, which gets the shape of the result, or a tensor to convert from where its dtype is another one."""
    cdef PyObject* pair[2]
    cdef Py_ssize_t k
    if CATEGORY[code] > CATEGORY[into.code]:   # elsewhere a RuntimeError, as in PyTorch
        raise TypeError(f"{who}(): input types ({dtype_of(code)}) can't be cast to the desired output type {dtype_of(into.code)}")
    pair[0] = <PyObject*>into
    for k in range(n):
        pair[1] = items[k]
        one_device(who, pair, 2)
        if not apart_from(into, <TensorBase>items[k]):
            raise partly_below(who)
    check_destination(who, into, GIVEN, KIND, code, rank, sizes, is_tracked)
    for k in range(n):    # with its new shape, too
        if not apart_from(into, <TensorBase>items[k]):
            raise partly_below(who)
    return into if into.code == code and into.contiguous else new_tensor_on(into.storage.on, rank, <int64_t*>sizes, code)


cdef TensorBase joined(object tensors, object dim, bint new, str who, TensorBase into=None):
    """The tensors side by side, `into` a tensor where one is given."""
    cdef Py_ssize_t n, k
    cdef PyObject** items
    cdef TensorBase t, first = None, out
    cdef int64_t sizes[MAX_DIMS]
    cdef int64_t total = 0, start
    cdef int code, rank = 0, d, axis
    cdef bint is_tracked = False, last = True, mixed = False, none
    if not (PyTuple_Check(tensors) or PyList_Check(tensors)):
        raise TypeError(f"{who}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type(tensors).__name__}")
    n, items = PySequence_Fast_GET_SIZE(tensors), PySequence_Fast_ITEMS(tensors)
    if n == 0:
        if new:
            raise RuntimeError("stack expects a non-empty TensorList")
        raise ValueError(f"{who}(): expected a non-empty list of Tensors")
    code = -1
    for k in range(n):
        if not isinstance(<object>items[k], TensorBase):
            raise TypeError(f"{who}(): expected Tensor as element {k} in argument 0, but got {type(<object>items[k]).__name__}")
        t = <TensorBase>items[k]
        if code >= 0 and t.code != code:
            mixed = True
        code = t.code if code < 0 else promoted(code, t.code)
        if t.rank == 0 and not new:
            raise RuntimeError(f"{who}(): zero-dimensional tensor (at position {k}) cannot be concatenated")
        if (first is None or skipped(first)) and (new or not skipped(t) or first is None):
            if first is None or not new:
                first = t
        is_tracked = is_tracked or wants_grad(t)
    axis = wrap_dim(as_int(dim, who, "dim"), first.rank + new, who)
    for k in range(n):
        t = <TensorBase>items[k]
        if not new and skipped(t):
            continue
        last = last and channels_last(t)
        check(t, first, k, axis, new, who)
        if add_overflow(total, 1 if new else t.sizes[axis], &total):
            raise RuntimeError(f"{who}(): the sizes of dimension {axis} add up to more than 64 bits count")
    is_tracked = is_tracked and grad_enabled() and CATEGORY[code] >= 2
    for d in range(first.rank + new):
        sizes[d] = total if d == axis else first.sizes[d - (new and d > axis)]
    rank = first.rank + new
    if mixed:  # the conversions are on the tape themselves
        tensors = [<object>items[k] if (<TensorBase>items[k]).code == code else copied(<TensorBase>items[k], code, False)
                   for k in range(n)]
        items = PySequence_Fast_ITEMS(tensors)
    out = empty_result(one_device(who, items, <int>n), rank, sizes, code, last and not new and total > 0) if into is None else (
        given_result(into, items, n, rank, sizes, code, is_tracked, who))
    fill(out, items, n, axis, new)
    if into is not None:
        if out is not into:
            return (<object>into).copy_(out)
        bump_version(into)
    if is_tracked:
        record_join(out, items, n, axis, new)
    return out


cdef int check(TensorBase t, TensorBase first, Py_ssize_t k, int axis, bint new, str who) except -1:
    cdef int d
    if new:
        if t.rank == first.rank:
            for d in range(t.rank):
                if t.sizes[d] != first.sizes[d]:
                    break
            else:
                return 0
        raise RuntimeError(f"stack expects each tensor to be equal size, but got {list(first.shape)} at entry 0 and "
                           f"{list(t.shape)} at entry {k}")
    if t.rank != first.rank:
        raise RuntimeError(f"{who}(): Tensors must have same number of dimensions: got {first.rank} and {t.rank}")
    for d in range(t.rank):
        if d != axis and t.sizes[d] != first.sizes[d]:
            raise RuntimeError(f"{who}(): Sizes of tensors must match except in dimension {axis}. Expected size {first.sizes[d]} "
                               f"but got size {t.sizes[d]} for tensor number {k} in the list.")
    return 0


cdef enum:
    UNIT = 1 << 12            # bytes of the result: what threads share
    UNITS_A_TASK = 32
    SHORTEST_RUN = 256        # bytes of a mean run from which runs are copied by calls of their own

cdef struct Runs:             # a line of the result has a run of every tensor, which lies in one piece
    char* to
    const char** sources
    int64_t* lengths          # of a tensor's run, in bytes
    int64_t* steps            # from a tensor's run to its next one, in bytes
    int64_t line, total


cdef void runs_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Some units of the result from its front: whatever a line's length, what is written lies in one piece."""
    cdef Runs* r = <Runs*>context
    cdef int64_t at = begin * UNIT, stop = min(end * UNIT, r.total), row = at // r.line, skip = at % r.line, some
    cdef Py_ssize_t k = 0
    cdef const char* source
    while skip >= r.lengths[k]:
        skip -= r.lengths[k]
        k += 1
    while at < stop:
        some = min(r.lengths[k] - skip, stop - at)
        source = r.sources[k] + row * r.steps[k] + skip
        if (<uintptr_t>source ^ <uintptr_t>(r.to + at)) & 63:
            flambeau_copy_across(r.to + at, source, some)
        else:
            memcpy(r.to + at, source, some)
        at, skip, k = at + some, 0, k + 1
        if at % r.line == 0:
            k, row = 0, row + 1


cdef int64_t run_step(TensorBase t, int axis) noexcept nogil:
    """Elements from one position of the dimensions before `axis` to the next, all others being one piece; -1 where they are not."""
    cdef int64_t whole = 1, step = 0, next_step = -1
    cdef int d
    for d in range(t.rank - 1, axis - 1, -1):
        if t.sizes[d] != 1:
            if t.strides[d] != whole:
                return -1
            whole *= t.sizes[d]
    for d in range(axis - 1, -1, -1):
        if t.sizes[d] != 1:
            if next_step < 0:
                step = next_step = t.strides[d]
            elif t.strides[d] != next_step:
                return -1
            next_step *= t.sizes[d]
    return step


cdef bint filled_in_runs(TensorBase out, PyObject** items, Py_ssize_t n, int axis, int64_t outer, int64_t line) except -1:
    """Copy tensors line by line; False, with nothing done, where a run of one has gaps or where runs are short."""
    cdef Runs r
    cdef TensorBase t
    cdef Py_ssize_t k, count = 0
    if not out.contiguous or out.storage.on is not None:
        return False
    for k in range(n):
        t = <TensorBase>items[k]
        if t.count:
            count += 1
            if run_step(t, axis) < 0:
                return False
    if line < count * SHORTEST_RUN:
        return False
    r.sources = <const char**>malloc(n * (sizeof(char*) + 2 * sizeof(int64_t)))
    if r.sources == NULL:
        raise MemoryError("no memory to join tensors")
    r.lengths = <int64_t*>(r.sources + n)
    r.steps, count = r.lengths + n, 0
    for k in range(n):
        t = <TensorBase>items[k]
        if t.count:
            r.sources[count], r.lengths[count], r.steps[count] = pointer(t), t.count * t.width // outer, run_step(t, axis) * t.width
            count += 1
    r.to, r.line, r.total = out.storage.data + out.offset * out.width, line, out.count * out.width
    with nogil:
        parallel_for(runs_range, &r, (r.total + UNIT - 1) // UNIT, UNITS_A_TASK)
    free(<void*>r.sources)
    return True


cdef int fill(TensorBase out, PyObject** items, Py_ssize_t n, int axis, bint new) except -1:
    """Copy every tensor to its place in the result."""
    cdef TensorBase t
    cdef int64_t strides[MAX_DIMS]
    cdef int64_t outer = 1, line = out.width, run, i, start = 0
    cdef int d
    cdef Py_ssize_t k
    cdef char* to
    cdef const char* source
    for d in range(out.rank):
        if d < axis:
            outer *= out.sizes[d]
        else:
            line *= out.sizes[d]
        if d != axis:
            strides[d - (new and d > axis)] = out.strides[d]
        elif not new:
            strides[d] = out.strides[d]
    if out.count * out.width > BY_RUNS and filled_in_runs(out, items, n, axis, outer, line):
        return 0
    for k in range(n):
        t = <TensorBase>items[k]
        if t.count == 0:
            continue
        run = t.count * t.width // outer
        if t.contiguous and out.contiguous and run * outer <= BY_RUNS and out.storage.on is None:
            to, source = pointer(out) + start * out.width, pointer(t)
            for i in range(outer):
                memcpy(to + i * line, source + i * run, run)
        elif t.rank and t.count * t.width > BY_RUNS and t.strides[t.rank - 1] != 1 and out.storage.on is None:
            device_launcher.copy(alias(out, t.rank, t.sizes, strides, out.offset + start), t)  # kernels turn tiles in registers
        else:
            put(out, start, strides, t)
        start += out.strides[axis] * (1 if new else t.sizes[axis])
    return 0


cdef int record_join(TensorBase out, PyObject** items, Py_ssize_t n, int axis, bint new) except -1:
    cdef JoinNode node = JoinNode.__new__(JoinNode)
    cdef TensorBase t
    cdef int64_t start = 0, length
    cdef Py_ssize_t k
    node.new, node.dim, node.parts = new, axis, []
    node.set_edges(<int>n)
    for k in range(n):
        t = <TensorBase>items[k]
        if not new and skipped(t) and out.rank != 1:
            node.parts.append(None)
            continue
        length = 1 if new else t.sizes[axis]
        node.parts.append((start, length))
        start += length
        node.connect(<int>k, t)
    return attach(out, node, 0)


# --- calls -----------------------------------------------------------------------------------------------------------------
cdef class JoinOp(Op):
    cdef bint new

    def __cinit__(self, str name, bint new, str doc):
        prepare_op(self, name, call_join)
        self.new = new
        self.signature = Signature(("tensors", "dim", "out"), 2, 1, defaults={"dim": 0})
        setattr(self, "__doc__", doc)


cdef object call_join(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    cdef JoinOp op = <JoinOp>callable
    cdef PyObject* bound[MAX_BOUND]
    op.signature.bind(op.name, args, PyVectorcall_NARGS(flagged), names, bound)
    out = None if bound[2] == NULL else <object>bound[2]
    check_out(op.name, out, ())
    return joined(<object>bound[0], 0 if bound[1] == NULL else <object>bound[1], op.new, op.name, <TensorBase>out)


cat = JoinOp("cat", False, """cat(tensors, dim=0, *, out=None) -> Tensor

    The tensors one after another along `dim`; their other sizes must agree, their dtypes are promoted to a common one.
    Empty 1-dim tensors are skipped.  ValueError for no tensors, RuntimeError for 0-dim ones and for sizes that differ.

    >>> import flambeau
    >>> flambeau.cat([flambeau.tensor([[1], [2]]), flambeau.tensor([[3], [4]])], dim=1)
    tensor([[1, 3],
            [2, 4]])
    """)
stack = JoinOp("stack", True, """stack(tensors, dim=0, *, out=None) -> Tensor

    Tensors of one shape side by side along a new dimension `dim`.  RuntimeError for no tensors and for shapes that differ.

    >>> import flambeau
    >>> flambeau.stack([flambeau.tensor([1, 2]), flambeau.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """)
make_callable(JoinOp, cat)


# --- mirror images -----------------------------------------------------------------------------------------------------------
ctypedef void (*mirror_t)(char* to, const char* source, int64_t length) noexcept nogil

cdef enum: MIRRORED_FROM = 1 << 12   # elements from which rows are turned vector by vector

cdef mirror_t mirrors[4]             # for elements of 1, 2, 4 and 8 bytes

cdef struct Mirror:
    mirror_t run
    char* to
    const char* source
    int rank                  # of the dimensions before the last
    int64_t sizes[MAX_DIMS]
    int64_t back[MAX_DIMS]    # strides of the source, negative where it is turned
    int64_t length
    int width


cdef void mirror_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Rows [begin, end) of the result."""
    cdef Mirror* m = <Mirror*>context
    cdef int64_t row, rest, at
    cdef int d
    for row in range(begin, end):
        rest, at = row, 0
        for d in range(m.rank - 1, -1, -1):
            at += rest % m.sizes[d] * m.back[d]
            rest //= m.sizes[d]
        m.run(m.to + row * m.length * m.width, m.source + at * m.width, m.length)


cdef mirror_t mirror_of(int width) except? NULL:
    cdef int k = 0 if width == 1 else 1 if width == 2 else 2 if width == 4 else 3
    if mirrors[k] == NULL:
        mirrors[k] = <mirror_t><void*><uintptr_t>callbacks["taps.address"]("mirror", f"u{width}")
    return mirrors[k]


cdef int mirror_rows(TensorBase out, TensorBase input, const int64_t* back, int64_t last) except -1:
    """The copy where the last dimension, which has no gaps, is turned."""
    cdef Mirror m
    cdef int d
    cdef int64_t rows, grain
    m.run, m.rank, m.length, m.width = mirror_of(out.width), out.rank - 1, out.sizes[out.rank - 1], out.width
    for d in range(m.rank):
        m.sizes[d], m.back[d] = out.sizes[d], back[d]
    m.to = pointer(out)
    m.source = pointer(input) + (last - input.offset - m.length + 1) * m.width
    rows, grain = out.count // m.length, BY_RUNS // (m.length * m.width)
    with nogil:
        parallel_for(mirror_range, &m, rows, grain if grain > 0 else 1)
    return 0


def flipped(TensorBase input not None, tuple dims) -> TensorBase:
    """A copy with the order of the elements reversed along `dims` (counted from the front), not recorded."""
    cdef TensorBase out = new_tensor_on(input.storage.on, input.rank, input.sizes, input.code)
    cdef int64_t back[MAX_DIMS]
    cdef int64_t last = input.offset
    cdef int d
    for d in range(input.rank):
        back[d] = input.strides[d]
    if input.count:
        for d in dims:
            last += (input.sizes[d] - 1) * input.strides[d]
            back[d] = -input.strides[d]
        if input.count >= MIRRORED_FROM and input.storage.on is None and input.width <= 8 and back[input.rank - 1] == -1:
            mirror_rows(out, input, back, last)
        else:
            put(out, 0, out.strides, alias(input, input.rank, input.sizes, back, last))
    return out
