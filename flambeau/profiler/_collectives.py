"""Calls between processes in a recording: how many, how large, how long, and how much of that time was computed in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..autograd._profiler_events import Recorded
from ..autograd.profiler_util import FunctionEvent

Intervals = list[tuple[float, float]]


class CollectiveAverage(NamedTuple):
    """Calls of one name.

    Times are in microseconds and sums over calls; `bytes_in` is what this process gives, `bytes_out` what it gets.
    """

    name: str
    calls: int
    bytes_in: int
    bytes_out: int
    time: float  # from the call until it was complete
    waiting: float  # of which the program waited: in a synchronous call, or in `Work.wait`
    overlapped: float  # of which a thread of the program was in an operation

    @property
    def overlap(self) -> float:
        """The fraction of the time in which a thread of the program was in an operation."""
        return self.overlapped / self.time if self.time else 0.0


def collective_averages(recorded: Recorded) -> list[CollectiveAverage]:
    """Sums by name, the longest first."""
    own = {number for number, (name, _) in recorded.threads.items() if name.startswith("progress of")}
    computed = _joined(_computing(recorded.events, own))
    calls: dict[str, list[FunctionEvent]] = {}
    for event in recorded.events:
        if event.communication:
            calls.setdefault(event.name, []).append(event)
    result = []
    for name, events in calls.items():
        spans = [(e.time_range.start, e.time_range.end) for e in events]
        result.append(
            CollectiveAverage(
                name,
                len(events),
                sum(e.communication["In msg bytes"] for e in events),
                sum(e.communication["Out msg bytes"] for e in events),
                sum(end - start for start, end in spans),
                sum(e.communication["Waiting (us)"] for e in events),
                sum(_common(span, computed) for span in spans),
            )
        )
    return sorted(result, key=lambda each: -each.time)


def _computing(events: Iterable[FunctionEvent], without: set[int]) -> Intervals:
    return [
        (e.time_range.start, e.time_range.end)
        for e in events
        if e.category == "cpu_op" and e.scope == 0 and e.thread not in without and not _is_engine(e)
    ]


def _is_engine(event: FunctionEvent) -> bool:
    return event.name.startswith("autograd::engine")  # inside of which hooks may wait


def _joined(intervals: Intervals) -> Intervals:
    """The same times, in order and without overlap."""
    result: Intervals = []
    for start, end in sorted(intervals):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((start, end))
    return result


def _common(span: tuple[float, float], intervals: Intervals) -> float:
    return sum(max(0.0, min(span[1], end) - max(span[0], start)) for start, end in intervals)
