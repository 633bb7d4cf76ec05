"""From what the recorder noted to a list of events: names, nesting, shapes, stacks, what ran on devices."""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..core.base import display
from ..core.call.custom import CustomOp
from ..operations.declare.flops import counted
from .profiler_util import DeviceType, EventList, FunctionEvent

OPERATION, EVALUATION, NODE, SPAN, MODULE = range(5)  # as in core/base/profiling.pxd

PREFIXES = ("linalg", "fft", "special")  # namespaces that ATen writes before the name
# Of the library's own files a stack shows layers alone.
PACKAGE = str(Path(__file__).resolve().parent.parent) + "/"
LAYERS = PACKAGE + "nn/modules/"
UNSHOWN = ("module.py", "container.py")
SCOPES = {NODE: 1, SPAN: 7, MODULE: 7}
CATEGORIES = {SPAN: "user_annotation", MODULE: "python_function"}


class Recorded(NamedTuple):
    """A recording, as events and for files."""

    events: EventList
    forward: dict[int, FunctionEvent]  # a node's number -> what made it
    held: list[tuple[int, int, int]]  # (nanoseconds, bytes on the host, bytes on devices), where they changed
    threads: dict[int, tuple[str, int]]
    began: int  # nanoseconds of the monotonic clock
    ended: int


def _public_place(op: Any) -> str | None:
    """Where users find an operation, the flat namespace and methods before others; None for a part of something public."""
    if (entry := getattr(op, "entry", None)) is not None:
        places = [p for p in entry.places if not p.rpartition(".")[2].startswith("_")]
        flat = [p for p in places if p.rpartition(".")[0] in ("", "Tensor")]
        if result := next(iter(flat or places), None):
            return result + ("_" if op is entry.in_place else "")
    return getattr(op, "public_name", None)


@functools.lru_cache(4096)
def operation_name(op: Any) -> str:
    """What an operation is called in a profile: as PyTorch's users know it."""
    if isinstance(op, CustomOp):
        return op.__qualname__  # as a program has named it: "mylib::scale"
    name = getattr(op, "aten", None)
    if name is not None:
        return f"aten::{name}"
    place = _public_place(op)
    if place is None:
        return f"{display.NAME}::{op.name}"
    space, _, name = place.rpartition(".")
    return f"aten::{space}_{name}" if space in PREFIXES else f"aten::{name}"


@functools.lru_cache(65536)
def _line(code: Any, line: int) -> str | None:
    """How a stack shows a place; None for one inside the library."""
    place = code.co_filename
    if place.startswith(PACKAGE):
        layer = place.removeprefix(LAYERS)
        if layer == place or layer.startswith("_") or layer in UNSHOWN:
            return None
    return f"{code.co_filename}({line}): {code.co_name}"


def _stack(frames: list | None) -> list[str]:
    return [text for code, line in frames or () if (text := _line(code, line)) is not None]


def _is_tensor(x: Any) -> bool:
    return isinstance(x, tuple)


def _shapes(values: list) -> tuple[list, list, list[str], list]:
    """Of what an operation was given: shapes as PyTorch lists them, those in lists too, dtypes, and what is no tensor."""
    plain: list = []
    nested: list = []
    dtypes: list[str] = []
    concrete: list = []
    for x in values:
        inner = [list(y[0]) for y in x if _is_tensor(y)] if isinstance(x, list) else []
        plain.append(list(x[0]) if _is_tensor(x) else [])
        nested.append(list(x[0]) if _is_tensor(x) else inner)
        dtypes.append(
            str(x[1]).rpartition(".")[2]
            if _is_tensor(x)
            else "TensorList"
            if inner
            else "Scalar"
            if isinstance(x, (int, float))
            else ""
        )
        concrete.append("" if _is_tensor(x) or inner or x is NotImplemented else x)
    return plain, nested, dtypes, concrete


def _flops(op: Any, values: list, keywords: Any, positional: int) -> int:
    """How many floating-point operations a call made, 0 where nobody counts them or it did not come as far."""
    given = [tuple(x[0]) if _is_tensor(x) else x for x in values]
    try:
        count = counted(op, given[:positional], dict(zip(keywords or (), given[positional:])))
    except (TypeError, IndexError, KeyError, AttributeError, RuntimeError):
        return 0  # of arguments that it refused
    return 0 if count is None else count.flops


def _ends(entries: list[tuple], ended: int) -> list[int]:
    """When each entry ended: one that never did, with what it is inside of, or with the recording."""
    result = [e[3] for e in entries]
    around: dict[int, list[int]] = {}
    for k, entry in enumerate(entries):
        stack = around.setdefault(entry[4], [])
        while stack and result[stack[-1]] <= entry[2]:
            stack.pop()
        if not result[k]:
            result[k] = result[stack[-1]] if stack else ended
        stack.append(k)
    return result


def _nested(events: list[FunctionEvent]) -> None:
    """Put events inside those that they ran in; of one thread they come in the order in which they began."""
    around: dict[int, list[FunctionEvent]] = {}
    for event in events:
        stack = around.setdefault(event.thread, [])
        while stack and stack[-1].time_range.end <= event.time_range.start:
            stack.pop()
        if stack:
            stack[-1].append_cpu_child(event)
        stack.append(event)


def _within_counted(event: FunctionEvent) -> bool:
    """Whether an event ran inside of one that counts what it makes."""
    parent = event.cpu_parent
    while parent is not None and not parent.flops:
        parent = parent.cpu_parent
    return parent is not None


def _innermost(events: list[FunctionEvent], thread: int, at: float) -> FunctionEvent | None:
    """What a thread was in at a time: the last that had begun, or what that was inside of."""
    result = bisect_right(events, at, key=lambda event: event.time_range.start) - 1
    while result >= 0 and events[result].thread != thread:
        result -= 1
    event = events[result] if result >= 0 else None
    while event is not None and event.time_range.end < at:
        event = event.cpu_parent
    return event


def events_of(
    raw: tuple,
    began: int,
    *,
    profile_memory: bool = False,
    with_flops: bool = False,
    with_stack: bool = False,
    communicated: Sequence[tuple] = (),
) -> Recorded:
    """The events of a recording (see `recorder.stop`) that began at that time."""
    entries, work, threads, ended = raw
    ends = _ends(entries, ended)
    events: list[FunctionEvent] = []
    forward: dict[int, FunctionEvent] = {}
    held: list[tuple[int, int, int]] = []
    use_device = work[0][0].type if work else None

    def add(name: str, k: int, kind: int, **more: Any) -> FunctionEvent:
        entry = entries[k]
        event = FunctionEvent(
            len(events),
            name,
            entry[4],
            (entry[2] - began) / 1e3,
            (ends[k] - began) / 1e3,
            scope=SCOPES.get(kind, 0),
            use_device=use_device,
            cpu_memory_usage=entry[6] - entry[5],
            device_memory_usage=entry[8] - entry[7],
            is_user_annotation=kind == SPAN,
            **more,
        )
        event.category = CATEGORIES.get(kind, "cpu_op")
        events.append(event)
        return event

    of_entry: list[FunctionEvent] = []
    for k, (what, kind, *_, made, sequence, given, frames) in enumerate(entries):
        if kind == OPERATION:
            event = add(operation_name(what), k, kind, sequence_nr=sequence if sequence > made else -1)
            for n in range(made + 1, sequence + 1):
                forward[n] = event  # what is inside comes later and knows better
        elif kind in (NODE, EVALUATION):
            name = what if kind == NODE else f"autograd::engine::evaluate_function: {what}"
            event = add(name, k, kind, sequence_nr=-1 if what.endswith("AccumulateGrad") else sequence)
        else:
            event = add(what, k, kind)
        of_entry.append(event)
        if given is not None:
            values, positional, keywords = given
            event.input_shapes, event.structured_input_shapes, event.input_dtypes, event.concrete_inputs = (
                _shapes(values[:positional])
            )
            if keywords:
                extra = _shapes(values[positional:])
                event.kwinputs = {
                    name: shape or concrete for name, shape, concrete in zip(keywords, extra[1], extra[3])
                }
            if with_flops:
                event.flops = _flops(what, values, keywords, positional)
        if with_stack:
            event.stack = _stack(frames)
    _nested(events)
    for event in events:
        if event.flops and _within_counted(event):
            event.flops = 0
        node = event if event.scope == 1 or event.name.startswith("autograd::engine") else None
        maker = forward.get(event.sequence_nr) if node is not None else None
        if maker is not None:
            event.fwd_thread, event.stack = maker.thread, maker.stack
        elif with_stack and (parent := event.cpu_parent) is not None and parent.fwd_thread is not None:
            event.fwd_thread, event.stack = parent.fwd_thread, parent.stack  # what runs inside a node
    for place, name, start, stop, given_at, thread in work:
        kind_of_device = DeviceType[place.type.upper()]
        event = FunctionEvent(
            len(events),
            name,
            thread,
            (start - began) / 1e3,
            (stop - began) / 1e3,
            use_device=use_device,
            device_type=kind_of_device,
            device_index=place.index or 0,
        )
        event.category = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
        events.append(event)
        giver = _innermost(of_entry, thread, (given_at - began) / 1e3)
        if giver is not None:
            giver.append_kernel(name, place.index or 0, (stop - start) / 1e3)
    for call in communicated:
        events.append(_collective(len(events), call, began, threads))
    if profile_memory:
        held = _memory(entries, ends)
        _unclaimed(entries, ends, events, began)
    result = EventList(events, use_device, profile_memory, with_flops)
    return Recorded(result, forward, held, threads, began, ended)


def _collective(number: int, call: tuple, began: int, threads: dict[int, tuple[str, int]]) -> FunctionEvent:
    """A call between processes: a row for each group, for such calls end in another order than the program's functions."""
    name, _, begun, over, waited, parameters = call
    row = f"collectives of group {parameters['Process Group Name']}"
    thread = next((n for n, (title, _) in threads.items() if title == row), None)
    if thread is None:
        thread = max(threads, default=0) + 1
        threads[thread] = (row, thread)
    event = FunctionEvent(
        number,
        name,
        thread,
        (begun - began) / 1e3,
        (over - began) / 1e3,
        is_async=True,
        is_user_annotation=True,
    )
    event.category, event.communication = "user_annotation", {**parameters, "Waiting (us)": waited / 1e3}
    return event


def _memory(entries: list[tuple], ends: list[int]) -> list[tuple[int, int, int]]:
    """What tensors held over time, at the begins and ends of events."""
    points = [(e[2], e[5], e[7]) for e in entries]
    points += [(end, e[6], e[8]) for e, end in zip(entries, ends) if e[3]]
    points.sort(key=lambda point: point[0])
    return [p for k, p in enumerate(points) if k == 0 or p[1:] != points[k - 1][1:]]


def _unclaimed(entries: list[tuple], ends: list[int], events: list[FunctionEvent], began: int) -> None:
    """Add an event `[memory]` for what was allocated or freed outside of all others."""
    reached, host, away = 0, None, 0
    for k, entry in sorted(enumerate(entries), key=lambda pair: pair[1][2]):
        if entry[2] < reached:
            if ends[k] > reached:
                reached, host, away = ends[k], entry[6], entry[8]
            continue
        if host is not None and (entry[5] != host or entry[7] != away):
            at = (entry[2] - began) / 1e3
            event = FunctionEvent(
                len(events),
                "[memory]",
                entry[4],
                at,
                at,
                cpu_memory_usage=entry[5] - host,
                device_memory_usage=entry[7] - away,
            )
            event.category = "cpu_instant_event"
            events.append(event)
        reached, host, away = ends[k], entry[6], entry[8]
