"""Random numbers: Philox streams and their generators."""
from libc.stdint cimport uint32_t, uint64_t
from ..base.device cimport Device

cdef class Generator:
    cdef uint64_t key         # the seed
    cdef uint64_t offset      # counters used up
    cdef object place         # what `device` answers
    cdef object __weakref__

cdef struct Stream:           # words of a generator's stream, one after another
    uint64_t key
    uint64_t counter
    uint32_t block[4]
    int used                  # words taken from the block

cdef uint64_t reserve(Generator g, uint64_t counters) noexcept
cdef Generator generator_for(object given, Device device, str who)
cdef void philox(uint64_t key, uint64_t counter, uint32_t* out) noexcept nogil
