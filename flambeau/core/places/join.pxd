"""Joining tensors along a dimension."""
from ..base.tensor cimport TensorBase

# The tensors (a list or tuple) one after another along `dim`, or, where `new`, along a new dimension there; on the tape.
cdef TensorBase joined(object tensors, object dim, bint new, str who, TensorBase into=*)
