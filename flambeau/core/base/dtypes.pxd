"""dtype, device and Size: what describes a tensor."""
from libc.stdint cimport int64_t
from cpython.object cimport PyObject

cdef enum:
    BOOL = 0
    U8 = 1
    I8 = 2
    I16 = 3
    I32 = 4
    I64 = 5
    F16 = 6
    BF16 = 7
    F32 = 8
    F64 = 9
    C64 = 10
    C128 = 11
    CODES = 12
    NO_CODE = 15

cdef class dtype:
    cdef readonly int code
    cdef readonly int itemsize
    cdef readonly str name
    cdef int category         # 0 bool, 1 integer, 2 floating, 3 complex

cdef class device:
    cdef readonly str type
    cdef readonly object index

cdef PyObject* DTYPE_OBJECTS[CODES]
cdef signed char PROMOTED[CODES][CODES]
cdef signed char CATEGORY[CODES]
cdef signed char ITEMSIZE[CODES]
cdef int default_code() noexcept nogil
cdef dtype as_dtype(object value, str who)
cdef object size_from(int n, const int64_t* values)

cdef inline dtype dtype_of(int code):
    return <dtype>DTYPE_OBJECTS[code]
