"""A convolution of one shape, computed by addresses; kinds of it are `Direct`, `Winograd` and `Planes`."""
from libc.stdint cimport int64_t
from .images cimport Image

cdef class Driver:
    # y = epilogue(x * weight, terms): the weight (K, C, h, w) without gaps, the epilogue's operands one after another.  Needs the GIL,
    # and gives it up while it computes.
    cdef int compute(self, const Image* x, const Image* y, const char* weight, const char* terms) except -1
