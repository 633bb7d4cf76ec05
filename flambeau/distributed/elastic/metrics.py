"""Numbers that a program reports by name: to nobody, to the console, or to a handler of its own."""

from __future__ import annotations

import abc
import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ..._compat.absent import refusing

__all__ = [
    "ConsoleMetricHandler",
    "MetricData",
    "MetricHandler",
    "NullMetricHandler",
    "configure",
    "prof",
    "put_metric",
]


class MetricData(NamedTuple):
    """A number: when it was reported, in which group, under which name.

    >>> from flambeau.distributed.elastic.metrics import MetricData
    >>> MetricData(0.0, "train", "steps", 3).value
    3
    """

    timestamp: float
    group_name: str
    name: str
    value: float


class MetricHandler(abc.ABC):
    """What becomes of numbers: subclasses define `emit`.

    Raises:
        TypeError: of a class without `emit`

    >>> from flambeau.distributed.elastic import metrics
    >>> class Recorder(metrics.MetricHandler):
    ...     def emit(self, metric_data):
    ...         print(metric_data.name, metric_data.value)
    >>> metrics.configure(Recorder(), "train")
    >>> metrics.put_metric("steps", 3, "train")
    steps 3
    """

    @abc.abstractmethod
    def emit(self, metric_data: MetricData) -> None:
        """Take a number."""


class ConsoleMetricHandler(MetricHandler):
    """Prints each number.

    >>> from flambeau.distributed.elastic import metrics
    >>> metrics.ConsoleMetricHandler().emit(metrics.MetricData(1.0, "train", "steps", 3))
    [1.0][train]: steps=3
    """

    def emit(self, metric_data: MetricData) -> None:
        """Print it."""
        when, group, name, value = metric_data
        print(f"[{when}][{group}]: {name}={value}")


class NullMetricHandler(MetricHandler):
    """Takes numbers and does nothing with them, which is the default.

    >>> from flambeau.distributed.elastic import metrics
    >>> metrics.NullMetricHandler().emit(metrics.MetricData(1.0, "train", "steps", 3))
    """

    def emit(self, metric_data: MetricData) -> None:
        """Nobody wants it."""


_handlers: dict[str, MetricHandler] = {}
_default: MetricHandler = NullMetricHandler()


def configure(handler: MetricHandler, group: str | None = None) -> None:
    """Use a handler for a group of numbers, by default for all that have none.

    Raises:
        TypeError: no handler

    >>> from flambeau.distributed.elastic import metrics
    >>> metrics.configure(metrics.NullMetricHandler())
    """
    global _default
    if not isinstance(handler, MetricHandler):
        raise TypeError(f"configure(): handler must be a MetricHandler, not {type(handler).__name__}")
    if group is None:
        _default = handler
    else:
        _handlers[group] = handler


def put_metric(metric_name: str, metric_value: float, metric_group: str = "torchelastic") -> None:
    """Report a number.

    Raises:
        Whatever the handler raises

    >>> from flambeau.distributed.elastic import metrics
    >>> metrics.put_metric("steps", 3)
    """
    data = MetricData(time.time(), metric_group, metric_name, metric_value)
    _handlers.get(metric_group, _default).emit(data)


def prof(fn: Callable[..., Any] | None = None, group: str = "torchelastic") -> Any:
    """A function that reports how often it has succeeded and failed, and how many milliseconds it took.

    Raises:
        Whatever the function raises

    >>> from flambeau.distributed.elastic import metrics
    >>> @metrics.prof
    ... def step():
    ...     return 1
    >>> step()
    1
    """

    def wrapped(f: Callable[..., Any]) -> Callable[..., Any]:
        name = f"{f.__module__}.{f.__qualname__}".removeprefix("__main__.")

        @functools.wraps(f)
        def run(*args: Any, **options: Any) -> Any:
            began, verdict = time.monotonic(), "failure"
            try:
                result = f(*args, **options)
                verdict = "success"
                return result
            finally:
                put_metric(f"{name}.{verdict}", 1, group)
                put_metric(f"{name}.duration.ms", int(1000 * (time.monotonic() - began)), group)

        return run

    return wrapped if fn is None else wrapped(fn)


__getattr__ = refusing("distributed.elastic.metrics")
