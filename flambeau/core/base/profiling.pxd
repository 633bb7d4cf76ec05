"""What the profiler notes while it is on: one entry for everything that begins and ends."""
from libc.stdint cimport int64_t, uint64_t
from cpython.object cimport PyObject
from .device cimport Device

cdef enum:                    # what an entry stands for
    OPERATION                 # a call that was dispatched
    EVALUATION                # of a node in a backward pass, its hooks included
    NODE                      # the node's derivative itself
    SPAN                      # a name that the program or the library gave
    MODULE                    # the call of a module

cdef struct Profiling:
    bint on                   # entries are made
    bint shapes               # with the arguments of operations
    bint stacks               # with the lines of Python that they were called from
    bint memory               # with the bytes that tensors held before and after
    bint devices              # with marks on devices around each kernel
    const uint64_t* ages      # the number of nodes made so far, which the tape supplies

cdef Profiling profiling

cdef int64_t begin(object what, int kind)
cdef int note_call(int64_t entry, PyObject** args, Py_ssize_t given, Py_ssize_t positional, PyObject* names) except -1
cdef void number(int64_t entry, uint64_t sequence) noexcept
cdef void end(int64_t entry) noexcept
cdef uint64_t mark(Device device) except? 0
cdef int note_work(Device device, object name, uint64_t first, uint64_t last) except -1
