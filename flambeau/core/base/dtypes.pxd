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
    U16 = 12
    U32 = 13
    U64 = 14
    NO_CODE = 15              # no dtype: what a kernel's key says of a result that is yet to be made
    # From here on dtypes that are stored, and computed in others: their codes do not fit the 4 bits that a kernel's key has for
    # one, and no kernel sees them (see `run_stored` in `core/call/pointwise.pyx`).
    C32 = 16
    F8_E4M3FN = 17
    F8_E5M2 = 18
    F8_E4M3FNUZ = 19
    F8_E5M2FNUZ = 20
    F8_E8M0FNU = 21
    F4_E2M1FN_X2 = 22
    CODES = 23
    REFUSED = 31              # what PROMOTED says of dtypes that have no common one
    TABLE_SIZE = 32           # for codes in a table

cdef class dtype:
    cdef readonly int code
    cdef readonly int itemsize
    cdef readonly str name
    cdef int category         # 0 bool, 1 integer, 2 floating, 3 complex

cdef class device:
    cdef readonly str type
    cdef readonly object index

cdef PyObject* DTYPE_OBJECTS[CODES]
cdef signed char PROMOTED[TABLE_SIZE][TABLE_SIZE]
cdef signed char CATEGORY[TABLE_SIZE]
cdef signed char ITEMSIZE[TABLE_SIZE]
cdef int default_code() noexcept nogil
cdef void set_default_code(int code) noexcept nogil
cdef dtype as_dtype(object value, str who)
cdef object no_promotion(int a, int b)
cdef object size_from(int n, const int64_t* values)

cdef inline dtype dtype_of(int code):
    return <dtype>DTYPE_OBJECTS[code]

cdef inline bint is_stored(int code) noexcept nogil:
    """Whether elements of that dtype are computed in another one."""
    return code > NO_CODE

cdef inline bint is_unsigned(int code) noexcept nogil:
    return code == U8 or U16 <= code <= U64

cdef inline int promoted(int a, int b) except -1:
    """The common dtype; RuntimeError where there is none."""
    if PROMOTED[a][b] == REFUSED:
        raise no_promotion(a, b)
    return PROMOTED[a][b]
