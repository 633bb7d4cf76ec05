"""Interceptors of operations."""
from cpython.object cimport PyObject
from ..base.tensor cimport TensorBase

cdef void add_interceptors(int by) noexcept  # so many more are to be called
cdef PyObject** recorder_slot() noexcept     # this thread's recording, which leaves are written into; NULL for none
cdef PyObject*** copies_slot() noexcept      # where this thread says where the leaf that is recorded leaves the copy of what it overwrites
cdef void note_copy(TensorBase source, TensorBase copy) noexcept    # which the tape has kept
cdef void leave_interceptors(int* left) noexcept     # no mode, recording or class sees what this thread calls, until it
cdef void enter_interceptors(const int* left) noexcept   # comes back to where it was
cdef object run_profiled(PyObject* callable, PyObject** args, size_t flagged, PyObject* names)
cdef PyObject* only_recording() noexcept   # this thread's, where no mode, class or cast sees its calls; else NULL
cdef PyObject* record_leaf(PyObject* recording, PyObject* callable, PyObject** args, size_t flagged, PyObject* names) noexcept   # there
cdef bint overrides_off() noexcept # overrides are not called in this thread
cdef bint lower_on() noexcept      # a mode of the lower level is on in this thread
cdef object operator_of_object(object op, object a, object b)  # what an operator makes of an operand that is neither tensor nor number
cdef bint has_override_object(PyObject** args, Py_ssize_t n)  # whether an argument that is no tensor overrides operations
cdef object call_object_overrides(object function, PyObject** args, size_t flagged, PyObject* names)
