"""What a tensor knows of its history."""
from ..base.memory cimport Storage
from ..base.tensor cimport TensorBase
from .nodes cimport Node

cdef int attach(TensorBase t, Node node, int number) except -1
cdef int drop_base(TensorBase t, object given) except -1
cdef bint lies_in(Storage storage, object given)
