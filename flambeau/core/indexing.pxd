"""Indexing by numbers, slices, masks and index tensors."""
from .tensor cimport TensorBase

# v[…] for index tensors of int64: `indices` has an entry for each of the first dimensions, None where all is taken.
cdef TensorBase get(TensorBase v, list indices, str label)
cdef int put_into(TensorBase v, list indices, TensorBase values, bint accumulate, str who) except -1
cdef TensorBase as_index(TensorBase t)
