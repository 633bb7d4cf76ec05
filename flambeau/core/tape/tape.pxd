"""The tape: nodes, saved tensors, the engine."""
from libc.stdint cimport uint64_t, int64_t
from cpython.object cimport PyObject
from ..base.memory cimport Storage
from ..base.tensor cimport TensorBase

cdef enum: INLINE_EDGES = 3

cdef struct Slot:             # a tensor that a node keeps for backward
    PyObject* tensor          # owned; NULL when nothing is kept
    uint64_t version          # the storage's version when it was kept
    int output                # -1 for an input, else which of the node's own outputs it is

cdef enum:                    # what grad_enabled() tells
    REVERSE = 1               # operations are recorded for backward
    FORWARD = 2               # a forward level is open: operations on dual tensors compute tangents

cdef class Node:
    cdef int edges            # one for each differentiable input
    cdef PyObject** targets   # owned: a Node, a leaf tensor, or NULL where no gradient is wanted
    cdef int* numbers         # which output of the target
    cdef PyObject* inline_targets[INLINE_EDGES]
    cdef int inline_numbers[INLINE_EDGES]
    cdef int outputs
    cdef uint64_t sequence
    cdef bint released
    cdef list pre_hooks       # (number of the output, callable), for tensors' hooks; (-1, callable) for the node's
    cdef list post_hooks
    cdef dict information
    cdef object __weakref__
    # the engine's scratch
    cdef object task
    cdef int waiting
    cdef bint needed
    cdef list arrived
    cdef int set_edges(self, int n) except -1
    cdef void connect(self, int k, TensorBase t)
    cdef list run(self, list grads)
    cdef object push(self, int number, list tangents, TensorBase out)
    cdef void drop(self)

cdef class FormulaNode(Node):
    cdef object formula
    cdef str label
    cdef int slots
    cdef Slot* slot
    cdef tuple extra

cdef bint grad_enabled() noexcept nogil
cdef void set_grad(bint enabled) noexcept nogil
cdef bint wants_grad(TensorBase t)
cdef int keep(Slot* slot, TensorBase t, int output, TensorBase written=*) except -1
cdef void before_write(TensorBase written) noexcept
cdef void after_write(TensorBase written) noexcept
cdef TensorBase kept(Slot* slot, Node node)
cdef void clear_slot(Slot* slot)
cdef void give_up(PyObject* p)
cdef int attach(TensorBase t, Node node, int number) except -1
cdef int check_in_place(TensorBase t, str who) except -1
cdef int own(TensorBase t, object given) except -1
cdef bint lies_in(Storage storage, object given)
cdef int rebase(TensorBase t, Node node, int number) except -1
cdef int check_refresh(TensorBase t) except -1
cdef TensorBase part_of(object whole, int code, object sizes, object strides, int64_t offset)
cdef TensorBase fitted(TensorBase grad, object sizes, str who)
