"""Random numbers: Philox streams, mt19937, and their generators."""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from ..base.device cimport Device

cdef extern from "twister.h" nogil:
    ctypedef struct flambeau_twister:
        uint64_t seed
    enum:
        FLAMBEAU_TWISTER_BYTES
    void flambeau_twister_prepare()
    void flambeau_twister_seed(flambeau_twister* t, uint64_t seed)
    void flambeau_twister_hold(flambeau_twister* t)
    int flambeau_twister_try_hold(flambeau_twister* t)
    void flambeau_twister_release(flambeau_twister* t)
    void flambeau_twister_write(const flambeau_twister* t, char* state)
    int flambeau_twister_read(flambeau_twister* t, const char* state)
    uint32_t flambeau_twister_word(flambeau_twister* t)
    uint64_t flambeau_twister_pair(flambeau_twister* t)
    void flambeau_twister_shuffle(flambeau_twister* t, uint32_t* order, uint32_t n)

cdef class Generator:
    cdef uint64_t key         # the seed
    cdef uint64_t offset      # counters used up
    cdef bint mt19937         # draws PyTorch's stream, not Philox
    cdef flambeau_twister* twister   # there from the first time on that it did
    cdef object place         # what `device` answers
    cdef object captured      # while a CUDA graph captures its draws: the tensor that they read the seed and the offset from
    cdef uint64_t taken       # counters used up in the capture
    cdef object __weakref__
    cdef int refuse_offset(self, str who) except -1
    cdef int refuse_captured(self, str who) except -1
    cdef int read(self, const char* state) except -1

cdef struct Stream:           # words of a generator's stream, one after another
    uint64_t key
    uint64_t counter
    uint32_t block[4]
    int used                  # words taken from the block

cdef void hold(Generator g) noexcept
cdef uint64_t reserve(Generator g, uint64_t counters, uint64_t* key) noexcept
cdef Generator generator_for(object given, Device device, str who)
cdef void philox(uint64_t key, uint64_t counter, uint32_t* out) noexcept nogil
