# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Indexing: numbers, slices, None and Ellipsis give views; masks and index tensors gather elements into a new tensor.

A key is read once, into a program of cuts (see `geometry`) that makes a view, and a list of index tensors for the view's
dimensions (see `places`).
"""
from cpython.object cimport PyObject
from libc.string cimport memset
from libc.stdint cimport int64_t, uint8_t, uint64_t
from ..base.callbacks import callbacks
from ..base.dtypes cimport BOOL, U8, U16, U64, I32, I64, F64, CATEGORY, dtype_of
from ..base.tensor cimport MAX_DIMS, OP_NE, TensorBase, as_int, check_no_internal_overlap, new_tensor, new_tensor_on, operator_for, pointer, runtime, same_shape, wrap_dim
from ..loops.launch cimport moved
from ..tape.modes cimport grad_enabled, set_grad
from ..tape.history cimport drop_base
from ..views.geometry cimport Shape, load, select_cut, slice_cut, unsqueeze_cut
from ..call.interceptors cimport call_object_overrides, has_override_object
from .places cimport as_index, get, get_checked, put_checked, put_into
from ..views.strided cimport compact, cut, expanded, reshaped, view_of, viewed
from ..base.formats import contiguous_format
from ..call.copies import clone, copy_, to_dtype
from ..make.elements import fill_
from ..make.literal import tensor as tensor_of
from .scatter import (
    gather, index_reduce, index_reduce_, scatter, scatter_, scatter_add, scatter_add_, scatter_reduce, scatter_reduce_, take_along_dim,
)
import warnings

cdef extern from "Python.h":
    bint PyLong_CheckExact(object o)
    bint PyLong_Check(object o)
    bint PyBool_Check(object o)
    bint PySlice_Check(object o)
    bint PyTuple_CheckExact(object o)
    bint PyTuple_Check(object o)
    bint PySequence_Check(object o)
    int PySlice_Unpack(object slice, Py_ssize_t* start, Py_ssize_t* stop, Py_ssize_t* step) except -1
    Py_ssize_t PySlice_AdjustIndices(Py_ssize_t length, Py_ssize_t* start, Py_ssize_t* stop, Py_ssize_t step)

cdef enum:
    MOST_CUTS = 128            # steps of one key
    PIECE = 1024               # elements that are looked through for those that are not 0

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
    int rank                  # of the view so far
    uint64_t turned           # dimensions of the view, as bits, that the key names from the end: the view has them forwards


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
    r.rank += kind == UNSQUEEZE
    r.rank -= kind == SELECT
    if p.count == MOST_CUTS or r.rank > MAX_DIMS:
        raise IndexError(f"too many indices for one key: a tensor has at most {MAX_DIMS} dimensions")
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
    if step == 0:
        raise ValueError("step must be greater than zero")
    length = PySlice_AdjustIndices(t.sizes[r.source], &start, &stop, step)
    if step < 0:
        start, step = start + (length - 1) * step if length else 0, -step if length > 1 else 1
        r.turned |= <uint64_t>1 << r.out
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


cdef object turn(TensorBase t, uint64_t turned):
    """A tensor with those dimensions turned round: a copy, for no tensor has negative strides."""
    return (<object>t).flip([d for d in range(t.rank) if turned >> <int>d & 1]) if turned else t


cdef bint is_basic(tuple key, int* dims) noexcept:
    """Whether the key has only numbers, slices, None and Ellipsis; counts the dimensions that it names."""
    dims[0] = 0
    for item in key:
        if PyLong_CheckExact(item) or PySlice_Check(item):
            dims[0] += 1
        elif item is not None and item is not Ellipsis:
            return False
    return True


def key_of(key):
    """The key, as a tuple where it is another sequence that stands for one.

    PyTorch keeps NumPy's old rule and warns: fewer than 32 items, of which one is a sequence, a tensor, a slice, None or an Ellipsis.
    """
    if (PyTuple_Check(key) or isinstance(key, (TensorBase, str, bytes)) or not PySequence_Check(key)
            or hasattr(key, "__array__")):
        return key
    try:
        items = tuple(key) if len(key) < 32 else ()
    except Exception:
        return key
    for item in items:
        if item is None or item is Ellipsis or PySlice_Check(item) or PySequence_Check(item):
            warnings.warn(
                "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch 2.9; use "
                "x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, x[torch.tensor(seq)], "
                "which will result either in an error or a different result", UserWarning, stacklevel=1)
            return items
    return key


cdef int too_many(TensorBase t, int dims) except -1:
    if dims > t.rank:
        raise IndexError(f"too many indices for tensor of dimension {t.rank}: got {dims}")
    return 0


cdef TensorBase read_basic(TensorBase t, tuple key, int dims, uint64_t* turned):
    """The view that a key makes; `turned` are its dimensions that the key names from the end."""
    cdef Reader r
    r.program.count, r.source, r.out, r.rank, r.turned = 0, 0, 0, t.rank, 0
    too_many(t, dims)
    cdef bint spread = False
    for item in key:
        if PyLong_CheckExact(item):
            read_int(&r, t, as_int(item, "__getitem__", "key"))
        elif PySlice_Check(item):
            read_slice(&r, t, item)
        elif item is None:
            add_cut(&r, UNSQUEEZE)
            r.out += 1
        elif not spread:
            spread = True
            r.source += t.rank - dims
            r.out += t.rank - dims
    turned[0] = r.turned
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
        item = list(item) if isinstance(item, range) else item
        t = <TensorBase>tensor_of(item, device="cpu")
        if CATEGORY[t.code] > 1 and hasattr(item, "__len__"):   # PyTorch makes integers of a sequence's numbers
            t = <TensorBase>(tensor_of(item, dtype=dtype_of(I64), device="cpu") if isinstance(item, (list, tuple))
                             else to_dtype(t, dtype_of(I64)))
    elif hasattr(item, "__index__"):
        return item.__index__()
    else:
        raise (TypeError if isinstance(item, str) else IndexError)(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
            f"(got {type(item).__name__})")
    if t.code == U8:
        warnings.warn("indexing with dtype uint8 is deprecated, use a bool mask", UserWarning, stacklevel=2)
        return to_dtype(t, dtype_of(BOOL))
    if t.code == BOOL:
        return t
    if CATEGORY[t.code] != 1 or (U16 <= t.code <= U64 and t.rank):
        raise IndexError(f"tensors used as indices must be long, int, byte or bool tensors, got {dtype_of(t.code)}")
    if t.rank == 0:
        return int(t)
    return as_index(t)


cdef int check_mask(TensorBase t, TensorBase mask, int source, int place) except -1:
    cdef int d
    for d in range(mask.rank):
        if mask.sizes[d] != t.sizes[source + d]:
            raise IndexError(f"The shape of the mask {list(mask.shape)} at index {d} does not match the shape of the indexed tensor "
                             f"{list(t.shape)} at index {source + d}")
    return 0


cdef tuple read_advanced(TensorBase t, tuple key, int64_t presumed=-1):
    """The view that the key's basic items make, and the index tensors of its dimensions (None where there are none)."""
    cdef Reader r
    cdef list items = [plain_item(item) for item in key], indices = []
    cdef TensorBase index
    cdef int dims = 0, d
    cdef bint spread = False, advanced = False
    r.program.count, r.source, r.out, r.rank, r.turned = 0, 0, 0, t.rank, 0
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
            place_index(indices, r.out, tensor_of([0] if item else [], dtype=dtype_of(I64), device="cpu"))
            r.out += 1
            advanced = True
        elif PyLong_Check(item):
            read_int(&r, t, as_int(item, "__getitem__", "key"))
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
            places = coordinates(index, False, presumed)
            for d in range(index.rank):
                place_index(indices, r.out, row_of(<TensorBase>places, d))
                r.source += 1
                r.out += 1
    if r.turned and presumed >= 0:
        raise ValueError("what a negative step next to an index tensor names cannot be written to")
    if r.program.count == 0 and advanced and not r.turned:
        return t, indices
    return turn(finish_view(t, &r), r.turned), indices if advanced else None


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


cdef bint has_own_override(object x):
    """Whether it is of a class with `__torch_function__` and no tensor, or holds such a one."""
    cdef PyObject* given = <PyObject*>x
    return has_override_object(&given, 1)


cdef object call_override(TensorBase t, object key):
    """What an index with `__torch_function__` returns."""
    cdef PyObject* given[2]
    if runtime.observers:   # the operation was called: its `__torch_function__` is called after this error
        raise TypeError("__getitem__(): an index is of a class with __torch_function__, which is called")
    given[0], given[1] = <PyObject*>t, <PyObject*>key
    return call_object_overrides(getitem_op, given, 2, NULL)


cdef object getitem(TensorBase t, object key):
    cdef Reader r
    cdef int dims
    cdef uint64_t turned
    cdef TensorBase v
    if PyLong_CheckExact(key) or PySlice_Check(key):
        if t.rank == 0:
            raise IndexError("invalid index of a 0-dim tensor. Use `tensor.item()` in Python to convert a 0-dim tensor to a number")
        r.program.count, r.source, r.out, r.rank, r.turned = 0, 0, 0, t.rank, 0
        if PySlice_Check(key):
            read_slice(&r, t, key)
        else:
            read_int(&r, t, as_int(key, "__getitem__", "key"))
        v = finish_view(t, &r)
        return turn(v, r.turned) if r.turned else v
    if not PyTuple_Check(key):
        key = key_of(key)
    if not PyTuple_Check(key):
        if isinstance(key, TensorBase) and (<TensorBase>key).code == BOOL and (<TensorBase>key).rank:
            key, t = positions(t, <TensorBase>key)
        key = (key,)
    if is_basic(<tuple>key, &dims):
        v = read_basic(t, <tuple>key, dims, &turned)
        return turn(v, turned) if turned else v
    if has_own_override(key):
        return call_override(t, key)
    result = read_advanced(t, <tuple>key)
    return result[0] if result[1] is None else get(<TensorBase>result[0], <list>result[1], "IndexBackward0")


cdef tuple positions(TensorBase t, TensorBase mask, int64_t presumed=-1):
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
    return row_of(coordinates(reshaped(mask, 1, sizes), False, presumed), 0), flat


cdef int64_t places_for(object value, int rest):
    """How many places values are for, where `rest` dimensions follow that of the places; 1 where they broadcast."""
    cdef TensorBase given
    if not isinstance(value, TensorBase) or (<TensorBase>value).rank <= rest:
        return 1
    given = <TensorBase>value
    return given.sizes[given.rank - 1 - rest]


cdef object within(object value, TensorBase t):
    """A number to write to elements of t: one past the range of a half type is infinite there, though `fill_` refuses it."""
    if t.width < 4 and CATEGORY[t.code] == 2 and (isinstance(value, float) or PyLong_Check(value)) and abs(value) > 440:
        return to_dtype(fill_(new_tensor(0, NULL, F64), value), dtype_of(t.code))
    return value


cdef int setitem(TensorBase t, object key, object value) except -1:
    cdef TensorBase v, given
    cdef int dims, d
    cdef uint64_t turned = 0
    cdef list indices = None
    cdef bint number = not isinstance(value, TensorBase)
    if number:
        value = within(value, t)
    if not PyTuple_Check(key) and not PyLong_CheckExact(key):
        key = key_of(key)
    if PySlice_Check(key) and t.rank:
        v = read_basic(t, (key,), 1, &turned)
    elif PyTuple_Check(key) and is_basic(<tuple>key, &dims):
        v = read_basic(t, <tuple>key, dims, &turned)
    elif PyLong_CheckExact(key) or PySlice_Check(key):
        v = <TensorBase>getitem(t, key)
    else:
        if isinstance(key, TensorBase) and (<TensorBase>key).code == BOOL and (<TensorBase>key).rank:
            if number and same_shape(t, <TensorBase>key):
                (<object>t).masked_fill_(key, value)
                return 0
            key, t = positions(t, <TensorBase>key, places_for(value, t.rank - (<TensorBase>key).rank))
        result = read_advanced(t, <tuple>key if PyTuple_Check(key) else (key,), 1)
        v, indices = <TensorBase>result[0], result[1]
    if not isinstance(value, TensorBase):
        if hasattr(value, "__len__") and getattr(value, "ndim", 1) or isinstance(value, str):
            raise TypeError(f"can't assign a {type(value).__name__} to a tensor of dtype {dtype_of(t.code)}")
        if indices is None:
            check_no_internal_overlap(v, "copy_")
            fill_(v, value)
            return 0
        value = fill_(new_tensor(0, NULL, t.code), value)
    given = <TensorBase>value
    if indices is not None:
        if given.code != v.code:
            given = <TensorBase>to_dtype(given, dtype_of(v.code))
        return put_into(v, indices, given, False, "index_put_", True)
    d = 0
    while given.rank - d > v.rank and given.sizes[d] == 1:
        d += 1
    if d:  # leading dimensions of size 1 are of no account
        given = reshaped(given, given.rank - d, given.sizes + d)
    for d in range(1, given.rank + 1):
        if d > v.rank or (given.sizes[given.rank - d] != v.sizes[v.rank - d] and given.sizes[given.rank - d] != 1):
            raise RuntimeError(f"setitem(): shape mismatch: a value of shape {list(given.shape)} cannot be broadcast to the shape "
                               f"{list(v.shape)} of what the index selects")
    if turned:
        given = <TensorBase>turn(<TensorBase>(<object>given).expand(v.shape), turned)
    copy_(v, given)
    return 0


def read_at(TensorBase input, key) -> TensorBase:
    """input[key]: ints, slices, None, ..., bools and tensors of integers or bools.

    A view where no tensor stands among the indices and no step is negative (which PyTorch refuses), else a copy.  IndexError for
    indices out of bounds, and too many.

    >>> import flambeau
    >>> flambeau.arange(6).reshape(2, 3)[1, ::2]
    tensor([3, 5])
    """
    return getitem(input, key)


def write_at(TensorBase input, key, value) -> None:
    """input[key] = value: a number, or a tensor that broadcasts to what the key selects.

    >>> import flambeau
    >>> x = flambeau.zeros(3)
    >>> x[1:] = 5
    >>> x
    tensor([0., 5., 5.])
    """
    setitem(input, key, value)


cdef object getitem_op = None, setitem_op = None  # the operations that interceptors see


def set_operations(read, write) -> None:
    """The operations `read_at` and `write_at`."""
    global getitem_op, setitem_op
    getitem_op, setitem_op = read, write


cdef object get_by_key(TensorBase t, object key):
    return getitem_op(t, key) if runtime.observers else getitem(t, key)


cdef int set_by_key(TensorBase t, object key, object value) except -1:
    if runtime.observers or has_own_override(value):
        setitem_op(t, key, value)
        return 0
    return setitem(t, key, value)


runtime.getitem = get_by_key
runtime.setitem = set_by_key


# --- masks ----------------------------------------------------------------------------------------------------------------------
cdef int64_t count_true(const uint8_t* p, int64_t n) noexcept nogil:
    cdef int64_t i, result = 0
    for i in range(n):
        result += p[i] != 0
    return result


cdef void list_true(const uint8_t* p, int64_t n, int64_t* to) noexcept nogil:
    """The positions of the n elements that are true; without a branch that depends on them."""
    cdef int64_t i = 0, k = 0
    while k < n:
        to[k] = i
        k += p[i] != 0
        i += 1


cdef TensorBase coordinates(TensorBase t, bint by_element, int64_t presumed=-1):
    """Where t is not zero: shape (elements, rank) if `by_element`, else (rank, elements).  Where t has no data and something
    is only written at those places, there are as many as `presumed`.
    """
    cdef TensorBase mask = t, out
    cdef const uint8_t* p
    cdef int64_t* to
    cdef int64_t shape[2]
    cdef int64_t place[MAX_DIMS]
    cdef int64_t n, i, along, step, gap, row, length, many, k
    cdef int64_t[PIECE + 8] spots
    cdef int d, rank = t.rank
    cdef bint before = grad_enabled()
    set_grad(False)
    try:
        if t.code != BOOL:
            mask = <TensorBase>runtime.binary(operator_for(OP_NE), t, 0)
        mask = compact(mask)
    finally:
        set_grad(before)
    if t.storage.on is not None and t.storage.on.blank:
        if presumed >= 0:
            shape[0], shape[1] = presumed if by_element else rank, rank if by_element else presumed
            return new_tensor_on(t.storage.on, 2, shape, I64)
        raise NotImplementedError("nonzero(): how many elements are not zero is not known of a tensor on 'meta', which has no data: the "
                                  "result has no shape")
    if t.storage.on is not None:  # how many there are is for the host to know
        return <TensorBase>callbacks["device.nonzero"](mask, by_element)
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
                gap = min(<int64_t>PIECE, length - i)
                many = listed(p + i, gap, i, spots)
                if rank == 2 and by_element:
                    for k in range(many):
                        to[2 * k], to[2 * k + 1] = place[0], spots[k]
                else:
                    for d in range(rank - 1):
                        for k in range(many):
                            to[k * step + d * along] = place[d]
                    for k in range(many):
                        to[k * step + (rank - 1) * along] = spots[k]
                to += many * step
                i += gap
            p += length
            d = rank - 2
            while d >= 0:
                place[d] += 1
                if place[d] < mask.sizes[d]:
                    break
                place[d] = 0
                d -= 1
    return out


cdef inline int64_t listed(const uint8_t* p, int64_t n, int64_t first, int64_t* to) noexcept nogil:
    """Numbers, from `first` on, of the bytes that are not 0; without branches, for who knows which are. Returns how many."""
    cdef int64_t i = 0, k = 0, j
    while i + 8 <= n:
        if (<const uint64_t*>(p + i))[0]:
            for j in range(8):
                to[k] = first + i + j
                k += p[i + j] != 0
        i += 8
    while i < n:
        to[k] = first + i
        k += p[i] != 0
        i += 1
    return k


def nonzero(TensorBase input not None, *, as_tuple: bool = False):
    """Where the elements are not zero: a row of coordinates for each, in row-major order.

    With `as_tuple`, a vector for each dimension, as an index key has it; a 0-dim tensor then counts as a vector of one.

    >>> import flambeau
    >>> flambeau.nonzero(flambeau.tensor([[0, 5], [6, 0]]))
    tensor([[0, 1],
            [1, 0]])
    >>> flambeau.nonzero(flambeau.tensor([0, 5, 6]), as_tuple=True)
    (tensor([1, 2]),)
    """
    cdef int d
    cdef TensorBase result
    cdef int64_t one = 1
    if not as_tuple:
        return coordinates(input, True)
    if input.rank == 0:
        input = reshaped(input, 1, &one)
    result = coordinates(input, False)
    return tuple([row_of(result, d) for d in range(input.rank)])


def argwhere(TensorBase input not None):
    """`nonzero(input)`.

    Shape:
        input: any; result: (number of elements that are not zero, number of dimensions)

    Raises:
        TypeError: the input is no Tensor

    >>> import flambeau
    >>> flambeau.argwhere(flambeau.tensor([[1, 0], [0, 5]]))
    tensor([[0, 0],
            [1, 1]])
    """
    return coordinates(input, True)


# --- operations ---------------------------------------------------------------------------------------------------------------------
cdef list read_indices(TensorBase t, object indices, TensorBase values, str who):
    """Index tensors of index_put: masks become coordinates; None takes all of a dimension."""
    cdef list result = []
    cdef TensorBase index, places
    cdef int d
    if not isinstance(indices, (tuple, list)):
        raise TypeError(f"{who}(): argument 'indices' must be tuple of Tensors, not {type(indices).__name__}")
    for item in indices:
        if item is None:
            result.append(None)
            continue
        if not isinstance(item, TensorBase):
            raise TypeError(f"{who}(): argument 'indices' must be tuple of Tensors, got {type(item).__name__}")
        index = <TensorBase>item
        if index.code == BOOL or index.code == U8:
            if len(result) + index.rank > t.rank:
                raise IndexError(f"{who}(): too many indices for tensor of dimension {t.rank}")
            check_mask(t, index, len(result), 0)
            places = coordinates(index, False, places_for(values, t.rank - index.rank - len(result)))
            for d in range(index.rank):
                result.append(row_of(places, d))
        elif CATEGORY[index.code] == 1 and not U16 <= index.code <= U64:
            result.append(as_index(index))
        else:
            raise IndexError(f"{who}(): tensors used as indices must be long, int, byte or bool tensors, got "
                             f"{dtype_of(index.code)}")
    if len(result) > t.rank:
        raise IndexError(f"{who}(): too many indices for tensor of dimension {t.rank} (got {len(result)})")
    return result


def index_put_(TensorBase input not None, indices, TensorBase values not None, accumulate: bool = False):
    """`input[indices] = values`, or `+=` with `accumulate`, where equal indices add up in their order."""
    if values.code != input.code:
        raise RuntimeError(f"index_put_(): Index put requires the source and destination dtypes match, got {dtype_of(input.code)} "
                           f"for the destination and {dtype_of(values.code)} for the source.")
    put_into(input, read_indices(input, indices, values, "index_put_"), values, accumulate, "index_put_", True)
    return input


def index_put(TensorBase input not None, indices, TensorBase values not None, accumulate: bool = False):
    """A copy of the input with `values` written (or added) at `indices`.

    Shape:
        input: any; values: a shape that broadcasts to that of input[indices]; the result has the input's

    >>> import flambeau
    >>> flambeau.index_put(flambeau.zeros(3), (flambeau.tensor([0, 0]),), flambeau.ones(2), accumulate=True)
    tensor([2., 0., 0.])
    """
    return index_put_(clone(input), indices, values, accumulate)


cdef list along_dim(TensorBase input, object dim, TensorBase index, str who, int* wrapped, bint short=True,
                    object wrong_dtype=RuntimeError, object wrong_rank=IndexError):
    """The index of index_select and its kin, as a list for `get`: a vector (or 0-dim) of int64 or, where `short`, int32."""
    cdef int64_t one = 1
    wrapped[0] = wrap_dim(as_int(dim, who, "dim"), input.rank, who)
    if index.code != I64 and (index.code != I32 or not short):
        raise wrong_dtype(f"{who}(): Expected dtype {'int32 or int64' if short else 'int64'} for index, got {dtype_of(index.code)}")
    if index.rank > 1:
        raise wrong_rank(f"{who}(): Index is supposed to be a vector, got shape {list(index.shape)}")
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
    cdef TensorBase result
    if input.rank and input.sizes[d] == 0 and index.count:
        raise RuntimeError(f"index_select(): dimension {d} of the input has no elements, but index names {index.count}")
    if input.rank == 0:
        if index.count != 1:
            raise RuntimeError(f"index_select(): index of a 0-dim input can have only 1 value, got {index.count}")
        result = reshaped(get_checked(reshaped(input, 1, &one), indices, None, IndexError, False), 0, NULL)
        drop_base(result, input)
        return result
    return get_checked(input, indices, None, IndexError, False)


cdef TensorBase matching_source(TensorBase input, int d, TensorBase index, TensorBase source, bint accumulate, str who, object error):
    """The source of index_add and index_copy, checked: as many parts as there are indices, otherwise the input's shape."""
    cdef int64_t n = source.sizes[d] if source.rank else 1
    cdef int k
    if source.code != input.code:
        raise RuntimeError(f"{who}(): self ({dtype_of(input.code)}) and source ({dtype_of(source.code)}) must have the same scalar "
                           "type")
    if index.count != n:
        raise error(f"{who}(): Number of indices ({index.count}) should be equal to source.size(dim): ({n}), for dim: {d}")
    if source.rank != input.rank and (source.rank and input.rank or accumulate and source.rank < input.rank):
        raise error(f"{who}(): source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
                    f"{list(input.shape)} source.shape = {list(source.shape)}")
    for k in range(source.rank):
        if k != d and source.sizes[k] != input.sizes[k]:
            raise RuntimeError(f"{who}(): source tensor shape must match self tensor shape, excluding the specified dimension. Got "
                        f"self.shape = {list(input.shape)} source.shape = {list(source.shape)}")
    return source


cdef object put_along(TensorBase input, object dim, TensorBase index, TensorBase source, bint accumulate, str who, object error):
    cdef int d
    cdef int64_t one = 1
    cdef list indices = along_dim(input, dim, index, who, &d, accumulate)
    source = matching_source(input, d, index, source, accumulate, who, error)
    if input.rank == 0:
        put_checked(reshaped(input, 1, &one), indices, reshaped(source, 1, &one), accumulate, who, error if input.rank > 1 else IndexError, False)
    else:
        put_checked(input, indices, source, accumulate, who, error if input.rank > 1 else IndexError, False)
    return input


def index_add_(TensorBase input not None, dim, TensorBase index not None, TensorBase source not None, *, alpha=1):
    """Add `alpha` times the parts of `source` to the parts of dimension `dim` that `index` names; equal indices add up."""
    if not (isinstance(alpha, (int, float)) and alpha == 1):
        source = <TensorBase>((<object>source) * alpha)
    return put_along(input, dim, index, source, True, "index_add_", RuntimeError)


def index_add(TensorBase input not None, dim, TensorBase index not None, TensorBase source not None, *, alpha=1):
    """A copy of the input with `alpha` times the parts of `source` added to the parts that `index` names.

    Shape:
        input: (*, n, *); index: (k,); source: (*, k, *); result: as input

    Raises:
        RuntimeError: the shapes do not fit

    >>> import flambeau
    >>> flambeau.index_add(flambeau.zeros(3), 0, flambeau.tensor([0, 0]), flambeau.tensor([1.0, 2.0]))
    tensor([3., 0., 0.])
    """
    return index_add_(clone(input, memory_format=contiguous_format), dim, index, source, alpha=alpha)


def index_copy_(TensorBase input not None, dim, TensorBase index not None, TensorBase source not None):
    """Overwrite the parts of dimension `dim` that `index` names by those of `source`; of equal indices the last wins."""
    return put_along(input, dim, index, source, False, "index_copy_", IndexError)


def index_copy(TensorBase input not None, dim, TensorBase index not None, TensorBase source not None):
    """A copy of the input with the parts that `index` names overwritten by those of `source`.

    Shape:
        input: (*, n, *); index: (k,); source: (*, k, *); result: as input

    Raises:
        IndexError: an index is out of range

    >>> import flambeau
    >>> flambeau.index_copy(flambeau.zeros(3), 0, flambeau.tensor([2, 0]), flambeau.tensor([1.0, 2.0]))
    tensor([2., 0., 1.])
    """
    return index_copy_(clone(input, memory_format=contiguous_format), dim, index, source)


def index_fill_(TensorBase input not None, dim, TensorBase index not None, value):
    """Fill the parts of dimension `dim` that `index` names with `value`, a number or a 0-dim tensor."""
    cdef int d
    cdef int64_t one = 1
    cdef list indices = along_dim(input, dim, index, "index_fill_", &d, False, IndexError, RuntimeError)
    if isinstance(value, TensorBase):
        if (<TensorBase>value).rank:
            raise RuntimeError("index_fill_(): only supports a 0-dimensional value tensor, but got tensor with "
                               f"{(<TensorBase>value).rank} dimension(s).")
        value = to_dtype(value, dtype_of(input.code))
    else:
        value = fill_(new_tensor_on(input.storage.on, 0, NULL, input.code), value)
    put_into(input if input.rank else reshaped(input, 1, &one), indices, <TensorBase>value, False, "index_fill_", True)
    return input


def index_fill(TensorBase input not None, dim, TensorBase index not None, value):
    """A copy of the input with the parts that `index` names filled with `value`.

    Shape:
        input: (*, n, *); index: (k,); result: as input

    Raises:
        IndexError: an index is out of range

    >>> import flambeau
    >>> flambeau.index_fill(flambeau.zeros(3), 0, flambeau.tensor([0, 2]), 7)
    tensor([7., 0., 7.])
    """
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


cdef list mask_indices(TensorBase mask, int64_t presumed=-1):
    cdef TensorBase places = coordinates(mask, False, presumed)
    cdef int d
    return [row_of(places, d) for d in range(mask.rank)]


def masked_select(TensorBase input not None, TensorBase mask not None):
    """The elements where `mask` is true, as a vector; both broadcast.

    Shape:
        input, mask: shapes that broadcast; result: (number of true elements,)

    Raises:
        RuntimeError: the mask is not bool

    >>> import flambeau
    >>> x = flambeau.arange(4)
    >>> flambeau.masked_select(x, x > 1)
    tensor([2, 3])
    """
    cdef int64_t one = 1
    wide, mask = under_mask(input, mask, "masked_select")
    if mask.rank == 0:
        wide, mask = reshaped(<TensorBase>wide, 1, &one), reshaped(mask, 1, &one)
    return get(<TensorBase>wide, mask_indices(mask), None)


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
    indices = mask_indices(mask, min(mask.count, source.count))
    n = (<TensorBase>indices[0]).count
    if source.count < n:
        raise RuntimeError(f"masked_scatter_(): Number of elements of source ({source.count}) < number of ones in mask ({n})")
    values = (<object>source).reshape(-1).narrow(0, 0, n)
    put_into(target, indices, <TensorBase>values, False, "masked_scatter_")
    return input


def masked_scatter(TensorBase input not None, TensorBase mask not None, TensorBase source not None):
    """A copy of the input with the elements of `source`, in order, where `mask` is true; input and mask broadcast.

    Shape:
        input, mask: shapes that broadcast; source: at least as many elements as are true; the result has the
            shape they broadcast to

    Raises:
        RuntimeError: the mask is not bool

    >>> import flambeau
    >>> flambeau.masked_scatter(flambeau.zeros(3), flambeau.tensor([True, False, True]), flambeau.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    wide, mask = under_mask(input, mask, "masked_scatter")
    return masked_scatter_(clone(wide, memory_format=contiguous_format), mask, source)


cdef TensorBase flat_index(TensorBase input, TensorBase index, str who):
    """The index of `take` and `put_`, checked, as a vector."""
    cdef int64_t n = index.count, i, result
    cdef const int64_t* p
    if index.code != I64:
        raise RuntimeError(f"{who}(): Expected a long tensor for index, but got {dtype_of(index.code)}")
    index = reshaped(index, 1, &n)
    if index.storage.on is not None:  # the kernel looks at the indices itself
        return index
    p = <const int64_t*>pointer(index)
    for i in range(n):
        result = p[i * index.strides[0]]
        if result < -input.count or result >= input.count:
            raise IndexError(f"{who}(): out of range: tried to access index {result} on a tensor of {input.count} elements.")
    return index


def take(TensorBase input not None, TensorBase index not None):
    """The elements at positions counted in row-major order; the result has the index tensor's shape.

    Raises:
        IndexError: a position is out of range

    >>> import flambeau
    >>> flambeau.take(flambeau.tensor([[1, 2], [3, 4]]), flambeau.tensor([0, -1]))
    tensor([1, 4])
    """
    cdef int64_t n = input.count
    cdef TensorBase places = flat_index(input, index, "take"), result
    result = reshaped(get(reshaped(input, 1, &n), [places], None), index.rank, index.sizes)
    drop_base(result, input)
    return result


def put_(TensorBase input not None, TensorBase index not None, TensorBase source not None, accumulate: bool = False):
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


def put(TensorBase input not None, TensorBase index not None, TensorBase source not None, accumulate: bool = False):
    """A copy of the input with the elements of `source` written (or added) at positions counted in row-major order.

    Shape:
        input: any; index, source: as many elements; result: as input

    >>> import flambeau
    >>> flambeau.zeros(3).put(flambeau.tensor([2, 0]), flambeau.tensor([1.0, 2.0]))
    tensor([2., 0., 1.])
    """
    return put_((<object>clone(input)).contiguous(), index, source, accumulate)
