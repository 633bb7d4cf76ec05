"""Reductions and row programs: which loops, in what order, in how many stages."""
from .dispatch cimport Op, Table, MAX_PARAMS

cdef class RowOp(Op):
    cdef int inputs, outputs, params
    cdef unsigned int full          # bit k: result k is as long as the row
    cdef unsigned int raw           # inputs that keep their own dtype: a target, a mask
    cdef bint ordered               # reads where an element stands: the row keeps its logical order
    cdef bint splits                # can run in two stages
    cdef bint reduces               # called with (input, dim=None, keepdim=False), else (input, dim)
    cdef double defaults[MAX_PARAMS]
    cdef Table table
    cdef tuple saved                # what the derivative reads: (1, input) or (2, output)
    cdef object formula
    cdef object names               # a namedtuple for several results
