# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Waiting for requests of MPI without Python's lock.

MPI makes progress only while it is called, so whoever waits calls `MPI_Test` in a loop.  The function's address comes from the
library that mpi4py has loaded: nothing here is compiled against an MPI, and requests and statuses are known by their addresses.
"""
from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, nanosleep, timespec

cdef extern from "<sched.h>" nogil:
    int sched_yield()

cdef enum:
    SPINS = 50  # tests before the processor is offered to others
    PATIENT = 2000000  # ns of offering it, after which an eager loop sleeps, too
    NAP = 50000  # ns of sleep between tests
    WORKED = 4000  # ns: a test that took longer has moved data, and the next one will

ctypedef int (*tested)(void*, int*, void*) noexcept nogil


cdef inline int64_t now() noexcept nogil:
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return <int64_t>t.tv_sec * 1000000000 + t.tv_nsec


cdef class Poller:
    """Tests requests by the `MPI_Test` at an address."""
    cdef tested test
    cdef readonly int waiting  # threads that wait for what another thread tests
    cdef int changed

    def __init__(self, address: int) -> None:
        self.test = <tested><uintptr_t>address

    def expect(self, int more) -> None:
        """Count threads that wait: while there are some, nobody sleeps between tests."""
        self.waiting += more

    def interrupt(self) -> None:
        """Let the running `poll` of another thread return soon."""
        self.changed = 1

    def poll(self, tuple requests, tuple statuses, bytearray done, double seconds, bint every, bint eager) -> int:
        """Test until one request more is done (or `every` one), for `seconds` at most.

        requests, statuses: addresses; a status of 0 is not kept.  done: a byte for each request, set to 1 when it is, to 2 when it has failed.
        Returns the code of the first request that failed, else 0.
        """
        cdef Py_ssize_t n = len(requests), i
        cdef void** places = <void**>malloc((2 * n + 1) * sizeof(void*))
        cdef char* flags = done
        cdef char[1024] ignored
        cdef int64_t begun, end, before, spent, last
        cdef timespec nap
        cdef int code = 0, flag, rounds = 0
        cdef bint finished = False, pending
        if places == NULL:
            raise MemoryError()
        for i in range(n):
            places[i] = <void*><uintptr_t>requests[i]
            places[n + i] = <void*><uintptr_t>statuses[i]
        self.changed = 0
        with nogil:
            memset(ignored, 0, 1024)
            nap.tv_sec, nap.tv_nsec = 0, NAP
            begun = last = now()
            end = begun + <int64_t>(seconds * 1e9)
            while True:
                pending = False
                for i in range(n):
                    if flags[i]:
                        continue
                    flag = 0
                    code = self.test(places[i], &flag, places[n + i] if places[n + i] != NULL else <void*>ignored)
                    if code != 0:
                        flags[i] = 2
                        break
                    if flag:
                        flags[i] = 1
                        finished = True
                    else:
                        pending = True
                if code != 0 or not pending or (finished and not every) or self.changed and not every:
                    break
                before = now()
                spent = before - last
                if before > end:
                    break
                rounds += 1
                if spent > WORKED * (n if n < 4 else 4):
                    begun = before  # something moves
                elif eager or self.waiting > 0:
                    if before - begun > PATIENT:
                        nanosleep(&nap, NULL)
                    elif rounds > SPINS:
                        sched_yield()
                else:
                    nanosleep(&nap, NULL)
                last = now()
        free(places)
        return code
