"""Recordings as files: Chrome's trace format, which Perfetto opens, and memory over time."""

from __future__ import annotations

import gzip
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from ..autograd._profiler_events import Recorded
from ..autograd.profiler_util import DeviceType, FunctionEvent


def open_text(path: Any) -> TextIO:
    """A file to write text to, compressed where its name ends in .gz."""
    name = os.fspath(path)
    if name.endswith(".gz"):
        return gzip.open(name, "wt", encoding="utf-8")  # type: ignore[return-value]
    return open(name, "w", encoding="utf-8")


def _finite(value: Any) -> Any:
    """What JSON can hold: numbers that it has no word for become text."""
    if isinstance(value, float) and value - value != 0:
        return str(value)
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)


class Trace:
    """The entries of a trace."""

    def __init__(self, recorded: Recorded) -> None:
        self.recorded = recorded
        self.pid = os.getpid()
        self.ids = {number: native for number, (_, native) in recorded.threads.items()}

    def _thread(self, number: int) -> int:
        return self.ids.get(number, number)

    def _at(self, microseconds: float) -> float:
        """On the monotonic clock, to which `baseTimeNanoseconds` is added for that of the wall."""
        return round(self.recorded.began / 1e3 + microseconds, 3)

    def entries(self) -> Iterator[dict[str, Any]]:
        """All of them: who is who, then events, arrows from forward to backward, and memory."""
        events = self.recorded.events
        yield self._meta("process_name", 0, name="python")
        yield self._meta("process_labels", 0, labels="CPU")
        for number in sorted({e.thread for e in events}):
            name, native = self.recorded.threads.get(number, (f"thread {number}", number))
            yield self._meta("thread_name", native, name=f"thread {native} ({name})")
        for event in events:
            if event.name == "[memory]":
                continue
            yield self._complete(event)
        yield from self._arrows(events)
        yield from self._memory()
        start = self._at(0.0)
        yield {
            "ph": "i",
            "s": "g",
            "name": "Iteration Start: PyTorch Profiler",
            "pid": "Traces",
            "tid": "Trace PyTorch Profiler",
            "ts": start,
        }

    def _meta(self, kind: str, tid: int, **args: Any) -> dict[str, Any]:
        return {"ph": "M", "name": kind, "ts": self._at(0.0), "pid": self.pid, "tid": tid, "args": args}

    def _complete(self, event: FunctionEvent) -> dict[str, Any]:
        args: dict[str, Any] = {"External id": event.id, "Ev Idx": event.id}
        if event.sequence_nr >= 0:
            args["Sequence number"] = event.sequence_nr
            args["Fwd thread id"] = event.fwd_thread or 0
        if event.structured_input_shapes:
            args["Input Dims"] = event.structured_input_shapes
            args["Input type"] = event.input_dtypes
            args["Concrete Inputs"] = ["" if x == "" else str(x) for x in event.concrete_inputs]
        if event.kwinputs:
            args["Keyword Inputs"] = _finite(event.kwinputs)
        if event.stack:
            args["Call stack"] = ";".join(event.stack)
        args.update(event.communication)
        if event.flops:
            args["flops"] = event.flops
        pid: Any = self.pid
        tid: Any = self._thread(event.thread)
        if event.device_type is not DeviceType.CPU:
            pid, tid = f"{event.device_type.name} {event.device_index}", "stream"
            args["device"] = event.device_index
        return {
            "ph": "X",
            "cat": event.category,
            "name": event.trace_name,
            "pid": pid,
            "tid": tid,
            "ts": self._at(event.time_range.start),
            "dur": round(event.time_range.elapsed_us(), 3),
            "args": args,
        }

    def _arrows(self, events: list[FunctionEvent]) -> Iterator[dict[str, Any]]:
        """From what made a node to where backward came by it."""
        for event in events:
            maker = self.recorded.forward.get(event.sequence_nr) if event.scope == 1 else None
            if maker is None:
                continue
            for end, at in (("s", maker), ("f", event)):
                result = {
                    "ph": end,
                    "id": event.sequence_nr,
                    "pid": self.pid,
                    "tid": self._thread(at.thread),
                    "ts": self._at(at.time_range.start),
                    "cat": "fwdbwd",
                    "name": "fwdbwd",
                }
                yield {**result, "bp": "e"} if end == "f" else result

    def _memory(self) -> Iterator[dict[str, Any]]:
        before_host: int | None = None
        before_away: int | None = None
        for at, host, away in self.recorded.held:
            for kind, held, before in ((0, host, before_host), (1, away, before_away)):
                if before is not None and held != before:
                    yield {
                        "ph": "i",
                        "s": "t",
                        "cat": "cpu_instant_event",
                        "name": "[memory]",
                        "pid": self.pid,
                        "tid": self.pid,
                        "ts": round(at / 1e3, 3),
                        "args": {
                            "Total Allocated": held,
                            "Bytes": held - before,
                            "Device Type": kind,
                            "Device Id": -1 if kind == 0 else 0,
                        },
                    }
            before_host, before_away = host, away


def write_trace(
    path: Any, recorded: Recorded, epoch: int, settings: dict[str, Any], metadata: dict[str, Any]
) -> None:
    """Write a trace; `epoch` is the wall's clock at 0 of the monotonic one, `metadata` stands beside the entries."""
    head = {
        "schemaVersion": 1,
        "deviceProperties": [],
        **settings,
        **metadata,
        "host_name": socket.gethostname(),
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": epoch,
        "traceName": os.fspath(path),
    }
    with open_text(path) as file:
        file.write(json.dumps(head)[:-1] + ', "traceEvents": [\n')
        for k, entry in enumerate(Trace(recorded).entries()):
            file.write((",\n" if k else "") + json.dumps(entry, allow_nan=False))
        file.write("\n]}\n")


def write_memory_timeline(path: Any, recorded: Recorded, epoch: int, device: str) -> None:
    """Write what tensors held over time.

    A name that ends in .json or .json.gz gets [times, sizes]: nanoseconds of the wall's clock, and bytes; .html gets a drawing.
    """
    column = 1 if device == "cpu" else 2
    times = [at + epoch for at, *_ in recorded.held]
    sizes = [row[column] for row in recorded.held]
    if os.fspath(path).endswith(".html"):
        Path(path).write_text(_drawn(times, sizes, device), encoding="utf-8")
        return
    with open_text(path) as file:
        json.dump([times, sizes], file)


def _drawn(times: list[int], sizes: list[int], device: str) -> str:
    """A page with the sizes as steps over time."""
    width, height = 1000, 300
    most, first = max(sizes, default=0), min(times, default=0)
    span = max(max(times, default=0) - first, 1)
    points: list[str] = []
    level = float(height)
    for at, size in zip(times, sizes):
        x = width * (at - first) / span
        points.append(f"{x:.1f},{level:.1f}")
        level = height - height * size / max(most, 1)
        points.append(f"{x:.1f},{level:.1f}")
    return (
        f"<!doctype html><title>Memory on {device}</title><p>Memory on {device}: at most {most} bytes, over {span / 1e6:.3f} ms</p>"
        f'<svg viewBox="0 0 {width} {height}" width="100%"><polyline fill="none" stroke="black" points="{" ".join(points)}"/></svg>\n'
    )
