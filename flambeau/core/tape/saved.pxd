"""Tensors that nodes keep for backward."""
from libc.stdint cimport uint64_t
from cpython.object cimport PyObject
from ..base.tensor cimport TensorBase
from .nodes cimport Node, give_up

cdef struct Slot:             # a tensor that a node keeps for backward
    PyObject* tensor          # owned; NULL when nothing is kept
    uint64_t version          # the storage's version when it was kept
    int output                # -1 for an input, else which of the node's own outputs it is

cdef int keep(Slot* slot, TensorBase t, int output, TensorBase written=*) except -1
cdef TensorBase kept(Slot* slot, Node node)

cdef inline void clear_slot(Slot* slot) noexcept:
    if slot.tensor != NULL:
        give_up(slot.tensor)
        slot.tensor = NULL
