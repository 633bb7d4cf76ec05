"""Events and statistics of a running program, handed to whoever wants them, as `torch.monitor`.

>>> from datetime import datetime, timedelta
>>> from flambeau.monitor import Aggregation, Stat, register_event_handler, unregister_event_handler
>>> seen = []
>>> handle = register_event_handler(lambda event: seen.append(event.data))
>>> stat = Stat("loss", [Aggregation.MEAN, Aggregation.COUNT], timedelta(hours=1))
>>> stat.add(1.0)
>>> stat.add(3.0)
>>> stat.get()[Aggregation.MEAN]
2.0
>>> del stat
>>> seen
[{'loss.mean': 2.0, 'loss.count': 2.0}]
>>> unregister_event_handler(handle)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime, timedelta

__all__ = [
    "COUNT",
    "MAX",
    "MEAN",
    "MIN",
    "STAT_EVENT",
    "SUM",
    "VALUE",
    "Aggregation",
    "Event",
    "EventHandlerHandle",
    "Stat",
    "TensorboardEventHandler",
    "data_value_t",
    "log_event",
    "register_event_handler",
    "unregister_event_handler",
]

STAT_EVENT = "torch.monitor.Stat"  # the name of the events of `Stat`, as PyTorch's handlers match it

data_value_t = str | float | int | bool


class Aggregation(Enum):
    """What a `Stat` tells of the values in a window.

    >>> from flambeau.monitor import Aggregation
    >>> Aggregation.MAX.name
    'MAX'
    """

    VALUE = 0
    MEAN = 1
    COUNT = 2
    SUM = 3
    MAX = 4
    MIN = 5


VALUE, MEAN, COUNT = Aggregation.VALUE, Aggregation.MEAN, Aggregation.COUNT
SUM, MAX, MIN = Aggregation.SUM, Aggregation.MAX, Aggregation.MIN


class Event:
    """A name, a time, and values by their names.  TypeError for values that are no text, number or flag.

    >>> from datetime import datetime
    >>> from flambeau.monitor import Event
    >>> Event("epoch", datetime(2026, 1, 1), {"number": 3}).data
    {'number': 3}
    """

    def __init__(self, name: str, timestamp: datetime, data: Mapping[str, data_value_t]) -> None:
        import datetime as dates  # which `import flambeau` need not wait for

        if not isinstance(timestamp, dates.datetime):
            raise TypeError(f"Event(): timestamp must be a datetime, not {type(timestamp).__name__}")
        for key, value in data.items():
            if not isinstance(key, str) or not isinstance(value, (str, int, float)):
                raise TypeError(
                    f"Event(): data must map str to str, float, int or bool, got {key!r}: {value!r}"
                )
        self.name, self.timestamp, self.data = name, timestamp, dict(data)

    def __repr__(self) -> str:
        return f"Event(name={self.name!r}, timestamp={self.timestamp!r}, data={self.data!r})"


class EventHandlerHandle:
    """What `register_event_handler` returns, for `unregister_event_handler`.

    Raises nothing.

    >>> from flambeau.monitor import register_event_handler, unregister_event_handler
    >>> unregister_event_handler(register_event_handler(print))
    """

    def __init__(self, handler: Callable[[Event], Any]) -> None:
        self._handler = handler


_handlers: list[EventHandlerHandle] = []
_lock = threading.Lock()


def register_event_handler(callback: Callable[[Event], Any]) -> EventHandlerHandle:
    """Call `callback(event)` with each event from now on.  TypeError for what cannot be called.

    >>> from flambeau.monitor import register_event_handler, unregister_event_handler
    >>> handle = register_event_handler(lambda event: print(event.name))
    >>> unregister_event_handler(handle)
    """
    if not callable(callback):
        raise TypeError(f"register_event_handler(): a function expected, got {type(callback).__name__}")
    handle = EventHandlerHandle(callback)
    with _lock:
        _handlers.append(handle)
    return handle


def unregister_event_handler(handle: EventHandlerHandle) -> None:
    """Call it no more; nothing for one that is not registered.

    Raises nothing.

    >>> from flambeau.monitor import register_event_handler, unregister_event_handler
    >>> unregister_event_handler(register_event_handler(print))
    """
    with _lock:
        if handle in _handlers:
            _handlers.remove(handle)


def log_event(event: Event) -> None:
    """Hand an event to every handler.  TypeError for what is no event.

    >>> from datetime import datetime
    >>> from flambeau.monitor import Event, log_event, register_event_handler, unregister_event_handler
    >>> handle = register_event_handler(lambda event: print(event.name, event.data))
    >>> log_event(Event("epoch", datetime(2026, 1, 1), {"number": 3}))
    epoch {'number': 3}
    >>> unregister_event_handler(handle)
    """
    if not isinstance(event, Event):
        raise TypeError(f"log_event(): an Event expected, got {type(event).__name__}")
    with _lock:
        handlers = list(_handlers)
    for handle in handlers:
        handle._handler(event)


class Stat:
    """Values over windows of time; each window's aggregations are one event, `STAT_EVENT`, logged when it is over.

    A window is `window_size` long, and ends with the first `add` after that; or, with `max_samples`, takes no more than so many
    values.  What is left is logged when the object goes.

    Raises:
        TypeError: an argument is missing

    >>> from datetime import timedelta
    >>> from flambeau.monitor import Aggregation, Stat
    >>> stat = Stat("loss", [Aggregation.MIN, Aggregation.SUM], timedelta(hours=1))
    >>> for value in (3.0, 1.0, 2.0):
    ...     stat.add(value)
    >>> stat.count, stat.get()[Aggregation.SUM]
    (3, 6.0)
    """

    def __init__(
        self,
        name: str,
        aggregations: Iterable[Aggregation],
        window_size: timedelta,
        max_samples: int = 2**63 - 1,
    ) -> None:
        self.name = name
        self._aggregations = tuple(aggregations)
        for a in self._aggregations:
            if not isinstance(a, Aggregation):
                raise TypeError(f"Stat(): aggregations must be of Aggregation, got {type(a).__name__}")
        self._window, self._most = window_size.total_seconds(), max_samples
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._values: list[float] = []  # last, sum, greatest, least
        self._count, self._started = 0, time.monotonic()

    @property
    def count(self) -> int:
        """How many values the window has."""
        return self._count

    def add(self, v: float) -> None:
        """Take a value in."""
        v, event = float(v), None
        with self._lock:
            if time.monotonic() - self._started >= self._window:
                event = self._closed()
            if self._count < self._most:
                if self._values:
                    _, total, greatest, least = self._values
                    self._values = [v, total + v, max(greatest, v), min(least, v)]
                else:
                    self._values = [v, v, v, v]
                self._count += 1
        if event is not None:
            log_event(event)

    def get(self) -> dict[Aggregation, float]:
        """The aggregations of the window so far; without values only counts and sums."""
        last, total, greatest, least = self._values or (0.0, 0.0, float("-inf"), float("inf"))
        result = {
            Aggregation.VALUE: last,
            Aggregation.MEAN: total / self._count if self._count else 0.0,
            Aggregation.COUNT: float(self._count),
            Aggregation.SUM: total,
            Aggregation.MAX: greatest,
            Aggregation.MIN: least,
        }
        return {a: result[a] for a in self._aggregations}

    def _closed(self) -> Event | None:
        """The event of the window, and a new window; None where it has no values."""
        data = {f"{self.name}.{a.name.lower()}": value for a, value in self.get().items()}
        import datetime as dates

        event = Event(STAT_EVENT, dates.datetime.now(), data) if self._count else None
        self._begin()
        return event

    def __del__(self) -> None:
        event = self._closed() if "_count" in self.__dict__ else None
        if event is not None:
            log_event(event)


class TensorboardEventHandler:
    """A handler that writes the events of `Stat` as scalars to a `SummaryWriter`.

    Raises:
        AttributeError: an event with values comes, and the writer has no `add_scalar`

    >>> from datetime import datetime
    >>> from flambeau.monitor import STAT_EVENT, Event, TensorboardEventHandler
    >>> class Writer:
    ...     def add_scalar(self, tag, value, walltime=None):
    ...         print(tag, value)
    >>> TensorboardEventHandler(Writer())(Event(STAT_EVENT, datetime(2026, 1, 1), {"loss.mean": 2.0}))
    loss.mean 2.0
    """

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        if event.name == STAT_EVENT:
            for name, value in event.data.items():
                self._writer.add_scalar(name, value, walltime=event.timestamp.timestamp())
