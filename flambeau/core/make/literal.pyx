# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Tensors from data: numbers, nested sequences of them, NumPy arrays, tensors, buffers.

A nested sequence is walked twice: `scan` finds the dtype, `put` writes the elements and checks every length.
"""
from libc.string cimport memcpy
from libc.stdint cimport int64_t
from cpython.object cimport PyObject
from ..base.callbacks import set_callback
from ..base.dtypes cimport BOOL, I64, U64, F32, F64, C64, C128, F4_E2M1FN_X2, CATEGORY, dtype_of, default_code, promoted
from ..base.memory cimport Storage
from ..base.tensor cimport TensorBase, MAX_DIMS, new_tensor, pointer
from .elements cimport Value, read_value, load, store, check_fits
from .bridge cimport ARRAY, NOT_NUMPY, numpy_kind, numpy_code, share_array
from .bridge import from_numpy, frombuffer
from .arrow import from_arrow
from .interchange import from_cuda_array, from_dlpack
from ..base.device cimport placing
from .factory cimport Factory, Options, factory, bind, no_options, read_option, check_requires, where
from ..call.operation cimport Op
from ..call.kernels cimport device_launcher
import operator
import warnings

cdef extern from "Python.h":
    bint PyFloat_CheckExact(object o)
    bint PyFloat_Check(object o)
    bint PyLong_CheckExact(object o)
    bint PyLong_Check(object o)
    bint PyBool_Check(object o)
    bint PyComplex_Check(object o)
    bint PyList_Check(object o)
    bint PyTuple_Check(object o)
    bint PySequence_Check(object o)
    bint PyUnicode_Check(object o)
    bint PyBytes_Check(object o)
    bint PyObject_CheckBuffer(object o)
    double PyFloat_AS_DOUBLE(object o)
    long long PyLong_AsLongLongAndOverflow(object o, int* overflow) except? -1
    object PySequence_Fast(object o, const char* message)
    Py_ssize_t PySequence_Fast_GET_SIZE(object o)
    PyObject** PySequence_Fast_ITEMS(object o)


# --- nested sequences ---------------------------------------------------------
cdef struct Shape:
    int rank
    int64_t sizes[MAX_DIMS]


cdef bint is_sequence(object x) except -1:
    """Something with elements; a tensor stands for its one element."""
    if PyList_Check(x) or PyTuple_Check(x):
        return True
    if PyFloat_CheckExact(x) or PyLong_CheckExact(x) or isinstance(x, TensorBase):
        return False
    if numpy_kind(x) == ARRAY:
        return x.ndim > 0
    return PySequence_Check(x)


cdef object read_table(object data):
    """The array or the list that stands for an object which has a way of its own of becoming one, as a column of a table
    does; any other object as it is.

    Such an object knows its dtype, which the Python numbers of an iteration do not, and `data[0]` may ask for a label.
    """
    if (PyList_Check(data) or PyTuple_Check(data) or PyFloat_Check(data) or PyLong_Check(data)
            or isinstance(data, TensorBase) or numpy_kind(data) != NOT_NUMPY or not hasattr(type(data), "__array__")):
        return data
    array = data.__array__()
    return array.tolist() if array.dtype.kind == "O" else array


cdef int measure(str who, object data, Shape* shape) except -1:
    """The shape that the first elements show."""
    shape.rank = 0
    data = read_table(data)
    if PyUnicode_Check(data) or PyBytes_Check(data):
        raise TypeError(f"{who}(): new(): invalid data type '{type(data).__name__}'")
    while is_sequence(data):
        if PyUnicode_Check(data) or PyBytes_Check(data) or shape.rank == MAX_DIMS:
            raise ValueError(f"{who}(): too many dimensions '{type(data).__name__}'")
        shape.sizes[shape.rank] = len(data)
        shape.rank += 1
        if shape.sizes[shape.rank - 1] == 0:
            break
        data = read_table(data[0])
    return 0


cdef int scan(str who, object data, int depth, int code) except -2:
    """The dtype that holds every element and `code`; -1 stands for none yet."""
    cdef Py_ssize_t i = 0
    cdef PyObject* item
    cdef int result
    if PyFloat_CheckExact(data):
        result = default_code()
    elif PyBool_Check(data):
        result = BOOL
    elif PyLong_CheckExact(data):
        result = I64
    elif PyList_Check(data) or PyTuple_Check(data):
        if depth == MAX_DIMS:
            raise ValueError(f"{who}(): too many dimensions '{type(data).__name__}'")
        while i < PySequence_Fast_GET_SIZE(data):  # read anew: reading an element may run foreign code
            item = PySequence_Fast_ITEMS(data)[i]
            i += 1
            if PyFloat_CheckExact(<object>item) and code == default_code():
                continue
            if PyLong_CheckExact(<object>item) and code >= I64:
                continue
            code = scan(who, <object>item, depth + 1, code)
        return code
    elif isinstance(data, TensorBase):
        result = (<TensorBase>data).code
    elif numpy_kind(data) != NOT_NUMPY:
        result = numpy_code(data)
    elif PyFloat_Check(data):
        result = default_code()
    elif PyLong_Check(data):
        result = I64
    elif PyComplex_Check(data):
        result = C128 if default_code() == F64 else C64
    elif hasattr(type(data), "__array__"):
        return scan(who, read_table(data), depth, code)
    elif PySequence_Check(data) and not PyUnicode_Check(data) and not PyBytes_Check(data):
        return scan(who, list(data), depth, code)
    else:
        raise RuntimeError(f"{who}(): Could not infer dtype of {type(data).__name__}")
    return result if code < 0 else promoted(code, result)


cdef int put(str who, object data, int depth, Shape* shape, const int64_t* steps, char* p,
             int code) except -1:
    """Write the elements below `data`; ValueError where a length differs from the first one of its depth."""
    cdef PyObject** items
    cdef object fast
    cdef int64_t i, n = shape.sizes[depth], step = steps[depth]
    cdef bint last = depth == shape.rank - 1
    data = read_table(data)
    if numpy_kind(data) == ARRAY:
        data = data.tolist()
    if PyList_Check(data) or PyTuple_Check(data):
        fast = data
    elif not is_sequence(data):
        raise TypeError(f"{who}(): not a sequence: expected one of length {n} at dim {depth}, got "
                        f"{type(data).__name__}")
    else:
        fast = PySequence_Fast(data, b"not a sequence")
    for i in range(n):
        # a conversion may run foreign code that changes the list, so its length and place are read at
        # each element
        if PySequence_Fast_GET_SIZE(fast) != n:
            break
        items = PySequence_Fast_ITEMS(fast)
        if not last:
            put(who, <object>items[i], depth + 1, shape, steps, p, code)
        elif code == F32 and PyFloat_CheckExact(<object>items[i]):
            (<float*>p)[0] = <float>PyFloat_AS_DOUBLE(<object>items[i])
        else:
            put_one(who, <object>items[i], p, code)
        p += step
    if PySequence_Fast_GET_SIZE(fast) != n:
        raise ValueError(f"{who}(): expected sequence of length {n} at dim {depth} (got "
                         f"{PySequence_Fast_GET_SIZE(fast)})")
    return 0


cdef object as_number(object x, int code):
    """The number that an object with `__index__` or `__float__`, such as a Decimal, is in the dtype requested; else None."""
    if hasattr(type(x), "__index__"):
        return operator.index(x)
    if CATEGORY[code] >= 2 and hasattr(type(x), "__float__") and not is_sequence(x):
        return float(x)
    return None


cdef int put_one(str who, object x, char* p, int code) except -1:
    """Write one number; RuntimeError where an integer dtype cannot hold it."""
    cdef Value v
    cdef TensorBase t
    if isinstance(x, TensorBase):
        t = <TensorBase>x
        if t.count != 1:
            raise TypeError(f"{who}(): only tensors of a single element can be elements of a sequence, got "
                            "one of shape "
                            f"{list(t.shape)}; stack() joins tensors")
        load(pointer(t), t.code, &v)
    elif not read_value(x, &v) and not read_value(as_number(x, code), &v):
        if is_sequence(x) and not PyUnicode_Check(x):
            raise TypeError(f"{who}(): '{type(x).__name__}' object cannot be interpreted as a number: "
                            "elements of unequal depth")
        raise TypeError(f"{who}(): must be real number, not {type(x).__name__}")
    elif v.category == 3 and CATEGORY[code] < 3 and code != BOOL:
        raise TypeError(f"{who}(): must be real number, not complex: the dtype is {dtype_of(code)}")
    elif CATEGORY[code] == 1:
        if v.wide and not (v.wide == 2 and code == U64):
            raise ValueError(f"{who}(): Overflow when unpacking long long: {x} does not fit {dtype_of(code)}")
        if code == U64 and v.category < 2 and v.whole < 0 and not v.wide:
            raise OverflowError(f"{who}(): can't convert negative int to unsigned: {x}")
        check_fits(&v, code, who)
    elif code == F4_E2M1FN_X2:
        raise NotImplementedError(f"{who}(): \"{who}\" not implemented for '{dtype_of(code).name}'")
    store(p, code, &v)
    return 0


cdef TensorBase from_sequence(str who, object data, int code):
    """A tensor of nested sequences, or of a number; `code` is -1 where the elements choose the dtype."""
    cdef Shape shape
    cdef int64_t steps[MAX_DIMS]
    cdef int64_t n
    cdef TensorBase t
    cdef int d
    measure(who, data, &shape)
    if code < 0:
        code = scan(who, data, 0, -1)
        if code < 0:                       # nothing in it
            code = default_code()
    t = new_tensor(shape.rank, shape.sizes, code)
    if shape.rank == 0:
        put_one(who, data, t.storage.data, code)
        return t
    for d in range(shape.rank):
        steps[d] = t.strides[d] * t.width
    put(who, data, 0, &shape, steps, t.storage.data, code)
    return t


cdef TensorBase plain_list(object data):
    """A list or tuple of floats only, or of ints only; None for anything else."""
    cdef int64_t n = PySequence_Fast_GET_SIZE(data), i
    cdef PyObject** items = PySequence_Fast_ITEMS(data)
    cdef int overflow = 0, code
    cdef TensorBase t
    if n == 0:
        return None
    if PyFloat_CheckExact(<object>items[0]):
        code = default_code()
        if code != F32 and code != F64:
            return None
        t = new_tensor(1, &n, code)
        for i in range(n):
            if not PyFloat_CheckExact(<object>items[i]):
                return None
            if code == F32:
                (<float*>t.storage.data)[i] = <float>PyFloat_AS_DOUBLE(<object>items[i])
            else:
                (<double*>t.storage.data)[i] = PyFloat_AS_DOUBLE(<object>items[i])
        return t
    if not PyLong_CheckExact(<object>items[0]):
        return None
    t = new_tensor(1, &n, I64)
    for i in range(n):
        if not PyLong_CheckExact(<object>items[i]):
            return None
        (<int64_t*>t.storage.data)[i] = PyLong_AsLongLongAndOverflow(<object>items[i], &overflow)
        if overflow:
            return None
    return t


# --- tensors and arrays -------------------------------------------------------
cdef TensorBase copy_array(object array, int code):
    """A tensor with its own copy of an array's elements."""
    cdef TensorBase shared, t
    cdef int own = numpy_code(array)
    if not array.flags.c_contiguous:
        array = array.copy()
    shared = share_array(array)
    if not shared.contiguous:              # `copy` keeps the order of dimensions; C order then
        shared = share_array(array.copy("C"))
    if code >= 0 and code != own:
        return shared.to(dtype_of(code))
    t = new_tensor(shared.rank, shared.sizes, own)
    memcpy(t.storage.data, shared.storage.data, t.count * t.width)
    return t


cdef TensorBase copied(str who, object data, int code):
    """Data of any kind in memory of its own."""
    cdef TensorBase t
    if isinstance(data, TensorBase):
        t = data.detach()
        if code >= 0 and code != t.code:
            return t.to(dtype_of(code))
        return t.clone()
    if is_shared(data):
        return copied(who, shared_by(data, who), code)
    data = read_table(data)
    if numpy_kind(data) == ARRAY:
        return copy_array(data, code)
    return from_sequence(who, data, code)


cdef bint is_shared(object data) except -1:
    """Whether another library lends its memory; NumPy's comes by a shorter way."""
    if PyList_Check(data) or PyTuple_Check(data) or PyFloat_Check(data) or PyLong_Check(data):
        return False
    return numpy_kind(data) == NOT_NUMPY and not isinstance(data, TensorBase) and (
        hasattr(type(data), "__dlpack__") or hasattr(type(data), "__arrow_c_array__") or hasattr(data, "__cuda_array_interface__"))


cdef TensorBase shared_by(object data, str who):
    """A tensor over the memory that another library lends."""
    if hasattr(type(data), "__arrow_c_array__"):  # pyarrow's have DLPack, too, but not for bools and lists
        return from_arrow(data, who)
    return from_dlpack(data) if hasattr(type(data), "__dlpack__") else from_cuda_array(data, who)


cdef object make_tensor(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef PyObject* bound[1]
    cdef Options o
    cdef TensorBase t
    cdef object data
    if names == NULL and nargs == 1 and not placing:
        data = <object>args[0]
        if PyList_Check(data) or PyTuple_Check(data):
            t = plain_list(data)
            if t is not None:
                return t
    bind(<Factory>op, args, nargs, names, bound, &o)
    if o.out != NULL:
        raise TypeError(f"{op.name}() got an unexpected keyword argument 'out'")
    data = <object>bound[0]
    if isinstance(data, TensorBase):
        warnings.warn("To copy construct from a tensor, it is recommended to use "
                      "sourceTensor.detach().clone() or "
                      "sourceTensor.detach().clone().requires_grad_(True), rather than "
                      "flambeau.tensor(sourceTensor).",
                      UserWarning, stacklevel=1)
    if o.code >= 0:
        check_requires(&o, o.code, op.name)
    t = on_device(copied(op.name, data, o.code), &o)
    check_requires(&o, t.code, op.name)
    t.requires = o.requires
    return t


cdef TensorBase on_device(TensorBase t, Options* o):
    """On the device requested, if one is."""
    if o.placed or o.device != NULL:
        t = device_launcher.moved(t, where(o, None))
    return device_launcher.pinned(t) if o.pinned else t


cdef object make_new_tensor(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef PyObject* bound[2]
    cdef Options o
    cdef TensorBase t
    cdef int code
    bind(<Factory>op, args, nargs, names, bound, &o)
    if not isinstance(<object>bound[0], TensorBase):
        raise TypeError("new_tensor(): argument 'input' (position 1) must be Tensor, not "
                        f"{type(<object>bound[0]).__name__}")
    code = o.code if o.code >= 0 else (<TensorBase>bound[0]).code
    check_requires(&o, code, op.name)
    t = device_launcher.moved(copied(op.name, <object>bound[1], code), where(&o, <TensorBase>bound[0]))
    t.requires = o.requires
    return t


cdef object make_as_tensor(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef PyObject* bound[3]
    cdef Options o
    bind(<Factory>op, args, nargs, names, bound, &o)
    cdef object data = <object>bound[0]
    if bound[1] != NULL:
        read_option(op.name, "dtype", <object>bound[1], &o)
    if bound[2] != NULL:
        read_option(op.name, "device", <object>bound[2], &o)
    if o.requires or o.out != NULL:
        raise TypeError("as_tensor() takes data, dtype and device only")
    if numpy_kind(data) == ARRAY:
        data = from_numpy(data)
    elif is_shared(data):
        data = shared_by(data, op.name)
    if not isinstance(data, TensorBase):
        return on_device(copied(op.name, data, o.code), &o)
    data = on_device(<TensorBase>data, &o)
    return data if o.code < 0 or o.code == (<TensorBase>data).code else data.to(dtype_of(o.code))


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad: bool | None = None):
    """A tensor of `obj`, sharing its memory where that is possible and `copy` is not True.

    obj: a tensor, a NumPy array or scalar, an object with DLPack or a buffer (read as `dtype`, by default the
    default dtype), a number or nested sequences.  A tensor that requires a gradient stays on the tape, unless `requires_grad` is
    False.  ValueError where copy=False cannot be kept.

    >>> import flambeau
    >>> flambeau.asarray([1, 2])
    tensor([1, 2])
    """
    cdef Options o
    cdef TensorBase t
    cdef bint shared = True
    no_options(&o)
    o.requires = bool(requires_grad)
    read_option("asarray", "dtype", dtype, &o)
    read_option("asarray", "device", device, &o)
    if o.code >= 0:
        check_requires(&o, o.code, "asarray")
    if isinstance(obj, TensorBase):
        t = <TensorBase>obj
    elif numpy_kind(obj) == ARRAY:
        t = copy_array(obj, -1) if copy else from_numpy(obj)
        shared = not copy
    elif is_shared(obj):
        t = shared_by(obj, "asarray")
    elif isinstance(obj, Storage) and (<Storage>obj).length == 0 and copy is not False:
        t, shared = copied("asarray", (), o.code), False  # a buffer without bytes is refused, a storage is not
    elif numpy_kind(obj) == NOT_NUMPY and PyObject_CheckBuffer(obj):
        t = frombuffer(obj, dtype=dtype_of(o.code if o.code >= 0 else default_code()))
    elif copy is False:
        raise ValueError("asarray(): can't alias arbitrary sequence into a tensor.")
    else:
        t, shared = copied("asarray", obj, o.code), False
    if o.code >= 0 and t.code != o.code:
        if copy is False:
            raise ValueError(f"asarray(): can't alias tensor with dtype {dtype_of(t.code)} into dtype "
                             f"{dtype_of(o.code)}.")
        t, shared = t.to(dtype_of(o.code)), False
    check_requires(&o, t.code, "asarray")
    if (o.placed or o.device != NULL) and t.storage.on is not where(&o, None):
        if copy is False:
            raise ValueError(f"asarray(): can't alias a tensor on {t.device} on another device.")
        t, shared = on_device(t, &o), False
    if copy and shared:
        t = t.clone()
    if requires_grad is None or (requires_grad and t.requires_grad):
        return t
    if not requires_grad:
        return t.detach() if t.requires_grad else t
    if t is obj:
        t = t.detach()
    return t.requires_grad_(True)


tensor = factory("tensor", make_tensor, ("data",), 1,
    """tensor(data, *, dtype=None, device=None, requires_grad=False) -> Tensor

    A copy of `data`: a number, nested sequences of numbers, a NumPy array, a tensor.  Without `dtype`, ints
    become int64, bools bool, floats the default dtype; mixtures the dtype that holds all.

    ValueError for ragged sequences and for ints beyond 64 bits, TypeError for elements that are no numbers,
    RuntimeError for a number that an integer dtype cannot hold.

    >>> import flambeau
    >>> flambeau.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """)
as_tensor = factory("as_tensor", make_as_tensor, ("data", "dtype", "device"), 1,
    """as_tensor(data, dtype=None, device=None) -> Tensor

    As `tensor`, but a tensor of the right dtype is returned as it is, and a NumPy array shares its memory.

    Raises:
        ValueError: sequences differ in length, an element is text, or an int is beyond 64 bits
        TypeError: elements are nested in unequal depth, or the argument is text
        RuntimeError: the dtype of an object cannot be inferred, or an integer dtype cannot hold a number

    >>> import flambeau
    >>> flambeau.as_tensor([1.5])
    tensor([1.5000])
    """)
new_tensor_ = factory("new_tensor", make_new_tensor, ("input", "data"), 2,
    """x.new_tensor(data) -> Tensor: a copy of data, in x's dtype where none is given.

    Shape:
        the result: that of `data`

    Raises:
        ValueError: sequences differ in length, or an int is beyond 64 bits
        TypeError: an element is no number
        RuntimeError: an integer dtype cannot hold a number

    >>> import flambeau
    >>> flambeau.ones(2, dtype=flambeau.float64).new_tensor([1, 2])
    tensor([1., 2.], dtype=flambeau.float64)
    """)

set_callback("as_tensor", as_tensor)
