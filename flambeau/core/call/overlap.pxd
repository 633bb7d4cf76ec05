"""Tensors over one storage: what may be written while what is read."""
from ..base.tensor cimport TensorBase
from .kernels cimport Operand

cdef int check_overlap(str who, TensorBase out, Operand* operands, int n, bint casts) except -1
cdef bint same_steps(TensorBase a, TensorBase b) noexcept nogil
cdef bint shares(TensorBase out, Operand* operands, int n) noexcept
cdef bint meet(TensorBase a, TensorBase b) noexcept nogil
