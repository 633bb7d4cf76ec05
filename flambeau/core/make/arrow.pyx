# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Arrow arrays and tensors over one memory, by Arrow's C data interface (`__arrow_c_array__`), without pyarrow.

A tensor of one dimension is a primitive array; one of more is lists of fixed size, one in another.  Arrow keeps bools as bits, so
these are copied, as is what does not lie densely; nothing else is.
"""
from libc.stdio cimport snprintf
from libc.stdlib cimport malloc, free
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset, strlen
from cpython.ref cimport Py_INCREF, Py_DECREF
from cpython.pycapsule cimport PyCapsule_New, PyCapsule_IsValid, PyCapsule_GetPointer
from ..base.dtypes cimport BOOL, U8, U16, U32, U64, I8, I16, I32, I64, F16, F32, F64, CODES, dtype_of, ITEMSIZE
from ..base.memory cimport Storage, expose
from ..base.sizes cimport product_of, row_major
from ..base.tensor cimport TensorBase, MAX_DIMS, new_tensor, pointer, numel_error
from ..tape.modes cimport wants_grad
from .bridge cimport over_memory

cdef extern from "Python.h":
    bint Py_IsInitialized() nogil

DEF NULLABLE = 2

cdef struct Schema "ArrowSchema":
    const char* format
    const char* name
    const char* metadata
    int64_t flags
    int64_t n_children
    Schema** children
    Schema* dictionary
    void (*release)(Schema*) noexcept nogil
    void* private_data

cdef struct Array "ArrowArray":
    int64_t length
    int64_t null_count                     # -1: not counted
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void** buffers                   # of primitive arrays: the bits that say what is there (NULL: all), the elements
    Array** children
    Array* dictionary
    void (*release)(Array*) noexcept nogil  # NULL once it is released, or someone else's
    void* private_data

cdef const char* FORMAT_OF[CODES]
FORMAT_OF[BOOL], FORMAT_OF[U8], FORMAT_OF[U16], FORMAT_OF[U32], FORMAT_OF[U64] = "b", "C", "S", "I", "L"
FORMAT_OF[I8], FORMAT_OF[I16], FORMAT_OF[I32], FORMAT_OF[I64] = "c", "s", "i", "l"
FORMAT_OF[F16], FORMAT_OF[F32], FORMAT_OF[F64] = "e", "f", "g"


# --- out ----------------------------------------------------------------------
cdef void release_schema(Schema* s) noexcept nogil:
    cdef int64_t k
    for k in range(s.n_children):
        if s.children[k].release != NULL:
            s.children[k].release(s.children[k])
        free(s.children[k])
    free(s.children)
    free(s.private_data)                   # the format of a list
    s.release = NULL


cdef void give_back(void* storage) noexcept with gil:
    (<Storage>storage).exports -= 1
    Py_DECREF(<object>storage)


cdef void release_array(Array* a) noexcept nogil:
    cdef int64_t k
    for k in range(a.n_children):
        if a.children[k].release != NULL:
            a.children[k].release(a.children[k])
        free(a.children[k])
    free(a.children)
    free(a.buffers)
    if a.private_data != NULL and Py_IsInitialized():
        give_back(a.private_data)
    a.release = NULL


cdef void drop_schema(object capsule) noexcept:
    cdef Schema* s = <Schema*>PyCapsule_GetPointer(capsule, "arrow_schema")
    if s.release != NULL:
        s.release(s)
    free(s)


cdef void drop_array(object capsule) noexcept:
    cdef Array* a = <Array*>PyCapsule_GetPointer(capsule, "arrow_array")
    if a.release != NULL:
        a.release(a)
    free(a)


cdef void* cleared(size_t nbytes) except NULL:
    cdef void* memory = malloc(nbytes)
    if memory == NULL:
        raise MemoryError
    return memset(memory, 0, nbytes)


cdef Schema* new_schema(TensorBase t, int depth) except NULL:
    """The type of what lies along dimension `depth` and those behind it."""
    cdef Schema* s = <Schema*>cleared(sizeof(Schema))
    s.release = release_schema
    s.name, s.flags = b"item" if depth else b"", NULLABLE
    try:
        if depth == t.rank - 1:
            s.format = FORMAT_OF[t.code]
        else:
            s.private_data = cleared(32)
            snprintf(<char*>s.private_data, 32, b"+w:%lld", <long long>t.sizes[depth + 1])
            s.format = <char*>s.private_data
            s.children = <Schema**>cleared(sizeof(Schema*))
            s.children[0] = new_schema(t, depth + 1)
            s.n_children = 1
    except:
        release_schema(s)
        free(s)
        raise
    return s


cdef Array* new_array(TensorBase t, int depth) except NULL:
    """The elements along dimension `depth` and those behind it, for all places along those before."""
    cdef Array* a = <Array*>cleared(sizeof(Array))
    cdef bint last = depth == t.rank - 1
    a.release = release_array
    product_of(depth + 1, t.sizes, &a.length)
    if t.code == BOOL and last:
        product_of(t.rank, t.sizes, &a.length)
    try:
        a.buffers = <const void**>cleared(2 * sizeof(void*))
        a.n_buffers = 2 if last else 1
        if last:
            a.buffers[1] = pointer(t)
            Py_INCREF(t.storage)
            expose(t.storage)
            a.private_data = <void*>t.storage
        else:
            a.children = <Array**>cleared(sizeof(Array*))
            a.children[0] = new_array(t, depth + 1)
            a.n_children = 1
    except:
        release_array(a)
        free(a)
        raise
    return a


cdef TensorBase bits_of(TensorBase t):
    """Bools as bits, the first in the lowest, and as many sizes as before."""
    cdef int64_t nbytes = (t.count + 7) // 8, k
    cdef TensorBase packed = new_tensor(1, &nbytes, U8)
    cdef uint8_t* to = <uint8_t*>pointer(packed)
    cdef const uint8_t* source = <const uint8_t*>pointer(t)
    memset(to, 0, nbytes)
    for k in range(t.count):
        to[k >> 3] |= (source[k] != 0) << (k & 7)
    return over_memory(packed, <char*>to, BOOL, t.rank, t.sizes, t.strides, True)


cdef int code_of(const char* format) noexcept:
    """The dtype of a primitive type; -1 where there is none."""
    cdef int code
    if format != NULL and strlen(format) == 1:
        for code in range(CODES):
            if FORMAT_OF[code] != NULL and FORMAT_OF[code][0] == format[0]:
                return code
    return -1


cdef int wanted_code(object capsule, int code) except -1:
    """The dtype of the numbers that a consumer would rather have, where one equals it; else the one there is."""
    cdef Schema* s
    cdef int result
    if not PyCapsule_IsValid(capsule, "arrow_schema"):
        raise TypeError(f"__arrow_c_array__(): requested_schema must be a capsule of an Arrow schema, not {type(capsule).__name__}")
    s = <Schema*>PyCapsule_GetPointer(capsule, "arrow_schema")
    while s.n_children == 1 and s.children != NULL:
        s = s.children[0]
    result = code_of(s.format)
    return code if result < 0 else result


def __arrow_c_array__(TensorBase self not None, requested_schema=None):
    """`Tensor.__arrow_c_array__`: capsules of an Arrow type and an Arrow array over the tensor's memory; further dimensions are
    lists of fixed size.  `requested_schema` names another type of numbers, to which they are converted.

    BufferError for a tensor that requires a gradient or lies on another device; TypeError for a dtype that Arrow lacks (complex
    numbers, bfloat16 and smaller floats); ValueError for a tensor without dimensions.

    >>> import flambeau
    >>> type, array = flambeau.arange(3).__arrow_c_array__()
    """
    cdef TensorBase t
    if wants_grad(self):
        raise BufferError("__arrow_c_array__(): Can't export tensors that require gradient, use tensor.detach()")
    if self.storage.on is not None:
        raise BufferError(f"__arrow_c_array__(): the elements are on {self.device}: copy them to the CPU first")
    if FORMAT_OF[self.code] == NULL:
        raise TypeError(f"__arrow_c_array__(): Arrow has no type for {dtype_of(self.code)}")
    if self.rank == 0:
        raise ValueError("__arrow_c_array__(): a tensor without dimensions is no array")
    t = <TensorBase?>(<object>self).contiguous()
    if requested_schema is not None and wanted_code(requested_schema, t.code) != t.code:
        t = <TensorBase?>(<object>t).to(dtype_of(wanted_code(requested_schema, t.code)))
    if t.code == BOOL:
        t = bits_of(t)
    schema = PyCapsule_New(new_schema(t, 0), "arrow_schema", drop_schema)
    return schema, PyCapsule_New(new_array(t, 0), "arrow_array", drop_array)


# --- in -----------------------------------------------------------------------
cdef class Lease:
    """Keeps a foreign array until the storage over it dies."""

    cdef Array array

    def __dealloc__(self):
        if self.array.release != NULL:
            self.array.release(&self.array)


cdef int check_whole(Array* a, int64_t start, int64_t n, str who) except -1:
    """ValueError where one of n elements from `start` on is missing."""
    cdef const uint8_t* there
    cdef int64_t k
    if a.null_count == 0 or a.n_buffers < 1 or a.buffers == NULL or a.buffers[0] == NULL:
        return 0
    there = <const uint8_t*>a.buffers[0]
    for k in range(start, start + n):
        if not there[k >> 3] >> (k & 7) & 1:
            raise ValueError(f"{who}(): an Arrow array with missing elements is no tensor: fill them first")
    return 0


def from_arrow(obj, str who="asarray"):
    """A tensor over the memory of an Arrow array, which cannot be written to; bools are copied.

    TypeError for types that no dtype equals, ValueError for missing elements and for an array that was used before.
    """
    cdef Schema* s
    cdef Array* a
    cdef Lease lease = Lease()
    cdef int64_t sizes[MAX_DIMS]
    cdef int64_t strides[MAX_DIMS]
    cdef int64_t start, count, k
    cdef int rank = 1, code
    cdef const uint8_t* bits
    cdef uint8_t* to
    cdef TensorBase made
    schema, array = obj.__arrow_c_array__()
    if not (PyCapsule_IsValid(schema, "arrow_schema") and PyCapsule_IsValid(array, "arrow_array")):
        raise TypeError(f"{who}(): __arrow_c_array__ of {type(obj).__name__} gave no Arrow capsules")
    s, a = <Schema*>PyCapsule_GetPointer(schema, "arrow_schema"), <Array*>PyCapsule_GetPointer(array, "arrow_array")
    if s.release == NULL or a.release == NULL:
        raise ValueError(f"{who}(): the Arrow array was used before")
    lease.array = a[0]                     # moved: the capsule has nothing left to release
    a.release = NULL
    a = &lease.array
    sizes[0], start, count = a.length, a.offset, a.length
    while s.format != NULL and s.format[0] == c"+" and s.format[1] == c"w" and s.n_children == 1 and a.n_children == 1:
        check_whole(a, start, count, who)
        if rank == MAX_DIMS:
            raise TypeError(f"{who}(): an Arrow array of more than {MAX_DIMS} dimensions")
        sizes[rank] = int((<bytes>s.format)[3:])
        rank += 1
        s, a = s.children[0], a.children[0]
        start = start * sizes[rank - 1] + a.offset
        if product_of(rank, sizes, &count):
            raise numel_error(rank, sizes)
    code = code_of(s.format)
    if code < 0 or s.dictionary != NULL:
        raise TypeError(f"{who}(): no dtype holds Arrow's type {s.format.decode() if s.format != NULL else '?'!r}"
                        f"{' with a dictionary' if s.dictionary != NULL else ''}")
    if a.n_buffers != 2 or (count and a.buffers[1] == NULL) or start < 0 or a.offset + a.length < start + count:
        raise ValueError(f"{who}(): a damaged Arrow array: {count} elements from {start} on in an array of {a.length}")
    check_whole(a, start, count, who)
    row_major(rank, sizes, strides)
    if code != BOOL:
        return over_memory(lease, <char*>a.buffers[1] + start * ITEMSIZE[code], code, rank, sizes, strides, False)
    made = new_tensor(rank, sizes, BOOL)
    bits, to = <const uint8_t*>a.buffers[1], <uint8_t*>pointer(made)
    for k in range(count):
        to[k] = bits[(start + k) >> 3] >> ((start + k) & 7) & 1
    return made
