# cython: language_level=3, boundscheck=False, wraparound=False, annotation_typing=False
"""The thread pool that every CPU kernel shares, and how many threads it has.

The pool itself is `pool.c`; this is the only module linked with it, so a process has one pool. Other modules
reach it by `from flambeau.core.base.parallel cimport parallel_for`.
"""

from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, intptr_t

from flambeau.core.base.pool cimport (
    flambeau_cpu_count,
    flambeau_get_num_threads,
    flambeau_max_tasks,
    flambeau_parallel_for,
    flambeau_parallel_interruptible,
    flambeau_range,
    flambeau_rehearse,
    flambeau_set_flush_denormal,
    flambeau_set_num_threads,
)

import os
import re
import warnings
from collections.abc import Mapping


cdef extern from "Python.h":
    int PyErr_CheckSignals() noexcept


cdef extern from "pthread.h" nogil:
    # An integer or a pointer, as the system likes; only ever cast.
    ctypedef void* pthread_t
    pthread_t pthread_self()


cdef void parallel_for(task_t task, void* context, int64_t n, int64_t grain) noexcept nogil:
    flambeau_parallel_for(task, context, n, grain)


cdef int _look_at_signals() noexcept nogil:
    """Returns -1, with the exception set, where a signal's handler raised one."""
    with gil:
        return PyErr_CheckSignals()


cdef int parallel_interruptible(task_t task, void* context, int64_t n, int64_t grain, double nanoseconds_each) except -1 nogil:
    return try_interruptible(task, context, n, grain, nanoseconds_each)


cdef int try_interruptible(task_t task, void* context, int64_t n, int64_t grain, double nanoseconds_each) noexcept nogil:
    return flambeau_parallel_interruptible(task, context, n, grain, nanoseconds_each, _look_at_signals)


cdef int num_threads() noexcept nogil:
    return flambeau_get_num_threads()


def get_num_threads() -> int:
    """Returns the number of threads that CPU operations share their work over.

    It starts as the environment's FLAMBEAU_NUM_THREADS, else OMP_NUM_THREADS, else the number of CPUs that
    the process may run on. Results do not depend on it.

    >>> import flambeau
    >>> flambeau.get_num_threads() >= 1
    True
    """
    return flambeau_get_num_threads()


def set_num_threads(n: int) -> None:
    """Sets the number of threads that CPU operations share their work over, the caller's thread included.

    Raises RuntimeError where n is not an int or is below 1, ValueError where it does not fit into 32 bits.

    >>> import flambeau
    >>> before = flambeau.get_num_threads()
    >>> flambeau.set_num_threads(3)
    >>> flambeau.get_num_threads()
    3
    >>> flambeau.set_num_threads(before)
    """
    if not isinstance(n, int) or isinstance(n, bool):
        raise RuntimeError(f"set_num_threads(): n must be an int, but got {type(n).__name__}")
    if n < 1:
        raise RuntimeError(f"set_num_threads(): n must be a positive integer, but got {n}")
    if n > 2**31 - 1:
        raise ValueError(f"set_num_threads(): n must fit into 32 bits, but got {n}")
    flambeau_set_num_threads(n)


def set_flush_denormal(mode: bool) -> bool:
    """Lets arithmetic take numbers too small to be normal (below 1.2e-38 in float32) for zeros, or no longer.

    Returns whether the processor can: True on x86-64 and 64-bit ARM. It is set for the calling thread and the threads it makes
    later; operations that it calls compute so on every thread of the pool. Raises RuntimeError unless mode is a bool.

    >>> import flambeau
    >>> x = flambeau.full((4,), 1e-38)
    >>> if flambeau.set_flush_denormal(True):
    ...     assert (x * 0.1).count_nonzero() == 0
    >>> _ = flambeau.set_flush_denormal(False)
    >>> int((x * 0.1).count_nonzero())
    4
    """
    if not isinstance(mode, bool):
        raise RuntimeError(f"set_flush_denormal(): flush_denormal expects a bool, but got {type(mode).__name__}")
    return flambeau_set_flush_denormal(mode) != 0


def _default_threads(environment: Mapping[str, str]) -> int:
    """Returns the number of threads that the environment asks for, or one for each usable CPU."""
    for name in ("FLAMBEAU_NUM_THREADS", "OMP_NUM_THREADS"):
        text = environment.get(name, "").strip()
        if not text:
            continue
        # OpenMP's variable may hold a list, a number for each level of nesting; the outermost is meant here.
        if match := re.fullmatch(r"\+?0*([1-9][0-9]{0,8})(\s*,.*)?", text):
            return int(match[1])
        warnings.warn(f"{name} must be a positive integer, but is {text!r}: it is ignored", RuntimeWarning)
    return usable_cpus()


def usable_cpus() -> int:
    """Returns how many CPUs this process may run on."""
    return flambeau_cpu_count()


# ---- a view of the pool at work, for the tests ----

cdef struct Visit:
    int64_t* counts
    int64_t* threads
    int64_t inner
    int64_t effort


cdef void _visit(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Visit* visit = <Visit*>context
    cdef Visit nested
    cdef int64_t i, turn
    cdef double total = 0
    for i in range(begin, end):
        if visit.inner > 0:
            nested = Visit(visit.counts + i * visit.inner, visit.threads + i * visit.inner, 0, visit.effort)
            flambeau_parallel_for(_visit, &nested, visit.inner, 1)
            continue
        for turn in range(visit.effort):
            total = total * 0.5 + 1
        visit.counts[i] += 1 if total >= 0 else 0
        visit.threads[i] = <int64_t><intptr_t>pthread_self()


cdef struct Int64s:
    Py_buffer buffer
    int64_t* items
    int64_t count


cdef int acquire(object given, Int64s* out) except -1:
    """The memory of a writable one-dimensional buffer of 64-bit integers, until it is released."""
    PyObject_GetBuffer(given, &out.buffer, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS)
    if out.buffer.ndim != 1 or out.buffer.itemsize != sizeof(int64_t):
        PyBuffer_Release(&out.buffer)
        raise ValueError("_visit_range(): counts and threads must be one-dimensional buffers of 64-bit integers")
    out.items, out.count = <int64_t*>out.buffer.buf, out.buffer.len // <int64_t>sizeof(int64_t)
    return 0


def _visit_range(
    counts, threads, int64_t grain, int64_t inner=0, int64_t effort=0, int64_t times=1,
) -> None:
    """Adds 1 to each of counts and writes the thread that did it to threads, in parallel, `times` times over.

    With inner > 0 each index of the range is itself a parallel range of `inner` elements. Effort is how long
    to dwell on each element, in multiplications.
    """
    cdef Int64s counted, ran
    cdef Visit visit
    cdef int64_t n, turn
    acquire(counts, &counted)
    try:
        acquire(threads, &ran)
        try:
            if counted.count != ran.count or (inner > 0 and counted.count % inner != 0):
                raise ValueError("_visit_range(): counts and threads must be of one length, a multiple of inner")
            visit = Visit(counted.items, ran.items, inner, effort)
            n = counted.count // inner if inner > 0 else counted.count
            if n:
                with nogil:
                    for turn in range(times):
                        flambeau_parallel_for(_visit, &visit, n, grain)
        finally:
            PyBuffer_Release(&ran.buffer)
    finally:
        PyBuffer_Release(&counted.buffer)


def _max_tasks() -> int:
    """Returns the most parts that a range was shared out in since this was last called; 0 where none was shared."""
    return flambeau_max_tasks()


cdef enum: MOST_RANGES = 1024


def _rehearsed(function) -> list[tuple[int, int, int, float, float]]:
    """Calls function with the calling thread in the place of all, and returns the ranges that it was to share, in order.

    Each is (elements, elements of a chunk, chunks, seconds of all chunks, seconds of the thread that has most of them), where a thread takes
    the next chunk as soon as it is free. Ranges that are not worth sharing have one chunk. Raises RuntimeError for more than 1024.
    """
    cdef flambeau_range ranges[MOST_RANGES]
    cdef int64_t met = 0, k
    flambeau_rehearse(ranges, MOST_RANGES)
    try:
        function()
    finally:
        met = flambeau_rehearse(NULL, 0)
    if met > MOST_RANGES:
        raise RuntimeError(f"_rehearsed(): {met} ranges, of which there may be {MOST_RANGES}")
    return [(r.n, r.chunk, r.chunks, r.nanoseconds * 1e-9, r.longest * 1e-9) for r in ranges[:met]]


flambeau_set_num_threads(_default_threads(os.environ))
