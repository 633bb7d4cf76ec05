"""The text of a table of events, in the columns that PyTorch's has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .._compat.html import escape
from .._compat.html import table as table_html
from .._compat.html import text as text_html

if TYPE_CHECKING:
    from .profiler_util import EventList

WIDTH = 12  # of a column of numbers
GAP = "  "
UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}  # in microseconds


def time_text(microseconds: float, unit: str | None = None) -> str:
    """A time in the unit requested, else in the largest of which there is one."""
    if unit is None:
        unit = next((name for name, size in UNITS.items() if microseconds >= size), "us")
    return f"{microseconds / UNITS[unit]:.3f}{unit}"


def share_text(part: float, whole: float) -> str:
    """A part in per cent; NaN of nothing."""
    return "NaN" if whole == 0 else f"{100.0 * part / whole:.2f}%"


def memory_text(nbytes: int) -> str:
    """Bytes in the largest binary unit of which there is one."""
    for power, unit in ((3, "GB"), (2, "MB"), (1, "KB")):
        if abs(nbytes) >= 1024**power:
            return f"{nbytes / 1024**power:.2f} {unit}"
    return f"{nbytes} B"


def cut(text: str, width: int | None) -> str:
    """The beginning of a name that is too long for its column."""
    return text if width is None or len(text) < width - 3 else text[: width - 3] + "..."


def cut_front(text: str, width: int) -> str:
    """The end of a path that is too long for its column."""
    if len(text) <= width:
        return text
    return "..." + text[len(text) - width + 3 :] if width > 3 else text[len(text) - width :]


class Column:
    """A heading, what stands below it, and how wide it is."""

    def __init__(self, heading: str, cells: Sequence[Any], width: int = WIDTH, side: str = ">") -> None:
        self.heading, self.cells, self.width, self.side = heading, cells, width, side

    def row(self, text: Any) -> str:
        """A text in the column."""
        return f"{text!s:{self.side}{self.width}}"


def _flops(events: Sequence[Any], shown: Sequence[Any]) -> Column | None:
    """The column of floating-point operations, in the unit of the smallest."""
    known = [e.flops for e in events if e.flops and e.flops > 0]
    if not known:
        return None
    power = min(int(max(0.0, math.log10(min(known)) / 3)), 5)
    cells = [f"{e.flops / 1000**power:8.3f}" if e.flops and e.flops > 0 else "--" for e in shown]
    return Column(f"Total {('', 'K', 'M', 'G', 'T', 'P')[power]}FLOPs", cells)


class Table(NamedTuple):
    """Columns, further lines below each row, and what is said below all."""

    columns: list[Column]
    source: Column | None  # the column that the further lines belong to
    below: list[list[str]]
    sums: list[str]


def build(events: EventList, *, header: str | None, top_level_events_only: bool, **options: Any) -> str:
    """The table of these events as text; see `EventList.table`."""
    made = _made(events, top_level_events_only=top_level_events_only, **options)
    if made is None:
        return ""
    columns = made.columns
    rule = "".join("-" * c.width + GAP for c in columns)
    text: list[str] = []
    if header is not None:
        text += ["=" * (len(rule) - len(GAP)), header]
    if top_level_events_only:
        text += ["=" * (len(rule) - len(GAP)), "This report only display top-level ops statistics"]
    text += [rule, "".join(c.row(c.heading) + GAP for c in columns), rule]
    for k, lines in enumerate(made.below):
        text.append("".join(c.row(c.cells[k]) + GAP for c in columns))
        for line in lines:
            text.append("".join(c.row(line if c is made.source else "") + GAP for c in columns))
    return "\n".join([*text, rule, *made.sums]) + "\n"


def page(events: EventList, rows: int) -> str:
    """The events that took longest by themselves, as HTML."""
    made = _made(
        events,
        sort_by="self_cpu_time_total",
        row_limit=rows,
        max_src_column_width=None,
        max_name_column_width=None,
        max_shapes_column_width=None,
        top_level_events_only=False,
        time_unit=None,
        profile_memory=events._profile_memory,
        with_flops=events._with_flops,
    )
    if made is None:
        return text_html("no events")
    cells = list(zip(*(c.cells for c in made.columns)))
    whole = table_html([c.heading for c in made.columns], cells)
    sums = "<br>".join(escape(line) for line in made.sums)
    left_out = len(events) - len(cells)
    return f"{whole}{sums}" + (f"<br>{left_out:,} more rows" if left_out else "")


def _made(
    events: EventList,
    *,
    sort_by: str | None,
    row_limit: int,
    max_src_column_width: int | None,
    max_name_column_width: int | None,
    max_shapes_column_width: int | None,
    top_level_events_only: bool,
    time_unit: str | None,
    profile_memory: bool,
    with_flops: bool,
) -> Table | None:
    """What a table of the events says; None without events."""
    if time_unit is not None and time_unit not in UNITS:
        raise ValueError(f"table(): time_unit must be one of {list(UNITS)}, got {time_unit!r}")
    if not events:
        return None
    rows: list[Any] = list(events)
    if sort_by is not None:
        key = plain_metric(sort_by)
        rows.sort(key=lambda e: getattr(e, key), reverse=True)
    if top_level_events_only:
        rows = [e for e in rows if e.cpu_parent is None]
    if row_limit >= 0:
        rows = rows[:row_limit]

    def fitting(texts: Sequence[str], most: int | None) -> int:
        wanted = max(map(len, texts)) + 4
        return wanted if most is None else min(wanted, most)

    on_cpu = sum(e.self_cpu_time_total for e in events)
    on_device = sum(
        e.self_device_time_total for e in events if e.device_type.name != "CPU" and not e.is_user_annotation
    )
    device = events._use_device.upper() if events._use_device else "DEVICE"
    has_device = any(e.self_device_time_total > 0 for e in events)

    def times(heading: str, name: str) -> Column:
        return Column(heading, [time_text(getattr(e, name), time_unit) for e in rows])

    def shares(heading: str, name: str, whole: float) -> Column:
        return Column(heading, [share_text(getattr(e, name), whole) for e in rows])

    def sizes(heading: str, name: str) -> Column:
        return Column(heading, [memory_text(getattr(e, name)) for e in rows])

    name_width = fitting([e.key for e in events], max_name_column_width)
    columns: list[Column] = [
        Column("Name", [cut(e.key, max_name_column_width) for e in rows], name_width),
        shares("Self CPU %", "self_cpu_time_total", on_cpu),
        times("Self CPU", "self_cpu_time_total"),
        shares("CPU total %", "cpu_time_total", on_cpu),
        times("CPU total", "cpu_time_total"),
        times("CPU time avg", "cpu_time"),
    ]
    if has_device:
        columns += [
            times(f"Self {device}", "self_device_time_total"),
            shares(f"Self {device} %", "self_device_time_total", on_device),
            times(f"{device} total", "device_time_total"),
            times(f"{device} time avg", "device_time"),
        ]
    if profile_memory:
        columns += [sizes("CPU Mem", "cpu_memory_usage"), sizes("Self CPU Mem", "self_cpu_memory_usage")]
        if any(e.device_memory_usage for e in events):
            columns += [
                sizes(f"{device} Mem", "device_memory_usage"),
                sizes(f"Self {device} Mem", "self_device_memory_usage"),
            ]
    columns.append(Column("# of Calls", [e.count for e in rows]))
    if any(e.node_id != -1 for e in events):
        columns.append(Column("Node ID", [e.node_id for e in rows]))
    if any(e.input_shapes for e in events):
        width = fitting([str(e.input_shapes) for e in events], max_shapes_column_width)
        columns.append(Column("Input Shapes", [str(e.input_shapes)[:width] for e in rows], width))
    below: list[list[str]] = [[] for _ in rows]  # the further lines of stacks
    source = None
    if any(e.stack for e in events):
        width = fitting([line for e in events for line in e.stack or ()], max_src_column_width)
        lines = [[cut_front(line, width) for line in e.stack or ()] for e in rows]
        source = Column("Source Location", [result[0] if result else "" for result in lines], width, "<")
        below = [[*result[1:], ""] for result in lines]
        columns.append(source)
    if with_flops and (flops := _flops(events, rows)) is not None:
        columns.append(flops)

    sums = [f"Self CPU time total: {time_text(on_cpu, time_unit)}"]
    if has_device:
        sums.append(f"Self {device} time total: {time_text(on_device, time_unit)}")
    return Table(columns, source, below, sums)


def plain_metric(name: str) -> str:
    """The attribute behind a name that says which accelerator."""
    for device in ("cuda", "xpu", "privateuse1", "opencl"):
        name = name.replace(device, "device")
    return name
