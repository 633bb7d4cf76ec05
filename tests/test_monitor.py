"""Events go to who asked for them; statistics are told window by window."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from flambeau import monitor
from flambeau.monitor import Aggregation, Event, Stat, log_event


@pytest.fixture
def seen():
    found = []
    handle = monitor.register_event_handler(found.append)
    yield found
    monitor.unregister_event_handler(handle)


def test_events_reach_every_handler_until_it_is_taken_away(seen):
    also = []
    handle = monitor.register_event_handler(also.append)
    event = Event("epoch", datetime(2026, 1, 1), {"n": 1, "x": 0.5, "name": "a", "on": True})
    log_event(event)
    monitor.unregister_event_handler(handle)
    monitor.unregister_event_handler(handle)  # a second time changes nothing
    log_event(event)
    assert seen == [event, event] and also == [event] and "epoch" in repr(event)


def test_windows_are_told_when_they_are_over(seen, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(monitor.time, "monotonic", lambda: now[0])
    stat = Stat("loss", list(Aggregation), timedelta(seconds=10))
    for value in (3.0, 1.0, 2.0):
        stat.add(value)
    expected = {"value": 2.0, "mean": 2.0, "count": 3.0, "sum": 6.0, "max": 3.0, "min": 1.0}
    assert {a.name.lower(): v for a, v in stat.get().items()} == expected
    assert stat.count == 3 and not seen
    now[0] = 10.0
    stat.add(7.0)
    assert seen[0].name == monitor.STAT_EVENT
    assert seen[0].data == {f"loss.{name}": value for name, value in expected.items()}
    assert stat.count == 1 and stat.get()[Aggregation.MEAN] == 7.0
    del stat
    assert len(seen) == 2 and seen[1].data["loss.sum"] == 7.0


def test_no_more_than_so_many_values(seen):
    stat = Stat("x", [Aggregation.SUM], timedelta(hours=1), 2)
    for _ in range(5):
        stat.add(1.0)
    assert stat.count == 2
    del stat
    empty = Stat("y", [Aggregation.MEAN], timedelta(hours=1))
    assert empty.get() == {Aggregation.MEAN: 0.0}
    del empty
    assert [e.data for e in seen] == [{"x.sum": 2.0}]


def test_mistakes():
    with pytest.raises(TypeError, match="timestamp must be a datetime"):
        Event("x", 3, {})
    with pytest.raises(TypeError, match="data must map"):
        Event("x", datetime(2026, 1, 1), {"a": [1]})
    with pytest.raises(TypeError, match="Event expected"):
        log_event("x")
    with pytest.raises(TypeError, match="a function expected"):
        monitor.register_event_handler(3)
    with pytest.raises(TypeError, match="of Aggregation"):
        Stat("x", ["mean"], timedelta(1))


def test_scalars_for_tensorboard():
    written = []

    class Writer:
        def add_scalar(self, *args, **kwargs):
            written.append((args, kwargs))

    handler = monitor.TensorboardEventHandler(Writer())
    at = datetime(2026, 1, 1)
    handler(Event("other", at, {"a": 1}))
    handler(Event(monitor.STAT_EVENT, at, {"loss.mean": 2.0}))
    assert written == [(("loss.mean", 2.0), {"walltime": at.timestamp()})]
