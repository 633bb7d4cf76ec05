"""Streams: queues of work that run side by side, and events that order them.

Each thread has a current stream of each device, at first the default one.  Memory of a tensor is handed on within
the stream where it was allocated; a tensor that is used on another one is told so by `Tensor.record_stream`.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from ..core.base import device as _devices
from ..core.base import display
from ..core.base.dtypes import device as _device
from ..devices import streams as _streams
from ..devices.cuda_events import Mark
from ._find import find

IPC_BYTES = 64

__all__ = ["Event", "ExternalStream", "Stream"]


class Stream(_streams.Stream):
    """One of the device's 32 streams of a priority (0, or negative for more urgent work), handed out in turn.

    Raises:
        ValueError: the device is of another type
        RuntimeError: there is no such device

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     with flambeau.cuda.stream(flambeau.cuda.Stream()):
    ...         x = flambeau.ones(2, device="cuda")
    ...     flambeau.cuda.synchronize()
    """

    def __init__(self, device: object = None, priority: int = 0, *, number: int | None = None):
        self._on = find(device)
        self._number = self._on.take_stream(priority) if number is None else number

    @property
    def device(self) -> _device:
        """Where its work runs."""
        return self._on.place

    @property
    def cuda_stream(self) -> int:
        """The driver's handle; 0 is the default stream."""
        return self._number

    def synchronize(self) -> None:
        """Wait on the host until all that was queued here has run."""
        self._on.finish_stream(self._number)

    def query(self) -> bool:
        """Whether all that was queued here has run."""
        return self._on.stream_done(self._number)

    def __enter__(self) -> Stream:
        self._contexts = [*getattr(self, "_contexts", ()), StreamContext(self)]
        self._contexts[-1].__enter__()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._contexts.pop().__exit__(kind, error, trace)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Stream) and self._number == other._number and self._on.index == other._on.index
        )

    def __hash__(self) -> int:
        return hash((self._number, self._on.index))

    def __repr__(self) -> str:
        return f"<{display.NAME}.cuda.Stream device={self.device} cuda_stream={self._number:#x}>"


class ExternalStream(Stream):
    """A stream that another library has made, by the driver's handle; that library destroys it, and not before
    `flambeau.cuda.empty_cache()` has given back what was cached for it.

    Raises:
        RuntimeError: there is no such device

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     stream = flambeau.cuda.current_stream()
    ...     assert flambeau.cuda.ExternalStream(stream.cuda_stream) == stream
    """

    def __init__(self, stream_ptr: int, device: object = None):
        super().__init__(device, number=stream_ptr)


class Event(_streams.Event):
    """A mark in a stream's work.

    With `enable_timing` two of them tell the time between them; waiting for one takes a little longer then.  With `interprocess` other
    processes can wait for it, too (`ipc_handle`).

    Raises:
        RuntimeError: there is no device, as soon as it is recorded

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     event = flambeau.cuda.Event()
    ...     event.record()
    ...     event.synchronize()
    ...     assert event.query()
    """

    _mark: Mark

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Any:
        if interprocess and enable_timing:
            raise RuntimeError(
                "Event(): an event that other processes share cannot tell times: enable_timing must be False"
            )
        made = object.__new__(cls)
        made._mark = Mark(enable_timing, interprocess)
        return made

    @classmethod
    def from_ipc_handle(cls, device: object, handle: bytes) -> Event:
        """The event that another process has named by `ipc_handle`, on the same device.

        Raises:
            TypeError: the handle is no bytes
            ValueError: it has another length than 64
            RuntimeError: there is no such device, or the event is gone, or was made in this process
        """
        if not isinstance(handle, bytes):
            raise TypeError(f"Event.from_ipc_handle(): handle must be bytes, not {type(handle).__name__}")
        if len(handle) != IPC_BYTES:
            raise ValueError(
                f"Event.from_ipc_handle(): handle must have {IPC_BYTES} bytes, got {len(handle)}"
            )
        made: Event = cls.__new__(cls, interprocess=True)
        made._mark.open(find(device), handle)
        return made

    def ipc_handle(self) -> bytes:
        """64 bytes that name it to other processes, for `from_ipc_handle`; one that was never recorded is made on the current device.

        Raises:
            RuntimeError: it was not made with `interprocess`
        """
        if not self._mark.shared:
            raise RuntimeError("Event.ipc_handle(): the event must be made with interprocess=True")
        self._mark.make(find(None))
        return self._mark.ipc_handle()

    @property
    def cuda_event(self) -> int:
        """The driver's handle, 0 before the event is first recorded."""
        return self._mark.number

    @property
    def device(self) -> _device | None:
        """Where it was recorded."""
        return None if self._mark.on is None else self._mark.on.place

    def record(self, stream: Stream | None = None) -> None:
        """Put it behind what is queued on `stream`, the current one by default."""
        chosen = current_stream() if stream is None else stream
        self._mark.record(chosen._on, chosen._number)

    def wait(self, stream: Stream | None = None) -> None:
        """Let what is queued on `stream` from now on wait for it."""
        chosen = current_stream() if stream is None else stream
        self._mark.wait(chosen._on, chosen._number)

    def query(self) -> bool:
        """Whether it has been reached; True for one that was never recorded."""
        return self._mark.done()

    def synchronize(self) -> None:
        """Wait on the host until it has been reached."""
        self._mark.finish()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds between this and `end_event`.

        ValueError unless both are timed and recorded, RuntimeError before both have been reached.
        """
        return self._mark.elapsed(end_event._mark)

    def __repr__(self) -> str:
        return f"<{display.NAME}.cuda.Event {self.cuda_event:#x}>"


_streams.kinds["cuda"] = {"Stream": Stream, "Event": Event}


def get_stream_from_external(data_ptr: int, device: object = None) -> Stream:
    """The stream that another library has made, by the driver's handle, as `ExternalStream`.

    Raises:
        RuntimeError: there is no such device

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     stream = flambeau.cuda.current_stream()
    ...     assert flambeau.cuda.get_stream_from_external(stream.cuda_stream) == stream
    """
    return ExternalStream(data_ptr, device)


def is_current_stream_capturing() -> bool:
    """Whether work of the current stream is written down for a graph, as another library may have asked the driver; False
    where no device has been used.

    >>> import flambeau
    >>> flambeau.cuda.is_current_stream_capturing()
    False
    """
    return _devices.is_opened("cuda") and find(None).capturing()


def current_stream(device: object = None) -> Stream:
    """The stream that this thread's work on the device goes to.

    Raises:
        ValueError: the device is of another type
        RuntimeError: there is no such device

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     assert flambeau.cuda.current_stream() == flambeau.cuda.default_stream()
    """
    result = find(device)
    return Stream(result.place, number=result.current_stream())


def default_stream(device: object = None) -> Stream:
    """The stream that work goes to where no other was chosen.

    Raises:
        ValueError: the device is of another type
        RuntimeError: there is no such device

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     assert flambeau.cuda.default_stream().query() in (True, False)
    """
    return Stream(device, number=0)


def set_stream(stream: Stream | None) -> None:
    """Let this thread's work on the stream's device go to it from now on; `with stream(s)` is to be preferred.

    Raises:
        AttributeError: the argument is neither a stream nor None

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     flambeau.cuda.set_stream(flambeau.cuda.current_stream())
    """
    if stream is not None:
        stream._on.set_stream(stream._number)


class StreamContext:
    """Context in which work goes to a stream, and "cuda" means the stream's device; None changes nothing.

    Raises:
        AttributeError: the context is entered, and the argument is neither a stream nor None

    >>> import flambeau
    >>> with flambeau.cuda.StreamContext(None):
    ...     x = flambeau.ones(2)
    """

    def __init__(self, stream: Stream | None):
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.index = _devices.current_device("cuda")
            self.before = self.stream._on.current_stream()
            _devices.set_device("cuda", self.stream._on.index)
            self.stream._on.set_stream(self.stream._number)

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.stream is not None:
            self.stream._on.set_stream(self.before)
            _devices.set_device("cuda", self.index)


def stream(stream: Stream | None) -> StreamContext:
    """`with flambeau.cuda.stream(s):` lets the work inside go to the stream.

    Raises:
        AttributeError: the context is entered, and the argument is neither a stream nor None

    >>> import flambeau
    >>> with flambeau.cuda.stream(None):
    ...     x = flambeau.ones(2)
    """
    return StreamContext(stream)
