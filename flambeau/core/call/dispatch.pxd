"""From a call to a kernel: arguments, dtypes, iteration plans, launches."""
from libc.stdint cimport int64_t, uint64_t
from cpython.object cimport PyObject
from ..base.tensor cimport TensorBase, MAX_DIMS
from ..tape.tape cimport Node, Slot
from ..base.device cimport Device

cdef enum:
    MAX_OPERANDS = 10         # inputs of a kernel; a kernel key has 6 bits for each
    MAX_OUTPUTS = 8
    MAX_PARAMS = 12
    MAX_SLOTS = 32            # scalars of one launch; a complex number takes two

cdef enum:                    # how the innermost loop walks over an operand
    CONTIGUOUS = 0
    BROADCAST = 1
    STRIDED = 2
    NUMBER = 3                # a Python number, passed by value

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

cdef struct Table:
    Kernel* entries
    int room
    int used

cdef Kernel* look_up(Table* table, uint64_t key0, uint64_t key1) noexcept nogil
cdef Kernel* insert(Table* table, uint64_t key0, uint64_t key1, kernel_t run, tuple codes) except NULL

ctypedef object (*vectorcall_t)(PyObject* callable, PyObject** args, size_t nargs, PyObject* names)

cdef class Op:
    """What every operation has: a name, a signature, a compiled call."""
    cdef vectorcall_t call
    cdef readonly str name
    cdef public object declaration
    cdef dict __dict__        # __doc__, __signature__, __module__, public_name
    cdef object __weakref__

cdef class PointwiseOp(Op):
    cdef int operands, params, outputs
    cdef readonly tuple names       # of operands, then of params
    cdef double defaults[MAX_PARAMS]
    cdef int required               # how many of names have no default
    cdef readonly bint differentiable
    cdef public bint casts          # copies: any dtype may go into any other, and results keep their shape
    cdef unsigned int raw           # operands that take no part in type promotion
    cdef Table table
    cdef dict derivations           # which inputs want a gradient -> Derivation
    cdef int read_params(self, dict params, double* values) except -1

cdef struct Plan:
    int rank                  # after merging; dimension 0 is the innermost
    int64_t sizes[MAX_DIMS]
    int64_t strides[MAX_OPERANDS + MAX_OUTPUTS][MAX_DIMS]
    int64_t count

cdef struct Launch:
    kernel_t run
    Plan* plan
    int operands              # outputs and inputs that have memory
    int plan_index[MAX_OPERANDS + MAX_OUTPUTS]
    char* data[MAX_OPERANDS + MAX_OUTPUTS]
    int width[MAX_OPERANDS + MAX_OUTPUTS]
    const uint64_t* scalars

# On another device than the host, a table of kernels holds Families in place of functions: a kernel in all its forms.
cdef extern from *:
    """
    #define FLAMBEAU_AWAY ((uint64_t)1 << 63)
    """
    const uint64_t AWAY "FLAMBEAU_AWAY"   # the bit of a key that says so

cdef class Family:
    cdef object kernel        # compiler.kernels.Pointwise or Row
    cdef bint checks          # an indexed kernel that may meet an index out of bounds
    cdef list narrow          # for each scalar, whether it is passed as a float in place of 8 bytes
    cdef dict loaded          # (device, form) -> handle

cdef struct Away:             # what `launch` supplies
    int (*pointwise)(Device device, Family family, Launch* launch) except -1
    int (*rows)(void* rows) except -1
    TensorBase (*moved)(TensorBase source, Device device)
    TensorBase (*pinned)(TensorBase source)
    int (*copy)(TensorBase to, TensorBase source) except -1
    int (*fill)(TensorBase t, const char* pattern) except -1

cdef Away away
cdef Kernel* insert_family(Table* table, uint64_t key0, uint64_t key1, object kernel, tuple codes) except NULL
cdef Device one_device(str who, PyObject** tensors, int n)

cdef int read_operand(object x, Operand* o) except -1
cdef int common_code(Operand* operands, int n, unsigned int raw) except -1
cdef int pack(Operand* o, int code, uint64_t* slot) noexcept
cdef object run(PointwiseOp op, Operand* operands, double* params, PyObject** given, bint in_place)
cdef void prepare_op(Op op, str name, vectorcall_t call)
cdef object sum_to(TensorBase grad, object sizes)
cdef void keep_dense(int64_t* strides, TensorBase source) noexcept
cdef void layout(int64_t* strides, int rank, const int64_t* sizes, Operand* operands, int n) noexcept
cdef int broadcast(str who, int64_t* sizes, int* rank, TensorBase t, tuple names) except -1
cdef void make_callable(type cls, Op example) noexcept
cdef bint fits(TensorBase t, int rank, const int64_t* sizes) noexcept nogil
cdef int fit_out(str who, TensorBase out, int rank, const int64_t* sizes) except -1
cdef TensorBase copied(TensorBase source, int code, bint row_major)
