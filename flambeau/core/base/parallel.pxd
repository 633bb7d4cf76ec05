from libc.stdint cimport int64_t

ctypedef void (*task_t)(void* context, int64_t begin, int64_t end) noexcept nogil

# Runs task over [0, n) on the pool's threads, as pool.h says. If the task ever takes the GIL, call it
# without.
cdef void parallel_for(task_t task, void* context, int64_t n, int64_t grain) noexcept nogil

# The same for work that may take long: signals are looked at now and then, as between two lines of Python (so in the main
# thread). Raises what their handlers raise, KeyboardInterrupt above all; the rest of the range is then not done.
cdef int parallel_interruptible(task_t task, void* context, int64_t n, int64_t grain, double nanoseconds_each) except -1 nogil
# The same for functions that hand on a status: returns -1 with the exception set.
cdef int try_interruptible(task_t task, void* context, int64_t n, int64_t grain, double nanoseconds_each) noexcept nogil
cdef int num_threads() noexcept nogil
