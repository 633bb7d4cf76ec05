# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Tensors from nothing: empty, zeros, full, arange, eye and their kin.

`tensor`, `as_tensor` and `asarray`, which take data, are in `literal`; filling is in `elements`.
"""
from libc.math cimport ceil, trunc, pow as c_pow, isfinite
from libc.stdint cimport int64_t, uint64_t
from cpython.object cimport PyObject
from .dtypes cimport BOOL, I32, I64, F32, F64, C64, C128, CATEGORY, ITEMSIZE, dtype_of, as_dtype, default_code, size_from
from .dtypes import check_device, cpu_device as _cpu_device
from .tensor cimport TensorBase, MAX_DIMS, new_tensor, new_strided, as_int
from .elements cimport Value, read_number, check_fits, code_of, store, fill_with
from .parallel cimport parallel_for
from .dispatch cimport Op, prepare_op, make_callable
from operator import index as _index

cdef extern from "Python.h":
    bint PyLong_CheckExact(object o)
    bint PyBool_Check(object o)
    bint PyTuple_Check(object o)
    bint PyList_Check(object o)
    Py_ssize_t PyVectorcall_NARGS(size_t n)
    Py_ssize_t PySequence_Fast_GET_SIZE(object o)
    PyObject** PySequence_Fast_ITEMS(object o)
    int64_t PyLong_AsLongLong(object o) except? -1

cdef enum: PARALLEL_FROM = 1 << 17        # elements from which threads pay off
cdef object cpu_device = _cpu_device


# --- arguments ---------------------------------------------------------------------------------------------------------------
cdef object call_factory(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    return (<Factory>callable).make(<Op>callable, args, PyVectorcall_NARGS(flagged), names)


cdef Factory factory(str name, maker_t make, tuple names, int required, str doc):
    cdef Factory op = Factory.__new__(Factory)
    prepare_op(op, name, call_factory)
    op.make, op.names, op.required = make, names, required
    setattr(op, "__doc__", doc)
    return op


cdef int read_format(str who, object value) except -1:
    """A memory format by its name, so that the public objects can live elsewhere."""
    cdef str name = str(value).rpartition(".")[2]
    if name == "contiguous_format":
        return CONTIGUOUS_FORMAT
    if name == "preserve_format":
        return PRESERVE
    if name == "channels_last":
        return CHANNELS_LAST
    if name == "channels_last_3d":
        return CHANNELS_LAST_3D
    raise TypeError(f"{who}(): argument 'memory_format' must be flambeau.memory_format, not {type(value).__name__}")


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
        if value is not None and value is not cpu_device:
            check_device(value, who)
    elif key == "memory_format":
        o.format = NO_FORMAT if value is None else read_format(who, value)
    elif key == "out":
        if value is not None:
            if not isinstance(value, TensorBase):
                raise TypeError(f"{who}(): argument 'out' must be Tensor, not {type(value).__name__}")
            o.out = <PyObject*>value
    elif key == "layout":
        if value is not None and not str(value).endswith("strided"):
            raise RuntimeError(f"{who}(): only the strided layout is supported, got {value}")
    elif key == "pin_memory":
        if value:
            raise RuntimeError(f"{who}(): pin_memory=True needs an accelerator, and none is available")
    else:
        return 0
    return 1


cdef inline void no_options(Options* o) noexcept:
    o.code, o.requires, o.format, o.out = -1, False, NO_FORMAT, NULL


cdef int bind(Factory op, PyObject** args, Py_ssize_t nargs, PyObject* names, PyObject** found, Options* o) except -1:
    """Arguments by position and by name, into `found` (NULL where none was given) and the options."""
    cdef Py_ssize_t total = len(op.names), k, i
    no_options(o)
    if nargs > total:
        raise TypeError(f"{op.name}() takes {total} positional argument{'' if total == 1 else 's'} but {nargs} were given")
    for k in range(total):
        found[k] = args[k] if k < nargs else NULL
    if names != NULL:
        for i in range(len(<tuple>names)):
            key = (<tuple>names)[i]
            if read_option(op.name, key, <object>args[nargs + i], o):
                continue
            for k in range(total):
                if key == <str>op.names[k]:
                    if found[k] != NULL:
                        raise TypeError(f"{op.name}() got multiple values for argument '{key}'")
                    found[k] = args[nargs + i]
                    break
            else:
                raise TypeError(f"{op.name}() got an unexpected keyword argument '{key}'")
    for k in range(op.required):
        if found[k] == NULL:
            raise TypeError(f'{op.name}() missing 1 required positional arguments: "{op.names[k]}"')
    return 0


cdef int resolve(Options* o, int code) noexcept:
    """The dtype asked for, else that of `out`, else `code`."""
    if o.code >= 0:
        return o.code
    return (<TensorBase>o.out).code if o.out != NULL else code


cdef int check_requires(Options* o, int code, str who) except -1:
    """What can be said before the tensor is made."""
    if o.requires and CATEGORY[code] < 2:
        raise RuntimeError(f"{who}(): Only Tensors of floating point and complex dtype can require gradients, got "
                           f"{dtype_of(code)}")
    if o.out != NULL and (<TensorBase>o.out).code != code:
        raise RuntimeError(f"{who}(): dtype {dtype_of(code)} does not match dtype of out parameter "
                           f"({dtype_of((<TensorBase>o.out).code)})")
    return 0


cdef object finish(TensorBase t, Options* o, str who):
    """The last step: into `out`, or marked as a leaf that wants a gradient."""
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
    cdef str kind = "tuple of ints" if argument == "size" else "int"
    if PyLong_CheckExact(given):
        size = PyLong_AsLongLong(given)
    elif isinstance(given, (float, bool, str)) or not hasattr(given, "__index__"):
        raise TypeError(f"{who}(): argument '{argument}' (position {k + 1}) must be {kind}, not {type(given).__name__}")
    else:
        try:
            size = _index(given)
        except TypeError:
            raise TypeError(f"{who}(): argument '{argument}' (position {k + 1}) must be {kind}, not "
                            f"{type(given).__name__}") from None
    return size if size >= 0 else -2


cdef int read_sizes(str who, PyObject** args, Py_ssize_t nargs, int64_t* sizes) except -1:
    """`f(2, 3)` or `f((2, 3))`; returns how many.  TypeError for anything but ints, RuntimeError for negative ones."""
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
        raise TypeError(f"{who}(): argument 'size' (position 1) must be tuple of ints, not {type(given).__name__}")
    cdef PyObject* one = <PyObject*>given
    return read_sizes(who, &one, 1, sizes)


cdef int bind_sizes(Factory op, PyObject** args, Py_ssize_t nargs, PyObject* names, Options* o, int64_t* sizes) except -1:
    """Sizes by position or as `size=`, then options; returns how many sizes."""
    cdef Py_ssize_t k
    cdef PyObject* by_name = NULL
    no_options(o)
    if names != NULL:
        for k in range(len(<tuple>names)):
            key = (<tuple>names)[k]
            if read_option(op.name, key, <object>args[nargs + k], o):
                continue
            if key != "size":
                raise TypeError(f"{op.name}() got an unexpected keyword argument '{key}'")
            if nargs:
                raise TypeError(f"{op.name}() got multiple values for argument 'size'")
            by_name = args[nargs + k]
    if by_name != NULL:
        return read_sizes(op.name, &by_name, 1, sizes)
    if nargs == 0:
        raise TypeError(f'{op.name}() missing 1 required positional arguments: "size"')
    return read_sizes(op.name, args, nargs, sizes)


# --- layouts -----------------------------------------------------------------------------------------------------------------
cdef TensorBase laid_out(str who, int rank, const int64_t* sizes, int code, int format):
    """A new tensor in a memory format."""
    cdef int64_t strides[MAX_DIMS]
    cdef int64_t step = 1
    cdef int k, d
    if format <= CONTIGUOUS_FORMAT:
        return new_tensor(rank, sizes, code)
    if format == PRESERVE:
        raise RuntimeError(f"{who}(): unsupported memory format: preserve_format needs a tensor to be like")
    if rank != (4 if format == CHANNELS_LAST else 5):
        raise RuntimeError(f"{who}(): required rank {4 if format == CHANNELS_LAST else 5} tensor to use channels_last format, "
                           f"got rank {rank}")
    for k in range(rank):                  # channels innermost, then the others from the last to the first
        d = 1 if k == 0 else rank - k if k < rank - 1 else 0
        strides[d] = step
        step *= sizes[d] if sizes[d] > 0 else 1
    return new_strided(rank, sizes, strides, code)


cdef TensorBase like(str who, TensorBase model, int code, int format):
    """A new tensor of the model's shape; its strides too if no gap lies between its elements, else their order."""
    cdef int order[MAX_DIMS]
    cdef int64_t strides[MAX_DIMS]
    cdef int64_t step = 1
    cdef int d, i, k, found
    cdef bint dense = True
    if format == CONTIGUOUS_FORMAT or format >= CHANNELS_LAST:
        return laid_out(who, model.rank, model.sizes, code, format)
    if model.contiguous:
        if row_major(model):
            return new_tensor(model.rank, model.sizes, code)
        return new_strided(model.rank, model.sizes, model.strides, code)
    for k in range(model.rank):            # insertion sort, innermost first; a broadcast dimension is passed over
        order[k] = d = model.rank - 1 - k
        i = k
        for found in range(k - 1, -1, -1):
            if outside(model, order[found], d) > 0:
                order[i], order[found] = order[found], d
                i = found
            elif outside(model, order[found], d) < 0:
                break
    for d in order[:model.rank]:
        if model.sizes[d] != 1:
            dense = dense and model.strides[d] == step
        strides[d] = step
        step *= model.sizes[d]
    if not dense:
        return new_strided(model.rank, model.sizes, strides, code)
    return new_strided(model.rank, model.sizes, model.strides, code)


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
    """1 where dimension a belongs further out than b, -1 where it belongs further in, 0 where its stride does not tell."""
    if t.strides[a] == 0 or t.strides[b] == 0:
        return 0
    if t.strides[a] != t.strides[b]:
        return 1 if t.strides[a] > t.strides[b] else -1
    return 1 if t.sizes[a] > t.sizes[b] else 0


# --- of a given size -----------------------------------------------------------------------------------------------------------
cdef int with_number(TensorBase t, double number) except -1:
    cdef Value v
    v.category, v.wide, v.whole, v.real, v.imag = 1, False, <int64_t>number, number, 0
    return fill_with(t, &v)


cdef object make_empty(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef int64_t sizes[MAX_DIMS]
    cdef Options o
    cdef int rank, code
    if names == NULL and nargs:
        rank = read_sizes(op.name, args, nargs, sizes)
        return new_tensor(rank, sizes, default_code())
    rank = bind_sizes(<Factory>op, args, nargs, names, &o, sizes)
    code = resolve(&o, default_code())
    check_requires(&o, code, op.name)
    if o.out != NULL:
        return (<object>o.out).resize_(size_from(rank, sizes))
    return finish(laid_out(op.name, rank, sizes, code, o.format), &o, op.name)


cdef object make_number(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names, double number):
    cdef int64_t sizes[MAX_DIMS]
    cdef Options o
    cdef int rank = bind_sizes(<Factory>op, args, nargs, names, &o, sizes)
    cdef int code = resolve(&o, default_code())
    check_requires(&o, code, op.name)
    cdef TensorBase t = laid_out(op.name, rank, sizes, code, o.format)
    with_number(t, number)
    return finish(t, &o, op.name)


cdef object make_zeros(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    return make_number(op, args, nargs, names, 0)


cdef object make_ones(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    return make_number(op, args, nargs, names, 1)


cdef int read_fill(str who, object given, Value* v) except -1:
    if not read_number(given, v):
        raise TypeError(f"{who}(): argument 'fill_value' (position 2) must be Number, not {type(given).__name__}")
    return 0


cdef object make_full(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef int64_t sizes[MAX_DIMS]
    cdef PyObject* found[2]
    cdef Options o
    cdef Value v
    bind(<Factory>op, args, nargs, names, found, &o)
    cdef int rank = read_tuple(op.name, <object>found[0], sizes)
    read_fill(op.name, <object>found[1], &v)
    cdef int code = resolve(&o, code_of(&v))
    check_requires(&o, code, op.name)
    check_fits(&v, code, op.name)
    cdef TensorBase t = laid_out(op.name, rank, sizes, code, o.format)
    fill_with(t, &v)
    return finish(t, &o, op.name)


cdef int read_strides(str who, object given, int rank, const int64_t* sizes, int64_t* strides) except -1:
    """Strides that fit the sizes; RuntimeError for negative ones and for storages beyond 64 bits."""
    cdef int64_t last = 0
    cdef int k, n
    if not (PyTuple_Check(given) or PyList_Check(given)):
        raise TypeError(f"{who}(): argument 'stride' (position 2) must be tuple of ints, not {type(given).__name__}")
    n = <int>len(given)
    if n != rank:
        raise RuntimeError(f"{who}(): dimensionality of sizes ({rank}) must match dimensionality of strides ({n})")
    for k in range(n):
        strides[k] = size_at(who, given[k], k)
        if strides[k] < 0:
            raise RuntimeError(f"{who}(): Negative strides are not supported, got strides: {list(given)}")
        if sizes[k] > 1:
            if strides[k] > (<int64_t>1 << 56) // sizes[k]:
                raise RuntimeError(f"{who}(): Storage size calculation overflowed with sizes="
                                   f"{list(size_from(rank, sizes))} and strides={list(given)}")
            last += (sizes[k] - 1) * strides[k]
    return 0


cdef object make_empty_strided(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef int64_t sizes[MAX_DIMS]
    cdef int64_t strides[MAX_DIMS]
    cdef PyObject* found[2]
    cdef Options o
    bind(<Factory>op, args, nargs, names, found, &o)
    cdef int rank = read_tuple(op.name, <object>found[0], sizes)
    read_strides(op.name, <object>found[1], rank, sizes, strides)
    cdef int code = resolve(&o, default_code())
    check_requires(&o, code, op.name)
    return finish(new_strided(rank, sizes, strides, code), &o, op.name)


# --- like a tensor ---------------------------------------------------------------------------------------------------------------
cdef TensorBase model_of(str who, PyObject* given):
    if not isinstance(<object>given, TensorBase):
        raise TypeError(f"{who}(): argument 'input' (position 1) must be Tensor, not {type(<object>given).__name__}")
    return <TensorBase>given


cdef object make_like(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names, double number, bint fill):
    cdef PyObject* found[1]
    cdef Options o
    bind(<Factory>op, args, nargs, names, found, &o)
    cdef TensorBase model = model_of(op.name, found[0])
    cdef int code = resolve(&o, model.code)
    check_requires(&o, code, op.name)
    cdef TensorBase t = like(op.name, model, code, o.format)
    if fill:
        with_number(t, number)
    return finish(t, &o, op.name)


cdef object make_empty_like(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    return make_like(op, args, nargs, names, 0, False)


cdef object make_zeros_like(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    return make_like(op, args, nargs, names, 0, True)


cdef object make_ones_like(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    return make_like(op, args, nargs, names, 1, True)


cdef object make_full_like(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef PyObject* found[2]
    cdef Options o
    cdef Value v
    bind(<Factory>op, args, nargs, names, found, &o)
    cdef TensorBase model = model_of(op.name, found[0])
    read_fill(op.name, <object>found[1], &v)
    cdef int code = resolve(&o, model.code)
    check_requires(&o, code, op.name)
    check_fits(&v, code, op.name)
    cdef TensorBase t = like(op.name, model, code, o.format)
    fill_with(t, &v)
    return finish(t, &o, op.name)


# the methods new_*: the tensor gives the dtype
cdef object new_number(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names, double number, bint fill):
    cdef int64_t sizes[MAX_DIMS]
    cdef Options o
    if nargs == 0:
        raise TypeError(f"{op.name}(): a Tensor expected")
    cdef TensorBase model = model_of(op.name, args[0])
    cdef int rank = bind_sizes(<Factory>op, args + 1, nargs - 1, names, &o, sizes)
    cdef int code = resolve(&o, model.code)
    check_requires(&o, code, op.name)
    cdef TensorBase t = laid_out(op.name, rank, sizes, code, o.format)
    if fill:
        with_number(t, number)
    return finish(t, &o, op.name)


cdef object make_new_empty(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    return new_number(op, args, nargs, names, 0, False)


cdef object make_new_zeros(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    return new_number(op, args, nargs, names, 0, True)


cdef object make_new_ones(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    return new_number(op, args, nargs, names, 1, True)


cdef object make_new_full(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef int64_t sizes[MAX_DIMS]
    cdef PyObject* found[3]
    cdef Options o
    cdef Value v
    bind(<Factory>op, args, nargs, names, found, &o)
    cdef TensorBase model = model_of(op.name, found[0])
    cdef int rank = read_tuple(op.name, <object>found[1], sizes)
    read_fill(op.name, <object>found[2], &v)
    cdef int code = resolve(&o, model.code)
    check_requires(&o, code, op.name)
    check_fits(&v, code, op.name)
    cdef TensorBase t = new_tensor(rank, sizes, code)
    fill_with(t, &v)
    return finish(t, &o, op.name)


cdef object make_new_empty_strided(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef int64_t sizes[MAX_DIMS]
    cdef int64_t strides[MAX_DIMS]
    cdef PyObject* found[3]
    cdef Options o
    bind(<Factory>op, args, nargs, names, found, &o)
    cdef TensorBase model = model_of(op.name, found[0])
    cdef int rank = read_tuple(op.name, <object>found[1], sizes)
    read_strides(op.name, <object>found[2], rank, sizes, strides)
    cdef int code = resolve(&o, model.code)
    check_requires(&o, code, op.name)
    return finish(new_strided(rank, sizes, strides, code), &o, op.name)


# --- ranges --------------------------------------------------------------------------------------------------------------------
cdef struct Ramp:             # element i of arange: start + i step, in integers or in floating point
    char* data
    int code
    int64_t whole_start, whole_step
    double start, step


cdef void ramp_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Ramp* r = <Ramp*>context
    cdef int64_t i
    cdef Value v
    if r.code == I64:
        for i in range(begin, end):        # unsigned, so that it wraps around
            (<uint64_t*>r.data)[i] = <uint64_t>r.whole_start + <uint64_t>i * <uint64_t>r.whole_step
    elif r.code == F32:
        for i in range(begin, end):
            (<float*>r.data)[i] = <float>(r.start + i * r.step)
    elif r.code == F64:
        for i in range(begin, end):
            (<double*>r.data)[i] = r.start + i * r.step
    else:
        v.wide, v.imag = False, 0
        v.category = 1 if CATEGORY[r.code] < 2 else 2
        for i in range(begin, end):
            v.whole = <int64_t>(<uint64_t>r.whole_start + <uint64_t>i * <uint64_t>r.whole_step)
            v.real = r.start + i * r.step
            store(r.data + i * ITEMSIZE[r.code], r.code, &v)


cdef int64_t ramp_length(Value* start, Value* end, Value* step) except -1:
    """How many elements arange has; RuntimeError for a range that never ends."""
    cdef double length
    cdef bint whole = start.category < 2 and end.category < 2 and step.category < 2
    if step.real == 0:
        raise RuntimeError("arange(): step must be nonzero")
    if not isfinite(start.real) or not isfinite(end.real):
        raise RuntimeError(f"arange(): unsupported range: {start.real} -> {end.real}")
    if (end.real < start.real) if step.real > 0 else (end.real > start.real):
        raise RuntimeError(f"arange(): upper bound and lower bound inconsistent with step sign: from {start.real} to {end.real} "
                           f"by {step.real}")
    if start.wide or end.wide or step.wide:
        raise RuntimeError("arange(): an int that does not fit 64 bits")
    length = ceil((end.real - start.real) / step.real)
    if not length < 4e18:
        raise RuntimeError(f"arange(): invalid size, possible overflow: from {start.real} to {end.real} by {step.real}")
    if not whole:
        return <int64_t>length
    if start.whole == end.whole:
        return 0
    if step.whole > 0:
        return <int64_t>((<uint64_t>end.whole - <uint64_t>start.whole - 1) // <uint64_t>step.whole + 1)
    return <int64_t>((<uint64_t>start.whole - <uint64_t>end.whole - 1) // (<uint64_t>0 - <uint64_t>step.whole) + 1)


cdef object make_arange(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef PyObject* found[3]
    cdef Value v[3]
    cdef Options o
    cdef Ramp ramp
    cdef int64_t n
    cdef int k, code = I64
    bind(<Factory>op, args, nargs, names, found, &o)
    if found[1] == NULL:                   # arange(end)
        found[0], found[1] = NULL, found[0]
        if found[1] == NULL:
            raise TypeError('arange() missing 1 required positional arguments: "end"')
    for k in range(3):
        v[k].category, v[k].wide, v[k].whole, v[k].real, v[k].imag = 1, False, k // 2, k // 2, 0  # start 0, step 1
        if found[k] != NULL:
            if not read_number(<object>found[k], &v[k]) or v[k].category == 3:
                raise TypeError(f"arange(): argument '{(<Factory>op).names[k]}' must be a real Number, not "
                                f"{type(<object>found[k]).__name__}")
            if v[k].category == 2:
                code = default_code()
                v[k].whole = <int64_t>v[k].real
    code = resolve(&o, code)
    check_requires(&o, code, "arange")
    if code == BOOL or CATEGORY[code] == 3:
        raise NotImplementedError(f"arange(): not implemented for {dtype_of(code)}")
    n = ramp_length(&v[0], &v[1], &v[2])
    cdef TensorBase t = new_tensor(1, &n, code)
    ramp.data, ramp.code = t.storage.data, code
    ramp.whole_start, ramp.whole_step, ramp.start, ramp.step = v[0].whole, v[2].whole, v[0].real, v[2].real
    if n < PARALLEL_FROM:
        ramp_range(&ramp, 0, n)
    else:
        with nogil:
            parallel_for(ramp_range, &ramp, n, PARALLEL_FROM // 2)
    return finish(t, &o, "arange")


cdef void between(const Value* start, const Value* end, int64_t i, int64_t n, Value* v) noexcept nogil:
    """Point i of n from start to end: the first half is counted from the start, the second from the end."""
    cdef double steps = <double>(n - 1) if n > 1 else 1
    v.category, v.wide = 3, False
    if i < n // 2 or n == 1:
        v.real = start.real + (end.real - start.real) / steps * i
        v.imag = start.imag + (end.imag - start.imag) / steps * i
    else:
        v.real = end.real - (end.real - start.real) / steps * (n - 1 - i)
        v.imag = end.imag - (end.imag - start.imag) / steps * (n - 1 - i)


cdef TensorBase make_space(Factory op, PyObject** found, Options* o, Value* start, Value* end):
    """Read start, end, steps and the dtype of linspace and logspace; the tensor is not filled yet."""
    cdef Value* ends[2]
    cdef int k, code
    cdef int64_t n
    ends[0], ends[1] = start, end
    for k in range(2):
        if not read_number(<object>found[k], ends[k]):
            if isinstance(<object>found[k], TensorBase):
                raise RuntimeError(f"{op.name}() only supports 0-dimensional start and end tensors, but got {op.names[k]} with "
                                   f"{(<object>found[k]).ndim} dimension(s).")
            raise TypeError(f"{op.name}(): argument '{op.names[k]}' (position {k + 1}) must be Number, not "
                            f"{type(<object>found[k]).__name__}")
    n = size_at(op.name, <object>found[2], 2, "steps")
    if n < 0:
        raise RuntimeError(f"{op.name}(): number of steps must be non-negative, got {<object>found[2]}")
    code = default_code()
    if start.category == 3 or end.category == 3:
        code = C128 if code == F64 else C64
        if o.code >= 0 and CATEGORY[o.code] < 3:
            raise RuntimeError(f"{op.name}(): inferred dtype {dtype_of(code)} can't be safely cast to passed dtype "
                               f"{dtype_of(o.code)}")
    code = resolve(o, code)
    check_requires(o, code, op.name)
    if code == BOOL:
        raise NotImplementedError(f"{op.name}(): not implemented for {dtype_of(code)}")
    if CATEGORY[code] == 1:                # the ends are elements, too
        start.real, end.real = trunc(start.real), trunc(end.real)
    return new_tensor(1, &n, code)


cdef object make_linspace(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef PyObject* found[3]
    cdef Options o
    cdef Value start, end, v
    cdef int64_t i
    bind(<Factory>op, args, nargs, names, found, &o)
    cdef TensorBase t = make_space(<Factory>op, found, &o, &start, &end)
    for i in range(t.count):
        between(&start, &end, i, t.count, &v)
        store(t.storage.data + i * t.width, t.code, &v)
    return finish(t, &o, op.name)


cdef object make_logspace(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef PyObject* found[4]
    cdef Options o
    cdef Value start, end, v, base
    cdef int64_t i
    bind(<Factory>op, args, nargs, names, found, &o)
    base.real = 10
    if found[3] != NULL and (not read_number(<object>found[3], &base) or base.category == 3):
        raise TypeError(f"logspace(): argument 'base' (position 4) must be float, not {type(<object>found[3]).__name__}")
    cdef TensorBase t = make_space(<Factory>op, found, &o, &start, &end)
    for i in range(t.count):
        between(&start, &end, i, t.count, &v)
        if CATEGORY[t.code] == 3:
            power = complex(base.real) ** complex(v.real, v.imag)
            v.real, v.imag = power.real, power.imag
        else:
            v.real = c_pow(base.real, v.real)
        store(t.storage.data + i * t.width, t.code, &v)
    return finish(t, &o, op.name)


# --- matrices ------------------------------------------------------------------------------------------------------------------
cdef object make_eye(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef PyObject* found[2]
    cdef Options o
    cdef Value one
    cdef int64_t sizes[2]
    cdef int64_t i
    cdef int k
    bind(<Factory>op, args, nargs, names, found, &o)
    if found[1] == NULL or <object>found[1] is None:
        found[1] = found[0]
    for k in range(2):
        sizes[k] = size_at("eye", <object>found[k], k, "nm"[k])
        if sizes[k] < 0:
            raise RuntimeError(f"eye(): {'nm'[k]} must be greater or equal to 0, got {<object>found[k]}")
    cdef int code = resolve(&o, default_code())
    check_requires(&o, code, "eye")
    cdef TensorBase t = new_tensor(2, sizes, code)
    with_number(t, 0)
    one.category, one.wide, one.whole, one.real, one.imag = 1, False, 1, 1, 0
    for i in range(min(sizes[0], sizes[1])):
        store(t.storage.data + i * (sizes[1] + 1) * t.width, code, &one)
    return finish(t, &o, "eye")


cdef object triangle(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names, bint lower):
    """Rows and columns of the elements on one side of a diagonal, in row-major order."""
    cdef PyObject* found[3]
    cdef Options o
    cdef Value v
    cdef int64_t sizes[2]
    cdef int64_t rows, columns, offset = 0, i, j, first, last, n = 0, at = 0
    bind(<Factory>op, args, nargs, names, found, &o)
    rows = size_at(op.name, <object>found[0], 0, "row")
    columns = size_at(op.name, <object>found[1], 1, "col")
    if rows < 0 or columns < 0:
        raise RuntimeError(f"{op.name}(): {'row' if rows < 0 else 'col'} must be non-negative, got "
                           f"{<object>found[0 if rows < 0 else 1]}")
    if found[2] != NULL:
        offset = as_int(<object>found[2], op.name, "offset")
    cdef int code = resolve(&o, I64)
    check_requires(&o, code, op.name)
    if code != I64 and code != I32:
        raise NotImplementedError(f"{op.name}(): not implemented for {dtype_of(code)}")
    for i in range(rows):
        triangle_row(lower, i, columns, offset, &first, &last)
        n += last - first
    sizes[0], sizes[1] = 2, n
    cdef TensorBase t = new_tensor(2, sizes, code)
    v.category, v.wide = 1, False
    for i in range(rows):
        triangle_row(lower, i, columns, offset, &first, &last)
        for j in range(first, last):
            v.whole = i
            store(t.storage.data + at * t.width, code, &v)
            v.whole = j
            store(t.storage.data + (n + at) * t.width, code, &v)
            at += 1
    return finish(t, &o, op.name)


cdef void triangle_row(bint lower, int64_t i, int64_t columns, int64_t offset, int64_t* first, int64_t* last) noexcept nogil:
    """Columns [first, last) of row i."""
    cdef int64_t diagonal = i + offset + (1 if lower else 0)
    diagonal = 0 if diagonal < 0 else columns if diagonal > columns else diagonal
    first[0] = 0 if lower else diagonal
    last[0] = diagonal if lower else columns


cdef object make_tril(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    return triangle(op, args, nargs, names, True)


cdef object make_triu(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    return triangle(op, args, nargs, names, False)


cdef object make_scalar(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef PyObject* found[1]
    cdef Options o
    cdef Value v
    bind(<Factory>op, args, nargs, names, found, &o)
    if not read_number(<object>found[0], &v):
        raise TypeError(f"scalar_tensor(): argument 's' (position 1) must be Number, not {type(<object>found[0]).__name__}")
    cdef int code = resolve(&o, default_code())
    check_requires(&o, code, op.name)
    check_fits(&v, code, op.name)
    cdef TensorBase t = new_tensor(0, NULL, code)
    store(t.storage.data, code, &v)
    return finish(t, &o, op.name)


# --- the functions ---------------------------------------------------------------------------------------------------------------
SHARED = """
    Keywords of every such function: `dtype`, `device`, `requires_grad`, `layout`, `pin_memory`, `memory_format`, `out`.
    TypeError for arguments of the wrong kind, RuntimeError for negative sizes and for gradients of integers.
"""


cdef Factory add(str name, maker_t make, tuple names, int required, str doc):
    return factory(name, make, names, required, doc.rstrip() + "\n" + SHARED)


empty = add("empty", make_empty, ("size",), 1, """empty(*size) -> Tensor: elements are not set.

    >>> import flambeau
    >>> flambeau.empty(2, 3).shape
    flambeau.Size([2, 3])
    """)
zeros = add("zeros", make_zeros, ("size",), 1, """zeros(*size) -> Tensor of zeros.

    >>> import flambeau
    >>> flambeau.zeros(3)
    tensor([0., 0., 0.])
    """)
ones = add("ones", make_ones, ("size",), 1, """ones(*size) -> Tensor of ones.

    >>> import flambeau
    >>> flambeau.ones(2, dtype=flambeau.int64)
    tensor([1, 1])
    """)
full = add("full", make_full, ("size", "fill_value"), 2, """full(size, fill_value) -> Tensor of one number, which gives the dtype.

    >>> import flambeau
    >>> flambeau.full((2,), 7)
    tensor([7, 7])
    """)
empty_strided = add("empty_strided", make_empty_strided, ("size", "stride"), 2, """empty_strided(size, stride) -> Tensor with that layout.

    >>> import flambeau
    >>> flambeau.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """)
empty_like = add("empty_like", make_empty_like, ("input",), 1, "empty_like(input) -> Tensor of input's shape, dtype and layout, not set.")
zeros_like = add("zeros_like", make_zeros_like, ("input",), 1, "zeros_like(input) -> Tensor of zeros in input's shape, dtype and layout.")
ones_like = add("ones_like", make_ones_like, ("input",), 1, "ones_like(input) -> Tensor of ones in input's shape, dtype and layout.")
full_like = add("full_like", make_full_like, ("input", "fill_value"), 2,
                "full_like(input, fill_value) -> Tensor of one number in input's shape, dtype and layout.")
new_empty = add("new_empty", make_new_empty, ("size",), 1, "x.new_empty(*size) -> Tensor of x's dtype, not set.")
new_zeros = add("new_zeros", make_new_zeros, ("size",), 1, "x.new_zeros(*size) -> Tensor of zeros of x's dtype.")
new_ones = add("new_ones", make_new_ones, ("size",), 1, "x.new_ones(*size) -> Tensor of ones of x's dtype.")
new_full = add("new_full", make_new_full, ("input", "size", "fill_value"), 3,
               "x.new_full(size, fill_value) -> Tensor of one number in x's dtype.")
new_empty_strided = add("new_empty_strided", make_new_empty_strided, ("input", "size", "stride"), 3,
                        "x.new_empty_strided(size, stride) -> Tensor of x's dtype with that layout, not set.")
arange = add("arange", make_arange, ("start", "end", "step"), 0, """arange([start,] end, step=1) -> 1-D Tensor of start, start + step, … before end.

    int64 when all are integers, else the default dtype.  RuntimeError for a step of zero or of the wrong sign.

    >>> import flambeau
    >>> flambeau.arange(1, 7, 2)
    tensor([1, 3, 5])
    """)
linspace = add("linspace", make_linspace, ("start", "end", "steps"), 3, """linspace(start, end, steps) -> 1-D Tensor of equally spaced points, both ends included.

    >>> import flambeau
    >>> flambeau.linspace(0, 1, 3)
    tensor([0.0000, 0.5000, 1.0000])
    """)
logspace = add("logspace", make_logspace, ("start", "end", "steps", "base"), 3, """logspace(start, end, steps, base=10.0) -> base to the power of linspace(start, end, steps).

    >>> import flambeau
    >>> flambeau.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """)
eye = add("eye", make_eye, ("n", "m"), 1, """eye(n, m=n) -> (n, m) Tensor with ones on the diagonal.

    >>> import flambeau
    >>> flambeau.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """)
tril_indices = add("tril_indices", make_tril, ("row", "col", "offset"), 2,
                   "tril_indices(row, col, offset=0) -> (2, n) int64 Tensor: where the lower triangle of a matrix is.")
triu_indices = add("triu_indices", make_triu, ("row", "col", "offset"), 2,
                   "triu_indices(row, col, offset=0) -> (2, n) int64 Tensor: where the upper triangle of a matrix is.")
scalar_tensor = add("scalar_tensor", make_scalar, ("s",), 1, "scalar_tensor(s) -> 0-dim Tensor of the default dtype.")
make_callable(Factory, empty)
