"""Guards, checked in compiled code."""
from cpython.object cimport PyObject

cdef struct Step
cdef struct TensorCheck

cdef class Guards:
    cdef Step* steps
    cdef TensorCheck* tensors
    cdef int count                # steps
    cdef int tensor_count
    cdef readonly int slots       # values that are looked at, each found once
    cdef readonly int inputs      # tensors that a check finds, and numbers
    cdef int number_count
    cdef list number_slots        # where the values of the last inputs are, which are numbers
    cdef list held                # what the steps point at
    cdef list origins             # of each step: the guard or the source that it comes from
    cdef dict numbers             # source -> its slot
    cdef list attributes          # slots whose values a check owns
    cdef dict memories            # while they are made: storage -> the first input in it, and its offset
    cdef int find(self, source) except -1
    cdef int find_computed(self, source) except -1
    cdef int add(self, guard) except -1
    cdef int add_number(self, guard, int slot) except -1
    cdef int add_tensor(self, guard, int slot) except -1
    cdef Step* new_step(self, origin) except NULL
    cdef PyObject* hold(self, x)
    cdef int step_of_tensor(self, int number) noexcept
    cdef object checked(self, tuple args, dict kwargs, bint explained)
    cdef str words(self, int number, PyObject** values, Py_ssize_t nargs, tuple names)
    cdef str tensor_words(self, int number, value)
    cdef int run(self, PyObject** args, Py_ssize_t nargs, PyObject* names, PyObject** values, PyObject** tensors) noexcept
    cdef void release(self, PyObject** values) noexcept
