"""Tensors that nodes save for backward."""
from libc.stdint cimport uint64_t
from cpython.object cimport PyObject
from ..base.tensor cimport TensorBase
from .nodes cimport Node, decref_deferred

cdef struct Slot:             # a tensor that a node saves for backward
    PyObject* tensor          # owned; NULL when nothing is saved
    uint64_t version          # the storage's version when it was saved
    int output                # -1 for an input, else which of the node's own outputs it is

cdef bint packing() noexcept  # whether saved tensors go through hooks in this thread
cdef int save_tensor(Slot* slot, TensorBase t, int output, TensorBase written=*) except -1
cdef int refuse_freed() except -1
cdef TensorBase unpack_tensor(Slot* slot, Node node)

cdef inline void clear_slot(Slot* slot) noexcept:
    if slot.tensor != NULL:
        decref_deferred(slot.tensor)
        slot.tensor = NULL
