"""The profiler: what to record, over which steps, and what becomes of it."""

from __future__ import annotations

import atexit
import json
import os
import time
import warnings
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from .._compat.absent import refusing
from ..autograd import profiler as below
from ..autograd._profiler_events import Recorded
from ..autograd.profiler_util import DeviceType, EventList
from ..core.base import profiling
from ..core.base.callbacks import callbacks
from ..core.base.device import device_count
from ._collectives import CollectiveAverage, collective_averages
from ._trace import write_memory_timeline, write_trace

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(Enum):
    """What is recorded: the host, or a kind of accelerator.

    >>> from flambeau.profiler import ProfilerActivity, profile
    >>> with profile(activities=[ProfilerActivity.CPU]):
    ...     x = __import__("flambeau").ones(2)
    """

    CPU = 0
    CUDA = 1
    XPU = 2
    MTIA = 3
    OPENCL = 4
    HPU = 5
    PrivateUse1 = 6


class ProfilerAction(Enum):
    """What a profiler does in a step; a function that returns one may be its schedule.

    >>> from flambeau.profiler import ProfilerAction, profile
    >>> with profile(schedule=lambda step: ProfilerAction.RECORD if step else ProfilerAction.NONE) as prof:
    ...     prof.step()
    >>> [event.name for event in prof.events()]
    ['ProfilerStep#1']
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


def supported_activities() -> set[ProfilerActivity]:
    """What can be recorded on this machine.

    >>> from flambeau.profiler import ProfilerActivity, supported_activities
    >>> ProfilerActivity.CPU in supported_activities()
    True
    """
    result = {ProfilerActivity.CPU}
    return result | {a for a in ProfilerActivity if a.name != "CPU" and device_count(a.name.lower())}


def kineto_available() -> bool:
    """Whether traces can be recorded, which they always can; the library of that name is not needed.

    >>> from flambeau.profiler import kineto_available
    >>> kineto_available()
    True
    """
    return True


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """A function that tells a profiler what to do in each step.

    After `skip_first` steps come cycles of `wait` steps in which nothing happens, `warmup` steps whose recording is thrown away, and
    `active` ones that are recorded; `repeat` is how many cycles there are, 0 for no end.  With `skip_first_wait` the first cycle
    does not wait.  AssertionError for numbers below 0, or no active step.

    >>> from flambeau.profiler import schedule
    >>> schedule_fn = schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [schedule_fn(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)
    length = wait + warmup + active

    def schedule_fn(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        if repeat and step >= repeat * length:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return schedule_fn


def _default_schedule_fn(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """A handler that writes each trace to a new file in a folder, where TensorBoard's plug-in, or Perfetto, finds it.

    The files are named `worker_name` (by default the host's name and the process), the time, `.pt.trace.json`, and .gz if requested.
    RuntimeError where the folder cannot be made.

    >>> import os, tempfile, flambeau
    >>> from flambeau.profiler import profile, tensorboard_trace_handler
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with profile(on_trace_ready=tensorboard_trace_handler(folder, "worker")) as prof:
    ...         x = flambeau.ones(2)
    ...     [name.split(".")[0] for name in os.listdir(folder)]
    ['worker']
    """
    import socket

    def handler(prof: profile) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError(f"Can't create directory: {dir_name}") from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = ".gz" if use_gzip else ""
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}.pt.trace.json{ending}"))

    return handler


def _activities(activities: Iterable[Any] | None) -> frozenset[ProfilerActivity]:
    """What to record; where nothing is said, everything that happens, without asking any driver."""
    if activities is None:
        return frozenset(ProfilerActivity)
    result = frozenset(activities)
    for activity in result:
        if not isinstance(activity, ProfilerActivity):
            raise TypeError(
                f"profile(): activities must be of ProfilerActivity, got {type(activity).__name__}"
            )
        if activity is not ProfilerActivity.CPU and not device_count(activity.name.lower()):
            warnings.warn(
                f"{activity.name} is not available, disabling {activity.name} profiling", stacklevel=4
            )
    if not result:
        raise AssertionError("No valid profiler activities found")
    return result


class _KinetoProfile:
    """A recording that is started and stopped by hand; `profile` adds steps and handlers."""

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
    ) -> None:
        for name, value in (
            ("experimental_config", experimental_config),
            ("execution_trace_observer", execution_trace_observer),
        ):
            if value is not None:
                raise NotImplementedError(
                    f"profile(): {name} configures a library that is not used here; leave it out"
                )
        self.activities = _activities(activities)
        self.record_shapes, self.with_flops, self.profile_memory = record_shapes, with_flops, profile_memory
        self.with_stack, self.with_modules, self.acc_events = with_stack, with_modules, acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.use_device = "device" if self.activities - {ProfilerActivity.CPU} else None
        self.profiler: below.profile | None = None
        self.preset_metadata: dict[str, str] = {}
        self._metadata: dict[str, Any] = {}
        self._earlier: list[EventList] = []  # of cycles that are over, where events accumulate
        self._trace_id = ""

    # --- recording ---
    def start(self) -> None:
        """Begin to record."""
        self.prepare_trace()
        self.start_trace()

    def stop(self) -> None:
        """End the recording."""
        self.stop_trace()

    def prepare_trace(self) -> None:
        """Begin to record what is thrown away when `start_trace` is called.  RuntimeError where another profiler is on."""
        made = below.profile(
            use_cpu=ProfilerActivity.CPU in self.activities,
            use_device=self.use_device,
            record_shapes=self.record_shapes,
            with_flops=self.with_flops,
            profile_memory=self.profile_memory,
            with_stack=self.with_stack,
            with_modules=self.with_modules,
        )
        made._prepare()
        if self.acc_events and self.profiler is not None:
            self._earlier.append(self._events())
        self.profiler = made
        atexit.register(self._left_open)

    def start_trace(self) -> None:
        """Record from now on what is kept."""
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before starting trace")
        self.profiler._start()
        if self.custom_trace_id_callback is not None:
            self._trace_id = self.custom_trace_id_callback()
        else:
            self._trace_id = os.urandom(16).hex().upper()

    def stop_trace(self) -> None:
        """End the recording."""
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before stopping trace")
        atexit.unregister(self._left_open)
        self.profiler._stop()

    def _left_open(self) -> None:
        """The interpreter ends while this is on: what was recorded is handed on, as `stop` does."""
        if profiling.is_started():
            warnings.warn("a profiler was still on when the program ended; it is stopped now", stacklevel=1)
            self.stop()

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[ProfilerActivity]) -> None:
        """Go on, or stop for a while, recording the host or accelerators."""
        if self.profiler is None:
            return
        wanted = _activities(activities)
        if ProfilerActivity.CPU in wanted:
            (profiling.resume if enable else profiling.pause)()
        if wanted - {ProfilerActivity.CPU}:
            profiling.record_devices(enable)

    # --- what was recorded ---
    def _done(self, doing: str) -> Recorded:
        if self.profiler is None:
            raise AssertionError(f"Profiler must be initialized before {doing}")
        return self.profiler._results()

    def _events(self, doing: str = "accessing events") -> EventList:
        result = self._done(doing).events
        if ProfilerActivity.CPU not in self.activities:
            result = result._like(e for e in result if e.device_type is not DeviceType.CPU)
        return result

    def events(self) -> EventList:
        """Every call, as a `FunctionEvent`; of the last cycle, or of all with `acc_events`."""
        last = self._events()
        return last._like(e for events in (*self._earlier, last) for e in events) if self._earlier else last

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Sums over calls of one name (and of one shape, or the first lines of the stack); see `EventList.key_averages`."""
        self._done("getting key averages")
        return self.events().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def export_chrome_trace(self, path: Any) -> None:
        """Write the last cycle to a file that Perfetto and chrome://tracing open; compressed where its name ends in .gz.

        Times are microseconds; `baseTimeNanoseconds` is what makes them times of the wall's clock.
        """
        recorded = self._done("exporting chrome trace")
        assert self.profiler is not None
        settings: dict[str, Any] = {"trace_id": self._trace_id}
        for name in ("with_stack", "profile_memory", "record_shapes", "with_modules", "with_flops"):
            if getattr(self, name):
                settings[name] = 1
        information = callbacks.get("groups of processes")
        if information is not None and (groups := information()) is not None:
            settings["distributedInfo"] = groups
        presets = {name: json.loads(value) for name, value in self.preset_metadata.items()}
        write_trace(path, recorded, self.profiler._epoch, settings, {**presets, **self._metadata})

    def collectives(self) -> list[CollectiveAverage]:
        """What was called between processes, by name, the longest first: calls, bytes, time, and how much of it was computed in.

        Raises:
            AssertionError: nothing was recorded

        >>> import flambeau, flambeau.distributed as dist
        >>> dist.init_process_group("fake", rank=0, world_size=2)
        >>> with flambeau.profiler.profile() as prof:
        ...     dist.all_reduce(flambeau.ones(4))
        >>> [(each.name, each.calls, each.bytes_in) for each in prof.collectives()]
        [('fake:all_reduce', 1, 16)]
        >>> dist.destroy_process_group()
        """
        return collective_averages(self._done("getting collectives"))

    def export_stacks(self, path: Any, metric: str = "self_cpu_time_total") -> None:
        """Write stacks and their weights for a flame graph: `a;b;c 12` in microseconds; wants `with_stack=True`."""
        self._done("exporting stacks")
        assert self.profiler is not None
        self.profiler.export_stacks(path, metric)

    def export_memory_timeline(self, path: Any, device: str | None = None) -> None:
        """Write what tensors held over time: [times in nanoseconds, bytes] as JSON (compressed for .gz), or a drawing as .html.

        ValueError unless `profile_memory=True`.
        """
        if not self.profile_memory:
            raise ValueError("profile_memory=True required for memory profiling.")
        recorded = self._done("exporting a memory timeline")
        assert self.profiler is not None
        write_memory_timeline(path, recorded, self.profiler._epoch, (device or "cpu").partition(":")[0])

    def add_metadata(self, key: str, value: str) -> None:
        """Put a text into the trace's file."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Put what a text in JSON says into the trace's file.  ValueError for what is no JSON."""
        self._metadata[key] = json.loads(value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """The same before the profiler starts."""
        json.loads(value)
        self.preset_metadata[key] = value


class profile(_KinetoProfile):
    """Records what runs in the block: operations, nodes in backward passes, steps of optimisers, batches of loaders, compilations.

    `activities`: the host and accelerators, by default all that are used.  `record_shapes`: shapes and dtypes of arguments.
    `profile_memory`: bytes that tensors hold.  `with_stack`: the lines of Python that operations were called from.  `with_flops`:
    estimates of floating-point operations.  `with_modules`: calls of modules.  `schedule`: a function of the step, see `schedule`;
    `step()` says that the next one begins.  `on_trace_ready(prof)` is called with each recording that is complete.  `acc_events`:
    `events()` tells of all cycles.

    An operation that runs for the first time with new dtypes or layouts compiles a kernel: `flambeau::compile …` inside of it.
    Names are those of PyTorch's profiler (`aten::add`), so that what reads its tables and traces reads these; what an operation
    calls in C is part of it, so `aten::linear` has no `aten::addmm` inside.  All threads are recorded.  While nobody profiles it
    costs nothing.  RuntimeError where another profiler is on.

    >>> import flambeau
    >>> from flambeau.profiler import profile
    >>> layer = flambeau.nn.Linear(3, 2)
    >>> with profile() as prof:
    ...     layer(flambeau.ones(4, 3)).sum().backward()
    >>> names = [event.name for event in prof.events()]
    >>> names[:2], "AddmmBackward0" in names
    (['aten::ones', 'aten::linear'], True)
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
    ) -> None:
        if use_cuda is not None:
            warnings.warn(
                "`use_cuda` is deprecated, use `activities` argument instead", FutureWarning, stacklevel=2
            )
            chosen = set(ProfilerActivity if activities is None else activities)
            (chosen.add if use_cuda else chosen.discard)(ProfilerActivity.CUDA)
            activities = chosen if activities is not None or not use_cuda else None
        super().__init__(
            activities=activities,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer,
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
        )
        self.schedule = schedule or _default_schedule_fn
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self._action_at(0)
        self._step_span: below.record_function | None = None

    def _action_at(self, step: int) -> ProfilerAction:
        """What the schedule says; ValueError for what is no action of its."""
        action = self.schedule(step)
        if not isinstance(action, ProfilerAction) or action is ProfilerAction.DEVICE_STOPPED:
            raise ValueError(f"profile(): the schedule must return a ProfilerAction to take, got {action!r}")
        return action

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with what the schedule says of this step."""
        self._go(ProfilerAction.NONE, self.current_action)
        self._enter_step()

    def stop(self) -> None:
        """End, and hand on what was recorded."""
        self._leave_step()
        self._go(self.current_action, None)

    def step(self) -> None:
        """The next step begins."""
        self._leave_step()
        before, self.current_action = self.current_action, self._action_at(self.step_num + 1)
        self.step_num += 1
        self._go(before, self.current_action)
        self._enter_step()

    def _enter_step(self) -> None:
        if self.record_steps:
            self._step_span = below.record_function(f"ProfilerStep#{self.step_num}")
            self._step_span.__enter__()

    def _leave_step(self) -> None:
        if self._step_span is not None:
            self._step_span.__exit__(None, None, None)
            self._step_span = None

    def _go(self, before: ProfilerAction, after: ProfilerAction | None) -> None:
        """From one action to the next; None is the end."""
        none, warmup = ProfilerAction.NONE, ProfilerAction.WARMUP
        record, save = ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE
        on = before is not none
        if before in (warmup, record) and after in (none, warmup) and before is not after:
            warnings.warn(f"Incorrect schedule: {before.name} followed by {after.name}", stacklevel=3)
        if on and (before is save or after in (none, None) or (before is record and after is warmup)):
            self.stop_trace()
            if before is save or (before is record and after is None):
                self._trace_ready()
            on = False
        if after in (none, None):
            return
        if not on:
            self.prepare_trace()
        if after in (record, save) and (not on or before is warmup):
            self.start_trace()

    def _trace_ready(self) -> None:
        if self.on_trace_ready is not None and self.profiler is not None and self.profiler.is_done():
            self.on_trace_ready(self)

    def get_trace_id(self) -> str | None:
        """What tells this recording from others in its file; None before the first."""
        return self._trace_id or None

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Let a function name the recordings that begin from now on."""
        self.custom_trace_id_callback = callback


__getattr__ = refusing("profiler.profiler")
