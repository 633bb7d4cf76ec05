# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Tensors from nothing: empty, zeros, full, arange, eye and their kin.

What takes data (`tensor`, `as_tensor`, `asarray`) is in `literal`, filling in `elements`; all are found here.
"""
from libc.math cimport ceil, trunc, pow as c_pow, fabs, isfinite
from libc.stdint cimport INT64_MAX, int64_t, uint64_t
from cpython.object cimport PyObject
from ..base.dtypes cimport (
    BOOL, I32, I64, F32, F64, C64, C128, CATEGORY, ITEMSIZE, dtype_of, default_code, is_stored, size_from,
)
from ..base.callbacks import set_callback
from ..base.tensor cimport TensorBase, MAX_DIMS, new_tensor, new_tensor_on, new_strided_on, as_int
from .elements cimport Value, read_number, check_fits, code_of, store, fill_with
from .factory cimport (
    Factory, Options, maker_t, factory, bind, bind_sizes, read_sizes, read_tuple, read_strides, size_at,
    resolve, check_requires, where, laid_out, like, finish, unfilled,
)
from ..base.device cimport placing
from ..base.device import OutOfMemoryError
from ..base.parallel cimport parallel_for
from ..base.sizes cimport add_overflow
from ..call.operation cimport Op
from .elements import fill_, zero_
from .literal import tensor, as_tensor, asarray, new_tensor_

cdef enum: PARALLEL_FROM = 1 << 17        # elements from which threads pay off


# --- of a given size ----------------------------------------------------------
cdef int with_number(TensorBase t, double number) except -1:
    cdef Value v
    v.category, v.wide, v.whole, v.real, v.imag = 1, False, <int64_t>number, number, 0
    return fill_with(t, &v)


cdef object make_empty(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef int64_t sizes[MAX_DIMS]
    cdef Options o
    cdef int rank, code
    if names == NULL and nargs and not placing:
        rank = read_sizes(op.name, args, nargs, sizes)
        return new_tensor(rank, sizes, default_code())
    rank = bind_sizes(<Factory>op, args, nargs, names, &o, sizes)
    code = resolve(&o, default_code())
    check_requires(&o, code, op.name)
    if o.out != NULL:
        return (<object>o.out).resize_(size_from(rank, sizes))
    return finish(laid_out(op.name, where(&o, None), rank, sizes, code, o.format), &o, op.name)


cdef object make_number(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names, double number):
    cdef int64_t sizes[MAX_DIMS]
    cdef Options o
    cdef int rank = bind_sizes(<Factory>op, args, nargs, names, &o, sizes)
    cdef int code = resolve(&o, default_code())
    check_requires(&o, code, op.name)
    cdef TensorBase t = laid_out(op.name, where(&o, None), rank, sizes, code, o.format)
    with_number(t, number)
    return finish(t, &o, op.name)


cdef object make_zeros(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    return make_number(op, args, nargs, names, 0)


cdef object make_ones(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    return make_number(op, args, nargs, names, 1)


cdef int read_fill(str who, object given, Value* v) except -1:
    if not read_number(given, v):
        raise TypeError(f"{who}(): argument 'fill_value' (position 2) must be Number, not "
                        f"{type(given).__name__}")
    return 0


cdef object make_full(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef int64_t sizes[MAX_DIMS]
    cdef PyObject* bound[2]
    cdef Options o
    cdef Value v
    bind(<Factory>op, args, nargs, names, bound, &o)
    cdef int rank = read_tuple(op.name, <object>bound[0], sizes)
    read_fill(op.name, <object>bound[1], &v)
    cdef int code = resolve(&o, code_of(&v))
    check_requires(&o, code, op.name)
    check_fits(&v, code, op.name)
    cdef TensorBase t = laid_out(op.name, where(&o, None), rank, sizes, code, o.format)
    fill_with(t, &v)
    return finish(t, &o, op.name)


cdef object make_empty_strided(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef int64_t sizes[MAX_DIMS]
    cdef int64_t strides[MAX_DIMS]
    cdef PyObject* bound[2]
    cdef Options o
    bind(<Factory>op, args, nargs, names, bound, &o)
    cdef int rank = read_tuple(op.name, <object>bound[0], sizes)
    read_strides(op.name, <object>bound[1], rank, sizes, strides)
    cdef int code = resolve(&o, default_code())
    check_requires(&o, code, op.name)
    return finish(new_strided_on(where(&o, None), rank, sizes, strides, code), &o, op.name)


# --- like a tensor ------------------------------------------------------------
cdef TensorBase model_of(str who, PyObject* given):
    if not isinstance(<object>given, TensorBase):
        raise TypeError(f"{who}(): argument 'input' (position 1) must be Tensor, not "
                        f"{type(<object>given).__name__}")
    return <TensorBase>given


cdef object make_like(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names, double number, bint fill):
    cdef PyObject* bound[1]
    cdef Options o
    bind(<Factory>op, args, nargs, names, bound, &o)
    cdef TensorBase model = model_of(op.name, bound[0])
    cdef int code = resolve(&o, model.code)
    check_requires(&o, code, op.name)
    cdef TensorBase t = like(op.name, where(&o, model), model, code, o.format)
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
    cdef PyObject* bound[2]
    cdef Options o
    cdef Value v
    bind(<Factory>op, args, nargs, names, bound, &o)
    cdef TensorBase model = model_of(op.name, bound[0])
    read_fill(op.name, <object>bound[1], &v)
    cdef int code = resolve(&o, model.code)
    check_requires(&o, code, op.name)
    check_fits(&v, code, op.name)
    cdef TensorBase t = like(op.name, where(&o, model), model, code, o.format)
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
    cdef TensorBase t = laid_out(op.name, where(&o, model), rank, sizes, code, o.format)
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
    cdef PyObject* bound[3]
    cdef Options o
    cdef Value v
    bind(<Factory>op, args, nargs, names, bound, &o)
    cdef TensorBase model = model_of(op.name, bound[0])
    cdef int rank = read_tuple(op.name, <object>bound[1], sizes)
    read_fill(op.name, <object>bound[2], &v)
    cdef int code = resolve(&o, model.code)
    check_requires(&o, code, op.name)
    check_fits(&v, code, op.name)
    cdef TensorBase t = new_tensor_on(where(&o, model), rank, sizes, code)
    fill_with(t, &v)
    return finish(t, &o, op.name)


cdef object make_new_empty_strided(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef int64_t sizes[MAX_DIMS]
    cdef int64_t strides[MAX_DIMS]
    cdef PyObject* bound[3]
    cdef Options o
    bind(<Factory>op, args, nargs, names, bound, &o)
    cdef TensorBase model = model_of(op.name, bound[0])
    cdef int rank = read_tuple(op.name, <object>bound[1], sizes)
    read_strides(op.name, <object>bound[2], rank, sizes, strides)
    cdef int code = resolve(&o, model.code)
    check_requires(&o, code, op.name)
    return finish(new_strided_on(where(&o, model), rank, sizes, strides, code), &o, op.name)


# --- ranges -------------------------------------------------------------------
cdef struct Ramp:             # element i of arange: start + i step, in integers or in floating point
    char* data
    int code
    int64_t whole_start, whole_step
    double start, step


cdef void ramp_range(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Ramp* r = <Ramp*>context
    cdef int64_t i
    cdef uint64_t next
    cdef double base
    cdef int k, n
    cdef Value v
    if r.code == I64:
        next = <uint64_t>r.whole_start + <uint64_t>begin * <uint64_t>r.whole_step
        for i in range(begin, end):        # unsigned, so that it wraps around
            (<uint64_t*>r.data)[i] = next
            next += <uint64_t>r.whole_step
    elif r.code == F32 or r.code == F64:   # numbers of 32 bits become doubles in vectors; base + k is exact
        while begin < end:
            base, n = <double>begin, <int>min(end - begin, <int64_t>1 << 20)
            if r.code == F32:
                for k in range(n):
                    (<float*>r.data)[begin + k] = <float>(r.start + (base + k) * r.step)
            else:
                for k in range(n):
                    (<double*>r.data)[begin + k] = r.start + (base + k) * r.step
            begin += n
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
    cdef uint64_t distance
    cdef bint whole = start.category < 2 and end.category < 2 and step.category < 2
    if step.real == 0:
        raise RuntimeError("arange(): step must be nonzero")
    if not isfinite(start.real) or not isfinite(end.real):
        raise RuntimeError(f"arange(): unsupported range: {start.real} -> {end.real}")
    if (end.real < start.real) if step.real > 0 else (end.real > start.real):
        raise RuntimeError("arange(): upper bound and lower bound inconsistent with step sign: from "
                           f"{start.real} to {end.real} "
                           f"by {step.real}")
    if start.wide or end.wide or step.wide:
        raise RuntimeError("arange(): an int that does not fit 64 bits")
    length = ceil((end.real - start.real) / step.real)
    if not length < 4e18:
        raise RuntimeError(f"arange(): invalid size, possible overflow: from {start.real} to {end.real} by "
                           f"{step.real}")
    if not whole:
        return <int64_t>length
    if start.whole == end.whole:
        return 0
    if step.whole > 0:
        distance = <uint64_t>end.whole - <uint64_t>start.whole
        return <int64_t>((distance - 1) // <uint64_t>step.whole + 1)
    distance = <uint64_t>start.whole - <uint64_t>end.whole
    return <int64_t>((distance - 1) // (<uint64_t>0 - <uint64_t>step.whole) + 1)


cdef object make_arange(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef PyObject* bound[3]
    cdef Value v[3]
    cdef Options o
    cdef Ramp ramp
    cdef double given[3]
    cdef int64_t n
    cdef int k, code = I64
    bind(<Factory>op, args, nargs, names, bound, &o)
    if bound[1] == NULL:                   # arange(end)
        bound[0], bound[1] = NULL, bound[0]
        if bound[1] == NULL:
            raise TypeError('arange() missing 1 required positional arguments: "end"')
    for k in range(3):
        # start 0, step 1
        v[k].category, v[k].wide, v[k].whole, v[k].real, v[k].imag = 1, False, k // 2, k // 2, 0
        if bound[k] != NULL:
            if not read_number(<object>bound[k], &v[k]) or v[k].category == 3:
                raise TypeError(f"arange(): argument '{op.signature.names[k]}' must be a real Number, not "
                                f"{type(<object>bound[k]).__name__}")
            if v[k].category == 2:
                code = default_code()
                v[k].whole = <int64_t>v[k].real
    code = resolve(&o, code)
    check_requires(&o, code, "arange")
    if code == BOOL or CATEGORY[code] == 3 or is_stored(code):
        raise NotImplementedError(f"arange(): not implemented for {dtype_of(code)}")
    if CATEGORY[code] == 1:                # integers count in integers: parts after the point are cut off first
        if v[2].category == 2 and fabs(v[2].real) < 1 and v[2].real != 0:
            raise ValueError(f"arange(): step must be nonzero, but {v[2].real} is 0 in {dtype_of(code)}")
        for k in range(3):
            given[k] = v[k].real
            if v[k].category == 2 and isfinite(v[k].real):
                v[k].category, v[k].whole = 1, <int64_t>v[k].real
                v[k].real = <double>v[k].whole
    n = ramp_length(&v[0], &v[1], &v[2])
    if CATEGORY[code] == 1 and code != I64:  # but these are as many as the numbers given ask for, as in PyTorch
        n = <int64_t>max(0.0, ceil((given[1] - given[0]) / given[2]))
    cdef TensorBase t = unfilled(&o, 1, &n, code)
    if t.storage.data == NULL:
        return finish(t, &o, "arange")
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


cdef bint without_data(PyObject* given):
    """Whether it is a 0-dim tensor on "meta"."""
    cdef TensorBase t
    if not isinstance(<object>given, TensorBase):
        return False
    t = <TensorBase>given
    return t.rank == 0 and t.storage.on is not None and t.storage.on.blank


cdef TensorBase make_space(Factory op, PyObject** bound, Options* o, Value* start, Value* end):
    """Read start, end, steps and the dtype of linspace and logspace; the tensor is not filled yet."""
    cdef Value* ends[2]
    cdef int k, code
    cdef int64_t n
    ends[0], ends[1] = start, end
    for k in range(2):
        if without_data(bound[k]):          # its dtype counts, and its device
            ends[k].category, ends[k].wide, ends[k].whole = CATEGORY[(<TensorBase>bound[k]).code], False, 0
            ends[k].real, ends[k].imag = 0, 0
            if not o.placed:
                o.device = <PyObject*>(<TensorBase>bound[k]).storage.on
        elif not read_number(<object>bound[k], ends[k]):
            if isinstance(<object>bound[k], TensorBase):
                raise RuntimeError(f"{op.name}() only supports 0-dimensional start and end tensors, but got "
                                   f"{op.signature.names[k]} with "
                                   f"{(<object>bound[k]).ndim} dimension(s).")
            raise TypeError(f"{op.name}(): argument '{op.signature.names[k]}' (position {k + 1}) must be Number, not "
                            f"{type(<object>bound[k]).__name__}")
    n = size_at(op.name, <object>bound[2], 2, "steps")
    if n < 0:
        raise RuntimeError(f"{op.name}(): number of steps must be non-negative, got {<object>bound[2]}")
    code = default_code()
    if start.category == 3 or end.category == 3:
        code = C128 if code == F64 else C64
        if o.code >= 0 and CATEGORY[o.code] < 3:
            raise RuntimeError(f"{op.name}(): inferred dtype {dtype_of(code)} can't be safely cast to "
                               "passed dtype "
                               f"{dtype_of(o.code)}")
    code = resolve(o, code)
    check_requires(o, code, op.name)
    if code == BOOL or is_stored(code):
        raise NotImplementedError(f"{op.name}(): not implemented for {dtype_of(code)}")
    if CATEGORY[code] == 1:                # the ends are elements, too
        start.real, end.real = trunc(start.real), trunc(end.real)
    return unfilled(o, 1, &n, code)


cdef object make_linspace(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef PyObject* bound[3]
    cdef Options o
    cdef Value start, end, v
    cdef int64_t i
    bind(<Factory>op, args, nargs, names, bound, &o)
    cdef TensorBase t = make_space(<Factory>op, bound, &o, &start, &end)
    for i in range(t.count if t.storage.data != NULL else 0):
        between(&start, &end, i, t.count, &v)
        store(t.storage.data + i * t.width, t.code, &v)
    return finish(t, &o, op.name)


cdef object make_logspace(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef PyObject* bound[4]
    cdef Options o
    cdef Value start, end, v, base
    cdef int64_t i
    bind(<Factory>op, args, nargs, names, bound, &o)
    base.real = 10
    if bound[3] != NULL and (not read_number(<object>bound[3], &base) or base.category == 3):
        raise TypeError("logspace(): argument 'base' (position 4) must be float, not "
                        f"{type(<object>bound[3]).__name__}")
    cdef TensorBase t = make_space(<Factory>op, bound, &o, &start, &end)
    for i in range(t.count if t.storage.data != NULL else 0):
        between(&start, &end, i, t.count, &v)
        if CATEGORY[t.code] == 3:
            power = complex(base.real) ** complex(v.real, v.imag)
            v.real, v.imag = power.real, power.imag
        else:
            v.real = c_pow(base.real, v.real)
        store(t.storage.data + i * t.width, t.code, &v)
    return finish(t, &o, op.name)


# --- matrices -----------------------------------------------------------------
cdef object make_eye(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef PyObject* bound[2]
    cdef Options o
    cdef Value one
    cdef int64_t sizes[2]
    cdef int64_t i
    cdef int k
    bind(<Factory>op, args, nargs, names, bound, &o)
    if bound[1] == NULL or <object>bound[1] is None:
        bound[1] = bound[0]
    for k in range(2):
        sizes[k] = size_at("eye", <object>bound[k], k, "nm"[k])
        if sizes[k] < 0:
            raise RuntimeError(f"eye(): {'nm'[k]} must be greater or equal to 0, got {<object>bound[k]}")
    cdef int code = resolve(&o, default_code())
    check_requires(&o, code, "eye")
    cdef TensorBase t = unfilled(&o, 2, sizes, code)
    with_number(t, 0)
    one.category, one.wide, one.whole, one.real, one.imag = 1, False, 1, 1, 0
    for i in range(min(sizes[0], sizes[1]) if t.storage.data != NULL else 0):
        store(t.storage.data + i * (sizes[1] + 1) * t.width, code, &one)
    return finish(t, &o, "eye")


cdef object triangle(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names, bint lower):
    """Rows and columns of the elements on one side of a diagonal, in row-major order."""
    cdef PyObject* bound[3]
    cdef Options o
    cdef Value v
    cdef int64_t sizes[2]
    cdef int64_t rows, columns, offset = 0, i, j, begin, end, first, last, n, at = 0
    bind(<Factory>op, args, nargs, names, bound, &o)
    rows = size_at(op.name, <object>bound[0], 0, "row")
    columns = size_at(op.name, <object>bound[1], 1, "col")
    if rows < 0 or columns < 0:
        raise RuntimeError(f"{op.name}(): {'row' if rows < 0 else 'col'} must be non-negative, got "
                           f"{<object>bound[0 if rows < 0 else 1]}")
    if bound[2] != NULL:
        offset = as_int(<object>bound[2], op.name, "offset")
    cdef int code = resolve(&o, I64)
    check_requires(&o, code, op.name)
    if code != I64 and code != I32:
        raise NotImplementedError(f"{op.name}(): not implemented for {dtype_of(code)}")
    total = triangle_count(lower, rows, columns, offset)
    if total > INT64_MAX // 16:
        raise OutOfMemoryError(f"{op.name}(): cannot allocate {total * 2 * ITEMSIZE[code]} bytes on the CPU for {total} places")
    n = total
    sizes[0], sizes[1] = 2, n
    cdef TensorBase t = unfilled(&o, 2, sizes, code)
    if t.storage.data == NULL:
        return finish(t, &o, op.name)
    v.category, v.wide = 1, False
    if lower:                              # rows that have elements: [begin, end)
        begin, end = min(max(-<object>offset, 0), rows), rows
    else:
        begin, end = 0, min(rows, max(<object>columns - offset, 0))
    for i in range(begin if n else end, end):
        triangle_row(lower, i, columns, offset, &first, &last)
        for j in range(first, last):
            v.whole = i
            store(t.storage.data + at * t.width, code, &v)
            v.whole = j
            store(t.storage.data + (n + at) * t.width, code, &v)
            at += 1
    return finish(t, &o, op.name)


cdef object triangle_count(bint lower, object rows, object columns, object offset):
    """How many places a triangle has: the sum over the rows of their columns, in Python's integers."""
    def below(rows):                       # the sum of clip(i, 0, columns) over i < rows
        inside = max(min(rows, columns + 1), 0)
        return inside * (inside - 1) // 2 + max(rows - inside, 0) * columns

    start = offset + (1 if lower else 0)
    left = below(start + rows) - below(start)
    return left if lower else rows * columns - left


cdef void triangle_row(bint lower, int64_t i, int64_t columns, int64_t offset, int64_t* first,
                       int64_t* last) noexcept nogil:
    """Columns [first, last) of row i."""
    cdef int64_t diagonal
    if add_overflow(i + (1 if lower else 0), offset, &diagonal):
        diagonal = columns
    diagonal = 0 if diagonal < 0 else columns if diagonal > columns else diagonal
    first[0] = 0 if lower else diagonal
    last[0] = diagonal if lower else columns


cdef object make_tril(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    return triangle(op, args, nargs, names, True)


cdef object make_triu(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    return triangle(op, args, nargs, names, False)


cdef object make_scalar(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef PyObject* bound[1]
    cdef Options o
    cdef Value v
    bind(<Factory>op, args, nargs, names, bound, &o)
    if not read_number(<object>bound[0], &v):
        raise TypeError("scalar_tensor(): argument 's' (position 1) must be Number, not "
                        f"{type(<object>bound[0]).__name__}")
    cdef int code = resolve(&o, default_code())
    check_requires(&o, code, op.name)
    check_fits(&v, code, op.name)
    cdef TensorBase t = new_tensor(0, NULL, code)
    store(t.storage.data, code, &v)
    return finish(t, &o, op.name)


# --- the functions ------------------------------------------------------------
cdef str SHARED = """
    Keywords of every such function: `dtype`, `device`, `requires_grad`, `layout`, `pin_memory`,
    `memory_format`, `out`.
    TypeError for arguments of the wrong kind, RuntimeError for negative sizes and for gradients of integers.
"""


cdef Factory add(str name, maker_t make, tuple names, int required, str doc):
    prose, mark, example = doc.rstrip().partition("\n    >>> ")
    return factory(name, make, names, required, prose.rstrip() + "\n" + SHARED + mark + example + "\n    ")


empty = add("empty", make_empty, ("size",), 1,
    """empty(*size) -> Tensor: elements are not set.

    Shape:
        the result: `size`

    >>> import flambeau
    >>> flambeau.empty(2, 3).shape
    flambeau.Size([2, 3])
    """)
zeros = add("zeros", make_zeros, ("size",), 1,
    """zeros(*size) -> Tensor of zeros.

    Shape:
        the result: `size`

    >>> import flambeau
    >>> flambeau.zeros(3)
    tensor([0., 0., 0.])
    """)
ones = add("ones", make_ones, ("size",), 1,
    """ones(*size) -> Tensor of ones.

    Shape:
        the result: `size`

    >>> import flambeau
    >>> flambeau.ones(2, dtype=flambeau.int64)
    tensor([1, 1])
    """)
full = add("full", make_full, ("size", "fill_value"), 2,
    """full(size, fill_value) -> Tensor of one number, which gives the dtype.

    >>> import flambeau
    >>> flambeau.full((2,), 7)
    tensor([7, 7])
    """)
empty_strided = add("empty_strided", make_empty_strided, ("size", "stride"), 2,
    """empty_strided(size, stride) -> Tensor with that layout.

    >>> import flambeau
    >>> flambeau.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """)
empty_like = add("empty_like", make_empty_like, ("input",), 1,
    """empty_like(input) -> Tensor of input's shape, dtype and layout, not set.

    >>> import flambeau
    >>> flambeau.empty_like(flambeau.tensor([5, 6])).shape
    flambeau.Size([2])
    """)
zeros_like = add("zeros_like", make_zeros_like, ("input",), 1,
    """zeros_like(input) -> Tensor of zeros in input's shape, dtype and layout.

    >>> import flambeau
    >>> flambeau.zeros_like(flambeau.tensor([1, 2]))
    tensor([0, 0])
    """)
ones_like = add("ones_like", make_ones_like, ("input",), 1,
    """ones_like(input) -> Tensor of ones in input's shape, dtype and layout.

    >>> import flambeau
    >>> flambeau.ones_like(flambeau.tensor([5, 6]))
    tensor([1, 1])
    """)
full_like = add("full_like", make_full_like, ("input", "fill_value"), 2,
    """full_like(input, fill_value) -> Tensor of one number in input's shape, dtype and layout.

    >>> import flambeau
    >>> flambeau.full_like(flambeau.tensor([5, 6]), 7)
    tensor([7, 7])
    """)
new_empty = add("new_empty", make_new_empty, ("input", "size"), 2,
    """x.new_empty(*size) -> Tensor of x's dtype, not set.

    Shape:
        result: `size`

    >>> import flambeau
    >>> flambeau.tensor([1, 2]).new_empty(3).dtype
    flambeau.int64
    """)
new_zeros = add("new_zeros", make_new_zeros, ("input", "size"), 2,
    """x.new_zeros(*size) -> Tensor of zeros of x's dtype.

    Shape:
        result: `size`

    >>> import flambeau
    >>> flambeau.tensor([1, 2]).new_zeros(3)
    tensor([0, 0, 0])
    """)
new_ones = add("new_ones", make_new_ones, ("input", "size"), 2,
    """x.new_ones(*size) -> Tensor of ones of x's dtype.

    Shape:
        result: `size`

    >>> import flambeau
    >>> flambeau.tensor([1, 2]).new_ones(3)
    tensor([1, 1, 1])
    """)
new_full = add("new_full", make_new_full, ("input", "size", "fill_value"), 3,
    """x.new_full(size, fill_value) -> Tensor of one number in x's dtype.

    Shape:
        result: `size`

    >>> import flambeau
    >>> flambeau.tensor([1, 2]).new_full((3,), 7)
    tensor([7, 7, 7])
    """)
new_empty_strided = add("new_empty_strided", make_new_empty_strided, ("input", "size", "stride"), 3,
    """x.new_empty_strided(size, stride) -> Tensor of x's dtype with that layout, not set.

    >>> import flambeau
    >>> flambeau.tensor([1, 2]).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """)
arange = add("arange", make_arange, ("start", "end", "step"), 0,
    """arange([start,] end, step=1) -> Tensor of start, start + step, … before end, of shape (⌈(end - start) / step⌉,).

    int64 when all are integers, else the default dtype.  RuntimeError for a step of zero or of the wrong
    sign.

    >>> import flambeau
    >>> flambeau.arange(1, 7, 2)
    tensor([1, 3, 5])
    """)
linspace = add("linspace", make_linspace, ("start", "end", "steps"), 3,
    """linspace(start, end, steps) -> 1-D Tensor of equally spaced points, both ends included.

    >>> import flambeau
    >>> flambeau.linspace(0, 1, 3)
    tensor([0.0000, 0.5000, 1.0000])
    """)
logspace = add("logspace", make_logspace, ("start", "end", "steps", "base"), 3,
    """logspace(start, end, steps, base=10.0) -> base to the power of linspace(start, end, steps).

    >>> import flambeau
    >>> flambeau.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """)
eye = add("eye", make_eye, ("n", "m"), 1,
    """eye(n, m=n) -> (n, m) Tensor with ones on the diagonal.

    >>> import flambeau
    >>> flambeau.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """)
tril_indices = add("tril_indices", make_tril, ("row", "col", "offset"), 2,
    """tril_indices(row, col, offset=0) -> (2, n) int64 Tensor: where the lower triangle of a matrix is.

    >>> import flambeau
    >>> flambeau.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """)
triu_indices = add("triu_indices", make_triu, ("row", "col", "offset"), 2,
    """triu_indices(row, col, offset=0) -> (2, n) int64 Tensor: where the upper triangle of a matrix is.

    >>> import flambeau
    >>> flambeau.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """)
scalar_tensor = add("scalar_tensor", make_scalar, ("s",), 1,
    """scalar_tensor(s) -> 0-dim Tensor of the default dtype.

    >>> import flambeau
    >>> flambeau.scalar_tensor(3)
    tensor(3.)
    """)
globals()["new_tensor"] = new_tensor_    # in this module's code the name is that of the C function

set_callback("empty_like", empty_like)
set_callback("zeros", zeros)
