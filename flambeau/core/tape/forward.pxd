"""Forward mode."""
from ..base.tensor cimport TensorBase
from .nodes cimport Node

cdef int follow(TensorBase t, Node node, int number) except -1
cdef TensorBase primal_in_push(TensorBase t)
cdef int pushed_level() noexcept
