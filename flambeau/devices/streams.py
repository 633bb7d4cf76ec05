"""Streams and events of any device, by its type: `Stream("cuda")` makes what `cuda.Stream` makes."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from ..core.base import device as _devices
from ..core.base import display
from ..core.base.dtypes import device as Device

kinds: dict[
    str, dict[str, type]
] = {}  # type of device -> "Stream" and "Event" -> class; filled by the modules of devices


def _kind_of(what: str, device: Any) -> type:
    """The class of streams or events of a device: the one named, else the accelerator, else the host.

    RuntimeError where the type of device has none.
    """
    if device is None:
        type = "cuda" if _devices.device_count("cuda") else "cpu"
    else:
        type = Device(device).type
    result = kinds.get(type, {}).get(what)
    if result is None:
        raise RuntimeError(f"{what}(): {type} has no {what.lower()}s here")
    return result


class Stream:
    """A queue of work of a device: the one named, else the accelerator, else the host.  As a context it is where work goes.

    Work on the host is done when a call returns, so that its one stream never has any left.  RuntimeError for types of
    devices that have no streams here.

    >>> import flambeau
    >>> stream = flambeau.Stream("cpu")
    >>> with stream:
    ...     y = flambeau.ones(2) + 1
    >>> stream.query()
    True
    """

    def __new__(cls, device: Any = None, *args: Any, **options: Any) -> Any:
        # `__init__` of the class of this device is called next, with the same arguments
        return object.__new__(_kind_of("Stream", device) if cls is Stream else cls)

    @property
    def device(self) -> Device:
        """Where its work runs."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait on the host until all that was queued here has run."""
        raise NotImplementedError

    def query(self) -> bool:
        """Whether all that was queued here has run."""
        raise NotImplementedError

    def record_event(self, event: Any = None) -> Any:
        """Put a mark behind what is queued here; returns it."""
        marked = Event(self.device) if event is None else event
        marked.record(self)
        return marked

    def wait_event(self, event: Any) -> None:
        """Let work that is queued here from now on wait for the event."""
        event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        """Let work that is queued here from now on wait for all that is queued on `stream` now."""
        self.wait_event(stream.record_event())


class Event:
    """A mark in the work of a device: the one named, else the accelerator, else the host.

    With `enable_timing` two of them tell the milliseconds between them.  RuntimeError for types of devices that have no
    events here.

    >>> import flambeau
    >>> begin, end = (flambeau.Event("cpu", enable_timing=True) for _ in range(2))
    >>> begin.record()
    >>> y = flambeau.ones(2) + 1
    >>> end.record()
    >>> begin.elapsed_time(end) >= 0
    True
    """

    def __new__(cls, device: Any = None, **options: bool) -> Any:
        # the classes of devices, which take no device, have no `__init__`: it would be called with ours
        return _kind_of("Event", device)(**options) if cls is Event else object.__new__(cls)


Stream.__module__ = Event.__module__ = display.NAME


class OneStream(Stream):
    """The stream of a device whose work is done when a call returns."""

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self.priority = priority

    def synchronize(self) -> None:
        """Return at once: nothing is queued."""

    def query(self) -> bool:
        """True: nothing is queued."""
        return True

    def __enter__(self) -> OneStream:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Nothing changes: there is one stream."""
