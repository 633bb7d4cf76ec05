"""Kernels by their keys, for the host and for other devices."""
from libc.stdint cimport int64_t, uint64_t
from cpython.object cimport PyObject
from ..base.device cimport Device
from ..base.tensor cimport MAX_DIMS, TensorBase

cdef enum:
    MAX_OPERANDS = 10         # inputs of a kernel; a kernel key has 6 bits for each
    MAX_OUTPUTS = 8
    MAX_ALL = MAX_OPERANDS + MAX_OUTPUTS
    MAX_PARAMS = 12
    MAX_SLOTS = 32            # scalars of one launch; a complex number takes two
    PARALLEL_FROM = 32768     # elements from which threads and giving up the GIL pay off

cdef enum:                    # how the innermost loop walks over an operand
    CONTIGUOUS = 0
    BROADCAST = 1
    STRIDED = 2
    NUMBER = 3                # a Python number, passed by value

cdef inline int access_of(int64_t stride) noexcept nogil:
    return CONTIGUOUS if stride == 1 else BROADCAST if stride == 0 else STRIDED

ctypedef void (*kernel_t)(char** data, const int64_t* geometry, const uint64_t* scalars) noexcept nogil

cdef struct Operand:
    PyObject* tensor          # borrowed; NULL for a number
    int category              # of a number: 0 bool, 1 int, 2 float, 3 complex
    double real
    double imag               # of a complex number
    int64_t whole

cdef struct Kernel:
    uint64_t key0
    uint64_t key1
    kernel_t run
    signed char codes[MAX_OUTPUTS]

cdef struct Table:            # open addressing
    Kernel* entries
    int capacity
    int used

cdef inline uint64_t mixed(uint64_t a, uint64_t b) noexcept nogil:
    cdef uint64_t h = (a ^ (b * <uint64_t>0x9E3779B97F4A7C15)) * <uint64_t>0xD6E8FEB86659FD93
    return h ^ (h >> 32)

cdef inline Kernel* look_up(Table* table, uint64_t key0, uint64_t key1) noexcept nogil:
    cdef int i
    if table.capacity == 0:
        return NULL
    i = mixed(key0, key1) & (table.capacity - 1)
    while table.entries[i].run != NULL:
        if table.entries[i].key0 == key0 and table.entries[i].key1 == key1:
            return &table.entries[i]
        i = (i + 1) & (table.capacity - 1)
    return NULL

cdef Kernel* insert(Table* table, uint64_t key0, uint64_t key1, kernel_t run, tuple codes) except NULL

cdef struct Plan:             # loops over any number of operands
    int rank                  # after merging; dimension 0 is the innermost
    int operands              # outputs, then inputs
    int pitch
    int64_t sizes[MAX_DIMS]
    int64_t* strides          # of operand k along dimension d, in elements: [k * pitch + d]
    int64_t count

cdef struct Launch:
    kernel_t run
    const Plan* plan
    char** data
    const int* width          # bytes an element of each operand
    const uint64_t* scalars
    int outputs               # results of an element, which is how much work it is taken for

cdef struct PointwisePlan:    # how a pointwise operation walks over operands of some geometry: all that is known without their elements
    Plan loops                # over the operands that have memory, with strides in `stride_buffer`
    int64_t stride_buffer[MAX_ALL * MAX_DIMS]
    int width[MAX_ALL]
    kernel_t run
    int rank                  # of the results
    int64_t sizes[MAX_DIMS]
    int64_t strides[MAX_DIMS] # of new results
    signed char codes[MAX_OUTPUTS]
    int common                # the dtype that operands are promoted to

# On another device than the host, a table of kernels holds Families in place of functions: a kernel in all its forms.
cdef extern from *:
    """
    #define FLAMBEAU_ON_DEVICE ((uint64_t)1 << 63)
    """
    const uint64_t ON_DEVICE "FLAMBEAU_ON_DEVICE"  # the bit of a key that says so

cdef class Family:
    cdef object kernel        # codegen.kernels.Pointwise or Row
    cdef bint checks          # an indexed kernel that may meet an index out of bounds
    cdef list narrow          # for each scalar, whether it is passed as a float in place of 8 bytes
    cdef dict loaded          # (device, form) -> handle

cdef struct DeviceLauncher:   # what `launch` supplies
    int (*pointwise)(Device device, Family family, Launch* launch) except -1
    int (*rows)(void* rows) except -1
    TensorBase (*moved)(TensorBase source, Device device)
    TensorBase (*pinned)(TensorBase source)
    int (*copy)(TensorBase to, TensorBase source) except -1
    int (*fill)(TensorBase t, const char* pattern) except -1

cdef DeviceLauncher device_launcher
cdef Kernel* insert_family(Table* table, uint64_t key0, uint64_t key1, object kernel, tuple codes) except NULL
cdef Device one_device(str who, PyObject** tensors, int n)
