"""Memory shared with NumPy and with objects that have a buffer."""
from libc.stdint cimport int64_t
from ..base.device cimport Device
from ..base.tensor cimport TensorBase

cdef enum:                    # what NumPy calls an object
    NOT_NUMPY = 0
    ARRAY = 1
    SCALAR = 2

cdef int numpy_kind(object x) except -1
cdef int numpy_code(object array) except -1
cdef TensorBase share_array(object array)
cdef object as_array(TensorBase t)
cdef TensorBase over_memory(object owner, char* data, int code, int rank, const int64_t* sizes, const int64_t* strides, bint writable,
                            Device device=*)
