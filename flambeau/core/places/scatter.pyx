# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""gather and scatter: elements of one dimension chosen by an index tensor of the same rank.

    gather    out[i][j][k] = input[i][index[i][j][k]][k]          (along dimension 1)
    scatter   out[i][index[i][j][k]][k] = src[i][j][k]

Both walk over the index tensor with one loop.  Threads share lines that write to places of their own; within those writing is in order,
so equal indices always give the same bits.
"""
from libc.stdint cimport int64_t, uint64_t
from ..base.dtypes cimport BOOL, I32, I64, F16, BF16, CATEGORY, dtype_of, is_stored
from ..base.tensor cimport (
    MAX_DIMS, OP_ADD, OP_LT, OP_MUL, TensorBase, as_int, runtime, new_tensor, new_tensor_on,
    operator_for, pointer, wrap_dim, bump_version,
)
from ..tape.modes cimport grad_enabled, set_grad
from ..call.destination cimport check_memory, check_written
from ..base.parallel cimport num_threads, parallel_for
from ..base.callbacks import callbacks
from ..views.strided cimport expanded, reshaped
from ..call.pointwise cimport not_implemented, wider
from ..base.formats import contiguous_format
from ..call.copies import clone, copy_, to_dtype
from ..call.overlap cimport each_apart
from .lines cimport SET, ADD, MULTIPLY, LEAST, GREATEST, read_line, write_line
from ..make.elements import fill_

cdef enum:
    PARALLEL_FROM = 1 << 16    # elements from which threads share the work, or do something else meanwhile
    LEAST_COLUMNS = 16         # elements of a line that are written to, line after line, at once: at least, and at most
    MOST_COLUMNS = 256

cdef struct Walk:             # over an index tensor; dimensions of size 1 in front make the rank at least 1
    int rank
    int dim
    int64_t sizes[MAX_DIMS]
    int64_t far[MAX_DIMS]     # strides of the indexed tensor, 0 along dim
    int64_t near[MAX_DIMS]    # strides of the other one, which has the index tensor's shape
    int64_t step              # of the indexed tensor along dim
    const int64_t* index
    int64_t along[MAX_DIMS]   # its strides
    char* indexed
    char* other
    int width
    int64_t rows
    int64_t inner
    int64_t bound             # size of the indexed tensor along dim
    bint outside              # an index that is not below it was met
    int code                  # what is written: the dtype, SET or how it is combined
    int how
    int64_t turns, below      # lines that write to the same places are `below` apart, `turns` of them
    int64_t columns, parts    # of a line that belong together, and into how many such it is cut
    bint serial               # elements may lie in one place


cdef TensorBase read_walk(Walk* w, TensorBase indexed, TensorBase other, TensorBase index, int dim, str who):
    """Fill in the walk; the index tensor as int64 is returned to be kept alive."""
    cdef TensorBase plain = index if index.code == I64 else <TensorBase>to_dtype(index, dtype_of(I64))
    cdef int d
    w.bound, w.outside = indexed.sizes[dim] if indexed.rank else 1, False
    w.index = <const int64_t*>pointer(plain)
    w.rank, w.dim, w.width, w.rows = index.rank, dim, indexed.width, 1
    for d in range(index.rank):
        w.sizes[d] = index.sizes[d]
        w.far[d] = 0 if d == dim or not indexed.rank else indexed.strides[d]
        w.near[d] = other.strides[d] if other.rank else 0
        w.along[d] = plain.strides[d]
        if d < index.rank - 1:
            w.rows *= index.sizes[d]
    w.step = indexed.strides[dim] if indexed.rank else 0
    if w.rank == 0:
        w.rank, w.sizes[0], w.far[0], w.near[0], w.along[0] = 1, 1, 0, 0, 0
    w.inner = w.sizes[w.rank - 1]
    w.indexed, w.other = pointer(indexed), pointer(other)
    return plain


cdef int check_inside(Walk* w, int dim, str who) except -1:
    """RuntimeError where an index is out of bounds."""
    cdef int64_t bad = 0, grain
    if w.rows * w.inner < PARALLEL_FROM:
        bad = first_outside(w, w.bound, 0, w.rows)
    else:
        grain = PARALLEL_FROM // w.inner
        with nogil:
            parallel_for(check_range, w, w.rows, grain if grain > 0 else 1)
        if w.outside:         # the first of all, whichever thread met one
            bad = first_outside(w, w.bound, 0, w.rows)
    if bad != 0:
        raise RuntimeError(f"{who}(): index {bad if bad < 0 else bad - 1} is out of bounds for dimension {dim} with size {w.bound}")
    return 0


cdef void check_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Walk* w = <Walk*>context
    if first_outside(w, w.bound, begin, end) != 0:
        w.outside = True


cdef int64_t first_outside(Walk* w, int64_t bound, int64_t begin, int64_t end) noexcept nogil:
    """An index of some rows that is below 0, or one more than one not below the bound; 0 where all are inside."""
    cdef int64_t row, i, far, near, result, step = w.along[w.rank - 1]
    cdef const int64_t* index
    for row in range(begin, end):
        index = w.index + row_offsets(w, row, &far, &near)
        result = 0
        if step == 1:
            for i in range(w.inner):     # one of both is negative; vectors can tell without comparing
                result |= index[i] | (bound - 1 - index[i])
        else:
            for i in range(w.inner):
                result |= index[i * step] | (bound - 1 - index[i * step])
        if result < 0:
            for i in range(w.inner):
                if index[i * step] < 0:
                    return index[i * step]
                if index[i * step] >= bound:
                    return index[i * step] + 1
    return 0


cdef inline int64_t row_offsets(Walk* w, int64_t row, int64_t* far, int64_t* near) noexcept nogil:
    """Where a row of the index tensor lies in the two others; returns where it lies in the index tensor."""
    cdef int64_t own = 0
    cdef int d
    far[0] = near[0] = 0
    for d in range(w.rank - 2, -1, -1):
        far[0] += row % w.sizes[d] * w.far[d]
        near[0] += row % w.sizes[d] * w.near[d]
        own += row % w.sizes[d] * w.along[d]
        row //= w.sizes[d]
    return own


cdef void gather_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Walk* w = <Walk*>context
    cdef int64_t row, far, near, far_step = w.far[w.rank - 1], near_step = w.near[w.rank - 1]
    cdef const int64_t* index
    for row in range(begin, end):
        index = w.index + row_offsets(w, row, &far, &near)
        if not read_line(w.width, w.other + near * w.width, near_step, w.indexed + far * w.width, far_step, index,
                         w.along[w.rank - 1], w.step, w.bound, w.inner):
            w.outside = True
            return


cdef void scatter_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Some units, each in the order of the index tensor: a part of the columns of all lines that write to the same places."""
    cdef Walk* w = <Walk*>context
    cdef int64_t unit, line, turn, first, some, far, near
    cdef int64_t far_step = w.far[w.rank - 1], near_step = w.near[w.rank - 1], along = w.along[w.rank - 1]
    cdef const int64_t* index
    for unit in range(begin, end):
        line, first = unit // w.parts, unit % w.parts * w.columns
        some = min(w.columns, w.inner - first)
        line = line // w.below * w.below * w.turns + line % w.below
        for turn in range(w.turns):
            index = w.index + row_offsets(w, line + turn * w.below, &far, &near) + first * along
            far, near = far + first * far_step, near + first * near_step
            write_line(w.code, w.width, w.how, w.indexed + far * w.width, far_step, w.other + near * w.width, near_step, index, along,
                       w.step, some)


cdef void scatter_all(Walk* w) noexcept nogil:
    """Along the last dimension a line writes to places of its own, along another one a column does."""
    cdef int64_t units = w.rows, each
    cdef int d
    w.turns = w.below = w.parts = 1
    w.columns = w.inner
    if w.serial or num_threads() == 1:
        scatter_range(w, 0, units)
        return
    if w.dim < w.rank - 1:
        w.turns = w.sizes[w.dim]
        for d in range(w.dim + 1, w.rank - 1):
            w.below *= w.sizes[d]
        units = w.rows // w.turns
        w.columns = w.inner * units // (4 * num_threads()) // LEAST_COLUMNS * LEAST_COLUMNS    # some parts for each thread
        w.columns = min(max(w.columns, <int64_t>LEAST_COLUMNS), min(w.inner, <int64_t>MOST_COLUMNS))
        w.parts = (w.inner + w.columns - 1) // w.columns
        units *= w.parts
    each = w.turns * w.columns
    parallel_for(scatter_range, w, units, max(PARALLEL_FROM // each, <int64_t>1))


# --- arguments -----------------------------------------------------------------------------------------------------------------
cdef int check_index(TensorBase input, object dim, TensorBase index, TensorBase src, str who) except -1:
    """The dimension, wrapped; RuntimeError for shapes and dtypes that do not go together."""
    cdef int d = wrap_dim(as_int(dim, who, "dim"), input.rank, who), k
    if index.count == 0:
        return d
    if index.code != I64 and index.code != I32:
        raise RuntimeError(f"{who}(): Expected dtype int32/int64 for index, got {dtype_of(index.code)}")
    if max(index.rank, 1) != max(input.rank, 1):
        raise RuntimeError(f"{who}(): Index tensor must have the same number of dimensions as input tensor, got {index.rank} and "
                           f"{input.rank}")
    if src is not None:
        if src.code != input.code:
            raise RuntimeError(f"{who}(): Expected self.dtype to be equal to src.dtype, got {dtype_of(input.code)} and "
                               f"{dtype_of(src.code)}")
        if max(src.rank, 1) != max(index.rank, 1):
            raise RuntimeError(f"{who}(): Index tensor must have the same number of dimensions as src tensor, got {index.rank} and "
                               f"{src.rank}")
    for k in range(min(index.rank, input.rank)):
        if (k != d and index.sizes[k] > input.sizes[k]) or (src is not None and src.rank and index.sizes[k] > src.sizes[k]):
            if src is None:
                raise RuntimeError(f"{who}(): Size does not match at dimension {k} expected index {list(index.shape)} to be no larger "
                                   f"than self {list(input.shape)} apart from dimension {d}")
            raise RuntimeError(f"{who}(): Expected index {list(index.shape)} to be no larger than self {list(input.shape)} apart "
                               f"from dimension {d} and to be no larger size than src {list(src.shape)}")
    return d


# --- gather --------------------------------------------------------------------------------------------------------------------
def gather(TensorBase input not None, dim, TensorBase index not None, *, sparse_grad: bool = False):
    """Elements of dimension `dim` chosen by `index`, whose shape the result has.

    The index tensor has the input's rank, and along the other dimensions at most its sizes.  RuntimeError for an index out
    of bounds; negative ones do not wrap.  With `sparse_grad` the input's gradient is a sparse tensor that lists the places read.

    >>> import flambeau
    >>> flambeau.gather(flambeau.tensor([[1, 2], [3, 4]]), 1, flambeau.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
    """
    cdef Walk w
    cdef int d = check_index(input, dim, index, None, "gather")
    cdef TensorBase out, alive
    cdef int64_t grain
    if input.storage.on is not None and index.count:
        out = <TensorBase>callbacks["device.gather"](input, d, index)
    else:
        out = new_tensor_on(input.storage.on, index.rank, index.sizes, input.code)
    if index.count and input.storage.on is None:
        alive = read_walk(&w, input, out, index, d, "gather")
        if index.count < PARALLEL_FROM:
            gather_range(&w, 0, w.rows)
        else:
            grain = PARALLEL_FROM // w.inner
            with nogil:
                parallel_for(gather_range, &w, w.rows, grain if grain > 0 else 1)
        if w.outside:
            check_inside(&w, d, "gather")
    return out


def take_along_dim(TensorBase input not None, TensorBase indices not None, dim=None):
    """`gather` with broadcasting: the other dimensions of input and indices are repeated to match, and negative indices count
    from the end.  Without `dim`, both are flattened.

    Raises:
        RuntimeError: the indices are not int64

    >>> import flambeau
    >>> x = flambeau.tensor([[3, 1, 2], [4, 6, 5]])
    >>> flambeau.take_along_dim(x, x.argsort(1), 1)
    tensor([[1, 2, 3],
            [4, 5, 6]])
    """
    cdef int64_t wanted[MAX_DIMS]
    cdef int64_t chosen[MAX_DIMS]
    cdef int64_t n
    cdef int d, k
    if indices.code != I64:
        raise RuntimeError(f"take_along_dim(): dtype of indices should be Long but got {dtype_of(indices.code)}")
    if dim is None:
        n = input.count
        input = reshaped(input, 1, &n)
        n = indices.count
        return gather(input, 0, from_the_front(reshaped(indices, 1, &n), input.count))
    if input.rank != indices.rank:
        raise RuntimeError(f"take_along_dim(): input and indices should have the same number of dimensions, but got {input.rank} "
                           f"dimensions for input, and {indices.rank} dimensions for indices")
    d = wrap_dim(as_int(dim, "take_along_dim", "dim"), input.rank, "take_along_dim")
    for k in range(input.rank):
        wanted[k], chosen[k] = input.sizes[k], indices.sizes[k]
        if k == d or input.sizes[k] == indices.sizes[k]:
            continue
        if input.sizes[k] == 1:
            wanted[k] = indices.sizes[k]
        elif indices.sizes[k] == 1:
            chosen[k] = input.sizes[k]
        else:
            raise RuntimeError(f"take_along_dim(): The size of tensor a ({input.sizes[k]}) must match the size of tensor b "
                               f"({indices.sizes[k]}) at non-singleton dimension {k}")
    return gather(expanded(input, input.rank, wanted), d, expanded(from_the_front(indices, input.sizes[d]), input.rank, chosen))


cdef TensorBase from_the_front(TensorBase index, int64_t size):
    """Negative indices counted from the front; indices still out of bounds are left for `gather` to refuse."""
    cdef TensorBase below = <TensorBase>runtime.binary(operator_for(OP_LT), index, 0)
    return <TensorBase>runtime.binary(operator_for(OP_ADD), index, runtime.binary(operator_for(OP_MUL), below, size))


# --- scatter -------------------------------------------------------------------------------------------------------------------
cdef int write_at(TensorBase input, TensorBase src, TensorBase index, int d, int how, str who) except -1:
    """Overwrite or combine; nothing is recorded."""
    cdef Walk w
    cdef TensorBase alive, wide
    cdef bint before = grad_enabled()
    cdef object better
    check_memory(who, input)
    if index.count == 0:
        return 0
    if how != SET and (input.code == F16 or input.code == BF16 or input.code == BOOL or is_stored(input.code)):
        # halves are combined in float32 and rounded once; bools as numbers, and stay true
        better = dtype_of(I64 if input.code == BOOL else wider(input.code))
        set_grad(False)
        try:
            wide = <TensorBase>to_dtype(input, better)
            write_at(wide, <TensorBase>to_dtype(src, better), index, d, how, who)
            copy_(input, wide)
        finally:
            set_grad(before)
        return 0
    if src.storage is input.storage:
        set_grad(False)
        try:
            src = <TensorBase>clone(src)
        finally:
            set_grad(before)
    if input.storage.on is not None:
        callbacks["device.write_along"](input, src, index, d, "set" if how == SET else ("add", "mul", "min", "max")[how])
        return 0
    alive = read_walk(&w, input, src, index, d, who)
    w.code, w.how, w.serial = input.code, how, not each_apart(input)
    check_inside(&w, d, who)
    if (how == MULTIPLY or how == LEAST or how == GREATEST) and CATEGORY[input.code] == 3:
        raise RuntimeError(f"{who}(): this reduction is not defined for {dtype_of(input.code)}")
    if index.count < PARALLEL_FROM:
        scatter_all(&w)
    else:
        with nogil:
            scatter_all(&w)
    bump_version(input)
    return 0


cdef object scatter_into(TensorBase input, object dim, TensorBase index, TensorBase src, int how, str who):
    """Checks, and the writing."""
    cdef int d = check_index(input, dim, index, src, who)
    check_written(who, input)
    write_at(input, src, index, d, how, who)
    return input


cdef TensorBase number_like(TensorBase input, TensorBase index, object value, str who):
    """A number as a tensor of the input's dtype and the index tensor's shape."""
    cdef TensorBase one = new_tensor_on(input.storage.on, 0, NULL, input.code)
    fill_(one, value)
    return expanded(one, index.rank, index.sizes)


def scatter_(TensorBase input not None, dim, TensorBase index not None, src=None, *, value=None, reduce=None):
    """Write the elements of `src` (or a number) to the places of dimension `dim` that `index` names; of equal indices the
    last wins.  `reduce` "add" or "multiply" combines instead."""
    cdef object given = value if src is None else src
    if given is None:
        raise TypeError('scatter_() missing 1 required argument: "src" or "value"')
    if not isinstance(given, TensorBase):
        given = number_like(input, index, given, "scatter_")
    if reduce is None:
        return scatter_into(input, dim, index, <TensorBase>given, SET, "scatter_")
    if reduce == "add":
        return scatter_into(input, dim, index, <TensorBase>given, ADD, "scatter_")
    if reduce == "multiply":
        return scatter_reduce_(input, dim, index, given, "prod")
    raise RuntimeError(f"scatter_(): reduce argument must be either add or multiply, got {reduce}")


def scatter(TensorBase input not None, dim, TensorBase index not None, src=None, *, value=None, reduce=None):
    """A copy of the input with the elements of `src` (or a number) written where `index` says.

    Shape:
        input: (n₁, …); index: at most that, but along `dim`; src: at least as large as index; result: as
            input

    Raises:
        RuntimeError: an index is out of range

    >>> import flambeau
    >>> flambeau.scatter(flambeau.zeros(3), 0, flambeau.tensor([2, 0]), flambeau.tensor([1.0, 2.0]))
    tensor([2., 0., 1.])
    """
    return scatter_(clone(input, memory_format=contiguous_format), dim, index, src, value=value, reduce=reduce)


def scatter_add_(TensorBase input not None, dim, TensorBase index not None, TensorBase src not None):
    """Add the elements of `src` to the places of dimension `dim` that `index` names, in the order of the elements."""
    return scatter_into(input, dim, index, src, ADD, "scatter_add_")


def scatter_add(TensorBase input not None, dim, TensorBase index not None, TensorBase src not None):
    """A copy of the input with the elements of `src` added where `index` says.

    Shape:
        input: (n₁, …); index: at most that, but along `dim`; src: at least as large as index; result: as
            input

    Raises:
        RuntimeError: an index is out of range

    >>> import flambeau
    >>> flambeau.scatter_add(flambeau.zeros(3), 0, flambeau.tensor([0, 2, 2]), flambeau.ones(3))
    tensor([1., 0., 2.])
    """
    return scatter_add_(clone(input, memory_format=contiguous_format), dim, index, src)


# --- scatter_reduce ----------------------------------------------------------------------------------------------------------------
def scatter_reduce_(TensorBase input not None, dim, TensorBase index not None, TensorBase src not None, reduce, *,
                    include_self: bool = True):
    """Combine the elements of `src` that go to one place by "sum", "prod", "mean", "amax" or "amin".

    Without `include_self` what was at those places takes no part; other places keep their elements.  A mean of integers
    is rounded down.
    """
    cdef int d
    cdef bint before = grad_enabled()
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(f"scatter_reduce_(): reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if is_stored(input.code):
        raise not_implemented("scatter_reduce_", input.code)
    d = check_index(input, dim, index, src, "scatter_reduce_")
    check_written("scatter_reduce_", input)
    set_grad(False)
    try:
        if src.storage is input.storage:  # the elements from before the writes
            src = <TensorBase>clone(src)
        if not include_self:
            start = {"sum": 0, "mean": 0, "prod": 1}.get(reduce)
            first = src if start is None else number_like(input, index, start, "scatter_reduce_")
            write_at(input, <TensorBase>first, index, d, SET, "scatter_reduce_")
        how = {"sum": ADD, "mean": ADD, "prod": MULTIPLY, "amin": LEAST, "amax": GREATEST}[reduce]
        write_at(input, src, index, d, how, "scatter_reduce_")
        if reduce == "mean":
            counts = counts_at(input, d, index, include_self)
            copy_(input, (<object>input) / counts if CATEGORY[input.code] >= 2 else (<object>input) // counts)
    finally:
        set_grad(before)
    return input


def scatter_reduce(TensorBase input not None, dim, TensorBase index not None, TensorBase src not None, reduce, *,
                   include_self: bool = True):
    """A copy of the input with the elements of `src` combined where `index` says, as `scatter_reduce_` does.

    Shape:
        input: (n₁, …); index: at most that, but along `dim`; src: at least as large as index; result: as
            input

    >>> import flambeau
    >>> flambeau.scatter_reduce(flambeau.ones(2), 0, flambeau.tensor([0, 0]), flambeau.tensor([3.0, 5.0]), "mean")
    tensor([3., 1.])
    """
    return scatter_reduce_(clone(input, memory_format=contiguous_format), dim, index, src, reduce, include_self=include_self)


def index_reduce_(TensorBase input not None, dim, TensorBase index not None, TensorBase source not None, reduce, *,
                  include_self: bool = True):
    """Combine the parts of `source` with the parts of dimension `dim` that a vector of indices names, by "prod", "mean",
    "amax" or "amin"."""
    cdef int64_t shape[MAX_DIMS]
    cdef int d = wrap_dim(as_int(dim, "index_reduce_", "dim"), input.rank, "index_reduce_"), k
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce_(): reduce argument must be either prod, mean, amax or amin, got {reduce}.")
    if index.rank > 1:
        raise IndexError(f"index_reduce_(): Index is supposed to be a vector, got shape {list(index.shape)}")
    if index.code != I64 and index.code != I32:
        raise RuntimeError(f"index_reduce_(): Expected dtype int32 or int64 for index, got {dtype_of(index.code)}")
    if index.count != (source.sizes[d] if d < source.rank else 1) or source.rank != input.rank:
        raise RuntimeError(f"index_reduce_(): the source {list(source.shape)} must have a part for each of the {index.count} indices along "
                         f"dimension {d}, and otherwise the shape of self {list(input.shape)}")
    for k in range(input.rank):
        if k != d and source.sizes[k] != input.sizes[k]:
            raise RuntimeError(f"index_reduce_(): source tensor shape must match self tensor shape, excluding the specified dimension. Got "
                               f"self.shape = {list(input.shape)} source.shape = {list(source.shape)}")
        shape[k] = source.sizes[k] if k == d else 1
    index = expanded(reshaped(index, input.rank, shape), input.rank, source.sizes)
    return scatter_reduce_(input, dim, index, source, reduce, include_self=include_self)


def index_reduce(TensorBase input not None, dim, TensorBase index not None, TensorBase source not None, reduce, *,
                 include_self: bool = True):
    """A copy of the input with the parts of `source` combined where `index` says, as `index_reduce_` does.

    Shape:
        input: (*, n, *); index: (k,); source: (*, k, *); result: as input

    Raises:
        RuntimeError: `reduce` is unknown
        RuntimeError: an index is out of range

    >>> import flambeau
    >>> flambeau.index_reduce(flambeau.ones(3), 0, flambeau.tensor([0, 0]), flambeau.tensor([2.0, 3.0]), "prod")
    tensor([6., 1., 1.])
    """
    return index_reduce_(clone(input, memory_format=contiguous_format), dim, index, source, reduce, include_self=include_self)


cdef object counts_at(TensorBase input, int d, TensorBase index, bint include_self):
    """How many elements each mean is over, at least 1."""
    counts = (<object>input).new_ones(input.shape) if include_self else (<object>input).new_zeros(input.shape)
    scatter_add_(counts, d, index, (<object>input).new_ones(index.shape))
    return counts if include_self else counts + (counts == 0).to(counts.dtype)
