"""Nodes: recorded operations, and how chains of them are freed."""
from libc.stdint cimport uint64_t
from cpython.object cimport PyObject
from ..base.tensor cimport TensorBase

cdef enum: INLINE_EDGES = 3
cdef enum: NOT_SAVED = -1      # the place of what a node has not saved

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
    cdef int connect(self, int k, TensorBase t) except -1
    cdef list run(self, list grads)
    cdef object push(self, int number, list tangents, TensorBase out)
    cdef void drop(self)
    cdef dict saved_places(self)
    cdef object saved_value(self, str name, int place)
    cdef void* saved_slot(self, int place)

cdef class IdentityNode(Node):
    pass

cdef void decref_deferred(PyObject* p) noexcept
cdef void drain() noexcept           # drop what has been deferred, now
cdef void record_places(recorder) noexcept
cdef tuple leaf_hooks(TensorBase t)
cdef IdentityNode identity_node(TensorBase leaf)
cdef object swapped_error(str what)
cdef int check_swapped(TensorBase view) except -1
