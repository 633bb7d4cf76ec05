"""Forward mode."""
from ..base.tensor cimport TensorBase
from .nodes cimport Node
from cpython.object cimport PyObject

cdef int follow(TensorBase t, Node node, int number) except -1
cdef TensorBase primal_in_push(TensorBase t)
cdef int pushed_level() noexcept
cdef PyObject** later_slot() noexcept
cdef int catch_up(list waiting) except -1
