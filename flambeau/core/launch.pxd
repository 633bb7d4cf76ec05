"""Kernels on devices, fills and copies between devices."""
from libc.stdint cimport int64_t, uint64_t
from .device cimport Device
from .tensor cimport TensorBase

cdef TensorBase moved(TensorBase source, Device device)
cdef TensorBase moved_recorded(TensorBase source, Device device)
cdef int fill_pattern(TensorBase t, const char* pattern) except -1
