# cython: language_level=3, binding=False
"""What computes convolutions of one shape."""


cdef class Driver:
    """Made once for a shape; runs on any images of it."""

    cdef int compute(self, const Image* x, const Image* y, const char* weight, const char* terms) except -1:
        raise NotImplementedError(f"{type(self).__name__} has no compute")
