"""A compiled region on the tape; see region.pyx."""
from libc.stdint cimport int64_t
from cpython.object cimport PyObject
from ..core.tape.nodes cimport Node
from .runner cimport Runner

cdef struct Keep:             # a value that backward reads
    int what                  # INPUT, RESULT or EXTRA
    int which
    int output                # its number among the node's outputs, -1 for none
    bint donated              # nobody else sees its memory

cdef class Region:
    cdef readonly Runner forward
    cdef readonly Runner backward               # which writes over what was saved
    cdef readonly object keeping                # makes the plan of a backward pass that may run again, and is that once made
    cdef readonly object undefined              # makes the plan of one in which some results have no gradient
    cdef readonly dict defined                  # those plans, by which results these are
    cdef readonly object graph                  # the captured operations, of the inputs: what a second derivative calls
    cdef readonly str why                       # or why it cannot
    cdef readonly tuple wanted                  # which inputs require gradients
    cdef readonly tuple results                 # for each result its number among those of the plan; -1 - k is input k
    cdef readonly tuple views                   # for each, the geometry of a view of that input; None for no view
    cdef readonly tuple differentiable          # which results have gradients
    cdef readonly tuple gradients               # for each input that requires one its number among the backward plan's results, or -1
    cdef list cotangents
    cdef bint plain, viewing                    # results are the plan's; some are views of inputs
    cdef int edges, kept, inputs
    cdef int* edge
    cdef Keep* keep

    # What a call gives, as a tuple; TypeError for tensors (borrowed) of another geometry.
    cdef tuple call(self, PyObject** tensors, Py_ssize_t n)
    # The same for tensors whose number and geometry the caller has checked; whoever calls holds them while it runs.
    cdef tuple run(self, PyObject** tensors)

    cdef tuple finish(self, tuple found, PyObject** tensors)
    cdef int record(self, PyObject** tensors, tuple found, list results) except -1
    cdef tuple without(self, list grads)
    cdef list differentiated(self, Node given, list grads)
