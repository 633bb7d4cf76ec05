"""The profiler below `flambeau.profiler`: what operations, nodes and named spans take, as `torch.autograd.profiler`."""

from __future__ import annotations

import time
from contextlib import ContextDecorator
from typing import Any

from .._compat.absent import refusing
from ..core.base import profiling
from ..core.base.callbacks import callbacks
from ._profiler_events import Recorded, events_of
from .profiler_util import (
    DeviceType,
    EventList,
    FormattedTimesMixin,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    Kernel,
)

__all__ = [
    "DeviceType",
    "EventList",
    "FormattedTimesMixin",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "emit_nvtx",
    "profile",
    "record_function",
]


def _collectives(ended: int) -> list[tuple]:
    """What was called between processes since this was last called; nothing where there is no `distributed`."""
    found = callbacks.get("collectives of a profile")
    return [] if found is None else found(ended)


class record_function(ContextDecorator):
    """A name for what runs inside a block, or in a function that this decorates; costs next to nothing while nobody profiles.

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.profiler import profile, record_function
    >>> with profile() as prof, record_function("mine"):
    ...     x = flambeau.ones(2)
    >>> [event.name for event in prof.events()]
    ['mine', 'aten::ones']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        if not isinstance(name, str):
            raise TypeError(f"record_function(): name must be str, not {type(name).__name__}")
        self.name, self.args = name, args
        self._entries: list[int] = []  # of the blocks that it is open in

    def _recreate_cm(self) -> record_function:
        return type(self)(self.name, self.args)  # a function that calls itself has a block for each call

    def __enter__(self) -> record_function:
        self._entries.append(profiling.begin_span(self.name))
        return self

    def __exit__(self, *exception: Any) -> None:
        profiling.end_span(self._entries.pop())


class emit_nvtx:
    """Each operation in the block is a range that NVIDIA's profilers show.

    With `record_shapes` the range's name has the shapes of the tensors given.  RuntimeError without their library (see
    `flambeau.cuda.nvtx`), and for one that is entered twice.

    >>> import flambeau
    >>> with flambeau.autograd.profiler.emit_nvtx(enabled=False):
    ...     x = flambeau.ones(2).exp()
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes = enabled, record_shapes
        self.entered = False
        self._mode: Any = None

    def __enter__(self) -> emit_nvtx | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("NVTX annotation context manager is not reentrant")
        from ._profiler_nvtx import Ranges

        self._mode = Ranges(self.record_shapes)
        self._mode.__enter__()
        self.entered = True
        return self

    def __exit__(self, *exception: Any) -> None:
        if self.entered:
            self.entered = False
            self._mode.__exit__(*exception)


def _disable_profiler() -> None:
    """Ends whatever recording is on."""
    if profiling.is_started():
        profiling.stop()


class profile:
    """Records what runs in the block, in all threads.

    `record_shapes` notes the shapes and dtypes of arguments, `with_stack` the lines of Python that operations were called from,
    `profile_memory` the bytes that tensors hold before and after, `with_flops` estimates floating-point operations (and notes
    shapes), `with_modules` adds calls of modules, `use_device` the times of kernels on accelerators.  `enabled=False` records nothing.

    RuntimeError where another profiler is on.  A child that is forked inside the block records nothing.

    >>> import flambeau
    >>> with flambeau.autograd.profiler.profile() as prof:
    ...     x = flambeau.ones(2).view(1, 2).view(2)
    >>> [(average.key, average.count) for average in prof.key_averages()]
    [('aten::ones', 1), ('aten::view', 2)]
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        acc_events: bool = False,
    ) -> None:
        self.enabled = enabled
        self.use_device = "cuda" if use_cuda else use_device
        self.use_cpu, self.use_kineto, self.acc_events = use_cpu, use_kineto, acc_events
        self.record_shapes = record_shapes or with_flops
        self.with_flops, self.profile_memory = with_flops, profile_memory
        self.with_stack, self.with_modules = with_stack, with_modules
        self.entered = False
        self.recorded: Recorded | None = None
        self._began = self._epoch = 0
        self._leave_modules: Any = None

    # --- recording ---
    def _prepare(self) -> None:
        """Begin to record."""
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        profiling.start(self.record_shapes, self.with_stack, self.profile_memory, self.use_device is not None)
        self.entered = True
        if self.with_modules:
            from ..nn.modules._profiled import record_modules

            self._leave_modules = record_modules()
        self._start()

    def _start(self) -> None:
        """Count from now on, and forget what was recorded before."""
        profiling.clear()
        _collectives(0)  # those before
        self._began = profiling.now()
        self._epoch = time.time_ns() - self._began  # from the recorder's clock to that of the wall

    def _stop(self) -> None:
        """End the recording; what was noted becomes events when it is requested."""
        if self._leave_modules is not None:
            self._leave_modules()
            self._leave_modules = None
        self.entered = False
        if profiling.is_started():  # not in the child of a fork
            self._raw: Any = profiling.stop()
            self._communicated = _collectives(profiling.now())
            self.recorded = None

    def is_done(self) -> bool:
        """Whether it has been on, and has something to tell; not in a child that was forked while it was."""
        return self.recorded is not None or hasattr(self, "_raw")

    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        self._prepare()
        return self

    def __exit__(self, *exception: Any) -> None:
        if self.enabled:
            self._stop()

    # --- what was recorded ---
    def _results(self) -> Recorded:
        if self.recorded is None:
            raw = self.__dict__.pop("_raw", None)
            if raw is None:
                raise RuntimeError("Profiler didn't finish running")
            self.recorded = events_of(
                raw,
                self._began,
                profile_memory=self.profile_memory,
                with_flops=self.with_flops,
                with_stack=self.with_stack,
                communicated=self._communicated,
            )
        return self.recorded

    @property
    def function_events(self) -> EventList:
        """All events, in the order in which they began.  RuntimeError while the profiler runs."""
        return self._results().events

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
        """A row for each event; see `EventList.table`."""
        return self.function_events.table(
            sort_by,
            row_limit,
            max_src_column_width,
            max_name_column_width,
            max_shapes_column_width,
            header,
            top_level_events_only,
            time_unit,
        )

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Sums over events of one name; see `EventList.key_averages`."""
        return self.function_events.key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def total_average(self) -> FunctionEventAvg:
        """Sums over all events."""
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds that all events took on the host."""
        return self.function_events.self_cpu_time_total

    def export_chrome_trace(self, path: Any) -> None:
        """Write the events to a file that chrome://tracing and Perfetto open."""
        self.function_events.export_chrome_trace(path)

    def export_stacks(self, path: Any, metric: str = "self_cpu_time_total") -> None:
        """Write stacks and their weights for a flame graph; wants `with_stack=True`."""
        if not self.with_stack:
            raise RuntimeError("export_stacks() requires with_stack=True")
        self.function_events.export_stacks(path, metric)

    def __str__(self) -> str:
        return self.table() if self.is_done() else "<unfinished profiler>"

    def __repr__(self) -> str:
        return str(self)


__getattr__ = refusing("autograd.profiler")
