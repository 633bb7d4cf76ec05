# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False, embedsignature=True, embedsignature.format=clinic
"""The compiled base of Tensor: a storage, an offset, sizes and strides.

The public class `flambeau.Tensor` is a Python class over `TensorBase`, so that users can subclass it and set
attributes. Methods that are operations are attached to it from the registry; what stands here is what a
tensor *is*.
"""
from libc.stdlib cimport malloc, free
from libc.string cimport memcpy
from libc.stdint cimport int64_t, uint64_t, uintptr_t, int8_t, int16_t, int32_t, uint8_t, uint16_t, uint32_t
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from .memory cimport Storage, new_storage, inferring, new_storage_on, scratch, settle
from .device cimport Device
from .device import OutOfMemoryError
from .sizes cimport mul_overflow, product_of, row_major, span_of
from .float8 cimport from_float8
from .dtypes cimport (
    BOOL, U8, U16, U32, U64, I8, I16, I32, I64, F16, BF16, F32, F64, C32, C64, C128, F4_E2M1FN_X2, is_stored, dtype_of, ITEMSIZE, CATEGORY,
    dtype, as_dtype, size_from, default_code,
)
from . import display, dtypes as _dtypes
from .callbacks import callbacks
from operator import index as _index
import warnings

cdef extern from "Python.h":
    ctypedef object (*newfunc)(PyTypeObject*, object, PyObject*)
    ctypedef struct PyNumberMethods:
        pass
    ctypedef struct PyMappingMethods:
        pass
    ctypedef struct RawType "PyTypeObject":
        newfunc tp_new
        PyNumberMethods* tp_as_number
        PyMappingMethods* tp_as_mapping
        void* tp_richcompare
        unsigned long tp_flags
    unsigned long Py_TPFLAGS_HEAPTYPE
    bint PyLong_CheckExact(object o)
    bint PyTuple_Check(object o)
    bint PyList_Check(object o)
    int64_t PyLong_AsLongLongAndOverflow(object o, int* overflow) except? -1

cdef enum: MANY_NUMBERS = 1 << 20   # from which tolist looks for room first

cdef object cpu_device = _dtypes.cpu_device
cdef object no_arguments = ()
TENSOR = <PyTypeObject*>TensorBase
cdef RawType* BASE = <RawType*>TensorBase
cdef object tensor_class = TensorBase


def set_tensor_class(cls) -> None:
    """The class of the tensors that operations return."""
    global TENSOR, tensor_class
    tensor_class = cls
    TENSOR = <PyTypeObject*>cls


def inherit_operators(cls) -> None:
    """Let a subclass that neither overrides an operator nor inherits one that is overridden use the compiled ones
    directly; Python would look each up by name.
    """
    if not isinstance(cls, type):
        raise TypeError(f"a class expected, not {type(cls).__name__}")
    cdef RawType* raw = <RawType*>cls
    memcpy(raw.tp_as_number, BASE.tp_as_number, sizeof(PyNumberMethods))
    raw.tp_as_mapping[0] = BASE.tp_as_mapping[0]
    raw.tp_richcompare = BASE.tp_richcompare


cdef object reflected(int op, int forward, object self, object other):
    """`other` operator `self`: between tensors, where Python asks a subclass on the right first, it is the operator itself."""
    if isinstance(other, TensorBase):
        return runtime.binary(<object>operators[forward], other, self)
    return runtime.binary(<object>operators[op], self, other)


# --- making tensors ------------------------------
cdef TensorBase new_object():
    """A Tensor without storage or shape yet: past the class's own `__new__`, which is for users."""
    return <TensorBase>(BASE.tp_new(TENSOR, no_arguments, NULL))


cdef TensorBase of_class(object cls, str who):
    """As `new_object`, of a user's class; TypeError where that is no class of tensors."""
    if not (isinstance(cls, type) and issubclass(cls, TensorBase)):
        raise TypeError(f"{who}(): argument 'cls' must be a subclass of Tensor, got {cls!r}")
    return <TensorBase>BASE.tp_new(<PyTypeObject*>cls, no_arguments, NULL)


cdef int set_rank(TensorBase t, int ndim) except -1:
    """Room for that many sizes and strides."""
    cdef int64_t* buffer
    if t.sizes != NULL and t.sizes != t.small:
        free(t.sizes)
    if ndim <= INLINE_DIMS:
        t.sizes = t.small
        t.strides = t.small + INLINE_DIMS
    else:
        if ndim > MAX_DIMS:
            t.sizes = NULL
            raise RuntimeError(f"a tensor has at most {MAX_DIMS} dimensions, got {ndim}")
        buffer = <int64_t*>malloc(2 * ndim * sizeof(int64_t))
        if buffer == NULL:
            t.sizes = NULL
            raise MemoryError
        t.sizes = buffer
        t.strides = buffer + ndim
    t.rank = ndim
    t.shape_ = None
    return 0


cdef object storage_error(str place, int ndim, const int64_t* sizes, const int64_t* strides, int code):
    """The error for a tensor whose places or bytes 64 bits do not count; dense where `strides` is NULL."""
    cdef object nbytes = ITEMSIZE[code], last = 0
    cdef int d
    for d in range(ndim):
        if sizes[d] < 0:
            return RuntimeError(f"Trying to create tensor with negative dimension {sizes[d]}: {list(size_from(ndim, sizes))}")
        if strides == NULL:
            nbytes = nbytes * max(sizes[d], 1)
        else:
            last = last + max(<object>sizes[d] - 1, 0) * <object>strides[d]
    if strides != NULL:
        nbytes = nbytes * (last + 1)
    return OutOfMemoryError(
        f"{display.NAME}: cannot allocate {nbytes} bytes on {place}: Storage size calculation overflowed with sizes="
        f"{list(size_from(ndim, sizes))}" + ("" if strides == NULL else f" and strides={list(size_from(ndim, strides))}"))


cdef object numel_error(int ndim, const int64_t* sizes):
    """The error for a view with more elements than 64 bits count, or of negative sizes."""
    cdef int d
    for d in range(ndim):
        if sizes[d] < 0:
            return RuntimeError(f"a view of negative size {sizes[d]}: {list(size_from(ndim, sizes))}")
    return RuntimeError(f"numel: integer multiplication overflow: {list(size_from(ndim, sizes))} has more elements than 64 bits count")


cdef TensorBase new_tensor(int ndim, const int64_t* sizes, int code):
    """A contiguous tensor, its elements not set."""
    cdef TensorBase t = new_object()
    cdef int64_t n = 1, nbytes
    cdef bint wrong = False
    cdef int d
    set_rank(t, ndim)
    for d in range(ndim - 1, -1, -1):
        t.sizes[d] = sizes[d]
        t.strides[d] = n
        if sizes[d] > 1:
            wrong |= mul_overflow(n, sizes[d], &n)
        wrong |= sizes[d] < 0
    for d in range(ndim):
        if sizes[d] == 0:
            n = 0
    wrong |= mul_overflow(n, ITEMSIZE[code], &nbytes)
    if wrong:
        raise storage_error("the CPU", ndim, sizes, NULL, code)
    t.count = n
    t.code = code
    t.width = ITEMSIZE[code]
    t.contiguous = True
    t.storage = new_storage(<size_t>nbytes)
    return t


cdef TensorBase new_strided(int ndim, const int64_t* sizes, const int64_t* strides, int code):
    """A tensor with that layout (no negative strides), its elements not set."""
    return new_strided_in(None, ndim, sizes, strides, code)


cdef TensorBase new_tensor_on(Device device, int ndim, const int64_t* sizes, int code):
    """`new_tensor` in a device's memory; on the host where `device` is None."""
    cdef int64_t strides[MAX_DIMS]
    if device is None or ndim > MAX_DIMS:
        return new_tensor(ndim, sizes, code)
    if row_major(ndim, sizes, strides):
        raise storage_error(str(device.place), ndim, sizes, NULL, code)
    return new_strided_in(device, ndim, sizes, strides, code)


cdef TensorBase new_strided_on(Device device, int ndim, const int64_t* sizes, const int64_t* strides, int code):
    """`new_strided` in a device's memory; on the host where `device` is None."""
    return new_strided_in(device, ndim, sizes, strides, code)


cdef TensorBase new_strided_in(Device device, int ndim, const int64_t* sizes, const int64_t* strides, int code):
    cdef TensorBase t = new_object()
    cdef int64_t nbytes = 0
    cdef int d
    set_rank(t, ndim)
    for d in range(ndim):
        t.sizes[d], t.strides[d] = sizes[d], strides[d]
    t.code, t.width = code, ITEMSIZE[code]
    if product_of(ndim, sizes, &t.count) or span_of(ndim, sizes, strides, &nbytes) or mul_overflow(nbytes, t.width, &nbytes):
        raise storage_error("the CPU" if device is None else str(device.place), ndim, sizes, strides, code)
    find_contiguous(t)
    t.storage = new_storage(<size_t>nbytes) if device is None else new_storage_on(device, <size_t>nbytes)
    return t


cdef char nothing[16]         # what an empty tensor without memory points to


cdef inline object wrapper_info(TensorBase t):
    """What a wrapper's storage knows of it (`call/wrapping.pyx`); None for every other tensor."""
    if t.storage.on is None or not t.storage.on.blank or (<PyObject*>t).ob_type == TENSOR:
        return None
    return t.storage.owner


cdef char* not_on_host(TensorBase t) except NULL with gil:
    if t.storage.pending:
        settle(t.storage)
        return pointer(t)
    if t.storage.on is None:
        return nothing
    if wrapper_info(t) is not None:
        raise NotImplementedError(f"this operation reads elements, and {type(t).__name__} (of shape {list(t.shape)}) is a wrapper subclass: "
                                  "Cannot access data pointer of Tensor that doesn't have storage")
    if t.storage.on.blank:
        raise NotImplementedError(f"this operation reads elements, and a tensor on 'meta' has none (of shape {list(t.shape)}): Cannot "
                                  "copy out of meta tensor; no data!")
    raise NotImplementedError(f"this operation is not implemented for '{t.storage.on.type}': it reads the elements of a tensor "
                              f"of shape {list(t.shape)} on the CPU; move the tensor with .cpu() first")


cdef TensorBase alias(TensorBase source, int ndim, const int64_t* sizes, const int64_t* strides, int64_t offset):
    """A tensor over the same storage; not a view for the tape until someone sets `base`."""
    cdef TensorBase t = new_object()
    cdef int d
    set_rank(t, ndim)
    for d in range(ndim):
        t.sizes[d], t.strides[d] = sizes[d], strides[d]
    if product_of(ndim, sizes, &t.count):
        raise numel_error(ndim, sizes)
    t.code = source.code
    t.width = source.width
    t.offset = offset
    t.storage = source.storage
    t.silent = source.silent
    find_contiguous(t)
    return t


cdef void find_contiguous(TensorBase t) noexcept:
    """Row-major without gaps; dimensions of size 1 may have any stride."""
    cdef int64_t n = 1
    cdef int d
    t.contiguous = True
    if t.count == 0:
        return
    for d in range(t.rank - 1, -1, -1):
        if t.sizes[d] != 1:
            if t.strides[d] != n:
                t.contiguous = False
                return
            n *= t.sizes[d]


cdef void exchange(TensorBase a, TensorBase b) noexcept:
    """Swap all that two tensors are but their identity, class and attributes."""
    cdef int64_t small[2 * INLINE_DIMS]
    cdef bint a_inline = a.sizes == a.small, b_inline = b.sizes == b.small
    memcpy(small, a.small, sizeof(small))
    memcpy(a.small, b.small, sizeof(small))
    memcpy(b.small, small, sizeof(small))
    a.sizes, b.sizes = b.sizes, a.sizes
    a.strides, b.strides = b.strides, a.strides
    if b_inline:
        a.sizes, a.strides = a.small, a.small + INLINE_DIMS
    if a_inline:
        b.sizes, b.strides = b.small, b.small + INLINE_DIMS
    a.storage, b.storage = b.storage, a.storage
    a.code, b.code = b.code, a.code
    a.width, b.width = b.width, a.width
    a.rank, b.rank = b.rank, a.rank
    a.contiguous, b.contiguous = b.contiguous, a.contiguous
    a.requires, b.requires = b.requires, a.requires
    a.silent, b.silent = b.silent, a.silent
    a.retains, b.retains = b.retains, a.retains
    a.output_number, b.output_number = b.output_number, a.output_number
    a.count, b.count = b.count, a.count
    a.offset, b.offset = b.offset, a.offset
    a.shape_, b.shape_ = b.shape_, a.shape_
    a.fn, b.fn = b.fn, a.fn
    a.grad_, b.grad_ = b.grad_, a.grad_
    a.hooks, b.hooks = b.hooks, a.hooks
    a.base, b.base = b.base, a.base
    a.fn_version, b.fn_version = b.fn_version, a.fn_version
    a.made, b.made = b.made, a.made


cdef bint same_shape(TensorBase a, TensorBase b) noexcept nogil:
    cdef int d
    if a.rank != b.rank:
        return False
    for d in range(a.rank):
        if a.sizes[d] != b.sizes[d]:
            return False
    return True


# --- arguments ------------------------------
cdef int64_t as_int(object value, str who, str argument) except? -9223372036854775807:
    """An int; TypeError for anything else, ValueError for one beyond 64 bits."""
    cdef int64_t result
    if not fits(plain_int(value, who, argument), &result):
        raise ValueError(f"{who}(): argument '{argument}': Overflow when unpacking long long: {value}")
    return result


cdef int64_t as_size(object value, str who, str argument) except? -9223372036854775807:
    """One of several sizes or strides: as `as_int`, but a TypeError for one beyond 64 bits, as PyTorch has it."""
    cdef int64_t result
    if not fits(plain_int(value, who, argument), &result):
        raise TypeError(f"{who}(): argument '{argument}' failed to unpack the object with error \"Overflow when unpacking long "
                        f"long\": {value}")
    return result


cdef inline bint fits(object value, int64_t* out) except -1:
    """Whether an int fits 64 bits, and which it is."""
    cdef int overflow = 0
    out[0] = PyLong_AsLongLongAndOverflow(value, &overflow)
    return not overflow


cdef inline object plain_int(object value, str who, str argument):
    if PyLong_CheckExact(value):
        return value
    if isinstance(value, (bool, float, str)) or value is None:
        raise TypeError(f"{who}(): argument '{argument}' must be int, not {type(value).__name__}")
    try:
        return _index(value)
    except TypeError:
        raise TypeError(f"{who}(): argument '{argument}' must be int, not {type(value).__name__}") from None


cdef int parse_sizes(object given, int64_t* out, str who) except -1:
    """Sizes from an int or a sequence of ints; returns how many.  -1 is left for the caller to judge."""
    cdef int n = 0
    if PyLong_CheckExact(given):
        out[0] = as_size(given, who, "size")
        return 1
    if not (PyTuple_Check(given) or PyList_Check(given)):
        if hasattr(given, "__index__"):
            out[0] = as_size(given, who, "size")
            return 1
        try:
            given = tuple(given)
        except TypeError:
            raise TypeError(f"{who}(): argument 'size' must be a tuple of ints, not {type(given).__name__}") from None
    for s in given:
        if n == MAX_DIMS:
            raise RuntimeError(f"{who}(): a tensor has at most {MAX_DIMS} dimensions, got {len(given)}")
        out[n] = as_size(s, who, "size")
        n += 1
    return n


cdef int wrap_dim(int64_t dim, int ndim, str who) except -1:
    """A dimension counted from the front; 0-dim tensors take 0 and -1."""
    cdef int n = ndim if ndim > 0 else 1
    if dim < -n or dim >= n:
        raise IndexError(f"{who}(): Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    return <int>(dim + n if dim < 0 else dim)


cdef int parse_dims(object dims, int ndim, int* out, str who) except -1:
    """Dimensions from an int or a sequence, wrapped, no two the same; returns how many."""
    cdef int n = 0, k, d
    if not (PyTuple_Check(dims) or PyList_Check(dims)):
        out[0] = wrap_dim(as_int(dims, who, "dim"), ndim, who)
        return 1
    for given in dims:
        d = wrap_dim(as_int(given, who, "dim"), ndim, who)
        for k in range(n):
            if out[k] == d:
                raise RuntimeError(f"{who}(): dim {d} appears multiple times in the list of dims")
        out[n] = d
        n += 1
    return n


cdef int check_writable(TensorBase t, str who) except -1:
    """RuntimeError for read-only memory and, outside of inference mode, for tensors that were made in it."""
    if not t.storage.writable:
        raise RuntimeError(f"{who}(): the memory of the tensor written to is read-only")
    if t.storage.inference and not inferring():
        raise RuntimeError(f"{who}(): Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone "
                           "to get a normal tensor before doing inplace update.")
    t.storage.writes += 1     # the write may fail half-way
    return 0


cdef int check_no_internal_overlap(TensorBase t, str who) except -1:
    """RuntimeError where a write would put several elements into one place: into an expanded tensor."""
    cdef int d
    if t.contiguous:  # so is what has no elements
        return 0
    for d in range(t.rank):
        if t.strides[d] == 0 and t.sizes[d] > 1:
            raise RuntimeError(f"{who}(): unsupported operation: more than one element of the written-to tensor refers to a "
                               "single memory location. Please clone() the tensor before performing the operation.")
    return 0


# --- elements to Python ------------------------------
cdef double half_value(uint16_t bits) noexcept:
    """IEEE half to double."""
    cdef int exponent = (bits >> 10) & 31
    cdef double fraction = bits & 1023
    cdef double value
    if exponent == 31:
        value = float("nan") if fraction else float("inf")
    elif exponent == 0:
        value = fraction * 2.0 ** -24
    else:
        value = (1.0 + fraction / 1024.0) * 2.0 ** (exponent - 15)
    return -value if bits >> 15 else value


cdef object value_at(const char* p, int code):
    cdef uint32_t wide
    cdef float f
    if code == F32:
        return <double>(<const float*>p)[0]
    if code == F64:
        return (<const double*>p)[0]
    if code == I64:
        return (<const int64_t*>p)[0]
    if code == BOOL:
        return (<const uint8_t*>p)[0] != 0
    if code == I32:
        return (<const int32_t*>p)[0]
    if code == U8:
        return (<const uint8_t*>p)[0]
    if code == I8:
        return (<const int8_t*>p)[0]
    if code == I16:
        return (<const int16_t*>p)[0]
    if code == BF16:
        wide = (<uint32_t>(<const uint16_t*>p)[0]) << 16
        memcpy(&f, &wide, 4)
        return <double>f
    if code == C64:
        return complex((<const float*>p)[0], (<const float*>p)[1])
    if code == C128:
        return complex((<const double*>p)[0], (<const double*>p)[1])
    if code == U16:
        return (<const uint16_t*>p)[0]
    if code == U32:
        return (<const uint32_t*>p)[0]
    if code == U64:
        return (<const uint64_t*>p)[0]
    if code == C32:
        return complex(half_value((<const uint16_t*>p)[0]), half_value((<const uint16_t*>p)[1]))
    if code == F4_E2M1FN_X2:
        raise NotImplementedError(f"item(): \"item\" not implemented for '{dtype_of(code).name}'")
    if is_stored(code):
        return from_float8(code, (<const uint8_t*>p)[0])
    return half_value((<const uint16_t*>p)[0])


cdef object read_item(TensorBase t):
    if t.count != 1:
        raise RuntimeError(f"a Tensor with {t.count} elements cannot be converted to Scalar")
    return element(t)


cdef object element(TensorBase t):
    """The first element as a Python number."""
    cdef char buffer[16]
    if t.storage.on is None:
        return value_at(pointer(t), t.code)
    if t.storage.on.blank:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    t.storage.on.copy_out(buffer, <uintptr_t>data_address(t), t.width, True)
    t.storage.on.check_fault()
    return value_at(buffer, t.code)


cdef object single(TensorBase t):
    """The element, for Python's conversions: ValueError where there is not just one."""
    if t.count != 1:
        raise ValueError(f"only one element tensors can be converted to Python scalars, got {t.count} elements")
    return read_item(t) if wrapper_info(t) is None and not runtime.observers else (<object>t).item()


cdef object real_of(object value, str kind):
    """A number without its imaginary part; RuntimeError where that is not 0."""
    if isinstance(value, complex):
        if value.imag:
            raise RuntimeError(f"value cannot be converted to type {kind} without overflow: got {value}")
        return value.real
    return value


cdef object nested(TensorBase t, int d, int64_t offset):
    if d == t.rank:
        return value_at(t.storage.data + offset * t.width, t.code)
    cdef int64_t i
    return [nested(t, d + 1, offset + i * t.strides[d]) for i in range(t.sizes[d])]


cdef object public_node = None     # a node of the tape, of a class called as PyTorch's


def set_public_node(function) -> None:
    """What is done to a node before a program gets it."""
    global public_node
    public_node = function


cdef PyObject* operators[OPERATORS]
_operator_numbers = {
    "add": OP_ADD, "sub": OP_SUB, "mul": OP_MUL, "div": OP_DIV, "floordiv": OP_FLOORDIV, "mod": OP_MOD, "pow": OP_POW,
    "matmul": OP_MATMUL, "and": OP_AND, "or": OP_OR, "xor": OP_XOR, "lshift": OP_LSHIFT, "rshift": OP_RSHIFT,
    "lt": OP_LT, "le": OP_LE, "gt": OP_GT, "ge": OP_GE, "eq": OP_EQ, "ne": OP_NE, "neg": OP_NEG, "abs": OP_ABS,
    "invert": OP_INVERT, "rsub": OP_RSUB, "rdiv": OP_RDIV, "rpow": OP_RPOW, "rfloordiv": OP_RFLOORDIV, "rmod": OP_RMOD,
    "rmatmul": OP_RMATMUL, "rlshift": OP_RLSHIFT, "rrshift": OP_RRSHIFT, "iadd": OP_IADD, "isub": OP_ISUB, "imul": OP_IMUL,
    "idiv": OP_IDIV, "ifloordiv": OP_IFLOORDIV, "imod": OP_IMOD, "ipow": OP_IPOW, "iand": OP_IAND, "ior": OP_IOR,
    "ixor": OP_IXOR, "ilshift": OP_ILSHIFT, "irshift": OP_IRSHIFT,
}


cdef object operator_for(int number):
    return <object>operators[number]


def set_operator(str name, op) -> None:
    """Let the operator `name` ("add", "rsub", "iadd" …) of Tensor call `op`, an operation of the registry."""
    Py_INCREF(op)
    operators[<int>_operator_numbers[name]] = <PyObject*>op


# --- the class ------------------------------
cdef class TensorBase:
    """What every tensor has; see `flambeau.Tensor`."""

    def __dealloc__(self):
        if self.sizes != NULL and self.sizes != self.small:
            free(self.sizes)

    # shape and memory
    def __getbuffer__(self, Py_buffer* buffer, int flags):
        runtime.lend(self, buffer, flags)

    @property
    def shape(self):
        """Size of each dimension."""
        if self.shape_ is None:
            self.shape_ = size_from(self.rank, self.sizes)
        return self.shape_

    def size(self, dim=None):
        """The shape, or the size of one dimension.

        Raises:
            IndexError: the dimension is out of range

        >>> import flambeau
        >>> x = flambeau.zeros(2, 3)
        >>> x.size(), x.size(1)
        (flambeau.Size([2, 3]), 3)
        """
        if dim is None:
            return self.shape
        if self.rank == 0:
            raise IndexError("size(): Dimension specified as {} but tensor has no dimensions".format(dim))
        return self.sizes[wrap_dim(as_int(dim, "size", "dim"), self.rank, "size")]

    def stride(self, dim=None):
        """Elements between neighbours along each dimension, or along one.

        Raises:
            IndexError: the dimension is out of range

        >>> import flambeau
        >>> x = flambeau.zeros(2, 3)
        >>> x.stride(), x.t().stride()
        ((3, 1), (1, 3))
        """
        if dim is None:
            return tuple(size_from(self.rank, self.strides))
        if self.rank == 0:
            raise IndexError("stride(): Dimension specified as {} but tensor has no dimensions".format(dim))
        return self.strides[wrap_dim(as_int(dim, "stride", "dim"), self.rank, "stride")]

    def dim(self) -> int:
        """How many dimensions.

        >>> import flambeau
        >>> flambeau.zeros(2, 3).dim()
        2
        """
        return self.rank

    def ndimension(self) -> int:
        """How many dimensions; `dim`.

        >>> import flambeau
        >>> flambeau.zeros(2, 3).ndimension()
        2
        """
        return self.rank

    @property
    def ndim(self) -> int:
        """How many dimensions."""
        return self.rank

    def numel(self) -> int:
        """How many elements.

        >>> import flambeau
        >>> flambeau.zeros(2, 3).numel()
        6
        """
        return self.count

    def nelement(self) -> int:
        """How many elements; `numel`.

        >>> import flambeau
        >>> flambeau.zeros(2, 3).nelement()
        6
        """
        return self.count

    def element_size(self) -> int:
        """Bytes of one element.

        >>> import flambeau
        >>> flambeau.zeros(2, dtype=flambeau.float64).element_size()
        8
        """
        return self.width

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.width

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, those that a view repeats counted each time."""
        return <object>self.count * self.width

    def storage_offset(self) -> int:
        """Where the first element stands in the storage, counted in elements.

        >>> import flambeau
        >>> flambeau.zeros(4)[1:].storage_offset()
        1
        """
        return self.offset

    def data_ptr(self) -> int:
        """Address of the first element.

        >>> import flambeau
        >>> x = flambeau.zeros(4)
        >>> x[1:].data_ptr() - x.data_ptr()
        4
        """
        self.storage.exposed = True
        return self._address()

    def _address(self) -> int:
        """`data_ptr()` for comparisons: nobody reads or writes there."""
        return <uintptr_t>data_address(self) if self.count else 0

    def untyped_storage(self):
        """The bytes that the tensor lies in, which its views share.

        >>> import flambeau
        >>> x = flambeau.zeros(4)
        >>> x.untyped_storage().nbytes(), x[1:].untyped_storage().nbytes()
        (16, 16)
        """
        settle(self.storage)
        return self.storage

    @property
    def dtype(self):
        """What kind of numbers the elements are."""
        return dtype_of(self.code)

    @property
    def device(self):
        """Where the elements are."""
        return cpu_device if self.storage.on is None else self.storage.on.place if wrapper_info(self) is None else wrapper_info(self).device

    @property
    def is_cpu(self) -> bool:
        """Whether the elements are in the main memory."""
        return self.storage.on is None or (wrapper_info(self) is not None and wrapper_info(self).device.type == "cpu")

    @property
    def is_cuda(self) -> bool:
        """Whether the elements are in the memory of an NVIDIA device."""
        return self.storage.on is not None and self.device.type == "cuda"

    @property
    def is_opencl(self) -> bool:
        """Whether the elements are in the memory of an OpenCL device."""
        return self.storage.on is not None and self.device.type == "opencl"

    @property
    def is_meta(self) -> bool:
        """Whether it has a shape and a dtype, but no elements."""
        return self.storage.on is not None and self.storage.on.blank and self.device.type == "meta"

    @property
    def is_sparse(self) -> bool:
        """Whether it is a list of elements in coordinates; False for the other sparse layouts, as in PyTorch."""
        return False

    @property
    def is_quantized(self) -> bool:
        """False; quantised tensors are of another class (`ao`)."""
        return False

    def get_device(self) -> int:
        """The device's number; -1 on the CPU.

        >>> import flambeau
        >>> flambeau.zeros(2).get_device()
        -1
        """
        return -1 if self.storage.on is None else self.storage.on.index

    def is_floating_point(self) -> bool:
        """Whether the dtype has a fraction and is real.

        >>> import flambeau
        >>> flambeau.zeros(2).is_floating_point(), flambeau.tensor([1]).is_floating_point()
        (True, False)
        """
        return CATEGORY[self.code] == 2

    def is_complex(self) -> bool:
        """Whether the dtype is complex.

        >>> import flambeau
        >>> flambeau.tensor([1j]).is_complex()
        True
        """
        return CATEGORY[self.code] == 3

    def is_signed(self) -> bool:
        """Whether the dtype has negative numbers.

        >>> import flambeau
        >>> flambeau.tensor([1]).is_signed()
        True
        """
        return (<dtype>dtype_of(self.code)).is_signed

    def is_conj(self) -> bool:
        """False: `conj` computes, it sets no mark.

        >>> import flambeau
        >>> flambeau.tensor([1j]).conj().is_conj()
        False
        """
        return False

    def is_neg(self) -> bool:
        """False: negation computes, it sets no mark.

        >>> import flambeau
        >>> flambeau.tensor([1.0]).neg().is_neg()
        False
        """
        return False

    def is_inference(self) -> bool:
        """Whether the tensor was made in inference mode: the tape cannot save it.

        >>> import flambeau
        >>> with flambeau.inference_mode():
        ...     flambeau.zeros(2).is_inference()
        True
        """
        return self.storage.inference

    @property
    def _version(self) -> int:
        if self.storage.inference:
            raise RuntimeError("Inference tensors do not track version counter.")
        return self.storage.version

    @property
    def _base(self):
        return self.base

    def _is_view(self) -> bool:
        return self.base is not None

    # the tape's side
    @property
    def is_leaf(self) -> bool:
        """Whether it was made by the program, not by an operation on the tape: `backward` fills its `grad`."""
        return self.grad_fn is None

    cdef object grad_fn_now(self):
        if self.base is not None and self.fn_version != self.storage.version and not self.silent:
            return runtime.grad_fn(self)
        return self.fn

    @property
    def grad_fn(self):
        """The node of the tape that made this tensor, None for a leaf."""
        result = runtime.history(self) if runtime.forward else self.grad_fn_now()
        if result is None or result is True:
            return None
        cls = type(result)
        return result if (<RawType*>cls).tp_flags & Py_TPFLAGS_HEAPTYPE else public_node(result)

    @property
    def output_nr(self) -> int:
        """Which result of its `grad_fn` it is."""
        return self.output_number

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are computed for this tensor."""
        if self.base is not None and not self.requires:
            if self.made == UNRECORDED:
                return self.base.requires and CATEGORY[self.code] >= 2 and not self.silent
            self.grad_fn_now()
        if runtime.forward and self.requires:
            return runtime.history(self) is not None
        return self.requires

    @requires_grad.setter
    def requires_grad(self, value):
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad=True):
        """Ask for gradients (or not) in place; RuntimeError for integer dtypes and for results of operations.

        >>> import flambeau
        >>> flambeau.zeros(2).requires_grad_().requires_grad
        True
        """
        if not isinstance(requires_grad, bool):
            raise TypeError(f"requires_grad_(): argument 'requires_grad' must be bool, not {type(requires_grad).__name__}")
        cdef bint wanted = requires_grad
        if wanted and CATEGORY[self.code] < 2:
            raise RuntimeError("only Tensors of floating point and complex dtype can require gradients, "
                               f"requires_grad_() got a tensor of dtype {dtype_of(self.code)}")
        if wanted and self.storage.inference and not inferring():
            raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
        if not wanted and self.grad_fn is not None:
            raise RuntimeError("you can only change requires_grad flags of leaf variables. If you want to use a computed "
                               "variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach().")
        if runtime.forward and not wanted and self.fn is not None:
            return self  # a dual tensor: only its tangent takes part
        self.requires = wanted
        return self

    @property
    def grad(self):
        """The gradient that backward() has accumulated here, or None; that of a result stays None without `retain_grad`, which a
        UserWarning says.
        """
        if self.grad_ is None and self.fn is not None and not self.retains and self.grad_fn is not None:
            warnings.warn("The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
                          "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
                          "Tensor, use .retain_grad() on the non-leaf Tensor.")
        return self.grad_

    @grad.setter
    def grad(self, value):
        cdef TensorBase g
        if value is not None:
            if not isinstance(value, TensorBase):
                raise TypeError(f"assigned grad expected to be a Tensor or None but got {type(value).__name__}")
            if value is self:
                raise RuntimeError("can't assign Variable as its own grad")
            g = <TensorBase>value
            if not same_shape(g, self):
                raise RuntimeError(f"assigned grad has data of a different size: expected {self.shape}, got {g.shape}")
            if g.code != self.code:
                raise RuntimeError(f"assigned grad has data of a different type: expected {self.dtype}, got {g.dtype}")
        self.grad_ = value

    @grad.deleter
    def grad(self):
        self.grad_ = None

    def _retains_grad_flag(self):
        return self.retains

    @property
    def data(self):
        """The same elements outside the tape: writes through it are not noticed by the tape."""
        if wrapper_info(self) is not None:
            return (<object>self).detach()
        cdef TensorBase t = alias(self, self.rank, self.sizes, self.strides, self.offset)
        t.silent = True
        if runtime.interceptors and (<PyObject*>self).ob_type != TENSOR:
            return callbacks["data as its class"](self, t)
        return t

    @data.setter
    def data(self, value):
        cdef TensorBase t
        if not isinstance(value, TensorBase):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        t = <TensorBase>value
        if self.requires and CATEGORY[t.code] < 2:
            raise RuntimeError(f"data set to a tensor that requires gradients must be floating point, got {t.dtype}")
        self._take(t)

    def _take(self, TensorBase t):
        """Become a tensor over t's storage with t's geometry; the tape's side stays."""
        set_rank(self, t.rank)
        memcpy(self.sizes, t.sizes, t.rank * sizeof(int64_t))
        memcpy(self.strides, t.strides, t.rank * sizeof(int64_t))
        self.storage, self.offset, self.count = t.storage, t.offset, t.count
        self.code, self.width, self.contiguous = t.code, t.width, t.contiguous
        return self

    @staticmethod
    def _make_subclass(cls, TensorBase data, requires_grad=False):
        """A leaf of class `cls` that shares data's elements."""
        cdef TensorBase t = of_class(cls, "_make_subclass")
        t._take(data)
        t.silent = data.silent
        if requires_grad:
            t.requires_grad_(True)
        return t

    def as_subclass(self, cls):
        """The same elements as an instance of `cls`, a subclass of Tensor; TypeError for another class.

        >>> import flambeau
        >>> class Image(flambeau.Tensor):
        ...     "A tensor with a name of its own."
        >>> type(flambeau.zeros(2).as_subclass(Image)).__name__
        'Image'
        """
        cdef TensorBase t = of_class(cls, "as_subclass")
        cdef TensorBase source = self
        if self.requires:   # a leaf's gradients are its own, not those of its other name
            source = callbacks["shared"](self)
        t._take(source)
        t.requires, t.fn, t.output_number, t.base = source.requires, source.fn, source.output_number, source.base
        t.fn_version, t.made, t.silent = source.fn_version, source.made, source.silent
        return t

    # Python's protocols
    def item(self):
        """The one element as a Python number; RuntimeError unless there is exactly one.

        Shape:
            self: one element

        >>> import flambeau
        >>> flambeau.tensor([2.5]).item()
        2.5
        """
        return read_item(self)

    def tolist(self):
        """Nested lists of Python numbers; a number for a 0-dim tensor.

        Shape:
            self: any

        >>> import flambeau
        >>> flambeau.tensor([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
        """
        if self.storage.on is not None:
            return self.detach().cpu().tolist()
        try:
            if self.count >= MANY_NUMBERS:   # lists that no memory holds are not begun
                free(scratch(self.count, sizeof(void*)))
            settle(self.storage)
            return nested(self, 0, self.offset)
        except MemoryError:
            raise OutOfMemoryError(f"tolist(): cannot allocate {<object>self.count * sizeof(void*)} bytes for the references of "
                                   f"lists of {self.count} numbers, and the numbers") from None

    def __len__(self):
        if self.rank == 0:
            raise TypeError("len() of a 0-d tensor")
        return self.sizes[0]

    def __bool__(self):
        if self.count == 0:
            raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
        if self.count != 1:
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        return bool(element(self) if wrapper_info(self) is None and not runtime.observers else (<object>self).item())

    def __int__(self):
        return int(real_of(single(self), "int64_t"))

    def __float__(self):
        return float(real_of(single(self), "double"))

    def __complex__(self):
        return complex(single(self))

    def __index__(self):
        if self.count != 1 or CATEGORY[self.code] > 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(element(self) if wrapper_info(self) is None and not runtime.observers else (<object>self).item())

    def __hash__(self):
        return <Py_ssize_t>(<void*>self) >> 4

    def __getitem__(self, key):
        return runtime.getitem(self, key)

    def __setitem__(self, key, value):
        runtime.setitem(self, key, value)

    def __delitem__(self, key):
        raise TypeError("Tensor does not support deleting items")

    def __iter__(self):
        if self.rank == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    # operators
    def __add__(self, other):
        return runtime.binary(<object>operators[OP_ADD], self, other)

    def __radd__(self, other):
        return reflected(OP_ADD, OP_ADD, self, other)

    def __iadd__(self, other):
        return runtime.binary(<object>operators[OP_IADD], self, other)

    def __sub__(self, other):
        return runtime.binary(<object>operators[OP_SUB], self, other)

    def __rsub__(self, other):
        return reflected(OP_RSUB, OP_SUB, self, other)

    def __isub__(self, other):
        return runtime.binary(<object>operators[OP_ISUB], self, other)

    def __mul__(self, other):
        return runtime.binary(<object>operators[OP_MUL], self, other)

    def __rmul__(self, other):
        return reflected(OP_MUL, OP_MUL, self, other)

    def __imul__(self, other):
        return runtime.binary(<object>operators[OP_IMUL], self, other)

    def __truediv__(self, other):
        return runtime.binary(<object>operators[OP_DIV], self, other)

    def __rtruediv__(self, other):
        return reflected(OP_RDIV, OP_DIV, self, other)

    def __itruediv__(self, other):
        return runtime.binary(<object>operators[OP_IDIV], self, other)

    def __floordiv__(self, other):
        return runtime.binary(<object>operators[OP_FLOORDIV], self, other)

    def __rfloordiv__(self, other):
        return reflected(OP_RFLOORDIV, OP_FLOORDIV, self, other)

    def __ifloordiv__(self, other):
        return runtime.binary(<object>operators[OP_IFLOORDIV], self, other)

    def __mod__(self, other):
        return runtime.binary(<object>operators[OP_MOD], self, other)

    def __rmod__(self, other):
        return reflected(OP_RMOD, OP_MOD, self, other)

    def __imod__(self, other):
        return runtime.binary(<object>operators[OP_IMOD], self, other)

    def __pow__(self, other, modulo):
        if modulo is not None:
            return NotImplemented
        return runtime.binary(<object>operators[OP_POW], self, other)

    def __rpow__(self, other, modulo):
        if modulo is not None:
            return NotImplemented
        return reflected(OP_RPOW, OP_POW, self, other)

    def __ipow__(self, other):
        return runtime.binary(<object>operators[OP_IPOW], self, other)

    def __matmul__(self, other):
        return runtime.binary(<object>operators[OP_MATMUL], self, other)

    def __rmatmul__(self, other):
        return reflected(OP_RMATMUL, OP_MATMUL, self, other)

    def __and__(self, other):
        return runtime.binary(<object>operators[OP_AND], self, other)

    def __rand__(self, other):
        return reflected(OP_AND, OP_AND, self, other)

    def __iand__(self, other):
        return runtime.binary(<object>operators[OP_IAND], self, other)

    def __or__(self, other):
        return runtime.binary(<object>operators[OP_OR], self, other)

    def __ror__(self, other):
        return reflected(OP_OR, OP_OR, self, other)

    def __ior__(self, other):
        return runtime.binary(<object>operators[OP_IOR], self, other)

    def __xor__(self, other):
        return runtime.binary(<object>operators[OP_XOR], self, other)

    def __rxor__(self, other):
        return reflected(OP_XOR, OP_XOR, self, other)

    def __ixor__(self, other):
        return runtime.binary(<object>operators[OP_IXOR], self, other)

    def __lshift__(self, other):
        return runtime.binary(<object>operators[OP_LSHIFT], self, other)

    def __rlshift__(self, other):
        return reflected(OP_RLSHIFT, OP_LSHIFT, self, other)

    def __ilshift__(self, other):
        return runtime.binary(<object>operators[OP_ILSHIFT], self, other)

    def __rshift__(self, other):
        return runtime.binary(<object>operators[OP_RSHIFT], self, other)

    def __rrshift__(self, other):
        return reflected(OP_RRSHIFT, OP_RSHIFT, self, other)

    def __irshift__(self, other):
        return runtime.binary(<object>operators[OP_IRSHIFT], self, other)

    def __richcmp__(self, other, int which):
        # Python numbers the comparisons < <= == != > >=
        cdef int op
        if which == 0:
            op = OP_LT
        elif which == 1:
            op = OP_LE
        elif which == 2:
            op = OP_EQ
        elif which == 3:
            op = OP_NE
        elif which == 4:
            op = OP_GT
        else:
            op = OP_GE
        result = runtime.binary(<object>operators[op], self, other)
        if result is NotImplemented and hasattr(other, "__array__"):
            # NumPy would compare its array with the tensor as one object
            return runtime.binary(<object>operators[op], self, callbacks["as_tensor"](other, device=self.device))
        return result

    def __neg__(self):
        return runtime.unary(<object>operators[OP_NEG], self)

    def __pos__(self):
        if self.code == BOOL:
            raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
        return self

    def __abs__(self):
        return runtime.unary(<object>operators[OP_ABS], self)

    def __invert__(self):
        return runtime.unary(<object>operators[OP_INVERT], self)
