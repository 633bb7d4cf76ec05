# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Memory shared with NumPy, with buffers and, by DLPack, with other libraries.  Nothing here copies elements.

NumPy is met through its Python face and the buffer protocol only, and is imported when it is first asked for.
"""
from libc.stdlib cimport malloc, free
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_DECREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.buffer cimport (
    PyObject_GetBuffer, PyBuffer_Release, PyObject_CheckBuffer, PyBUF_SIMPLE, PyBUF_STRIDES,
)
from cpython.pycapsule cimport (
    PyCapsule_New, PyCapsule_IsValid, PyCapsule_GetPointer, PyCapsule_SetName, PyCapsule_CheckExact,
)
from ..base.memory cimport Storage
from ..base.dtypes cimport (
    BOOL, U8, U16, U32, U64, I8, I16, I32, I64, F16, BF16, F32, F64, C32, C64, C128, F8_E4M3FN, F8_E4M3FNUZ, F8_E5M2, F8_E5M2FNUZ,
    F8_E8M0FNU, F4_E2M1FN_X2, CODES, NO_CODE, ITEMSIZE, dtype_of, as_dtype,
)
from ..base.tensor cimport TensorBase, MAX_DIMS, bare, set_rank, find_contiguous, pointer, as_int, uncountable
from ..base.sizes cimport mul_overflow, product_of, scaled, span_of
from ..tape.modes cimport REVERSE, grad_enabled, wants_grad
import sys
import warnings

cdef extern from "Python.h":
    ctypedef object (*newfunc)(PyTypeObject*, object, PyObject*)
    ctypedef struct RawType "PyTypeObject":
        newfunc tp_new
    object PyLong_FromLongLong(long long v)


# --- NumPy --------------------------------------------------------------------
cdef object numpy_module = None           # set when NumPy is first seen
cdef object ndarray = None, generic = None
cdef newfunc new_ndarray = NULL
cdef PyObject* numpy_dtypes[CODES]        # owned; NULL for those that NumPy lacks
cdef dict codes_by_dtype = {}


cdef int load_numpy() except -1:
    global numpy_module, ndarray, generic, new_ndarray
    import numpy
    cdef int code
    for code in range(NO_CODE):
        if code != BF16:
            found = numpy.dtype(dtype_of(code).name)
            Py_INCREF(found)
            numpy_dtypes[code] = <PyObject*>found
            codes_by_dtype[found] = code
    ndarray, generic = numpy.ndarray, numpy.generic
    new_ndarray = (<RawType*>ndarray).tp_new
    numpy_module = numpy
    return 0


cdef int numpy_kind(object x) except -1:
    """Whether x is NumPy's, without importing NumPy: where nobody has, there are no arrays."""
    if numpy_module is None:
        if "numpy" not in sys.modules or not hasattr(sys.modules["numpy"], "ndarray"):
            return NOT_NUMPY
        load_numpy()
    if isinstance(x, ndarray):
        return ARRAY
    return SCALAR if isinstance(x, generic) else NOT_NUMPY


cdef int numpy_code(object array) except -1:
    """The dtype of an array or a NumPy scalar; TypeError for those that have no equal here."""
    cdef object dtype = array.dtype
    found = codes_by_dtype.get(dtype)
    if found is not None:
        return found
    if not dtype.isnative:
        raise ValueError("from_numpy(): given numpy array has byte order different from the native byte "
                         "order. Conversion between "
                         "byte orders is currently not supported.")
    raise TypeError(f"from_numpy(): can't convert np.ndarray of type numpy.{dtype.type.__name__}. The only "
                    "supported types are: "
                    "float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, "
                    "uint8, and bool.")


cdef object as_array(TensorBase t):
    """An ndarray over t's memory, which it keeps alive."""
    cdef object arguments, shape, value
    cdef int d
    if numpy_module is None:
        load_numpy()
    if numpy_dtypes[t.code] == NULL:
        raise TypeError(f"numpy(): Got unsupported ScalarType {'BFloat16' if t.code == BF16 else dtype_of(t.code).name}")
    shape = PyTuple_New(t.rank)
    for d in range(t.rank):
        value = PyLong_FromLongLong(t.sizes[d])
        Py_INCREF(value)
        PyTuple_SET_ITEM(shape, d, value)
    if t.contiguous and t.offset == 0:
        arguments = (shape, <object>numpy_dtypes[t.code], t.storage)
    elif t.count == 0:                     # its offset may lie past the end
        arguments = (shape, <object>numpy_dtypes[t.code], t.storage)
    else:
        arguments = (shape, <object>numpy_dtypes[t.code], t.storage, t.offset * t.width,
                     tuple([t.strides[d] * t.width for d in range(t.rank)]))
    t.storage.exports += 1                 # the array releases the buffer at once, and keeps its address
    return new_ndarray(<PyTypeObject*>ndarray, arguments, NULL)


def numpy(TensorBase input not None, *, force=False):
    """The tensor as an ndarray that shares its memory.

    RuntimeError for a tensor that requires a gradient where operations are recorded, and TypeError for one on another device,
    unless `force` is true; TypeError for bfloat16.

    >>> import flambeau
    >>> flambeau.ones(2).numpy()
    array([1., 1.], dtype=float32)
    """
    if not force and grad_enabled() & REVERSE and wants_grad(input):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() "
                           "instead.")
    if input.storage.on is not None:
        if not force:
            raise TypeError(f"can't convert {input.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor "
                            "to host memory first.")
        input = (<object>input).detach().cpu()
    return as_array(input)


def __array__(TensorBase self not None, dtype=None, copy=None):
    """`Tensor.__array__`: what `numpy.asarray(tensor)` calls.  RuntimeError for a tensor that requires a
    gradient.
    """
    made = numpy(self)
    if dtype is not None and made.dtype != dtype:
        if copy is False:
            raise ValueError(f"__array__(): a conversion from {made.dtype} to {dtype} needs a copy, and "
                             "copy=False was given")
        return made.astype(dtype)
    return made.copy() if copy else made


def __array_wrap__(self, array, context=None, return_scalar=False):
    """`Tensor.__array_wrap__`: results of NumPy's functions on tensors are tensors."""
    if numpy_kind(array) != ARRAY:
        array = numpy_module.asarray(array)
    return share_array(array)


cdef TensorBase over_memory(object owner, char* data, int code, int rank, const int64_t* sizes,
                            const int64_t* strides,
                            bint writable):
    """A tensor over memory that `owner` keeps alive; strides in elements, none negative."""
    cdef TensorBase t = bare()
    cdef int64_t nbytes
    cdef int d
    set_rank(t, rank)
    for d in range(rank):
        t.sizes[d], t.strides[d] = sizes[d], strides[d]
    t.code, t.width = code, ITEMSIZE[code]
    if product_of(rank, sizes, &t.count) or span_of(rank, sizes, strides, &nbytes) or mul_overflow(nbytes, t.width, &nbytes):
        raise uncountable(rank, sizes)
    find_contiguous(t)
    t.storage = Storage.__new__(Storage)
    t.storage.data, t.storage.length = data, <size_t>nbytes
    t.storage.owner, t.storage.writable = owner, writable
    return t


cdef TensorBase share_array(object array):
    """A tensor over an ndarray's memory; a read-only array makes a tensor that cannot be written to."""
    cdef Py_buffer view
    cdef int64_t sizes[MAX_DIMS]
    cdef int64_t strides[MAX_DIMS]
    cdef int64_t step = 1
    cdef int code = numpy_code(array), d, width = ITEMSIZE[code]
    cdef str wrong = None
    PyObject_GetBuffer(array, &view, PyBUF_STRIDES)
    try:
        for d in range(view.ndim - 1, -1, -1):
            sizes[d] = view.shape[d]
            if view.len == 0 or sizes[d] == 1:   # such strides say nothing and may be anything
                strides[d] = step
            elif view.strides[d] < 0:
                wrong = ("At least one stride in the given numpy array is negative, and tensors with "
                         "negative strides are not "
                         "currently supported. (You can probably work around this by making a copy of your "
                         "array with "
                         "array.copy().)")
            elif view.strides[d] % width:
                wrong = ("given numpy array strides not a multiple of the element byte size. Copy the numpy "
                         "array to reallocate "
                         "the memory.")
            else:
                strides[d] = view.strides[d] // width
            step = scaled(step, max(sizes[d], 1))
        if wrong is not None:
            raise ValueError("from_numpy(): " + wrong)
        return over_memory(array, <char*>view.buf, code, view.ndim, sizes, strides, not view.readonly)
    finally:
        PyBuffer_Release(&view)


def from_numpy(array):
    """A tensor that shares an ndarray's memory.

    Writes to a tensor over a read-only array raise RuntimeError, which a UserWarning announces.  TypeError
    for anything but an array and for dtypes without an equal; ValueError for negative strides and foreign
    byte order.

    >>> import flambeau, numpy
    >>> flambeau.from_numpy(numpy.arange(3))
    tensor([0, 1, 2])
    """
    cdef TensorBase t
    if numpy_kind(array) != ARRAY:
        kind = type(array)
        raise TypeError("from_numpy(): expected np.ndarray (got "
                        f"{'' if kind.__module__ == 'builtins' else kind.__module__ + '.'}{kind.__name__})")
    t = share_array(array)
    if not t.storage.writable:
        warn_read_only("NumPy array")
    return t


cdef int warn_read_only(str what) except -1:
    warnings.warn(f"The given {what} is not writable, so operations that write to the tensor will raise. "
                  "Copy it first to make "
                  "the tensor writable.", UserWarning, stacklevel=1)
    return 0


# --- buffers ------------------------------------------------------------------
def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A 1-D tensor over the memory of an object with the buffer protocol, from byte `offset` on.

    The buffer stays exported while the tensor lives.  ValueError for an object without a buffer and for a
    range outside it.

    >>> import flambeau
    >>> flambeau.frombuffer(bytearray(b"\\x01\\x00\\x02\\x00"), dtype=flambeau.int16)
    tensor([1, 2], dtype=flambeau.int16)
    """
    cdef Py_buffer view
    cdef int code = as_dtype(dtype, "frombuffer").code
    cdef int width = ITEMSIZE[code]
    cdef int64_t n = as_int(count, "frombuffer", "count"), start = as_int(offset, "frombuffer", "offset")
    cdef int64_t one = 1, length
    cdef TensorBase t
    if not PyObject_CheckBuffer(buffer):
        raise ValueError("frombuffer(): object does not implement Python buffer protocol: "
                         f"{type(buffer).__name__}")
    held = memoryview(buffer)
    length = held.nbytes
    if length == 0 or n == 0:
        raise ValueError(f"frombuffer(): both buffer length ({length}) and count ({n}) must not be 0")
    if start < 0 or start >= length:
        raise ValueError(f"frombuffer(): offset ({start} bytes) must be non-negative and no greater than "
                         "buffer length "
                         f"({length} bytes) minus 1")
    if n < 0:
        if (length - start) % width:
            raise ValueError(f"frombuffer(): buffer length ({length - start} bytes) after offset ({start} "
                             "bytes) must be a "
                             f"multiple of element size ({width})")
        n = (length - start) // width
    elif n > (length - start) // width:
        raise ValueError(f"frombuffer(): requested buffer length ({n} * {width} bytes) after offset "
                         f"({start} bytes) must not be "
                         f"greater than actual buffer length ({length} bytes)")
    PyObject_GetBuffer(held, &view, PyBUF_SIMPLE)
    t = over_memory(held, <char*>view.buf + start, code, 1, &n, &one, not view.readonly)
    PyBuffer_Release(&view)                # `held` still exports it
    if not t.storage.writable:
        warn_read_only("buffer")
    if requires_grad:
        t.requires_grad_(True)
    return t


# --- DLPack -------------------------------------------------------------------
# The structures of dlpack.h, versions 0.8 (a managed tensor) and 1.0 (a versioned one).
cdef enum:
    DL_CPU = 1
    DL_READ_ONLY = 1
    DL_IS_COPIED = 2

cdef struct DLDevice:
    int32_t device_type
    int32_t device_id

cdef struct DLDataType:
    uint8_t code                           # 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool
    uint8_t bits
    uint16_t lanes

cdef struct DLTensor:
    void* data
    DLDevice device
    int32_t ndim
    DLDataType dtype
    int64_t* shape
    int64_t* strides                       # NULL for a contiguous tensor
    uint64_t byte_offset

cdef struct DLManagedTensor:
    DLTensor dl_tensor
    void* manager_ctx
    void (*deleter)(DLManagedTensor*) noexcept

cdef struct DLManagedTensorVersioned:
    uint32_t major
    uint32_t minor
    void* manager_ctx
    void (*deleter)(DLManagedTensorVersioned*) noexcept
    uint64_t flags
    DLTensor dl_tensor

cdef enum: NO_KIND = 255

cdef uint8_t DL_KINDS[CODES]
DL_KINDS[BOOL], DL_KINDS[U8], DL_KINDS[U16], DL_KINDS[U32], DL_KINDS[U64] = 6, 1, 1, 1, 1
DL_KINDS[I8], DL_KINDS[I16], DL_KINDS[I32], DL_KINDS[I64] = 0, 0, 0, 0
DL_KINDS[F16], DL_KINDS[BF16], DL_KINDS[F32], DL_KINDS[F64] = 2, 4, 2, 2
DL_KINDS[C32], DL_KINDS[C64], DL_KINDS[C128] = 5, 5, 5
# float8 as dlpack.h 1.1 numbers it
DL_KINDS[F8_E4M3FN], DL_KINDS[F8_E4M3FNUZ], DL_KINDS[F8_E5M2], DL_KINDS[F8_E5M2FNUZ], DL_KINDS[F8_E8M0FNU] = 10, 11, 12, 13, 14
DL_KINDS[F4_E2M1FN_X2] = NO_KIND


cdef int describe(TensorBase t, DLTensor* to, int64_t* room) except -1:
    cdef int d
    to.data, to.byte_offset = pointer(t), 0
    to.device.device_type, to.device.device_id = DL_CPU, 0
    to.ndim = t.rank
    to.dtype.code, to.dtype.bits, to.dtype.lanes = DL_KINDS[t.code], 8 * t.width, 1
    to.shape, to.strides = room, room + t.rank
    for d in range(t.rank):
        to.shape[d], to.strides[d] = t.sizes[d], t.strides[d]
    return 0


cdef void* lend(Storage storage) noexcept:
    """The storage, for a capsule that knows its address."""
    Py_INCREF(storage)
    storage.exports += 1
    return <void*>storage


cdef void take_back(void* storage) noexcept:
    (<Storage>storage).exports -= 1
    Py_DECREF(<object>storage)


cdef void delete_managed(DLManagedTensor* m) noexcept with gil:
    take_back(m.manager_ctx)
    free(m)


cdef void delete_versioned(DLManagedTensorVersioned* m) noexcept with gil:
    take_back(m.manager_ctx)
    free(m)


cdef void drop_capsule(object capsule) noexcept:
    """A capsule that nobody has consumed frees what it holds; a consumer renames it."""
    cdef DLManagedTensor* m
    cdef DLManagedTensorVersioned* v
    if PyCapsule_IsValid(capsule, "dltensor"):
        m = <DLManagedTensor*>PyCapsule_GetPointer(capsule, "dltensor")
        if m.deleter != NULL:
            m.deleter(m)
    elif PyCapsule_IsValid(capsule, "dltensor_versioned"):
        v = <DLManagedTensorVersioned*>PyCapsule_GetPointer(capsule, "dltensor_versioned")
        if v.deleter != NULL:
            v.deleter(v)


def __dlpack_device__(TensorBase self not None):
    """`Tensor.__dlpack_device__`: the kind and number of the device."""
    return (DL_CPU, 0)


def __dlpack__(TensorBase self not None, *, stream=None, max_version=None, dl_device=None, copy=None):
    """`Tensor.__dlpack__`: a capsule through which another library shares the memory.

    `max_version` of at least (1, 0) asks for a versioned capsule.  BufferError for a tensor that requires a
    gradient, for another device and for read-only memory in a capsule that cannot say so.
    """
    cdef DLManagedTensor* m
    cdef DLManagedTensorVersioned* v
    cdef TensorBase t = self
    cdef bint versioned = max_version is not None and max_version[0] >= 1
    if wants_grad(self):
        raise BufferError("__dlpack__(): Can't export tensors that require gradient, use tensor.detach()")
    if self.storage.on is not None:
        raise BufferError(f"__dlpack__(): memory of {self.device} cannot be shared; use tensor.cpu()")
    if stream is not None and stream != -1:
        raise BufferError(f"__dlpack__(): stream should be None on cpu, got {stream}")
    if dl_device is not None and tuple(dl_device) != (DL_CPU, 0):
        raise BufferError("__dlpack__(): the tensor is on the CPU (1, 0), it cannot be exported to "
                          f"{tuple(dl_device)}")
    if copy:
        t = <TensorBase?>self.clone()
    if not t.storage.writable and not versioned:
        raise BufferError("__dlpack__(): the tensor's memory is read-only, which only a versioned capsule "
                          "can say")
    if versioned:
        v = <DLManagedTensorVersioned*>malloc(sizeof(DLManagedTensorVersioned) + 2 * t.rank * sizeof(int64_t))
        if v == NULL:
            raise MemoryError
        v.major, v.minor = 1, 0
        v.flags = (0 if t.storage.writable else DL_READ_ONLY) | (DL_IS_COPIED if copy else 0)
        v.manager_ctx, v.deleter = lend(t.storage), delete_versioned
        describe(t, &v.dl_tensor, <int64_t*>(v + 1))
        return PyCapsule_New(v, "dltensor_versioned", drop_capsule)
    m = <DLManagedTensor*>malloc(sizeof(DLManagedTensor) + 2 * t.rank * sizeof(int64_t))
    if m == NULL:
        raise MemoryError
    m.manager_ctx, m.deleter = lend(t.storage), delete_managed
    describe(t, &m.dl_tensor, <int64_t*>(m + 1))
    return PyCapsule_New(m, "dltensor", drop_capsule)


cdef class Lease:
    """Keeps a foreign managed tensor until the storage over it dies."""

    cdef DLManagedTensor* plain
    cdef DLManagedTensorVersioned* versioned

    def __dealloc__(self):
        if self.plain != NULL and self.plain.deleter != NULL:
            self.plain.deleter(self.plain)
        if self.versioned != NULL and self.versioned.deleter != NULL:
            self.versioned.deleter(self.versioned)


cdef int code_of_dl(DLDataType t) except -1:
    cdef int code
    if t.lanes == 1:
        for code in range(CODES):
            if code != NO_CODE and DL_KINDS[code] == t.code and 8 * ITEMSIZE[code] == t.bits:
                return code
    raise BufferError(f"from_dlpack(): unsupported dtype: DLPack kind {t.code} of {t.bits} bits, {t.lanes} "
                      "lanes")


cdef object import_capsule(object capsule):
    """Consume a capsule."""
    cdef Lease lease = Lease()
    cdef DLTensor* d
    cdef DLManagedTensor* plain = NULL
    cdef DLManagedTensorVersioned* versioned = NULL
    cdef int64_t strides[MAX_DIMS]
    cdef int64_t step = 1, count = 1
    cdef bint writable = True
    cdef int k, code
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        versioned = <DLManagedTensorVersioned*>PyCapsule_GetPointer(capsule, "dltensor_versioned")
        if versioned.major != 1:
            raise BufferError("from_dlpack(): unsupported DLPack version "
                              f"{versioned.major}.{versioned.minor}")
        d, writable = &versioned.dl_tensor, not (versioned.flags & DL_READ_ONLY)
    elif PyCapsule_IsValid(capsule, "dltensor"):
        plain = <DLManagedTensor*>PyCapsule_GetPointer(capsule, "dltensor")
        d = &plain.dl_tensor
    else:
        raise RuntimeError("from_dlpack() received an invalid capsule. Note that DLTensor capsules can be "
                           "consumed only once, so "
                           "you might have already constructed a tensor from it once.")
    if d.device.device_type != DL_CPU:
        raise BufferError(f"from_dlpack(): memory on DLPack device {d.device.device_type} cannot be used: "
                          "this build runs on the "
                          "CPU only")
    if d.ndim < 0 or d.ndim > MAX_DIMS:
        raise BufferError(f"from_dlpack(): a tensor has at most {MAX_DIMS} dimensions, got {d.ndim}")
    code = code_of_dl(d.dtype)
    if product_of(d.ndim, d.shape, &count):
        raise BufferError(f"from_dlpack(): {uncountable(d.ndim, d.shape)}")
    for k in range(d.ndim - 1, -1, -1):
        strides[k] = step if d.strides == NULL or count == 0 or d.shape[k] == 1 else d.strides[k]
        if strides[k] < 0:
            raise BufferError("from_dlpack(): tensors with negative strides are not supported; copy the "
                              "array first")
        step = scaled(step, max(d.shape[k], 1))
    PyCapsule_SetName(capsule, "used_dltensor" if plain != NULL else "used_dltensor_versioned")
    lease.plain, lease.versioned = plain, versioned
    return over_memory(lease, <char*>d.data + d.byte_offset, code, d.ndim, d.shape, strides, writable)


def from_dlpack(ext_tensor, *, device=None, copy=None):
    """A tensor that shares the memory of another library's array, or of a DLPack capsule.

    BufferError for memory on another device, for dtypes without an equal and for negative strides;
    RuntimeError for a capsule that is not DLPack's or was used before.

    >>> import flambeau, numpy
    >>> flambeau.from_dlpack(numpy.ones(2))
    tensor([1., 1.], dtype=flambeau.float64)
    """
    if device is not None and str(device) != "cpu":
        raise BufferError(f"from_dlpack(): device '{device}' is not available: this build runs on the CPU "
                          "only")
    if PyCapsule_CheckExact(ext_tensor):
        made = import_capsule(ext_tensor)
    elif not hasattr(ext_tensor, "__dlpack__"):
        raise RuntimeError("from_dlpack() received an invalid capsule: an object with __dlpack__ expected, "
                           "not "
                           f"{type(ext_tensor).__name__}")
    else:
        try:
            capsule = ext_tensor.__dlpack__(max_version=(1, 0))
        except TypeError:                  # from before DLPack 1.0
            capsule = ext_tensor.__dlpack__()
        made = import_capsule(capsule)
    return made.clone() if copy else made
