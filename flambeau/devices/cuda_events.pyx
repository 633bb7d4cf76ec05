# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Events of the driver, NVIDIA's or AMD's."""
from libc.stdint cimport uint64_t
from .cuda cimport Cuda
cimport cython


@cython.no_gc
@cython.binding(False)
cdef class Mark:
    """An event of the driver's, made on a device when it is first recorded there."""

    cdef readonly Cuda on
    cdef uint64_t handle
    cdef readonly bint timing
    cdef readonly bint shared       # other processes can be given it

    def __init__(self, bint timing=False, bint shared=False):
        self.timing, self.shared = timing, shared

    def __dealloc__(self):
        if self.handle:
            try:
                self.on.free_event(self.handle)
            except RuntimeError:  # in a forked process: the event is the parent's
                self.handle = 0

    def record(self, Cuda on, uint64_t stream) -> None:
        """Put it behind what the stream holds now."""
        if self.on is None:
            self.make(on)
        elif self.on is not on:
            raise RuntimeError(f"Event.record(): the event belongs to {self.on.place}, the stream to {on.place}")
        on.record_on(self.handle, stream)

    def make(self, Cuda on not None) -> None:
        """Make the event on that device, where it is not made yet."""
        if self.on is None:
            self.handle = on.new_shared_event() if self.shared else on.new_event(self.timing)
            self.on = on

    def open(self, Cuda on not None, bytes handle not None) -> None:
        """Be the event that another process has named."""
        self.handle = on.open_event(handle)
        self.on, self.shared = on, True

    def ipc_handle(self) -> bytes:
        """What names it to other processes."""
        return self.on.event_handle(self.handle)

    def wait(self, Cuda on, uint64_t stream) -> None:
        """Let the stream, of any device, wait for it; no wait for one that was never recorded."""
        if self.handle:
            on.wait_on(self.handle, stream)

    def done(self) -> bool:
        """Whether it has been reached."""
        return self.handle == 0 or self.on.event_done(self.handle)

    def finish(self) -> None:
        """Let the host wait for it."""
        if self.handle:
            self.on.finish_event(self.handle)

    def elapsed(self, Mark end) -> float:
        """Milliseconds to `end`; both have been recorded with timing."""
        if not (self.timing and end.timing):
            raise ValueError("Event.elapsed_time(): both events must be made with enable_timing=True")
        if self.handle == 0 or end.handle == 0:
            raise ValueError("Event.elapsed_time(): both events must be recorded")
        if not (self.done() and end.done()):
            raise RuntimeError("Event.elapsed_time(): both events must have been reached: synchronize first")
        return self.on.elapsed(self.handle, end.handle)

    @property
    def number(self) -> int:
        """The driver's handle, 0 before the first record."""
        return self.handle
