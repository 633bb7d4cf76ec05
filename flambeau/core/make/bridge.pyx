# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Memory shared with NumPy and with objects that have a buffer.  Nothing here copies elements; `interchange` has the other ways.

NumPy is met through its Python face and the buffer protocol only, and is imported when it is first requested.
"""
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.buffer cimport (
    PyObject_GetBuffer, PyBuffer_Release, PyObject_CheckBuffer, PyBUF_SIMPLE, PyBUF_STRIDES,
)
from ..base.device cimport Device
from ..base.memory cimport Storage, expose
from ..base.dtypes cimport BF16, CODES, NO_CODE, ITEMSIZE, dtype_of, as_dtype
from ..base.tensor cimport TensorBase, MAX_DIMS, new_object, set_rank, find_contiguous, as_int, numel_error
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
            result = numpy.dtype(dtype_of(code).name)
            Py_INCREF(result)
            numpy_dtypes[code] = <PyObject*>result
            codes_by_dtype[result] = code
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
    result = codes_by_dtype.get(dtype)
    if result is not None:
        return result
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
    expose(t.storage)   # the array releases the buffer at once, and keeps its address
    return new_ndarray(<PyTypeObject*>ndarray, arguments, NULL)


def numpy(TensorBase input not None, *, force: bool = False):
    """The tensor as an ndarray of the same shape that shares its memory.

    RuntimeError for a tensor that requires a gradient (in grad mode) and TypeError for one on another device, unless `force` is
    true; TypeError for bfloat16.

    >>> import flambeau
    >>> flambeau.ones(2).numpy()
    array([1., 1.], dtype=float32)
    """
    if not force and grad_enabled() & REVERSE and wants_grad(input) and (<object>input).requires_grad:
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


cdef char nowhere[1]


cdef TensorBase over_memory(object owner, char* data, int code, int rank, const int64_t* sizes,
                            const int64_t* strides, bint writable, Device device=None):
    """A tensor over memory that `owner` keeps alive, of the host or of a device; strides in elements, none negative."""
    cdef TensorBase t = new_object()
    cdef int64_t nbytes
    cdef int d
    set_rank(t, rank)
    for d in range(rank):
        t.sizes[d], t.strides[d] = sizes[d], strides[d]
    t.code, t.width = code, ITEMSIZE[code]
    if product_of(rank, sizes, &t.count) or span_of(rank, sizes, strides, &nbytes) or mul_overflow(nbytes, t.width, &nbytes):
        raise numel_error(rank, sizes)
    find_contiguous(t)
    t.storage = Storage.__new__(Storage)
    t.storage.length = <size_t>nbytes
    if device is None:
        t.storage.data = data if data != NULL else nowhere    # what is empty may have no address
    else:
        t.storage.address, t.storage.on, t.storage.stream = <uint64_t><uintptr_t>data, device, device.stream()
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
    """A tensor of an ndarray's shape that shares its memory.

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
def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad: bool = False):
    """A tensor of shape (elements,) over the memory of an object with the buffer protocol, from byte `offset` on.

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
