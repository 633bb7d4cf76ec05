"""Kernels on devices, fills and copies between devices."""
from libc.stdint cimport int64_t, uint64_t
from ..base.device cimport Device
from ..call.kernels cimport Family
from ..base.tensor cimport TensorBase

cdef TensorBase moved(TensorBase source, Device device, bint wait=*)
cdef TensorBase moved_tracked(TensorBase source, Device device, bint wait=*)
cdef TensorBase pinned(TensorBase source, Device device)
cdef int run_indexed(Family family, tuple operands, int outputs, tuple axes, int serial, list scalars, str name) except -1
cdef int fill_pattern(TensorBase t, const char* pattern) except -1
