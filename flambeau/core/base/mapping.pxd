"""Memory that the system maps: shared between processes, or a file's."""

cdef class Mapping:
    cdef char* data           # never NULL
    cdef size_t length
    cdef int descriptor       # -1 where none is kept
    cdef bint shared          # what is written, other processes see
    cdef object filename      # of a mapped file, else None
    cdef object keeper        # who lends the memory under a name (multiprocessing's), and is notified when it goes
    cdef object former        # the memory that this took the place of, where somebody outside may still use it

cdef Mapping new_shared(const char* source, size_t nbytes, str who)
cdef Mapping of_descriptor(int descriptor, object nbytes, str who)
cdef Mapping of_file(object filename, bint shared, object nbytes, str who)
