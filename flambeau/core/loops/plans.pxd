"""Plans as objects: a kernel and the geometry of its operands, of any number, to be launched again and again."""
from libc.stdint cimport int64_t, uint64_t
from ..base.device cimport Device
from ..base.tensor cimport TensorBase
from ..call.kernels cimport Family, Plan, kernel_t
from .rows cimport Rows, Stages

cdef void* allocate(size_t count, size_t size) except NULL

cdef class LoopPlan:
    cdef kernel_t run
    cdef int64_t* geometry         # of the one call of the kernel that does everything; NULL where it takes more than that
    cdef uint64_t* scalars
    cdef readonly str name         # of the kernel
    cdef readonly int outputs
    cdef int count                 # operands: outputs, then inputs
    cdef int repeated              # an operand that the kernel reads once more, as its last; -1: none
    cdef int* codes
    cdef int* ranks
    cdef int64_t* sizes            # of operand k along its own dimension d: [k * pitch + d]; so its strides
    cdef int64_t* strides
    cdef int pitch
    cdef int64_t* offsets          # bytes from the place that is given to an operand's first element; NULL: none
    cdef int* width
    cdef Plan loops
    cdef bint many                 # enough work for threads
    cdef Device device             # None for the host
    cdef Family family             # on a device, what `run` stands for
    cdef object kept               # those of stages
    cdef tuple structure           # what equal plans have in common

    cdef int reserve(self, str name, int count, int outputs, int pitch, Device device) except -1
    cdef void describe(self, int k, int code, int rank, const int64_t* sizes, const int64_t* strides) noexcept
    cdef int keep_scalars(self, const uint64_t* scalars, int n) except -1
    cdef int prepare(self) except -1
    cdef int settle(self, object key, int scalars) except -1

    # Computes, on the host; operand k stands at data[k].  Where the work is long, signals are looked at: their handlers may raise.
    cdef int launch_at(self, char** data) except -1 nogil
    cdef int launch_loops(self, char** data) except -1 nogil
    # The same on its device, `scalars` in the place of the plan's own where they are not NULL.
    cdef int launch_there(self, char** data, const uint64_t* scalars) except -1
    cdef int launch_away(self, char** data, const uint64_t* scalars) except -1
    cdef int arguments(self) except -1
    cdef int check_arguments(self) except -1
    cdef void shift(self, char** places, char** data) noexcept nogil
    cdef TensorBase new_result(self, int k)
    cdef int check(self, object given, int k, str kind, int number) except -1
    cdef int check_written(self, tuple results, int k, tuple inputs) except -1
    cdef bint crosses(self, TensorBase a, int k, TensorBase b, int i, bint exactly)
    cdef bint in_place(self) noexcept

cdef class RowLoopPlan(LoopPlan):
    cdef Rows* rows
    cdef Stages stages             # part is NULL where rows are not cut into blocks
    cdef int* state_codes
    cdef int64_t states_size       # bytes for the states of all blocks
    cdef tuple access

    cdef int attach(self, const Rows* rows, int operands) except -1
    cdef int cut(self, list codes, bint ordered) except -1
