"""Memory shared with NumPy, with buffers and, by DLPack, with other libraries."""
from ..base.tensor cimport TensorBase

cdef enum:                    # what NumPy calls an object
    NOT_NUMPY = 0
    ARRAY = 1
    SCALAR = 2

cdef int numpy_kind(object x) except -1
cdef int numpy_code(object array) except -1
cdef TensorBase share_array(object array)
cdef object as_array(TensorBase t)
