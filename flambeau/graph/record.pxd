"""The recorder: the leaves that a thread calls, as words."""
from libc.stdint cimport int64_t, uint64_t
from cpython.object cimport PyObject
from ..core.base.tensor cimport TensorBase


cdef enum:                    # what an item begins with, in the low byte of its first word
    OBJECT                    # a reference: its number among the objects
    PLACE                     # a tensor: dtype and rank beside, then storage, offset, device, sizes, strides
    LIST                      # how many items, and these
    TUPLE                     # its class, how many items, and these
    DICT                      # how many, the keys' numbers and items


cdef uint64_t newest_recording() noexcept      # its number


cdef class Recording:
    """The leaves that this thread calls while it is on."""
    cdef int64_t* words
    cdef int64_t used, capacity
    cdef list objects
    cdef readonly list inputs
    cdef public object measured   # numbers that calls read and others take (`graph/measured.py`), None where there are none
    cdef uint64_t number          # tells it from all other recordings
    cdef PyObject** slot          # where this thread says whether it records
    cdef PyObject* outer          # what stood there before, whose calls wait
    cdef readonly int64_t count   # calls
    cdef int64_t begun            # where the call that runs was begun
    cdef Py_ssize_t begun_objects
    cdef int64_t begun_count
    cdef PyObject* copy[2]        # what that call has copied, for it overwrites that, and which argument it is
    cdef PyObject*** copies       # where this thread says where a call leaves its copy
    cdef PyObject** kept          # where the call outside of this one leaves its own
    cdef list later               # results of that call that wait for their tangents
    cdef bint wait(self) except -1
    cdef object call(self, PyObject* op, PyObject** args, size_t flagged, PyObject* names)
    cdef void undo(self, int64_t used, Py_ssize_t objects) noexcept
    cdef int reserve(self, int64_t words) except -1
    cdef int grow(self, int64_t words) except -1
    cdef int64_t refer(self, object x) except -1
    cdef int write_place(self, TensorBase t, bint argument) except -1
    cdef int write(self, object x, bint argument) except -1
    cdef int write_call(self, PyObject* op, PyObject** args, Py_ssize_t positional, PyObject* names) except -1
    cdef int write_copy(self, int64_t at, TensorBase source, TensorBase copy) except -1
    cdef object read(self, int64_t* at)
