# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Indexing: numbers, slices, None and Ellipsis give views; masks and index tensors gather elements into a new tensor.

A key is read once, into a program of cuts (see `views`) that makes a view, and a list of index tensors for the view's
dimensions.  Those become a list of places in the storage, computed and checked before anything is read or written.
"""
from libc.stdlib cimport malloc, free
from libc.string cimport memcpy, memset
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from .dtypes cimport BOOL, U8, I8, I16, I32, I64, F16, BF16, F32, F64, C64, C128, CATEGORY, dtype_of, size_from
from .tensor cimport TensorBase, MAX_DIMS, OP_NE, as_int, late, new_tensor, operator_for, pointer, same_shape, wrap_dim, wrote
from .tape cimport check_in_place, grad_enabled, set_grad, wants_grad
from .dispatch cimport sum_to
from .parallel cimport parallel_for
from .views cimport (
    Shape, copy_strided, compact, cut, expanded, load, reshaped, select_cut, slice_cut, taped, unsqueeze_cut, view_of,
    viewed,
)
from .dispatch import clone, copy_, to_dtype
from .elements import fill_
from .literal import tensor as tensor_of
from .scatter import (  # noqa: F401  (one room for all of indexing)
    gather, scatter, scatter_, scatter_add, scatter_add_, scatter_reduce, scatter_reduce_, take_along_dim,
)
from .tape import record
import warnings

cdef extern from "Python.h":
    bint PyLong_CheckExact(object o)
    bint PyLong_Check(object o)
    bint PyBool_Check(object o)
    bint PySlice_Check(object o)
    bint PyTuple_CheckExact(object o)
    bint PyTuple_Check(object o)
    int PySlice_Unpack(object slice, Py_ssize_t* start, Py_ssize_t* stop, Py_ssize_t* step) except -1
    Py_ssize_t PySlice_AdjustIndices(Py_ssize_t length, Py_ssize_t* start, Py_ssize_t* stop, Py_ssize_t step)

cdef enum:
    PARALLEL_FROM = 1 << 16    # elements from which a gather is shared over the threads
    MOST_CUTS = 128            # steps of one key

cdef enum:
    SELECT, SLICE, UNSQUEEZE


# --- keys ---------------------------------------------------------------------------------------------------------------------
cdef struct Program:          # the cuts of a key, in order
    int64_t count
    int64_t cuts[MOST_CUTS][5]

cdef struct Reader:           # how far a key has been read
    Program program
    int source                # the dimension of the tensor that the next item is about
    int out                   # the dimension of the view that it will be


cdef void program_cut(Shape* s, const int64_t* arguments) noexcept:
    cdef Program* p = <Program*>arguments
    cdef int64_t k
    for k in range(p.count):
        if p.cuts[k][0] == SELECT:
            select_cut(s, &p.cuts[k][1])
        elif p.cuts[k][0] == SLICE:
            slice_cut(s, &p.cuts[k][1])
        else:
            unsqueeze_cut(s, &p.cuts[k][1])


cdef int add_cut(Reader* r, int kind, int64_t a=0, int64_t b=0, int64_t c=0) except -1:
    cdef Program* p = &r.program
    if p.count == MOST_CUTS:
        raise IndexError("too many indices for one key")
    p.cuts[p.count][0], p.cuts[p.count][1] = kind, r.out
    p.cuts[p.count][2], p.cuts[p.count][3], p.cuts[p.count][4] = a, b, c
    p.count += 1
    return 0


cdef int read_int(Reader* r, TensorBase t, int64_t i) except -1:
    cdef int64_t size = t.sizes[r.source]
    if i < -size or i >= size:
        raise IndexError(f"index {i} is out of bounds for dimension {r.source} with size {size}")
    add_cut(r, SELECT, i + size if i < 0 else i)
    r.source += 1
    return 0


cdef int read_slice(Reader* r, TensorBase t, object item) except -1:
    cdef Py_ssize_t start, stop, step, length
    PySlice_Unpack(item, &start, &stop, &step)
    if step <= 0:
        raise ValueError("step must be greater than zero")
    length = PySlice_AdjustIndices(t.sizes[r.source], &start, &stop, step)
    if length != t.sizes[r.source] or step != 1:
        add_cut(r, SLICE, start, step, length)
    r.source += 1
    r.out += 1
    return 0


cdef TensorBase finish_view(TensorBase t, Reader* r):
    cdef str label = "SliceBackward0"
    if r.program.count == 1 and r.program.cuts[0][0] != SLICE:
        label = "SelectBackward0" if r.program.cuts[0][0] == SELECT else "UnsqueezeBackward0"
    return cut(t, program_cut, <const int64_t*>&r.program, label)


cdef bint is_basic(tuple key, int* dims) noexcept:
    """Whether the key has only numbers, slices, None and Ellipsis; counts the dimensions that it names."""
    dims[0] = 0
    for item in key:
        if PyLong_CheckExact(item) or PySlice_Check(item):
            dims[0] += 1
        elif item is not None and item is not Ellipsis:
            return False
    return True


cdef int too_many(TensorBase t, int dims) except -1:
    if dims > t.rank:
        raise IndexError(f"too many indices for tensor of dimension {t.rank}: got {dims}")
    return 0


cdef TensorBase read_basic(TensorBase t, tuple key, int dims):
    cdef Reader r
    r.program.count, r.source, r.out = 0, 0, 0
    too_many(t, dims)
    cdef bint spread = False
    for item in key:
        if PyLong_CheckExact(item):
            read_int(&r, t, item)
        elif PySlice_Check(item):
            read_slice(&r, t, item)
        elif item is None:
            add_cut(&r, UNSQUEEZE)
            r.out += 1
        elif not spread:
            spread = True
            r.source += t.rank - dims
            r.out += t.rank - dims
    return finish_view(t, &r)


cdef object plain_item(object item):
    """An item of a key as an int, bool, slice, None, Ellipsis or tensor (of int64 or bool)."""
    cdef TensorBase t
    if item is None or item is Ellipsis or PyLong_Check(item) or PySlice_Check(item):
        return item
    if isinstance(item, TensorBase):
        t = <TensorBase>item
    elif isinstance(item, (list, tuple, range)) or hasattr(item, "__array__"):
        if hasattr(item, "__index__") and not hasattr(item, "__len__") and not getattr(item, "ndim", 0):
            return item.__index__()
        t = <TensorBase>tensor_of(list(item) if isinstance(item, range) else item)
        if t.count == 0 and CATEGORY[t.code] == 2:
            t = <TensorBase>to_dtype(t, dtype_of(I64))
    elif hasattr(item, "__index__"):
        return item.__index__()
    else:
        raise IndexError("only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
                         f"(got {type(item).__name__})")
    if t.code == U8:
        warnings.warn("indexing with dtype uint8 is deprecated, use a bool mask", UserWarning, stacklevel=2)
        return to_dtype(t, dtype_of(BOOL))
    if t.code == BOOL:
        return t
    if CATEGORY[t.code] != 1:
        raise IndexError(f"tensors used as indices must be long, int, byte or bool tensors, got {dtype_of(t.code)}")
    if t.rank == 0:
        return int(t)
    return as_index(t)


cdef TensorBase as_index(TensorBase t):
    return t if t.code == I64 else <TensorBase>to_dtype(t.detach(), dtype_of(I64))


cdef int check_mask(TensorBase t, TensorBase mask, int source, int place) except -1:
    cdef int d
    for d in range(mask.rank):
        if mask.sizes[d] != t.sizes[source + d]:
            raise IndexError(f"The shape of the mask {list(mask.shape)} at index {d} does not match the shape of the indexed tensor "
                             f"{list(t.shape)} at index {source + d}")
    return 0


cdef tuple read_advanced(TensorBase t, tuple key):
    """The view that the key's basic items make, and the index tensors of its dimensions (None where there are none)."""
    cdef Reader r
    cdef list items = [plain_item(item) for item in key], indices = []
    cdef TensorBase index
    cdef int dims = 0, d
    cdef bint spread = False, advanced = False
    r.program.count, r.source, r.out = 0, 0, 0
    for item in items:
        if isinstance(item, TensorBase):
            dims += (<TensorBase>item).rank if (<TensorBase>item).code == BOOL else 1
        elif item is not None and item is not Ellipsis and not PyBool_Check(item):
            dims += 1
    too_many(t, dims)
    for item in items:
        if isinstance(item, TensorBase) and (<TensorBase>item).code == BOOL and (<TensorBase>item).rank == 0:
            item = bool(item)
        if item is None:
            add_cut(&r, UNSQUEEZE)
            r.out += 1
        elif item is Ellipsis:
            if not spread:
                spread = True
                r.source += t.rank - dims
                r.out += t.rank - dims
        elif PyBool_Check(item):  # a new dimension with all or nothing of it
            add_cut(&r, UNSQUEEZE)
            place_index(indices, r.out, tensor_of([0] if item else [], dtype=dtype_of(I64)))
            r.out += 1
            advanced = True
        elif PyLong_Check(item):
            read_int(&r, t, item)
        elif PySlice_Check(item):
            read_slice(&r, t, item)
        else:
            index = <TensorBase>item
            advanced = True
            if index.code != BOOL:
                place_index(indices, r.out, index)
                r.source += 1
                r.out += 1
                continue
            check_mask(t, index, r.source, r.out)
            places = coordinates(index, False)
            for d in range(index.rank):
                place_index(indices, r.out, row_of(<TensorBase>places, d))
                r.source += 1
                r.out += 1
    if r.program.count == 0 and advanced:
        return t, indices
    return finish_view(t, &r), indices if advanced else None


cdef int place_index(list indices, int dim, TensorBase index) except -1:
    while len(indices) < dim:
        indices.append(None)
    indices.append(index)
    return 0


cdef TensorBase row_of(TensorBase t, int64_t i):
    cdef Shape s
    cdef int64_t a[2]
    a[0], a[1] = 0, i
    load(&s, t)
    select_cut(&s, a)
    return view_of(t, &s)


cdef object getitem(TensorBase t, object key):
    cdef Reader r
    cdef int dims
    if PyLong_CheckExact(key) or PySlice_Check(key):
        if t.rank == 0:
            raise IndexError("invalid index of a 0-dim tensor. Use `tensor.item()` in Python to convert a 0-dim tensor to a number")
        r.program.count, r.source, r.out = 0, 0, 0
        if PySlice_Check(key):
            read_slice(&r, t, key)
        else:
            read_int(&r, t, key)
        return finish_view(t, &r)
    if not PyTuple_Check(key):
        if isinstance(key, TensorBase) and (<TensorBase>key).code == BOOL and (<TensorBase>key).rank:
            key, t = positions(t, <TensorBase>key)
        key = (key,)
    if is_basic(<tuple>key, &dims):
        return read_basic(t, <tuple>key, dims)
    v, indices = read_advanced(t, <tuple>key)
    return v if indices is None else get(<TensorBase>v, <list>indices, "IndexBackward0")


cdef tuple positions(TensorBase t, TensorBase mask):
    """A mask as a vector of positions in t with the masked dimensions made one; as they are where strides forbid that."""
    cdef int64_t sizes[MAX_DIMS]
    cdef TensorBase flat
    cdef int d, rest = t.rank - mask.rank
    too_many(t, mask.rank)
    check_mask(t, mask, 0, 0)
    sizes[0] = mask.count
    for d in range(rest):
        sizes[1 + d] = t.sizes[mask.rank + d]
    flat = t if mask.rank == 1 else viewed(t, 1 + rest, sizes, "ViewBackward0")
    if flat is None:
        return mask, t
    return row_of(coordinates(reshaped(mask, 1, sizes), False), 0), flat


cdef int setitem(TensorBase t, object key, object value) except -1:
    cdef TensorBase v, given
    cdef int dims, d
    cdef list indices = None
    if PyTuple_Check(key) and is_basic(<tuple>key, &dims):
        v = read_basic(t, <tuple>key, dims)
    elif PyLong_CheckExact(key) or PySlice_Check(key):
        v = <TensorBase>getitem(t, key)
    else:
        if isinstance(key, TensorBase) and (<TensorBase>key).code == BOOL and (<TensorBase>key).rank:
            if not isinstance(value, TensorBase) and same_shape(t, <TensorBase>key):
                (<object>t).masked_fill_(key, value)
                return 0
            key, t = positions(t, <TensorBase>key)
        found = read_advanced(t, <tuple>key if PyTuple_Check(key) else (key,))
        v, indices = <TensorBase>found[0], found[1]
    if not isinstance(value, TensorBase):
        if hasattr(value, "__len__") and getattr(value, "ndim", 1) or isinstance(value, str):
            raise TypeError(f"can't assign a {type(value).__name__} to a tensor of dtype {dtype_of(t.code)}")
        if indices is None:
            fill_(v, value)
            return 0
        value = fill_(new_tensor(0, NULL, t.code), value)
    given = <TensorBase>value
    if indices is not None:
        if given.code != v.code:
            given = <TensorBase>to_dtype(given, dtype_of(v.code))
        return put_into(v, indices, given, False, "index_put_")
    d = 0
    while given.rank - d > v.rank and given.sizes[d] == 1:
        d += 1
    if d:  # leading dimensions of size 1 are of no account
        given = reshaped(given, given.rank - d, given.sizes + d)
    copy_(v, given)
    return 0


late.getitem = getitem
late.setitem = setitem


# --- masks ----------------------------------------------------------------------------------------------------------------------
cdef int64_t count_true(const uint8_t* p, int64_t n) noexcept nogil:
    cdef int64_t i, found = 0
    for i in range(n):
        found += p[i] != 0
    return found


cdef void list_true(const uint8_t* p, int64_t n, int64_t* to) noexcept nogil:
    """The positions of the n elements that are true; without a branch that depends on them."""
    cdef int64_t i = 0, k = 0
    while k < n:
        to[k] = i
        k += p[i] != 0
        i += 1


cdef TensorBase coordinates(TensorBase t, bint by_element):
    """Where t is not zero: shape (elements, rank) if `by_element`, else (rank, elements)."""
    cdef TensorBase mask = t, out
    cdef const uint8_t* p
    cdef int64_t* to
    cdef int64_t shape[2]
    cdef int64_t place[MAX_DIMS]
    cdef int64_t n, i, along, step, gap, row, length
    cdef int d, rank = t.rank
    cdef bint before = grad_enabled()
    set_grad(False)
    try:
        if t.code != BOOL:
            mask = <TensorBase>late.binary(operator_for(OP_NE), t, 0)
        mask = compact(mask)
    finally:
        set_grad(before)
    p = <const uint8_t*>pointer(mask)
    n = count_true(p, mask.count)
    shape[0], shape[1] = n if by_element else rank, rank if by_element else n
    out = new_tensor(2, shape, I64)
    if n == 0 or rank == 0:
        return out
    to = <int64_t*>out.storage.data
    if rank == 1:
        with nogil:
            list_true(p, n, to)
        return out
    step, along = rank if by_element else 1, 1 if by_element else n
    length = mask.sizes[rank - 1]
    memset(place, 0, sizeof(place))
    with nogil:
        for row in range(mask.count // length):
            i = 0
            while i < length:
                if i + 8 <= length and (<const uint64_t*>(p + i))[0] == 0:
                    i += 8
                    continue
                if p[i]:
                    for d in range(rank - 1):
                        to[d * along] = place[d]
                    to[(rank - 1) * along] = i
                    to += step
                i += 1
            p += length
            d = rank - 2
            while d >= 0:
                place[d] += 1
                if place[d] < mask.sizes[d]:
                    break
                place[d] = 0
                d -= 1
    return out


def nonzero(TensorBase input not None, *, as_tuple=False):
    """Where the elements are not zero: a row of coordinates for each, in row-major order.

    With `as_tuple`, a vector for each dimension, as an index key has it; a 0-dim tensor then counts as a vector of one.
    """
    cdef int d
    cdef TensorBase found
    cdef int64_t one = 1
    if not as_tuple:
        return coordinates(input, True)
    if input.rank == 0:
        input = reshaped(input, 1, &one)
    found = coordinates(input, False)
    return tuple([row_of(found, d) for d in range(input.rank)])


def argwhere(TensorBase input not None):
    """`nonzero(input)`."""
    return coordinates(input, True)


# --- places ------------------------------------------------------------------------------------------------------------------------
cdef struct Places:
    int before                # dimensions in front of the indexed ones
    int64_t before_sizes[MAX_DIMS]
    int64_t before_strides[MAX_DIMS]
    int after                 # dimensions behind them
    int64_t after_sizes[MAX_DIMS]
    int64_t after_strides[MAX_DIMS]
    int64_t outer             # elements of the dimensions in front
    int64_t count             # index positions
    int64_t block             # elements of the dimensions behind
    bint solid                # those lie without gaps
    int64_t* places           # for each index position, its offset in elements
    int rank                  # of the result
    int64_t sizes[MAX_DIMS]
    int width
    char* data                # the indexed tensor's
    char* rows                # the other side's: contiguous


cdef int find_places(Places* p, TensorBase v, list indices, object error, bint negative) except -1:
    """Read the index tensors: shape of the result, and where each index position lies in v.

    `error` is raised where an index is out of bounds; negative ones count from the end if `negative`.
    """
    cdef int64_t shape[MAX_DIMS]
    cdef int rank = 0, d, k, first = -1, last = -1, found = 0
    cdef TensorBase index
    cdef bint adjacent
    for d in range(len(indices)):
        if indices[d] is None:
            continue
        if first < 0:
            first = d
        last = d
        found += 1
        index = <TensorBase>indices[d]
        rank = widen(shape, rank, index, indices)
    adjacent = last - first + 1 == found
    p.before = p.after = 0
    p.outer = p.count = p.block = 1
    for d in range(v.rank):
        if d < len(indices) and indices[d] is not None:
            continue
        if adjacent and d < first:
            p.before_sizes[p.before], p.before_strides[p.before] = v.sizes[d], v.strides[d]
            p.outer *= v.sizes[d]
            p.before += 1
        else:
            p.after_sizes[p.after], p.after_strides[p.after] = v.sizes[d], v.strides[d]
            p.block *= v.sizes[d]
            p.after += 1
    p.solid, p.rank = True, 0
    cdef int64_t step = 1
    for k in range(p.after - 1, -1, -1):
        if p.after_sizes[k] != 1:
            p.solid = p.solid and p.after_strides[k] == step
            step *= p.after_sizes[k]
    if p.before + rank + p.after > MAX_DIMS:
        raise IndexError(f"the indexing result would have more than {MAX_DIMS} dimensions")
    for k in range(p.before):
        p.sizes[k] = p.before_sizes[k]
    for k in range(rank):
        p.sizes[p.before + k] = shape[k]
        p.count *= shape[k]
    for k in range(p.after):
        p.sizes[p.before + rank + k] = p.after_sizes[k]
    p.rank = p.before + rank + p.after
    p.width, p.data = v.width, pointer(v)
    p.places = <int64_t*>malloc((p.count if p.count > 0 else 1) * sizeof(int64_t))
    if p.places == NULL:
        raise MemoryError
    memset(p.places, 0, p.count * sizeof(int64_t))
    try:
        if p.count:
            for d in range(len(indices)):
                if indices[d] is not None:
                    add_index(p.places, rank, shape, <TensorBase>indices[d], v, d, error, negative)
    except BaseException:
        free(p.places)
        raise
    return 0


cdef int widen(int64_t* shape, int rank, TensorBase index, list indices) except -1:
    """Broadcast the index shape so far with one more index tensor's."""
    cdef int larger = max(rank, index.rank), k
    cdef int64_t a, b
    cdef int64_t merged[MAX_DIMS]
    for k in range(larger):
        a = shape[rank - 1 - k] if k < rank else 1
        b = index.sizes[index.rank - 1 - k] if k < index.rank else 1
        if a != b and a != 1 and b != 1:
            shapes = ", ".join([str(list(i.shape)) for i in indices if i is not None])
            raise IndexError(f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}")
        merged[larger - 1 - k] = b if a == 1 else a
    memcpy(shape, merged, larger * sizeof(int64_t))
    return larger


cdef int add_index(int64_t* places, int rank, const int64_t* shape, TensorBase index, TensorBase v, int dim, object error,
                   bint negative) except -1:
    """Add an index tensor's part to each place."""
    cdef int64_t strides[MAX_DIMS]
    cdef int64_t place[MAX_DIMS]
    cdef int64_t size = v.sizes[dim], step = v.strides[dim], i, k, bad = 0, low = -size if negative else 0
    cdef int64_t inner = shape[rank - 1] if rank else 1, inner_step, rows = 1
    cdef const int64_t* p = <const int64_t*>pointer(index)
    cdef int d, e
    cdef bint failed = False
    for d in range(rank):
        e = d - (rank - index.rank)
        strides[d] = index.strides[e] if e >= 0 and index.sizes[e] != 1 else 0
        place[d] = 0
        if d < rank - 1:
            rows *= shape[d]
    inner_step = strides[rank - 1] if rank else 0
    with nogil:
        for k in range(rows):
            for i in range(inner):
                bad = p[i * inner_step]
                if bad < low or bad >= size:
                    failed = True
                    break
                places[i] += (bad + size if bad < 0 else bad) * step
            if failed:
                break
            places += inner
            d = rank - 2
            while d >= 0:
                place[d] += 1
                p += strides[d]
                if place[d] < shape[d]:
                    break
                p -= strides[d] * place[d]
                place[d] = 0
                d -= 1
    if failed:
        raise error(f"index {bad} is out of bounds for dimension {dim} with size {size}")
    return 0


cdef inline int64_t outer_offset(Places* p, int64_t row) noexcept nogil:
    """Offset of one position of the dimensions in front."""
    cdef int64_t offset = 0
    cdef int d
    for d in range(p.before - 1, -1, -1):
        offset += row % p.before_sizes[d] * p.before_strides[d]
        row //= p.before_sizes[d]
    return offset


ctypedef fused Unit:
    uint8_t
    uint16_t
    uint32_t
    uint64_t


cdef void gather_units(const Unit* source, Unit* to, const int64_t* places, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        to[i] = source[places[i]]


cdef void get_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Rows [begin, end) of the result; there are outer × count of them."""
    cdef Places* p = <Places*>context
    cdef int64_t row = begin, position, n, i, size = p.block * p.width
    cdef const char* source
    cdef char* to
    cdef int64_t packed[MAX_DIMS]
    pack(p, packed)
    while row < end:
        position = row % p.count
        n = min(p.count - position, end - row)
        source = p.data + outer_offset(p, row // p.count) * p.width
        to = p.rows + row * size
        if p.block == 1 and p.width == 4:
            gather_units(<const uint32_t*>source, <uint32_t*>to, p.places + position, n)
        elif p.block == 1 and p.width == 8:
            gather_units(<const uint64_t*>source, <uint64_t*>to, p.places + position, n)
        elif p.block == 1 and p.width == 1:
            gather_units(<const uint8_t*>source, <uint8_t*>to, p.places + position, n)
        elif p.block == 1 and p.width == 2:
            gather_units(<const uint16_t*>source, <uint16_t*>to, p.places + position, n)
        elif p.solid:
            for i in range(n):
                memcpy(to + i * size, source + p.places[position + i] * p.width, size)
        else:
            for i in range(n):
                copy_strided(to + i * size, packed, source + p.places[position + i] * p.width, p.after_strides, p.after,
                             p.after_sizes, p.width)
        row += n


cdef void pack(Places* p, int64_t* strides) noexcept nogil:
    """Strides of a block on the contiguous side."""
    cdef int64_t n = 1
    cdef int d
    for d in range(p.after - 1, -1, -1):
        strides[d] = n
        n *= p.after_sizes[d]


cdef void put_rows(Places* p) noexcept nogil:
    """The other way: rows to their places, in order, so that the last of equal indices wins."""
    cdef int64_t row, i, size = p.block * p.width
    cdef char* to
    cdef const char* source = p.rows
    cdef int64_t packed[MAX_DIMS]
    pack(p, packed)
    for row in range(p.outer):
        to = p.data + outer_offset(p, row) * p.width
        for i in range(p.count):
            if p.solid:
                memcpy(to + p.places[i] * p.width, source, size)
            else:
                copy_strided(to + p.places[i] * p.width, p.after_strides, source, packed, p.after, p.after_sizes, p.width)
            source += size


ctypedef fused Number:
    uint8_t
    int8_t
    int16_t
    int32_t
    int64_t
    float
    double


cdef void add_block(Number* to, const int64_t* strides, const int64_t* sizes, int rank, const Number** source,
                    int parts) noexcept nogil:
    cdef int64_t i
    cdef int k
    if rank == 0:
        for k in range(parts):
            to[k] += source[0][k]
        source[0] += parts
        return
    for i in range(sizes[0]):
        add_block(to + i * strides[0] * parts, strides + 1, sizes + 1, rank - 1, source, parts)


cdef void add_rows(Places* p, const Number* rows, int parts) noexcept nogil:
    """Rows added at their places, in order: the same bits for any number of threads.  A complex number has two parts."""
    cdef int64_t row, i, k, size = p.block * parts
    cdef Number* base
    cdef Number* to
    for row in range(p.outer):
        base = <Number*>p.data + outer_offset(p, row) * parts
        for i in range(p.count):
            to = base + p.places[i] * parts
            if p.solid:
                for k in range(size):
                    to[k] += rows[k]
                rows += size
            else:
                add_block(to, p.after_strides, p.after_sizes, p.after, &rows, parts)


cdef int add_all(Places* p, int code, str who) except -1:
    if code == F32 or code == C64:
        add_rows(p, <const float*>p.rows, 2 if code == C64 else 1)
    elif code == F64 or code == C128:
        add_rows(p, <const double*>p.rows, 2 if code == C128 else 1)
    elif code == I64:
        add_rows(p, <const int64_t*>p.rows, 1)
    elif code == I32:
        add_rows(p, <const int32_t*>p.rows, 1)
    elif code == I16:
        add_rows(p, <const int16_t*>p.rows, 1)
    elif code == I8:
        add_rows(p, <const int8_t*>p.rows, 1)
    elif code == U8:
        add_rows(p, <const uint8_t*>p.rows, 1)
    else:
        raise RuntimeError(f"{who}(): cannot accumulate in {dtype_of(code)}")
    return 0


# --- reading and writing at places -----------------------------------------------------------------------------------------------
cdef TensorBase get(TensorBase v, list indices, str label):
    return get_checked(v, indices, label, IndexError, True)


cdef TensorBase get_checked(TensorBase v, list indices, str label, object error, bint negative):
    """The elements at the index positions, in a new tensor."""
    cdef Places p
    cdef TensorBase out
    cdef int64_t grain
    find_places(&p, v, indices, error, negative)
    try:
        out = new_tensor(p.rank, p.sizes, v.code)
        p.rows = out.storage.data
        if out.count:
            if out.count < PARALLEL_FROM:
                get_range(&p, 0, p.outer * p.count)
            else:
                grain = PARALLEL_FROM // p.block
                with nogil:
                    parallel_for(get_range, &p, p.outer * p.count, grain if grain > 0 else 1)
    finally:
        free(p.places)
    if taped(v):
        record_get(v, indices, out, label)
    return out


cdef int record_get(TensorBase v, list indices, TensorBase out, str label) except -1:
    dims = tuple([i is not None for i in indices])
    record(label, spread_back, (v,), out, tuple([i for i in indices if i is not None]), ((dims, v.shape),))
    return 0


cdef list with_gaps(tuple tensors, tuple dims):
    """Index tensors (the first of `tensors`) at the dimensions marked, None at the others."""
    found = iter(tensors)
    return [next(found) if used else None for used in dims]


def spread_back(grad, *saved):
    """Derivative of reading: the gradient added up at the places read, among zeros."""
    dims, shape = saved[len(saved) - 1]
    return spread(<TensorBase>grad, with_gaps(saved, dims), shape)


cdef TensorBase spread(TensorBase grad, list indices, object shape):
    """Zeros of that shape with the gradient's elements added at the index positions."""
    cdef TensorBase out
    cdef bint before = grad_enabled()
    cdef bint half = grad.code == F16 or grad.code == BF16
    set_grad(False)
    try:
        out = <TensorBase>(<object>grad).new_zeros(shape, dtype=dtype_of(F32 if half else grad.code))
        put_into(out, indices, <TensorBase>to_dtype(grad, dtype_of(F32)) if half else grad, True, "index")
        if half:
            out = <TensorBase>to_dtype(out, dtype_of(grad.code))
    finally:
        set_grad(before)
    if taped(grad):
        dims = tuple([i is not None for i in indices])
        record("IndexPutBackward0", get_back, (grad,), out, tuple([i for i in indices if i is not None]), (dims,))
    return out


def get_back(grad, *saved):
    """Derivative of spreading: the elements at the places."""
    return get(<TensorBase>grad, with_gaps(saved, saved[len(saved) - 1]), "IndexBackward0")


cdef int put_into(TensorBase v, list indices, TensorBase values, bint accumulate, str who) except -1:
    return put_checked(v, indices, values, accumulate, who, IndexError, True)


cdef int put_checked(TensorBase v, list indices, TensorBase values, bint accumulate, str who, object error,
                     bint negative) except -1:
    """v[indices] = values, or += with `accumulate`; values broadcast, and have v's dtype."""
    cdef Places p
    cdef TensorBase rows
    cdef bint before = grad_enabled()
    cdef bint recorded = before and (wants_grad(v) or wants_grad(values)) and CATEGORY[v.code] >= 2
    if before:
        check_in_place(v, who)
    if not v.storage.writable:
        raise RuntimeError(f"{who}(): the tensor's memory is read-only")
    if accumulate and (v.code == BOOL or v.code == F16 or v.code == BF16):
        accumulate_wide(v, indices, values, who, error, negative)
    else:
        find_places(&p, v, indices, error, negative)
        set_grad(False)
        try:
            rows = values_as_rows(&p, values)
            if rows.storage is v.storage:
                rows = <TensorBase>clone(rows)
            p.rows = pointer(rows)
            if rows.count:
                if accumulate:
                    add_all(&p, v.code, who)
                else:
                    with nogil:
                        put_rows(&p)
        finally:
            set_grad(before)
            free(p.places)
        wrote(v)
    if recorded:
        dims = tuple([i is not None for i in indices])
        record("IndexPutBackward0", put_back, (v, values), v, tuple([i for i in indices if i is not None]),
               ((dims, accumulate, values.shape, wants_grad(values)),), v)
    return 0


cdef TensorBase values_as_rows(Places* p, TensorBase values):
    """The values broadcast to the shape of the indexing result, contiguous."""
    cdef int d = 0, k
    cdef bint same = values.rank == p.rank
    while values.rank - d > p.rank and values.sizes[d] == 1:
        d += 1
    for k in range(p.rank):
        same = same and values.sizes[k] == p.sizes[k]
    if same:
        return compact(values)
    if not broadcasts(p, values, d):
        raise RuntimeError(f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of "
                           f"shape {list(size_from(p.rank, p.sizes))}")
    if d:
        values = reshaped(values, values.rank - d, values.sizes + d)
    return compact(expanded(values, p.rank, p.sizes))


cdef bint broadcasts(Places* p, TensorBase values, int skip) noexcept:
    cdef int k, rank = values.rank - skip
    if rank > p.rank:
        return False
    for k in range(rank):
        if values.sizes[skip + k] != 1 and values.sizes[skip + k] != p.sizes[p.rank - rank + k]:
            return False
    return True


cdef int accumulate_wide(TensorBase v, list indices, TensorBase values, str who, object error, bint negative) except -1:
    """Sums of halves are made in float32 and rounded once; bools add up as numbers do, and stay true."""
    cdef object wide = dtype_of(I64 if v.code == BOOL else F32)
    cdef bint before = grad_enabled()
    cdef TensorBase sums
    set_grad(False)
    try:
        sums = <TensorBase>to_dtype(v, wide)
        put_checked(sums, indices, <TensorBase>to_dtype(values, wide), True, who, error, negative)
        copy_(v, sums)
    finally:
        set_grad(before)
    return 0


def put_back(grad, *saved):
    """Derivative of writing at places: zeros there for the overwritten tensor, the elements there for the values."""
    cdef TensorBase of_values = None, zero
    cdef list indices
    dims, accumulate, shape, wanted = saved[len(saved) - 1]
    indices = with_gaps(saved, dims)
    if wanted:
        of_values = get(<TensorBase>grad, indices, "IndexBackward0")
        of_values = <TensorBase>sum_to(of_values, shape)
    if accumulate:
        return grad, of_values
    zero = <TensorBase>grad.new_zeros(())
    kept = clone(grad)
    put_into(<TensorBase>kept, indices, zero, False, "index_put_")
    return kept, of_values


# --- operations ---------------------------------------------------------------------------------------------------------------------
cdef list read_indices(TensorBase t, object indices, str who):
    """Index tensors of index_put: masks become coordinates; None takes all of a dimension."""
    cdef list found = []
    cdef TensorBase index, places
    cdef int d
    if not isinstance(indices, (tuple, list)):
        raise TypeError(f"{who}(): argument 'indices' must be tuple of Tensors, not {type(indices).__name__}")
    for item in indices:
        if item is None:
            found.append(None)
            continue
        if not isinstance(item, TensorBase):
            raise TypeError(f"{who}(): argument 'indices' must be tuple of Tensors, got {type(item).__name__}")
        index = <TensorBase>item
        if index.code == BOOL or index.code == U8:
            if len(found) + index.rank > t.rank:
                raise IndexError(f"{who}(): too many indices for tensor of dimension {t.rank}")
            check_mask(t, index, len(found), 0)
            places = coordinates(index, False)
            for d in range(index.rank):
                found.append(row_of(places, d))
        elif CATEGORY[index.code] == 1:
            found.append(as_index(index))
        else:
            raise IndexError(f"{who}(): tensors used as indices must be long, int, byte or bool tensors, got "
                             f"{dtype_of(index.code)}")
    if len(found) > t.rank:
        raise IndexError(f"{who}(): too many indices for tensor of dimension {t.rank} (got {len(found)})")
    return found


def index_put_(TensorBase input not None, indices, TensorBase values not None, accumulate=False):
    """`input[indices] = values`, or `+=` with `accumulate`, where equal indices add up in their order."""
    if values.code != input.code:
        raise RuntimeError(f"index_put_(): Index put requires the source and destination dtypes match, got {dtype_of(input.code)} "
                           f"for the destination and {dtype_of(values.code)} for the source.")
    put_into(input, read_indices(input, indices, "index_put_"), values, accumulate, "index_put_")
    return input


def index_put(TensorBase input not None, indices, TensorBase values not None, accumulate=False):
    """A copy of the input with `values` written (or added) at `indices`."""
    return index_put_(clone(input), indices, values, accumulate)


cdef list along_dim(TensorBase input, object dim, TensorBase index, str who, int* wrapped, object error=IndexError):
    """The index of index_select and its kin, as a list for `get`: a vector (or 0-dim) of int32 or int64."""
    cdef int64_t one = 1
    wrapped[0] = wrap_dim(as_int(dim, who, "dim"), input.rank, who)
    if index.rank > 1:
        raise IndexError(f"{who}(): Index is supposed to be a vector, got shape {list(index.shape)}")
    if index.code != I64 and index.code != I32:
        raise RuntimeError(f"{who}(): Expected dtype int32 or int64 for index, got {dtype_of(index.code)}")
    index = as_index(index)
    if index.rank == 0:
        index = reshaped(index, 1, &one)
    return [None] * wrapped[0] + [index]


def index_select(TensorBase input not None, dim, TensorBase index not None):
    """The parts of dimension `dim` that a vector of indices names, in its order.

    IndexError for an index that is negative or too large.

    >>> import flambeau
    >>> flambeau.index_select(flambeau.arange(4) * 10, 0, flambeau.tensor([3, 1]))
    tensor([30, 10])
    """
    cdef int d
    cdef list indices = along_dim(input, dim, index, "index_select", &d)
    cdef int64_t one = 1
    if input.rank == 0:
        return reshaped(get_checked(reshaped(input, 1, &one), indices, "IndexSelectBackward0", IndexError, False), 0, NULL)
    return get_checked(input, indices, "IndexSelectBackward0", IndexError, False)


cdef TensorBase matching_source(TensorBase input, int d, TensorBase index, TensorBase source, str who, object error):
    """The source of index_add and index_copy, checked: as many parts as there are indices, otherwise the input's shape."""
    cdef int64_t n = source.sizes[d] if source.rank else 1
    cdef int k
    if source.code != input.code:
        raise RuntimeError(f"{who}(): self ({dtype_of(input.code)}) and source ({dtype_of(source.code)}) must have the same scalar "
                           "type")
    if index.count != n:
        raise error(f"{who}(): Number of indices ({index.count}) should be equal to source.size(dim): ({n}), for dim: {d}")
    if source.rank != input.rank and source.rank and input.rank:
        raise error(f"{who}(): source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
                    f"{list(input.shape)} source.shape = {list(source.shape)}")
    for k in range(source.rank):
        if k != d and source.sizes[k] != input.sizes[k]:
            raise error(f"{who}(): source tensor shape must match self tensor shape, excluding the specified dimension. Got "
                        f"self.shape = {list(input.shape)} source.shape = {list(source.shape)}")
    return source


cdef object put_along(TensorBase input, object dim, TensorBase index, TensorBase source, bint accumulate, str who, object error):
    cdef int d
    cdef int64_t one = 1
    cdef list indices = along_dim(input, dim, index, who, &d)
    source = matching_source(input, d, index, source, who, error)
    if input.rank == 0:
        put_checked(reshaped(input, 1, &one), indices, reshaped(source, 1, &one), accumulate, who, error, False)
    else:
        put_checked(input, indices, source, accumulate, who, error, False)
    return input


def index_add_(TensorBase input not None, dim, TensorBase index not None, TensorBase source not None, *, alpha=1):
    """Add `alpha` times the parts of `source` to the parts of dimension `dim` that `index` names; equal indices add up."""
    if not (isinstance(alpha, (int, float)) and alpha == 1):
        source = <TensorBase>((<object>source) * alpha)
    return put_along(input, dim, index, source, True, "index_add_", RuntimeError)


def index_add(TensorBase input not None, dim, TensorBase index not None, TensorBase source not None, *, alpha=1):
    """A copy of the input with `alpha` times the parts of `source` added to the parts that `index` names."""
    return index_add_(clone(input), dim, index, source, alpha=alpha)


def index_copy_(TensorBase input not None, dim, TensorBase index not None, TensorBase source not None):
    """Overwrite the parts of dimension `dim` that `index` names by those of `source`; of equal indices the last wins."""
    return put_along(input, dim, index, source, False, "index_copy_", IndexError)


def index_copy(TensorBase input not None, dim, TensorBase index not None, TensorBase source not None):
    """A copy of the input with the parts that `index` names overwritten by those of `source`."""
    return index_copy_(clone(input), dim, index, source)


def index_fill_(TensorBase input not None, dim, TensorBase index not None, value):
    """Fill the parts of dimension `dim` that `index` names with `value`, a number or a 0-dim tensor."""
    cdef int d
    cdef int64_t one = 1
    cdef list indices = along_dim(input, dim, index, "index_fill_", &d)
    if isinstance(value, TensorBase):
        if (<TensorBase>value).rank:
            raise RuntimeError("index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                               f"{(<TensorBase>value).rank} dimension(s).")
        value = to_dtype(value, dtype_of(input.code))
    else:
        value = fill_(new_tensor(0, NULL, input.code), value)
    put_into(input if input.rank else reshaped(input, 1, &one), indices, <TensorBase>value, False, "index_fill_")
    return input


def index_fill(TensorBase input not None, dim, TensorBase index not None, value):
    """A copy of the input with the parts that `index` names filled with `value`."""
    return index_fill_(clone(input), dim, index, value)


cdef tuple under_mask(TensorBase input, TensorBase mask, str who):
    """Input and mask broadcast to one shape."""
    cdef int64_t sizes[MAX_DIMS]
    cdef int rank = max(input.rank, mask.rank), k
    cdef int64_t a, b
    if mask.code != BOOL:
        raise RuntimeError(f"{who}: expected BoolTensor for mask, got {dtype_of(mask.code)}")
    for k in range(rank):
        a = input.sizes[input.rank - 1 - k] if k < input.rank else 1
        b = mask.sizes[mask.rank - 1 - k] if k < mask.rank else 1
        if a != b and a != 1 and b != 1:
            raise RuntimeError(f"{who}(): The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton dimension "
                               f"{rank - 1 - k}: got shapes {list(input.shape)} and {list(mask.shape)}")
        sizes[rank - 1 - k] = b if a == 1 else a
    return expanded(input, rank, sizes), expanded(mask, rank, sizes)


cdef list mask_indices(TensorBase mask):
    cdef TensorBase places = coordinates(mask, False)
    cdef int d
    return [row_of(places, d) for d in range(mask.rank)]


def masked_select(TensorBase input not None, TensorBase mask not None):
    """The elements where `mask` is true, as a vector; both broadcast.

    >>> import flambeau
    >>> x = flambeau.arange(4)
    >>> flambeau.masked_select(x, x > 1)
    tensor([2, 3])
    """
    cdef int64_t one = 1
    wide, mask = under_mask(input, mask, "masked_select")
    if mask.rank == 0:
        wide, mask = reshaped(<TensorBase>wide, 1, &one), reshaped(mask, 1, &one)
    return get(<TensorBase>wide, mask_indices(mask), "MaskedSelectBackward0")


def masked_scatter_(TensorBase input not None, TensorBase mask not None, TensorBase source not None):
    """Write the elements of `source`, in order, where `mask` (which broadcasts) is true."""
    cdef int64_t one = 1, n
    cdef list indices
    cdef TensorBase target = input
    if source.code != input.code:
        raise RuntimeError(f"masked_scatter_(): expected self and source to have same dtypes but got {dtype_of(input.code)} and "
                           f"{dtype_of(source.code)}")
    wide, mask = under_mask(input, mask, "masked_scatter_")
    if (<TensorBase>wide).count != input.count or (<TensorBase>wide).rank != input.rank:
        raise RuntimeError(f"masked_scatter_(): the mask {list(mask.shape)} must broadcast to the shape {list(input.shape)}")
    if mask.rank == 0:
        target, mask = reshaped(input, 1, &one), reshaped(mask, 1, &one)
    indices = mask_indices(mask)
    n = (<TensorBase>indices[0]).count
    if source.count < n:
        raise RuntimeError(f"masked_scatter_(): Number of elements of source ({source.count}) < number of ones in mask ({n})")
    values = (<object>source).reshape(-1).narrow(0, 0, n)
    put_into(target, indices, <TensorBase>values, False, "masked_scatter_")
    return input


def masked_scatter(TensorBase input not None, TensorBase mask not None, TensorBase source not None):
    """A copy of the input with the elements of `source`, in order, where `mask` is true; input and mask broadcast."""
    wide, mask = under_mask(input, mask, "masked_scatter")
    return masked_scatter_(clone(wide), mask, source)


cdef TensorBase flat_index(TensorBase input, TensorBase index, str who):
    """The index of `take` and `put_`, checked, as a vector."""
    cdef int64_t n = index.count, i, found
    cdef const int64_t* p
    if index.code != I64:
        raise RuntimeError(f"{who}(): Expected a long tensor for index, but got {dtype_of(index.code)}")
    index = reshaped(index, 1, &n)
    p = <const int64_t*>pointer(index)
    for i in range(n):
        found = p[i * index.strides[0]]
        if found < -input.count or found >= input.count:
            raise IndexError(f"{who}(): out of range: tried to access index {found} on a tensor of {input.count} elements.")
    return index


def take(TensorBase input not None, TensorBase index not None):
    """The elements at positions counted in row-major order; the result has the index tensor's shape."""
    cdef int64_t n = input.count
    cdef TensorBase places = flat_index(input, index, "take")
    return reshaped(get(reshaped(input, 1, &n), [places], "TakeBackward0"), index.rank, index.sizes)


def put_(TensorBase input not None, TensorBase index not None, TensorBase source not None, accumulate=False):
    """Write (or add) the elements of `source` at positions counted in row-major order."""
    cdef int64_t n = input.count
    cdef TensorBase places
    if source.code != input.code:
        raise RuntimeError(f"put_(): self and source expected to have the same dtype, but got self.dtype = {dtype_of(input.code)} and "
                           f"source.dtype = {dtype_of(source.code)}")
    if source.count != index.count:
        raise IndexError(f"put_(): Expected source and index to have the same number of elements, but got source.numel() = "
                         f"{source.count}, index.numel() = {index.count}")
    places = flat_index(input, index, "put_")
    if not input.contiguous:
        copy_(input, put(input, index, source, accumulate))
        return input
    put_into(reshaped(input, 1, &n), [places], reshaped(source, 1, &places.sizes[0]), accumulate, "put_")
    return input


def put(TensorBase input not None, TensorBase index not None, TensorBase source not None, accumulate=False):
    """A copy of the input with the elements of `source` written (or added) at positions counted in row-major order."""
    return put_((<object>clone(input)).contiguous(), index, source, accumulate)
