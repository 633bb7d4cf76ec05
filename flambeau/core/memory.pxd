"""The caching allocator and Storage, the bytes that tensors share."""
from libc.stdint cimport int64_t, uint64_t

cdef class Storage:
    cdef char* data
    cdef size_t length        # what was asked for
    cdef int block            # size class of an own block, -1 for memory that someone else owns
    cdef uint64_t version     # counts writes, so that the tape sees a saved tensor being changed
    cdef object owner         # keeps foreign memory alive (a NumPy array, a buffer)
    cdef bint writable

cdef Storage new_storage(size_t nbytes)
