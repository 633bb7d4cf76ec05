from libc.stdint cimport int64_t, uint64_t

cdef enum:
    MAX_DATA = 8
    MAX_NUMBERS = 8

ctypedef void (*kernel_t)(char** data, const int64_t* geometry, const uint64_t* scalars) noexcept nogil

# A kernel over ranges of tasks: its data, and the numbers that its geometry has behind a range.
cdef struct Work:
    kernel_t run
    char* data[MAX_DATA]
    int64_t numbers[MAX_NUMBERS]
    int count

cdef int run_work(Work* w, int64_t tasks, double nanoseconds) except -1 nogil
