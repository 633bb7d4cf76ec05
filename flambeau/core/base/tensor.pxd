"""The compiled base of Tensor."""
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from .dtypes cimport dtype
from .memory cimport Storage
from .device cimport Device
from cpython.object cimport PyObject, PyTypeObject

cdef enum:
    MAX_DIMS = 64             # as PyTorch and NumPy
    INLINE_DIMS = 5           # shapes up to this rank need no memory of their own

cdef enum:                    # where a view was made
    ON_TAPE                   # its history is a way back to its base
    UNRECORDED                # under no_grad: it has no history
    IN_FUNCTION               # by a user's autograd.Function: its history is that function's backward

cdef class TensorBase:
    cdef Storage storage
    cdef int code
    cdef int width          # bytes of one element
    cdef int rank           # how many dimensions
    cdef bint contiguous
    cdef bint requires        # takes part in the tape: a leaf that asks for it, or a result with a grad_fn
    cdef bint silent          # made by `.data`: writes do not count as changes of the storage
    cdef bint retains
    cdef int output_number    # which of grad_fn's outputs this is
    cdef int64_t count        # how many elements
    cdef int64_t offset       # elements from the storage's start
    cdef int64_t* sizes
    cdef int64_t* strides
    cdef int64_t small[10]
    cdef object shape_        # its Size, once requested
    cdef object fn            # Node, or None for a leaf
    cdef object grad_
    cdef object hooks
    cdef TensorBase base      # what this is a view of
    cdef uint64_t fn_version  # a view's grad_fn is stale when the storage's version is newer
    cdef uint64_t swapped     # nodes up to this sequence number know what this tensor was before `swap_tensors`
    cdef unsigned char made   # where a view was made: what may be written through it
    cdef object grad_fn_now(self)

# Operators of the Tensor class; call/pointwise.pyx fills the table with operations from the registry.
cdef enum:
    OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_FLOORDIV, OP_MOD, OP_POW, OP_MATMUL, OP_AND, OP_OR, OP_XOR, OP_LSHIFT, OP_RSHIFT
    OP_LT, OP_LE, OP_GT, OP_GE, OP_EQ, OP_NE, OP_NEG, OP_ABS, OP_INVERT, OP_RSUB, OP_RDIV, OP_RPOW, OP_RFLOORDIV, OP_RMOD
    OP_IADD, OP_ISUB, OP_IMUL, OP_IDIV, OP_IFLOORDIV, OP_IMOD, OP_IPOW, OP_IAND, OP_IOR, OP_IXOR, OP_RMATMUL
    OP_RLSHIFT, OP_RRSHIFT, OP_ILSHIFT, OP_IRSHIFT, OPERATORS

ctypedef object (*binary_t)(object op, object a, object b)
ctypedef object (*unary_t)(object op, object a)
ctypedef object (*getter_t)(TensorBase t, object key)
ctypedef int (*setter_t)(TensorBase t, object key, object value) except -1
ctypedef object (*refresh_t)(TensorBase t)
ctypedef int (*lender_t)(TensorBase t, Py_buffer* buffer, int flags) except -1

cdef struct Runtime:          # the process's state; later modules supply the functions
    binary_t binary
    unary_t unary
    getter_t getitem
    setter_t setitem
    refresh_t grad_fn
    lender_t lend
    int interceptors          # how many modes and casts are on, in all threads, and classes of tensors that override
    int observers             # those, and the profiler: all for which a call is dispatched
    bint forward              # a forward level is open somewhere: histories may be those of dual tensors
    refresh_t history         # what reverse mode sees of a tensor's grad_fn; True stands for a leaf that requires grad

cdef Runtime runtime
cdef PyTypeObject* TENSOR      # the class of the tensors that operations return
cdef object operator_for(int number)

cdef TensorBase new_object()
cdef object storage_error(str place, int ndim, const int64_t* sizes, const int64_t* strides, int code)  # an error to raise
cdef object numel_error(int ndim, const int64_t* sizes)                                           # an error to raise
cdef int set_rank(TensorBase t, int ndim) except -1
cdef TensorBase new_tensor(int ndim, const int64_t* sizes, int code)
cdef TensorBase new_strided(int ndim, const int64_t* sizes, const int64_t* strides, int code)
cdef TensorBase alias(TensorBase source, int ndim, const int64_t* sizes, const int64_t* strides, int64_t offset)
cdef void find_contiguous(TensorBase t) noexcept
cdef void exchange(TensorBase a, TensorBase b) noexcept
cdef bint same_shape(TensorBase a, TensorBase b) noexcept nogil
cdef int64_t as_int(object value, str who, str argument) except? -9223372036854775807
cdef int64_t as_size(object value, str who, str argument) except? -9223372036854775807
cdef int parse_sizes(object given, int64_t* out, str who) except -1
cdef int wrap_dim(int64_t dim, int ndim, str who) except -1
cdef int parse_dims(object dims, int ndim, int* out, str who) except -1
cdef object read_item(TensorBase t)

cdef TensorBase new_tensor_on(Device device, int ndim, const int64_t* sizes, int code)
cdef TensorBase new_strided_on(Device device, int ndim, const int64_t* sizes, const int64_t* strides, int code)
cdef char* not_on_host(TensorBase t) except NULL with gil

cdef inline char* pointer(TensorBase t) except NULL nogil:
    """Where the host finds the first element; NotImplementedError for a tensor on another device."""
    if t.storage.data == NULL:
        return not_on_host(t)
    return t.storage.data + t.offset * t.width

cdef inline char* data_address(TensorBase t) except? NULL nogil:
    """Where the first element is on the tensor's own device: for those that hand it on to that device."""
    if t.storage.pending:
        return not_on_host(t)
    return (t.storage.data if t.storage.data != NULL else <char*><uintptr_t>t.storage.address) + t.offset * t.width

cdef inline void bump_version(TensorBase t) noexcept:
    """After a write to t: one that failed half-way has been counted by `check_writable`."""
    t.storage.writes += 1
    if not t.silent:
        t.storage.version += 1

cdef int check_writable(TensorBase t, str who) except -1
cdef int check_no_internal_overlap(TensorBase t, str who) except -1

cdef inline bint is_tensor(object x):
    return isinstance(x, TensorBase)
