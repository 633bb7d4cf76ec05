# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What the functions that make tensors share: reading their arguments, layouts, the last step into `out` or
onto the tape.
"""
from libc.stdint cimport int64_t
from cpython.object cimport PyObject
from ..base.dtypes cimport CATEGORY, dtype_of, as_dtype, size_from
from ..base.dtypes import cpu_device as _cpu_device
from ..base.device cimport Device, default_place, device_for, placing
from ..base.device import accelerator_type
from ..base import display
from ..base.formats import layout, memory_format, strided
from ..base.tensor cimport TensorBase, MAX_DIMS, as_int, as_size, new_tensor_on, new_strided_on
from ..call.operation cimport Op, prepare_op, make_callable
from ..call.signature cimport MAX_BOUND, Signature
from ..call.kernels cimport device_launcher

cdef extern from "Python.h":
    bint PyLong_CheckExact(object o)
    int64_t PyLong_AsLongLongAndOverflow(object o, int* overflow) except? -1
    bint PyBool_Check(object o)
    bint PyTuple_Check(object o)
    bint PyList_Check(object o)
    Py_ssize_t PyVectorcall_NARGS(size_t n)
    Py_ssize_t PySequence_Fast_GET_SIZE(object o)
    PyObject** PySequence_Fast_ITEMS(object o)

cdef object cpu_device = _cpu_device


# --- arguments ----------------------------------------------------------------
cdef object call_factory(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    return (<Factory>callable).make(<Op>callable, args, PyVectorcall_NARGS(flagged), names)


cdef tuple OPTIONS = ("dtype", "layout", "device", "pin_memory", "requires_grad", "memory_format", "out")   # given by name


cdef Factory factory(str name, maker_t make, tuple names, int required, str doc):
    cdef Factory op = Factory.__new__(Factory)
    prepare_op(op, name, call_factory)
    op.make, op.own = make, <int>len(names)
    options = tuple([n for n in OPTIONS if n not in names])
    sized = op.own and names[op.own - 1] == "size"   # sizes are given one by one, too
    op.signature = Signature(names + options, op.own, 0 if sized else required)
    setattr(op, "__doc__", doc)
    return op


cdef int read_format(str who, object value) except -1:
    """The number of a memory format."""
    if not isinstance(value, memory_format):
        raise TypeError(f"{who}(): argument 'memory_format' must be {display.public('memory_format')}, not {type(value).__name__}")
    return value.value


cdef int read_option(str who, object key, object value, Options* o) except -1:
    """One of the keywords that all makers of tensors share; 0 when it is none of them."""
    if key == "dtype":
        if value is not None:
            o.code = as_dtype(value, who).code
    elif key == "requires_grad":
        if not PyBool_Check(value):
            raise TypeError(f"{who}(): argument 'requires_grad' must be bool, not {type(value).__name__}")
        o.requires = value is True
    elif key == "device":
        if value is not None:
            result = None if value is cpu_device else device_for(value, who)
            o.device = NULL if result is None else <PyObject*>result  # open devices live as long as the process
            o.placed = True
    elif key == "memory_format":
        o.format = NO_FORMAT if value is None else read_format(who, value)
    elif key == "out":
        if value is not None:
            if not isinstance(value, TensorBase):
                raise TypeError(f"{who}(): argument 'out' must be Tensor, not {type(value).__name__}")
            o.out = <PyObject*>value
    elif key == "layout":
        if value is not None and not isinstance(value, layout):
            raise TypeError(f"{who}(): argument 'layout' must be {display.public('layout')}, not {type(value).__name__}")
        if value is not None and value is not strided:
            raise NotImplementedError(f"{who}(): layout={value} is not available: make a sparse tensor with "
                                      f"{display.public('sparse_coo_tensor')}")
    elif key == "pin_memory":
        o.pinned = bool(value)
    else:
        return 0
    return 1


cdef int no_options(Options* o) except -1:
    o.code, o.requires, o.format, o.out, o.placed, o.device, o.pinned = -1, False, NO_FORMAT, NULL, False, NULL, False
    if placing:
        place = default_place()
        o.device = NULL if place is None else <PyObject*>place
    return 0


cdef int bind(Factory op, PyObject** args, Py_ssize_t nargs, PyObject* names, PyObject** result,
              Options* o) except -1:
    """Arguments by position and by name, into `result` (NULL where none was given) and the options."""
    cdef PyObject* bound[MAX_BOUND]
    cdef int k
    no_options(o)
    op.signature.bind(op.name, args, nargs, names, bound)
    for k in range(op.own):
        result[k] = bound[k]
    return read_options(op, bound, o) if names != NULL else 0


cdef int read_options(Factory op, PyObject** bound, Options* o) except -1:
    cdef int k
    for k in range(op.own, op.signature.total):
        if bound[k] != NULL:
            read_option(op.name, op.signature.names[k], <object>bound[k], o)
    if o.pinned:
        if o.device != NULL and (<Device>o.device).blank:
            o.pinned = False
        elif accelerator_type() is None:
            raise RuntimeError(f"{op.name}(): pin_memory=True requires a CUDA or other accelerator backend; no pinned memory allocator "
                               "is available on this system.")
    return 0


cdef int resolve(Options* o, int code) noexcept:
    """The dtype requested, else that of `out`, else `code`."""
    if o.code >= 0:
        return o.code
    return (<TensorBase>o.out).code if o.out != NULL else code


cdef int check_requires(Options* o, int code, str who) except -1:
    """What can be said before the tensor is made."""
    if o.requires and CATEGORY[code] < 2:
        raise RuntimeError(f"{who}(): Only Tensors of floating point and complex dtype can require "
                           "gradients, got "
                           f"{dtype_of(code)}")
    if o.out != NULL and (<TensorBase>o.out).code != code:
        raise RuntimeError(f"{who}(): dtype {dtype_of(code)} does not match dtype of out parameter "
                           f"({dtype_of((<TensorBase>o.out).code)})")
    return 0


cdef Device where(Options* o, TensorBase model):
    """The device requested, else the model's, else this thread's (None: the host)."""
    if not o.placed and model is not None:
        o.device = NULL if model.storage.on is None else <PyObject*>model.storage.on
    return None if o.device == NULL else <Device>o.device


cdef TensorBase unfilled(Options* o, int rank, const int64_t* sizes, int code):
    """A tensor of the host that is filled before `finish` takes it where it belongs; there at once where it stays without
    elements.
    """
    cdef Device device = where(o, None)
    return new_tensor_on(device if device is not None and device.blank else None, rank, sizes, code)


cdef object finish(TensorBase t, Options* o, str who):
    """The last step: to the device requested, into `out`, or marked as a leaf that wants a gradient."""
    if o.device != NULL and t.storage.on is not <Device>o.device:
        t = device_launcher.moved(t, <Device>o.device)
    if o.pinned:
        t = device_launcher.pinned(t)
    if o.out != NULL:
        out = <object>o.out
        if out.shape != t.shape:
            out.resize_(t.shape)
        out.copy_(t)
        return out
    t.requires = o.requires
    return t


cdef int64_t size_at(str who, object given, Py_ssize_t k, str argument="size") except -1:
    """A size; -2 for a negative one, which the caller names in its error."""
    cdef int64_t size
    cdef int overflow = 0
    cdef str kind
    if PyLong_CheckExact(given):
        size = PyLong_AsLongLongAndOverflow(given, &overflow)
        if not overflow:
            return size if size >= 0 else -2
    elif isinstance(given, (float, bool, str)) or not hasattr(given, "__index__"):
        kind = "tuple of ints" if argument == "size" else "int"
        raise TypeError(f"{who}(): argument '{argument}' (position {k + 1}) must be {kind}, not "
                        f"{type(given).__name__}")
    size = as_size(given, who, argument) if argument == "size" else as_int(given, who, argument)
    return size if size >= 0 else -2


cdef int read_sizes(str who, PyObject** args, Py_ssize_t nargs, int64_t* sizes) except -1:
    """`f(2, 3)` or `f((2, 3))`; returns how many.  TypeError for anything but ints, RuntimeError for negative
    ones.
    """
    cdef Py_ssize_t k
    cdef object first = <object>args[0]
    if PyTuple_Check(first) or PyList_Check(first):
        if nargs > 1:
            raise TypeError(f"{who}() takes 1 positional argument but {nargs} were given")
        nargs, args = PySequence_Fast_GET_SIZE(first), PySequence_Fast_ITEMS(first)
    if nargs > MAX_DIMS:
        raise RuntimeError(f"{who}(): a tensor has at most {MAX_DIMS} dimensions, got {nargs}")
    for k in range(nargs):
        sizes[k] = size_at(who, <object>args[k], k)
        if sizes[k] < 0:
            raise RuntimeError(f"{who}(): Trying to create tensor with negative dimension {<object>args[k]}: "
                               f"{[<object>args[i] for i in range(nargs)]}")
    return <int>nargs


cdef int read_tuple(str who, object given, int64_t* sizes) except -1:
    """A size that must be a sequence, as `full` wants it."""
    if not (PyTuple_Check(given) or PyList_Check(given)):
        raise TypeError(f"{who}(): argument 'size' (position 1) must be tuple of ints, not "
                        f"{type(given).__name__}")
    cdef PyObject* one = <PyObject*>given
    return read_sizes(who, &one, 1, sizes)


cdef int bind_sizes(Factory op, PyObject** args, Py_ssize_t nargs, PyObject* names, Options* o,
                    int64_t* sizes) except -1:
    """Sizes by position or as the last of its own parameters, `size=`, then options; returns how many sizes."""
    cdef PyObject* bound[MAX_BOUND]
    no_options(o)
    if names == NULL and nargs:
        return read_sizes(op.name, args, nargs, sizes)
    op.signature.arrange(op.name, args + nargs, 0, names, bound)
    read_options(op, bound, o)
    if bound[op.own - 1] != NULL:
        if nargs:
            raise TypeError(f"{op.name}() got multiple values for argument 'size'")
        return read_sizes(op.name, &bound[op.own - 1], 1, sizes)
    if nargs == 0:
        raise TypeError(f'{op.name}() missing 1 required positional arguments: "size"')
    return read_sizes(op.name, args, nargs, sizes)


cdef int read_strides(str who, object given, int rank, const int64_t* sizes, int64_t* strides) except -1:
    """Strides that fit the sizes; RuntimeError for negative ones."""
    cdef int k, n
    if not (PyTuple_Check(given) or PyList_Check(given)):
        raise TypeError(f"{who}(): argument 'stride' (position 2) must be tuple of ints, not "
                        f"{type(given).__name__}")
    n = <int>len(given)
    if n != rank:
        raise RuntimeError(f"{who}(): dimensionality of sizes ({rank}) must match dimensionality of strides "
                           f"({n})")
    for k in range(n):
        strides[k] = size_at(who, given[k], k)
        if strides[k] < 0:
            raise RuntimeError(f"{who}(): Negative strides are not supported, got strides: {list(given)}")
    return 0


# --- layouts ------------------------------------------------------------------
cdef TensorBase laid_out(str who, Device device, int rank, const int64_t* sizes, int code, int format):
    """A new tensor in a memory format."""
    cdef int64_t strides[MAX_DIMS]
    cdef int64_t step = 1
    cdef int k, d
    if format <= CONTIGUOUS_FORMAT:
        return new_tensor_on(device, rank, sizes, code)
    if format == PRESERVE:
        raise RuntimeError(f"{who}(): unsupported memory format: preserve_format needs a tensor to be like")
    if rank != (4 if format == CHANNELS_LAST else 5):
        raise RuntimeError(f"{who}(): required rank {4 if format == CHANNELS_LAST else 5} tensor to use "
                           "channels_last format, "
                           f"got rank {rank}")
    for k in range(rank):                  # channels innermost, then the others from the last to the first
        d = 1 if k == 0 else rank - k if k < rank - 1 else 0
        strides[d] = step
        step *= sizes[d] if sizes[d] > 0 else 1
    return new_strided_on(device, rank, sizes, strides, code)


cdef TensorBase like(str who, Device device, TensorBase model, int code, int format):
    """A new tensor of the model's shape; its strides too if no gap lies between its elements, else their
    order.
    """
    cdef int order[MAX_DIMS]
    cdef int64_t strides[MAX_DIMS]
    cdef int64_t step = 1
    cdef int d, i, k, result
    cdef bint dense = True
    if format == CONTIGUOUS_FORMAT or format >= CHANNELS_LAST:
        return laid_out(who, device, model.rank, model.sizes, code, format)
    if model.contiguous:
        if row_major(model):
            return new_tensor_on(device, model.rank, model.sizes, code)
        return new_strided_on(device, model.rank, model.sizes, model.strides, code)
    # insertion sort, innermost first; a broadcast dimension is passed over
    for k in range(model.rank):
        order[k] = d = model.rank - 1 - k
        i = k
        for result in range(k - 1, -1, -1):
            if outside(model, order[result], d) > 0:
                order[i], order[result] = order[result], d
                i = result
            elif outside(model, order[result], d) < 0:
                break
    for d in order[:model.rank]:
        if model.sizes[d] != 1:
            dense = dense and model.strides[d] == step
        strides[d] = step
        step *= model.sizes[d]
    if not dense:
        return new_strided_on(device, model.rank, model.sizes, strides, code)
    return new_strided_on(device, model.rank, model.sizes, model.strides, code)


cdef bint row_major(TensorBase t) noexcept nogil:
    """Contiguous, with the usual strides for dimensions of size 1 as well."""
    cdef int64_t step = 1
    cdef int d
    for d in range(t.rank - 1, -1, -1):
        if t.strides[d] != step:
            return False
        if t.sizes[d] > 1:
            step *= t.sizes[d]
    return True


cdef inline int outside(TensorBase t, int a, int b) noexcept nogil:
    """1 where dimension a belongs further out than b, -1 where it belongs further in, 0 where its stride does
    not tell.
    """
    if t.strides[a] == 0 or t.strides[b] == 0:
        return 0
    if t.strides[a] != t.strides[b]:
        return 1 if t.strides[a] > t.strides[b] else -1
    return 1 if t.sizes[a] > t.sizes[b] else 0


make_callable(Factory, factory("", NULL, (), 0, ""))
