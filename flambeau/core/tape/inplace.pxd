"""Writes in place."""
from libc.stdint cimport int64_t
from ..base.tensor cimport TensorBase
from .nodes cimport Node

cdef int check_in_place(TensorBase t, str who) except -1
cdef int check_refresh(TensorBase t) except -1
cdef void before_write(TensorBase written) noexcept
cdef void after_write(TensorBase written) noexcept
cdef int rebase(TensorBase t, Node node, int number) except -1
cdef TensorBase part_of(object whole, int code, object sizes, object strides, int64_t offset)
