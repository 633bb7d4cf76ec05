"""Shapes and strides of results, and the order in which a kernel walks over its operands."""
from libc.stdint cimport int64_t
from ..base.tensor cimport TensorBase
from .kernels cimport Launch, Operand, Plan

cdef enum:
    HEAD = 4                 # of a pointwise kernel's geometry, before the strides: codegen/schedule_cpu_pointwise.POINTWISE_HEAD

cdef int broadcast(str who, int64_t* sizes, int* rank, TensorBase t, tuple names) except -1
cdef inline void align(int64_t* strides, TensorBase t, int rank) noexcept nogil:
    """A tensor's strides along the `rank` dimensions that it broadcasts to."""
    cdef int d, ahead = rank - t.rank
    for d in range(ahead):
        strides[d] = 0
    for d in range(t.rank):
        strides[ahead + d] = t.strides[d] if t.sizes[d] != 1 else 0

cdef void make_plan(Plan* plan, int rank, const int64_t* sizes, const int64_t* strides, int n) noexcept nogil
cdef void launch_plan(Launch* launch) noexcept nogil
cdef bint in_one_call(const Plan* plan, int outputs, int64_t* geometry) noexcept nogil
cdef bint dense(TensorBase t) noexcept nogil
cdef void layout(int64_t* strides, int rank, const int64_t* sizes, Operand* operands, int n) noexcept
cdef bint fits(TensorBase t, int rank, const int64_t* sizes) noexcept nogil
