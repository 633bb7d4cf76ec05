from libc.stdint cimport int64_t

ctypedef void (*task_t)(void* context, int64_t begin, int64_t end) noexcept nogil

# Runs task over [0, n) on the pool's threads, as pool.h says. If the task ever takes the GIL, call it
# without.
cdef void parallel_for(task_t task, void* context, int64_t n, int64_t grain) noexcept nogil
cdef int num_threads() noexcept nogil
