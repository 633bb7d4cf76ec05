"""Products of matrices by cuBLASLt."""
from libc.stdint cimport uint64_t
from ..core.base.device cimport Product

cdef class Library:
    cdef void* handle
    cdef dict plans                # description of a product -> Plan
    cdef readonly size_t version
    cdef bint product(self, Product* p, uint64_t bias, void* stream, uint64_t workspace, size_t workspace_bytes) except -1
