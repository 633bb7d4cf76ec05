"""What a profile tells: events, their averages, lists of them; as `torch.autograd.profiler_util`.

Times are microseconds since the recording began, sizes are bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, NamedTuple

from .._compat.absent import refusing
from . import _profiler_table as _table

__all__ = ["DeviceType", "EventList", "FunctionEvent", "FunctionEventAvg", "Interval", "Kernel"]


class DeviceType(IntEnum):
    """Where an event took place.

    >>> from flambeau.profiler import DeviceType
    >>> DeviceType.CPU.value
    0
    """

    CPU = 0
    CUDA = 1
    OPENCL = 4


class Interval:
    """From `start` to `end`, in microseconds.

    Raises nothing.

    >>> from flambeau.autograd.profiler_util import Interval
    >>> Interval(1.0, 3.5).elapsed_us()
    2.5
    """

    __slots__ = ("start", "end")

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """How long it is."""
        return self.end - self.start

    def __repr__(self) -> str:
        return f"Interval(start={self.start}, end={self.end})"


class Kernel(NamedTuple):
    """What a device ran for an event.

    >>> from flambeau.autograd.profiler_util import Kernel
    >>> Kernel("add", 0, 2.5).duration
    2.5
    """

    name: str
    device: int
    duration: float


def _text_of(name: str) -> property:
    return property(lambda self: _table.time_text(getattr(self, name)))


class FormattedTimesMixin:
    """Times an event, and times as text.

    >>> import flambeau
    >>> from flambeau.autograd.profiler import profile
    >>> with profile() as prof:
    ...     x = flambeau.ones(3)
    >>> prof.key_averages()[0].cpu_time_total_str.endswith("s")
    True
    """

    count: int

    cpu_time_str = _text_of("cpu_time")
    device_time_str = _text_of("device_time")
    cpu_time_total_str = _text_of("cpu_time_total")
    device_time_total_str = _text_of("device_time_total")
    self_cpu_time_total_str = _text_of("self_cpu_time_total")
    self_device_time_total_str = _text_of("self_device_time_total")

    @property
    def cpu_time(self) -> float:
        """Microseconds of one call."""
        return self.cpu_time_total / self.count if self.count else 0.0  # type: ignore[attr-defined]

    @property
    def device_time(self) -> float:
        """Microseconds on devices of one call."""
        return self.device_time_total / self.count if self.count else 0.0  # type: ignore[attr-defined]

    @property
    def cuda_time(self) -> float:
        """The older name of `device_time`."""
        return self.device_time


class FunctionEvent(FormattedTimesMixin):
    """One call: of an operation, a node of the tape, a module, a span with a name, a kernel on a device.

    `name`, `thread`, `time_range`, `cpu_parent` and `cpu_children` say what ran where and inside what; `sequence_nr` is the number of
    the node that a forward operation made, or that a backward event is about (-1 for none); `input_shapes`, `concrete_inputs` and
    `input_dtypes` stand where shapes were recorded, `stack` where stacks were, the innermost line first.

    Raises:
        TypeError: an argument is missing

    >>> import flambeau
    >>> from flambeau.profiler import profile
    >>> with profile() as prof:
    ...     x = flambeau.ones(2).view(1, 2)
    >>> [event.name for event in prof.events()]
    ['aten::ones', 'aten::view']
    """

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        fwd_thread: int | None = None,
        input_shapes: list | None = None,
        stack: list[str] | None = None,
        scope: int = 0,
        use_device: str | None = None,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        is_async: bool = False,
        is_remote: bool = False,
        sequence_nr: int = -1,
        node_id: int = -1,
        device_type: DeviceType = DeviceType.CPU,
        device_index: int = 0,
        is_legacy: bool = False,
        flops: int | None = None,
        trace_name: str | None = None,
        concrete_inputs: list | None = None,
        is_user_annotation: bool = False,
        kwinputs: dict[str, Any] | None = None,
    ) -> None:
        self.id, self.name, self.thread, self.time_range = id, name, thread, Interval(start_us, end_us)
        self.trace_name = name if trace_name is None else trace_name
        self.fwd_thread, self.scope, self.sequence_nr, self.node_id = fwd_thread, scope, sequence_nr, node_id
        self.input_shapes = [] if input_shapes is None else input_shapes
        self.structured_input_shapes: list = []
        self.concrete_inputs = [] if concrete_inputs is None else concrete_inputs
        self.kwinputs = {} if kwinputs is None else kwinputs
        self.input_dtypes: list[str] = []
        self.stack = [] if stack is None else stack
        self.use_device, self.device_type, self.device_index = use_device, device_type, device_index
        self.cpu_memory_usage, self.device_memory_usage = cpu_memory_usage, device_memory_usage
        self.is_async, self.is_remote, self.is_legacy = is_async, is_remote, is_legacy
        self.flops, self.is_user_annotation = flops or 0, is_user_annotation
        self.category = "cpu_op"
        self.communication: dict[
            str, Any
        ] = {}  # of a call between processes: its arguments, as a trace has them
        self.count = 1
        self.kernels: list[Kernel] = []
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        """Add what a device ran for it."""
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Put another event inside this one."""
        self.cpu_children.append(child)
        child.cpu_parent = self

    def set_cpu_parent(self, parent: FunctionEvent | None) -> None:
        """Say which event it is inside of."""
        self.cpu_parent = parent

    @property
    def key(self) -> str:
        """What events are grouped by."""
        return self.name

    @property
    def overload_name(self) -> str:
        """Empty: operations have no overloads."""
        return ""

    @property
    def cpu_time_total(self) -> float:
        """Microseconds on the host, from begin to end; 0 for what ran on a device."""
        return self.time_range.elapsed_us() if self.device_type is DeviceType.CPU else 0.0

    @property
    def self_cpu_time_total(self) -> float:
        """The same without the events inside; nothing of what goes on beside the program's threads."""
        if self.is_async:
            return 0.0
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def device_time_total(self) -> float:
        """Microseconds on devices of what it and the events inside launched."""
        if self.device_type is not DeviceType.CPU:
            return self.time_range.elapsed_us()
        if self.use_device is None:
            return 0.0
        total, inside = 0.0, [self]
        while inside:  # however deep they are nested
            event = inside.pop()
            total += event.self_device_time_total
            inside.extend(event.cpu_children)
        return total

    @property
    def self_device_time_total(self) -> float:
        """Microseconds on devices of what it launched itself."""
        if self.device_type is not DeviceType.CPU:
            return self.time_range.elapsed_us()
        return sum(kernel.duration for kernel in self.kernels)

    @property
    def cuda_time_total(self) -> float:
        """The older name of `device_time_total`."""
        return self.device_time_total

    @property
    def self_cuda_time_total(self) -> float:
        """The older name of `self_device_time_total`."""
        return self.self_device_time_total

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes that it allocated and did not free, without the events inside; negative where it freed more."""
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def self_device_memory_usage(self) -> int:
        """The same on devices."""
        return self.device_memory_usage - sum(child.device_memory_usage for child in self.cpu_children)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} device_type={self.device_type.name} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start:.3f} end_us={self.time_range.end:.3f} "
            f"cpu_children={[child.id for child in self.cpu_children]} device_time={self.device_time_str} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            f"device_memory_usage={self.device_memory_usage} seq_nr={self.sequence_nr}>"
        )


class FunctionEventAvg(FormattedTimesMixin):
    """The sums over events with one key, and how many they are; `cpu_time` is the mean.

    >>> import flambeau
    >>> from flambeau.profiler import profile
    >>> with profile() as prof:
    ...     for _ in range(3):
    ...         x = flambeau.ones(2)
    >>> average = prof.key_averages()[0]
    >>> average.key, average.count
    ('aten::ones', 3)
    """

    _SUMS = (
        "cpu_time_total",
        "device_time_total",
        "self_cpu_time_total",
        "self_device_time_total",
        "cpu_memory_usage",
        "device_memory_usage",
        "self_cpu_memory_usage",
        "self_device_memory_usage",
        "count",
        "flops",
    )

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = self.flops = 0
        self.node_id = 0
        self.is_async = self.is_remote = self.is_legacy = self.is_user_annotation = False
        self.use_device: str | None = None
        self.cpu_time_total = self.device_time_total = 0.0
        self.self_cpu_time_total = self.self_device_time_total = 0.0
        self.cpu_memory_usage = self.device_memory_usage = 0
        self.self_cpu_memory_usage = self.self_device_memory_usage = 0
        self.input_shapes: Any = None
        self.overload_name: str | None = ""
        self.stack: list[str] = []
        self.scope: int | None = None
        self.cpu_children: list | None = None
        self.cpu_parent: FunctionEvent | None = None
        self.device_type: DeviceType = DeviceType.CPU

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Take another event, or sums, in.  Returns itself."""
        if self.key is None:
            for name in (
                "key",
                "node_id",
                "is_async",
                "is_remote",
                "is_legacy",
                "is_user_annotation",
                "use_device",
                "input_shapes",
                "stack",
                "scope",
                "cpu_parent",
                "device_type",
            ):
                setattr(self, name, getattr(other, name))
        for name in self._SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    def __iadd__(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        return self.add(other)

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} cpu_time={self.cpu_time_str}  "
            f"self_device_time={self.self_device_time_total_str} device_time={self.device_time_str} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            f"device_memory_usage={self.device_memory_usage}>"
        )


class EventList(list):
    """Events, or averages of them, with tables and files of them.

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.profiler import profile
    >>> with profile() as prof:
    ...     x = flambeau.ones(2)
    >>> events = prof.events()
    >>> len(events), events[0].cpu_parent
    (1, None)
    """

    def __init__(
        self,
        events: Iterable[Any] = (),
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
    ) -> None:
        super().__init__(events)
        self._use_device, self._profile_memory, self._with_flops = use_device, profile_memory, with_flops

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        """What notebooks show: the table, what took longest by itself first."""
        return _table.page(self, rows=100)

    def _like(self, events: Iterable[Any]) -> EventList:
        return EventList(events, self._use_device, self._profile_memory, self._with_flops)

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds that all of them took on the host."""
        return sum(event.self_cpu_time_total for event in self)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """A table with a row for each: its name, its times, and what else was recorded.

        `sort_by` names what the largest of stands first: `cpu_time`, `cpu_time_total`, `self_cpu_time_total`, the same of `device` (or
        `cuda`), `cpu_memory_usage`, `self_cpu_memory_usage`, `count`, `flops`; AttributeError for what events do not have.
        `row_limit` is how many rows there are at most, -1 for all; `time_unit` is "s", "ms" or "us" for all times, else each has its own.
        `top_level_events_only` leaves out what ran inside of others.

        >>> import flambeau
        >>> from flambeau.profiler import profile
        >>> with profile() as prof:
        ...     x = flambeau.ones(2)
        >>> prof.key_averages().table(sort_by="count").splitlines()[1].split()[:3]
        ['Name', 'Self', 'CPU']
        """
        return _table.build(
            self,
            sort_by=sort_by,
            row_limit=row_limit,
            max_src_column_width=max_src_column_width,
            max_name_column_width=max_name_column_width,
            max_shapes_column_width=max_shapes_column_width,
            header=header,
            top_level_events_only=top_level_events_only,
            time_unit=time_unit,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
        )

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """The sums over events of one name, on one kind of device; of the same shapes, or first lines of the stack, if requested."""
        result: dict[tuple, FunctionEventAvg] = {}
        for event in self:
            key = (
                event.key,
                event.device_type,
                event.is_user_annotation,
                str(event.input_shapes) if group_by_input_shapes else None,
                tuple(event.stack[:group_by_stack_n]),
            )
            average = result.get(key)
            if average is None:
                average = result[key] = FunctionEventAvg()
            average.add(event)
        for average in result.values():
            average.stack = average.stack[:group_by_stack_n]
            if not group_by_input_shapes:
                average.input_shapes = ""
        return self._like(result.values())

    def total_average(self) -> FunctionEventAvg:
        """The sums over all of them, under the key "Total"."""
        total = FunctionEventAvg()
        for event in self:
            total.add(event)
        total.key = "Total"
        return total

    def export_chrome_trace(self, path: Any) -> None:
        """Write the events to a file that chrome://tracing and Perfetto open."""
        result = [
            {
                "name": e.trace_name,
                "ph": "X",
                "ts": e.time_range.start,
                "dur": e.time_range.elapsed_us(),
                "tid": e.thread,
                "pid": "CPU functions"
                if e.device_type is DeviceType.CPU
                else f"{e.device_type.name} functions",
                "args": {},
            }
            for e in self
        ]
        with open(path, "w") as file:
            json.dump(result, file)

    def supported_export_stacks_metrics(self) -> list[str]:
        """What `export_stacks` may weigh stacks by."""
        return [
            "self_cpu_time_total",
            "self_cuda_time_total",
            "self_xpu_time_total",
            "self_privateuse1_time_total",
            "self_device_time_total",
        ]

    def export_stacks(self, path: Any, metric: str = "self_cpu_time_total") -> None:
        """Write stacks and their weights, a line each, as programs that draw flame graphs read them.

        ValueError for another metric than `supported_export_stacks_metrics()` tells.
        """
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(f"metric should be one of: {self.supported_export_stacks_metrics()}")
        plain, name = str.maketrans(" ;\t\n", "____"), _table.plain_metric(metric)
        with open(path, "w") as file:
            for event in self:
                weight = int(getattr(event, name))
                if event.stack and weight > 0:
                    file.write(
                        ";".join(line.translate(plain) for line in reversed(event.stack)) + f" {weight}\n"
                    )


__getattr__ = refusing("autograd.profiler_util")
