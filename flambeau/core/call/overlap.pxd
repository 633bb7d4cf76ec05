"""Tensors over one storage: whether they share bytes."""
from ..base.tensor cimport TensorBase
from .kernels cimport Operand

cdef bint same_steps(TensorBase a, TensorBase b) noexcept nogil
cdef bint shares(TensorBase out, Operand* operands, int n) noexcept
cdef bint meet(TensorBase a, TensorBase b) noexcept nogil
cdef bint each_apart(TensorBase t) noexcept nogil
