"""Reading and writing at places that index tensors name.

`indices` has an entry for each of the first dimensions: a tensor of int64, or None where all is taken.  The class `error`
is raised for an index out of bounds, and for a negative one unless `negative` lets those count from the end.
"""
from ..base.tensor cimport TensorBase

cdef TensorBase as_index(TensorBase t)      # as int64
cdef TensorBase get(TensorBase v, list indices, str label)
cdef TensorBase get_checked(TensorBase v, list indices, str label, object error, bint negative)
cdef int put_into(TensorBase v, list indices, TensorBase values, bint accumulate, str who, bint repeated=*) except -1
cdef int put_checked(TensorBase v, list indices, TensorBase values, bint accumulate, str who, object error,
                     bint negative, bint repeated=*) except -1
