"""Numbers by rejection from PyTorch's stream."""
from libc.stdint cimport int64_t
from .random cimport Generator

cdef extern from "twister.h" nogil:
    enum:
        FLAMBEAU_TWISTER_GAMMA
        FLAMBEAU_TWISTER_BETA
        FLAMBEAU_TWISTER_DIRICHLET
        FLAMBEAU_TWISTER_POISSON
        FLAMBEAU_TWISTER_BINOMIAL
        FLAMBEAU_TWISTER_CHOICE
        FLAMBEAU_TWISTER_REFUSED
        FLAMBEAU_TWISTER_NOTHING
        FLAMBEAU_TWISTER_NO_MEMORY
    ctypedef struct flambeau_rejection:
        int kind
        int wide
        const char* given[2]
        int64_t period[2]
        char* to[2]
        int64_t n
        int64_t row
        int64_t each

cdef int reject(Generator g, const flambeau_rejection* r) except -1
