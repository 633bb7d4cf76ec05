"""The host as a device: its memory, and the calls that programs make of any device.

Work on the host is done when a call returns: it has one stream, on which nothing ever waits.
"""

import time as _time
from types import TracebackType as _TracebackType
from typing import Any as _Any

from ..core.base import display as _display
from ..core.base.dtypes import cpu_device as _cpu
from ..core.base.dtypes import device as _device
from ..core.base.memory import (
    empty_cache,
    memory_stats,
    reset_peak_memory_stats,
    set_cache_limit,
    set_memory_limit,
)
from ..devices import streams as _streams
from . import amp

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "amp",
    "current_device",
    "current_stream",
    "device_count",
    "empty_cache",
    "get_capabilities",
    "is_available",
    "is_initialized",
    "max_memory_allocated",
    "memory_allocated",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_cache_limit",
    "set_device",
    "set_memory_limit",
    "stream",
    "synchronize",
]


def is_available() -> bool:
    """True.

    >>> import flambeau
    >>> flambeau.cpu.is_available()
    True
    """
    return True


def is_initialized() -> bool:
    """True.

    >>> import flambeau
    >>> flambeau.cpu.is_initialized()
    True
    """
    return True


def device_count() -> int:
    """1: all processors of the host are one device.

    >>> import flambeau
    >>> flambeau.cpu.device_count()
    1
    """
    return 1


def current_device() -> str:
    """ "cpu".

    >>> import flambeau
    >>> flambeau.cpu.current_device()
    'cpu'
    """
    return "cpu"


def set_device(device: _Any) -> None:
    """Nothing changes: there is one host.  Programs written for any device call this.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.cpu.set_device("cpu")
    """


def synchronize(device: _Any = None) -> None:
    """Return at once: calls on the host are finished when they return.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.cpu.synchronize()
    """


def get_capabilities() -> dict[str, _Any]:
    """What the processor is and can: `architecture`, `cpu_name`, `num_logical_cores`, and for each of its kinds of
    instructions that kernels are made of its name with True, such as `avx2`.

    >>> import flambeau
    >>> flambeau.cpu.get_capabilities()["num_logical_cores"] >= 1
    True
    """
    import os
    import platform

    from ..codegen.target import processor

    name, features = processor()
    able = {
        f[1:].replace("avx512", "avx512_", 1) if f.startswith("+avx512") else f[1:]
        for f in features.split(",")
        if f[:1] == "+"
    }
    description: dict[str, _Any] = {
        "architecture": platform.machine(),
        "cpu_name": name,
        "num_logical_cores": os.cpu_count() or 1,
    }
    return description | {feature.replace(".", "_").replace("-", "_"): True for feature in sorted(able)}


class Event(_streams.Event):
    """A mark in the host's work, which is done when it is made.

    With `enable_timing` two of them tell the time between them.  NotImplementedError for `interprocess`.

    >>> import flambeau
    >>> event = flambeau.cpu.Event()
    >>> event.record()
    >>> event.query()
    True
    """

    _timing: bool
    _at: float | None

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> _Any:
        if interprocess:
            raise NotImplementedError("Event(): events cannot be shared with other processes yet")
        made = object.__new__(cls)
        made._timing, made._at = enable_timing, None
        return made

    @property
    def device(self) -> _device:
        """The host."""
        return _cpu

    def record(self, stream: _Any = None) -> None:
        """Put it here: behind all work of the host so far."""
        self._at = _time.perf_counter()

    def wait(self, stream: _Any = None) -> None:
        """Return at once: what was recorded is done."""

    def query(self) -> bool:
        """True: what was recorded is done."""
        return True

    def synchronize(self) -> None:
        """Return at once: what was recorded is done."""

    def elapsed_time(self, end_event: _Any) -> float:
        """Milliseconds between this and `end_event`; ValueError unless both are timed and recorded."""
        if not (self._timing and end_event._timing):
            raise ValueError("Event.elapsed_time(): both events must be made with enable_timing=True")
        if self._at is None or end_event._at is None:
            raise ValueError("Event.elapsed_time(): both events must be recorded")
        return (end_event._at - self._at) * 1e3

    def __repr__(self) -> str:
        return f"<{_display.NAME}.cpu.Event>"


class Stream(_streams.OneStream):
    """The host's stream; all of them are the same one.  `priority` is kept, and changes nothing.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.cpu.Stream() == flambeau.cpu.current_stream()
    True
    """

    @property
    def device(self) -> _device:
        """The host."""
        return _cpu

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream)

    def __hash__(self) -> int:
        return hash(Stream)

    def __repr__(self) -> str:
        return f"<{_display.NAME}.cpu.Stream>"


_streams.kinds["cpu"] = {"Stream": Stream, "Event": Event}
_the_stream = Stream()


def current_stream(device: _Any = None) -> Stream:
    """The host's stream.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.cpu.current_stream().query()
    True
    """
    return _the_stream


class StreamContext:
    """Context in which work goes to a stream, of which the host has one: nothing changes.

    Raises nothing.

    >>> import flambeau
    >>> with flambeau.cpu.StreamContext(flambeau.cpu.Stream()):
    ...     flambeau.ones(1)
    tensor([1.])
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        """Nothing changes."""

    def __exit__(self, kind: type | None, error: BaseException | None, trace: _TracebackType | None) -> None:
        """Nothing changes."""


def stream(stream: Stream | None) -> StreamContext:
    """`with flambeau.cpu.stream(s):`, for programs written for any device.

    Raises nothing.

    >>> import flambeau
    >>> with flambeau.cpu.stream(flambeau.cpu.current_stream()):
    ...     flambeau.ones(1)
    tensor([1.])
    """
    return StreamContext(stream)


def memory_allocated() -> int:
    """Bytes that tensors on the CPU hold.

    >>> import flambeau
    >>> from flambeau import cpu
    >>> before = cpu.memory_allocated()
    >>> x = flambeau.zeros(1000)
    >>> cpu.memory_allocated() - before >= 4000
    True
    """
    return memory_stats()["allocated_bytes"]


def max_memory_allocated() -> int:
    """The most bytes that tensors have held since the start, or since `reset_peak_memory_stats`.

    >>> import flambeau
    >>> flambeau.cpu.max_memory_allocated() >= 0
    True
    """
    return memory_stats()["peak_allocated_bytes"]
