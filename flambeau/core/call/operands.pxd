"""Tensors and numbers as a kernel's operands, and the dtype they are computed in."""
from libc.stdint cimport uint64_t
from ..base.device cimport Device
from .kernels cimport Operand

cdef int read_operand(object x, Operand* o) except -1
cdef int common_code(Operand* operands, int n, unsigned int raw) except -1
cdef int pack(Operand* o, int code, uint64_t* slot) except -1
cdef object too_large()
cdef int bring_scalars(Operand* operands, int n, Device device, list held) except -1
