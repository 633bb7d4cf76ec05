# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Memory shared with other libraries by DLPack, by the buffer protocol and by `__cuda_array_interface__`.

Nothing here copies elements, unless `copy` says so or a device changes.
"""
from libc.stdlib cimport malloc, free
from libc.stdint cimport int32_t, int64_t, intptr_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from cpython.ref cimport Py_INCREF, Py_DECREF
from cpython.buffer cimport (
    PyBUF_ANY_CONTIGUOUS, PyBUF_C_CONTIGUOUS, PyBUF_F_CONTIGUOUS, PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE,
)
from cpython.pycapsule cimport (
    PyCapsule_New, PyCapsule_IsValid, PyCapsule_GetPointer, PyCapsule_SetName, PyCapsule_CheckExact,
)
from ..base.device cimport Device, device_for, find_device
from ..base.memory cimport Storage, expose
from ..base.dtypes cimport (
    BOOL, U8, U16, U32, U64, I8, I16, I32, I64, F16, BF16, F32, F64, C32, C64, C128, F8_E4M3FN, F8_E4M3FNUZ, F8_E5M2, F8_E5M2FNUZ,
    F8_E8M0FNU, F4_E2M1FN_X2, CODES, NO_CODE, ITEMSIZE, dtype_of,
)
from ..base.tensor cimport TENSOR, TensorBase, MAX_DIMS, runtime, data_address, pointer, numel_error
from ..base.sizes cimport product_of, scaled
from ..tape.modes cimport REVERSE, grad_enabled, wants_grad
from .bridge cimport over_memory

cdef extern from "Python.h":
    bint Py_IsInitialized() nogil


# --- DLPack -------------------------------------------------------------------
# The structures of dlpack.h, versions 0.8 (a managed tensor) and 1.0 (a versioned one).
cdef enum:
    DL_CPU = 1
    DL_CUDA = 2
    DL_CUDA_HOST = 3          # pinned: the processor reads it as its own
    DL_OPENCL = 4
    DL_CUDA_MANAGED = 13
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

cdef uint8_t DL_KINDS[CODES]
DL_KINDS[BOOL], DL_KINDS[U8], DL_KINDS[U16], DL_KINDS[U32], DL_KINDS[U64] = 6, 1, 1, 1, 1
DL_KINDS[I8], DL_KINDS[I16], DL_KINDS[I32], DL_KINDS[I64] = 0, 0, 0, 0
DL_KINDS[F16], DL_KINDS[BF16], DL_KINDS[F32], DL_KINDS[F64] = 2, 4, 2, 2
DL_KINDS[C32], DL_KINDS[C64], DL_KINDS[C128] = 5, 5, 5
# as dlpack.h 1.1 numbers them
DL_KINDS[F8_E4M3FN], DL_KINDS[F8_E4M3FNUZ], DL_KINDS[F8_E5M2], DL_KINDS[F8_E5M2FNUZ], DL_KINDS[F8_E8M0FNU] = 10, 11, 12, 13, 14
DL_KINDS[F4_E2M1FN_X2] = 17                # two lanes of 4 bits

DEVICES = {"cpu": DL_CPU, "cuda": DL_CUDA, "opencl": DL_OPENCL}


class CopyRefused(BufferError, ValueError):
    """A copy would be needed and `copy=False` was given: a BufferError by the array API standard, a ValueError by PyTorch."""


cdef tuple where_is(TensorBase t):
    """The kind and number of a tensor's device; ValueError where DLPack has none."""
    place = t.device
    if place.type not in DEVICES:
        raise ValueError(f"Unknown device type {place.type} for Dlpack")
    return DEVICES[place.type], place.index or 0


cdef object named(tuple where):
    """A DLPack device as devices are named here; BufferError where there is no such kind."""
    for name, kind in DEVICES.items():
        if kind == where[0]:
            return name if kind == DL_CPU else f"{name}:{where[1]}"
    raise BufferError(f"DLPack device {where} is of no kind that tensors are on")


cdef int describe(TensorBase t, DLTensor* to, tuple where, int64_t* buffer) except -1:
    cdef int d, lanes = 2 if t.code == F4_E2M1FN_X2 else 1
    to.data, to.byte_offset = data_address(t), 0
    to.device.device_type, to.device.device_id = where
    to.ndim = t.rank
    to.dtype.code, to.dtype.bits, to.dtype.lanes = DL_KINDS[t.code], 8 * t.width // lanes, lanes
    to.shape, to.strides = buffer, buffer + t.rank
    for d in range(t.rank):
        to.shape[d], to.strides[d] = t.sizes[d], t.strides[d]
    return 0


cdef void* lend(Storage storage) noexcept:
    """The storage, for a capsule that knows its address."""
    Py_INCREF(storage)
    expose(storage)
    return <void*>storage


cdef void take_back(void* storage) noexcept with gil:
    (<Storage>storage).exports -= 1
    Py_DECREF(<object>storage)


cdef void delete_managed(DLManagedTensor* m) noexcept nogil:
    if Py_IsInitialized():                 # a consumer may outlive the interpreter, and its memory with it
        take_back(m.manager_ctx)
    free(m)


cdef void delete_versioned(DLManagedTensorVersioned* m) noexcept nogil:
    if Py_IsInitialized():
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
    """`Tensor.__dlpack_device__`: the kind and number of the device; ValueError for a tensor on `meta`."""
    return where_is(self)


cdef int let_wait(Device device, object stream) except -1:
    """Make a stream of a consumer wait for what is queued on the current one: 1 (or None) is the default stream, -1 needs no
    waiting, another number is the stream's address.
    """
    cdef uint64_t consumer, event, current = device.stream()
    if stream == -1:
        return 0
    if stream == 2:
        raise BufferError("per-thread default stream is not supported.")
    if stream == 0 or (stream is not None and stream < 0):
        raise AssertionError(f"unsupported stream on CUDA: {stream}.")
    consumer = 0 if stream is None or stream == 1 else stream
    if consumer == current:
        return 0
    event = device.new_event(False)
    try:
        device.record_event(event)
        device.choose_stream(consumer)
        device.wait_event(event)
    finally:
        device.choose_stream(current)
        device.free_event(event)
    return 0


cdef tuple two_ints(object given):
    """A pair of ints, as versions and devices are given."""
    first, second = given
    return int(first), int(second)


def __dlpack__(TensorBase self not None, *, stream=None, max_version=None, dl_device=None, copy=None):
    """`Tensor.__dlpack__`: a capsule through which another library shares the memory.

    `max_version` of at least (1, 0) asks for a versioned capsule, `dl_device` for memory on another device, `copy` for a copy
    (true) or for none (false).  `stream` is the consumer's, on CUDA.  BufferError for a tensor that requires a gradient, for a
    device or a dtype that DLPack has not, for read-only memory in a capsule that cannot say so, and where a copy would be needed
    that `copy` excludes; AssertionError for a stream on the CPU; TypeError for other kinds of arguments.
    """
    cdef DLManagedTensor* m
    cdef DLManagedTensorVersioned* v
    cdef TensorBase t = self
    cdef bint versioned = max_version is not None and two_ints(max_version)[0] >= 1
    cdef tuple here, wanted
    cdef bint copied = False
    if stream is not None and type(stream) is not int:
        raise TypeError(f"__dlpack__(): stream must be int or None, not {type(stream).__name__}")
    if copy is not None and type(copy) is not bool:
        raise TypeError(f"__dlpack__(): argument 'copy' must be bool, not {type(copy).__name__}")
    if wants_grad(self):
        raise BufferError("__dlpack__(): Can't export tensors that require gradient, use tensor.detach()")
    try:
        here = where_is(self)
    except ValueError:
        raise BufferError(f"__dlpack__(): Cannot pack tensors on {self.device}") from None
    wanted = here if dl_device is None else two_ints(dl_device)
    if wanted != here:
        if copy is False:
            raise CopyRefused(f"cannot move (i.e. copy=False) tensor from {self.device} to {named(wanted)} without copying.")
        try:
            t, copied = <TensorBase?>self.to(named(wanted)), True
        except (RuntimeError, NotImplementedError, AssertionError) as error:
            raise BufferError(f"__dlpack__(): the tensor is on {self.device} and cannot be exported to {wanted}: {error}") from error
    elif copy:
        t, copied = <TensorBase?>self.clone(), True
    if t.storage.on is None:
        if stream is not None and stream != -1:
            raise AssertionError("stream should be None on cpu.")
    elif wanted[0] == DL_CUDA:
        let_wait(t.storage.on, stream)
    else:
        raise BufferError(f"__dlpack__(): memory of {t.device} cannot be shared; use tensor.cpu()")
    if not t.storage.writable and not versioned:
        raise BufferError("__dlpack__(): the tensor's memory is read-only, which only a versioned capsule "
                          "can say")
    if versioned:
        v = <DLManagedTensorVersioned*>malloc(sizeof(DLManagedTensorVersioned) + 2 * t.rank * sizeof(int64_t))
        if v == NULL:
            raise MemoryError
        v.major, v.minor = 1, 0
        v.flags = (0 if t.storage.writable else DL_READ_ONLY) | (DL_IS_COPIED if copied else 0)
        describe(t, &v.dl_tensor, wanted, <int64_t*>(v + 1))
        v.manager_ctx, v.deleter = lend(t.storage), delete_versioned
        return PyCapsule_New(v, "dltensor_versioned", drop_capsule)
    m = <DLManagedTensor*>malloc(sizeof(DLManagedTensor) + 2 * t.rank * sizeof(int64_t))
    if m == NULL:
        raise MemoryError
    describe(t, &m.dl_tensor, wanted, <int64_t*>(m + 1))
    m.manager_ctx, m.deleter = lend(t.storage), delete_managed
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
    if t.lanes == 2 and t.code == DL_KINDS[F4_E2M1FN_X2] and t.bits == 4:
        return F4_E2M1FN_X2
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
    cdef Device device = None
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
    if d.device.device_type in (DL_CUDA, DL_CUDA_MANAGED):
        device = find_device("cuda", d.device.device_id)
    elif d.device.device_type not in (DL_CPU, DL_CUDA_HOST):
        raise BufferError(f"from_dlpack(): memory on DLPack device {d.device.device_type} cannot be used")
    if d.ndim < 0 or d.ndim > MAX_DIMS:
        raise BufferError(f"from_dlpack(): a tensor has at most {MAX_DIMS} dimensions, got {d.ndim}")
    if d.ndim and d.shape == NULL:
        raise BufferError(f"from_dlpack(): {d.ndim} dimensions without sizes")
    code = code_of_dl(d.dtype)
    if product_of(d.ndim, d.shape, &count):
        raise BufferError(f"from_dlpack(): {numel_error(d.ndim, d.shape)}")
    if count and d.data == NULL:
        raise BufferError(f"from_dlpack(): {count} elements at no address")
    for k in range(d.ndim - 1, -1, -1):
        strides[k] = step if d.strides == NULL or count == 0 or d.shape[k] == 1 else d.strides[k]
        if strides[k] < 0:
            raise BufferError("from_dlpack(): tensors with negative strides are not supported; copy the "
                              "array first")
        step = scaled(step, max(d.shape[k], 1))
    PyCapsule_SetName(capsule, "used_dltensor" if plain != NULL else "used_dltensor_versioned")
    lease.plain, lease.versioned = plain, versioned
    return over_memory(lease, <char*>d.data + d.byte_offset, code, d.ndim, d.shape, strides, writable, device)


cdef object ask(object producer, dict options):
    """The producer's capsule; what its `__dlpack__` does not know of `options` is left away, the newest first."""
    for newest in ("max_version", "copy", "dl_device"):
        try:
            return producer.__dlpack__(**options)
        except TypeError:
            options.pop(newest, None)
    return producer.__dlpack__(**options)


def from_dlpack(ext_tensor, *, device=None, copy=None):
    """A tensor of the shape of another library's array, or a DLPack capsule, whose memory it shares.

    `device` moves it there; `copy` true copies in any case, false excludes it.  BufferError for memory on a device that is not
    here, for dtypes without an equal and for negative strides; ValueError where a copy would be needed that `copy` excludes;
    RuntimeError for a capsule that is not DLPack's or was used before.

    >>> import flambeau, numpy
    >>> flambeau.from_dlpack(numpy.ones(2))
    tensor([1., 1.], dtype=flambeau.float64)
    """
    cdef TensorBase made
    cdef Device target
    cdef dict options
    cdef bint moves = False, clones
    if PyCapsule_CheckExact(ext_tensor):
        made, clones = import_capsule(ext_tensor), bool(copy)
        moves = device is not None and made.storage.on is not device_for(device, "from_dlpack")
        if moves and copy is False:
            raise CopyRefused(f"cannot move DLPack tensor from {made.device} to {device} without copying.")
        return made.to(device) if moves else made.clone() if clones else made
    if not hasattr(ext_tensor, "__dlpack__"):
        raise RuntimeError("from_dlpack() received an invalid capsule: an object with __dlpack__ expected, "
                           "not "
                           f"{type(ext_tensor).__name__}")
    options = {"max_version": (1, 0)}
    if copy is not None:
        options["copy"] = copy
    there = tuple(ext_tensor.__dlpack_device__()) if hasattr(ext_tensor, "__dlpack_device__") else (DL_CPU, 0)
    if device is not None:
        target = device_for(device, "from_dlpack")
        if target is not None and target.blank:
            raise BufferError(f"from_dlpack(): device '{device}' holds no memory that could be shared")
        wanted = (DL_CPU, 0) if target is None else (DEVICES[target.type], target.index)
        moves = wanted != there
        if not moves:
            options["dl_device"] = wanted
        elif copy is False:
            raise CopyRefused(f"cannot move DLPack tensor from device {there} to {wanted} without copying. Set copy=None or copy=True.")
    if there[0] in (DL_CUDA, DL_CUDA_MANAGED):
        options["stream"] = find_device("cuda", there[1]).stream() or 1
    made = import_capsule(ask(ext_tensor, options))
    clones = bool(copy) and "copy" not in options
    return made.to(device) if moves else made.clone() if clones else made


# --- the buffer protocol ------------------------------------------------------
cdef const char* FORMAT_OF[CODES]          # as the struct module has them; NULL where it has none
FORMAT_OF[BOOL], FORMAT_OF[U8], FORMAT_OF[U16], FORMAT_OF[U32], FORMAT_OF[U64] = "?", "B", "H", "I", "L"
FORMAT_OF[I8], FORMAT_OF[I16], FORMAT_OF[I32], FORMAT_OF[I64] = "b", "h", "i", "l"
FORMAT_OF[F16], FORMAT_OF[F32], FORMAT_OF[F64], FORMAT_OF[C64], FORMAT_OF[C128] = "e", "f", "d", "Zf", "Zd"


cdef class Lent:
    """What an open buffer of a tensor holds: the storage, whose bytes stay where they are, and the geometry."""

    cdef Storage storage
    cdef Py_ssize_t geometry[2 * MAX_DIMS]

    def __dealloc__(self):
        if self.storage is not None:
            self.storage.exports -= 1


cdef bint ordered(TensorBase t, bint by_columns) noexcept:
    """Whether the elements lie densely with the last (the first) index moving fastest."""
    cdef int64_t step = 1
    cdef int k, d
    for k in range(t.rank):
        d = k if by_columns else t.rank - 1 - k
        if t.sizes[d] != 1 and t.strides[d] != step and t.count:
            return False
        step = scaled(step, t.sizes[d])
    return True


cdef int lend_buffer(TensorBase t, Py_buffer* buffer, int flags) except -1:
    """`__getbuffer__` of tensors.  BufferError for a tensor that requires a gradient, on another device, of a dtype without a
    format, of a class with an `__array__` of its own, or that does not lie as the flags want it.
    """
    cdef Lent lent
    cdef int d
    cdef bint rows = ordered(t, False), columns = ordered(t, True)
    if grad_enabled() & REVERSE and wants_grad(t):
        raise BufferError("a tensor that requires grad lends no buffer: use tensor.detach()")
    if t.storage.on is not None:
        raise BufferError(f"the elements are on {t.storage.on.place}: copy them to the CPU first")
    if type(t) is not <object>TENSOR and type(t).__array__ is not (<object>TENSOR).__array__:
        raise BufferError(f"{type(t).__name__} has an __array__ of its own")
    if flags & PyBUF_FORMAT and FORMAT_OF[t.code] == NULL:
        raise BufferError(f"buffers have no format for {dtype_of(t.code)}")
    if flags & PyBUF_WRITABLE and not t.storage.writable:
        raise BufferError("the memory of the tensor is read-only")
    if (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS or not (flags & PyBUF_STRIDES) == PyBUF_STRIDES:
        fits = rows
    elif (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS:
        fits = columns
    elif (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS:
        fits = rows or columns
    else:
        fits = True
    if not fits:
        raise BufferError("the tensor is not contiguous")
    lent = Lent()
    for d in range(t.rank):
        lent.geometry[d] = t.sizes[d]
        lent.geometry[MAX_DIMS + d] = t.strides[d] * t.width
    buffer.buf = pointer(t)
    buffer.len = t.count * t.width
    buffer.itemsize = t.width
    buffer.readonly = not t.storage.writable
    buffer.ndim = t.rank
    buffer.format = <char*>FORMAT_OF[t.code] if flags & PyBUF_FORMAT else NULL
    buffer.shape = lent.geometry if flags & PyBUF_ND else NULL
    buffer.strides = lent.geometry + MAX_DIMS if (flags & PyBUF_STRIDES) == PyBUF_STRIDES else NULL
    buffer.suboffsets, buffer.internal = NULL, NULL
    lent.storage = t.storage
    expose(t.storage)
    buffer.obj = lent                      # releasing it drops that, and nothing else is left to do
    return 0


runtime.lend = lend_buffer


# --- __cuda_array_interface__ -------------------------------------------------
TYPE_STRINGS = {
    BOOL: "|b1", U8: "|u1", I8: "|i1", U16: "<u2", U32: "<u4", U64: "<u8", I16: "<i2", I32: "<i4", I64: "<i8",
    F16: "<f2", BF16: "<V2", F32: "<f4", F64: "<f8", C64: "<c8", C128: "<c16",
}
CODES_OF_STRINGS = {string: code for code, string in TYPE_STRINGS.items()}


def cuda_array_interface(TensorBase self not None):
    """`Tensor.__cuda_array_interface__`: where and how the elements of a CUDA tensor lie, as numba and CuPy read it.

    AttributeError for tensors elsewhere and dtypes without a name there; RuntimeError for one that requires a gradient.
    """
    if self.storage.on is None or self.storage.on.type != "cuda":
        raise AttributeError(f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {self.type()} "
                             "If CUDA data is required use tensor.cuda() to copy tensor to device memory.")
    if wants_grad(self):
        raise RuntimeError("Can't get __cuda_array_interface__ on Variable that requires grad. "
                           "If gradients aren't required, use var.detach() to get Variable that doesn't require grad.")
    if self.code not in TYPE_STRINGS:
        raise AttributeError(f"__cuda_array_interface__ has no name for {dtype_of(self.code)}")
    expose(self.storage)   # whoever reads the address keeps it
    return {
        "typestr": TYPE_STRINGS[self.code],
        "shape": tuple(self.shape),
        "strides": None if self.contiguous else tuple([self.strides[d] * self.width for d in range(self.rank)]),
        "data": (<uintptr_t>data_address(self) if self.count else 0, not self.storage.writable),
        "version": 2,
    }


def from_cuda_array(obj, str who):
    """A tensor over the CUDA memory of an object with `__cuda_array_interface__`, on the current device.

    TypeError for an interface that is not as it should be, ValueError for strides between elements or a byte order that is
    not the device's, BufferError for negative strides and masks.
    """
    cdef int64_t sizes[MAX_DIMS]
    cdef int64_t strides[MAX_DIMS]
    cdef int64_t step = 1, count
    cdef int d, code, rank
    cdef uint64_t address
    cdef Device device
    interface = obj.__cuda_array_interface__
    try:
        shape = [int(n) for n in interface["shape"]]
        string = interface["typestr"]
        address, read_only = interface["data"]
        steps = interface.get("strides")
        steps = None if steps is None else [int(n) for n in steps]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{who}(): the __cuda_array_interface__ of {type(obj).__name__} is not as it should be: {error!r}") from error
    if isinstance(string, str) and string[:1] == ">":
        raise ValueError(f"{who}(): {string!r} is not in the byte order of the device")
    if string not in CODES_OF_STRINGS:
        raise TypeError(f"{who}(): no dtype is {string!r}")
    if interface.get("mask") is not None:
        raise BufferError(f"{who}(): arrays with a mask cannot be shared")
    code, rank = CODES_OF_STRINGS[string], len(shape)
    if rank > MAX_DIMS or (steps is not None and len(steps) != rank):
        raise TypeError(f"{who}(): shape {shape} and strides {steps} do not go together, or are too long")
    for d in range(rank):
        sizes[d] = shape[d]
    if product_of(rank, sizes, &count):
        raise numel_error(rank, sizes)
    if count and not address:
        raise TypeError(f"{who}(): {count} elements at no address")
    for d in range(rank - 1, -1, -1):
        strides[d] = step
        if steps is not None and count and sizes[d] != 1:
            if steps[d] < 0:
                raise BufferError(f"{who}(): tensors with negative strides are not supported; copy the array first")
            if steps[d] % ITEMSIZE[code]:
                raise ValueError(f"{who}(): given array strides not a multiple of the element byte size")
            strides[d] = steps[d] // ITEMSIZE[code]
        step = scaled(step, max(sizes[d], 1))
    device = find_device("cuda", None)
    theirs = interface.get("stream")
    if theirs is not None and (theirs if theirs != 1 else 0) != device.stream():
        device.finish_stream(0 if theirs == 1 else theirs)
    return over_memory(obj, <char*><uintptr_t>address, code, rank, sizes, strides, not read_only, device)
