"""Operations whose derivative is a Python function over operations."""
from .nodes cimport Node
from .saved cimport Slot

cdef class FormulaNode(Node):
    cdef object formula
    cdef str label
    cdef int slots
    cdef Slot* slot
    cdef tuple extra
