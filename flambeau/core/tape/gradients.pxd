"""Gradients that arrive."""
from ..base.tensor cimport TensorBase

cdef TensorBase fitted(TensorBase grad, object sizes, str who)
cdef TensorBase summed(TensorBase grad, object sizes, str who, int place)
cdef int accumulate(TensorBase leaf, TensorBase grad, bint create_graph) except -1
