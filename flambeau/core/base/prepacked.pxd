"""Layouts of weights that are kept with the storage they were made of."""
from .tensor cimport TensorBase

cdef object prepacked(TensorBase weight, object layout, object make)   # the layout, or None where the caller reads the weight itself
cdef void enter_plan() noexcept     # a plan writes to memory without counting: no layout is used or made until it has left
cdef void leave_plan() noexcept
