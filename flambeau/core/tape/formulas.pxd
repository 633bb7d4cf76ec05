"""Operations whose derivative is a Python function over operations."""
from ..base.tensor cimport TensorBase
from .nodes cimport Node
from .saved cimport Slot

cdef class FormulaNode(Node):
    cdef object formula
    cdef object operation     # of a reduction or a row function, which knows what it saves; else the formula's parameters tell
    cdef str label
    cdef int slots
    cdef Slot* slot
    cdef tuple extra
    cdef bint declared        # the formula calls operations alone


cdef class Rule:
    """The derivative of a leaf operation: what its formula reads."""
    cdef readonly object formula
    cdef readonly str label
    cdef readonly tuple sources   # for each parameter of the formula: GRAD, GRADS, NEEDS, or what `record_leaf` is given for it
    cdef readonly tuple outputs   # which results have gradients
    cdef readonly tuple names     # what the parameters are, as PyTorch calls them; None for what it would not show

cdef enum:
    GRAD = -1                 # the gradient of the one result that has one; GRAD - k that of the k-th of several
    GRADS = -1000             # those of all results, as a tuple
    NEEDS = -1001             # which inputs want a gradient

cdef enum:                    # what a formula reads beside arguments, which have the numbers of their parameters
    RESULT = 32               # of the first result: more than an operation has parameters
    SHAPE = 2 * RESULT        # of the first argument
    DTYPE = 3 * RESULT
    BEFORE = 4 * RESULT

cdef class LeafNode(Node):
    cdef Rule rule
    cdef tuple values         # what the formula's parameters are given; None for a tensor that is saved, which has a slot
    cdef int slots
    cdef Slot* slot
    cdef int first_slot(self, int place)

cdef int record_leaf(Rule rule, list inputs, tuple results, list values, TensorBase written) except -1
