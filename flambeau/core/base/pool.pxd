from libc.stdint cimport int64_t

cdef extern from "pool.h" nogil:
    ctypedef void (*flambeau_task)(void* context, int64_t begin, int64_t end) noexcept nogil
    void flambeau_parallel_for(flambeau_task task, void* context, int64_t n, int64_t grain) noexcept
    int flambeau_parallel_interruptible(flambeau_task task, void* context, int64_t n, int64_t grain, double nanoseconds_each,
                                   int (*stop)() noexcept nogil) noexcept
    int flambeau_get_num_threads() noexcept
    void flambeau_set_num_threads(int threads) noexcept
    int flambeau_set_flush_denormal(int flush) noexcept
    int flambeau_cpu_count() noexcept
    int64_t flambeau_max_tasks() noexcept
    ctypedef struct flambeau_range:
        int64_t n, chunk, chunks, nanoseconds, longest
    int64_t flambeau_rehearse(flambeau_range* buffer, int64_t most) noexcept
