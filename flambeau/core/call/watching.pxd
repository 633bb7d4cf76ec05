"""Who is asked before an operation runs."""

cdef bint lower_on() noexcept      # a mode of the lower level is on in this thread
