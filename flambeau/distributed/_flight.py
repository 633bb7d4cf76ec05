"""The flight recorder: what this process has called last, and what it says of itself and others when a call does not end.

Every call leaves a `Call` in a ring: its number, name, shapes, dtypes, state, times, and the lines of the program that it comes from;
no tensor is held.  A dump of the ring has the layout of PyTorch's, which `torchfrtrace` reads, too.  A call that times out asks the
other processes (see `_watch`) which of them have joined it, and at which line those are that have not.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import pickle
import sys
import sysconfig
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

from ..core.base import profiling
from ..core.base.callbacks import set_callback
from ..core.base.tensor import TensorBase

_FRAMES = 8  # of the program that a call keeps
_ANSWERING = 1.0  # seconds in which another process says where it is
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_LIBRARY = tuple({sysconfig.get_path("stdlib") + os.sep, os.path.dirname(os.__file__) + os.sep})
_EPOCH = time.time_ns() - time.monotonic_ns()  # the wall's clock at 0 of the other
_SCALARS = {  # what PyTorch's recorder calls dtypes
    "float32": "Float",
    "float64": "Double",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "uint8": "Byte",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
    "bool": "Bool",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}
_RECORDED_AS = {  # what PyTorch's recorder calls collectives and messages, where it is another name
    "all_gather_into_tensor": "_all_gather_base",
    "reduce_scatter_tensor": "_reduce_scatter_base",
    "all_to_all_single": "all_to_all",
    "barrier": "all_reduce_barrier",
    "gather_object": "gather",
    "scatter_object_list": "scatter",
    "isend": "send",
    "irecv": "recv",
}
Sketch = tuple[tuple[int, ...], Any]  # a tensor's shape and dtype


class Group(NamedTuple):
    """What a call keeps of its group."""

    name: str
    desc: str
    rank: int  # this process's, among all
    ranks: tuple[int, ...]
    backend: str


class Call:
    """A collective or a message: what it is, and how far it has come."""

    __slots__ = (
        "completed",
        "created",
        "frames",
        "group",
        "inputs",
        "is_message",
        "name",
        "notes",
        "number",
        "outputs",
        "peer",
        "record",
        "retired",
        "seconds",
        "started",
        "state",
        "thread",
        "waited",
    )

    record: int
    group: Group
    name: str
    number: int  # in the group
    is_message: bool
    inputs: tuple[Sketch, ...]
    outputs: tuple[Sketch, ...]
    notes: list[Any]  # what else it was given
    seconds: float  # until it times out
    peer: int | None  # of a message: the rank of the other process, where it is known
    created: int  # nanoseconds of the monotonic clock, as these:
    started: int
    completed: int
    waited: int  # a duration
    state: str
    retired: bool
    thread: int
    frames: list[tuple[CodeType, int]]

    def text(self) -> str:
        """The call as one reads it: name, shapes, what else it was given."""
        shown_inputs = [f"{dtype}{list(shape)}" for shape, dtype in self.inputs]
        shown = (
            shown_inputs
            if len(shown_inputs) <= 3
            else [*shown_inputs[:2], f"... {len(shown_inputs)} tensors"]
        )
        return f"{self.name}({', '.join([*shown, *map(str, self.notes)])})"

    def place(self) -> str:
        """The line of the program, as file:line."""
        if not self.frames:
            return "an unknown line"
        code, last = self.frames[0]
        return f"{os.path.basename(code.co_filename)}:{_line(code, last)}"

    def parameters(self) -> dict[str, Any]:
        """The call's arguments as a trace has them, under the names of PyTorch's `record_param_comms`, and bytes."""
        name, desc, rank, ranks, _ = self.group
        tensors = self.inputs or self.outputs
        return {
            "Collective name": self.name,
            "dtype": _scalar(tensors[0][1]) if tensors else "",
            "In msg nelems": sum(math.prod(shape) for shape, _ in self.inputs),
            "Out msg nelems": sum(math.prod(shape) for shape, _ in self.outputs),
            "In msg bytes": _bytes_of(self.inputs),
            "Out msg bytes": _bytes_of(self.outputs),
            "Group size": len(ranks),
            "Process Group Name": name,
            "Process Group Description": desc,
            "Process Group Ranks": str(list(ranks)),
            "Rank": rank,
            "Seq": self.number,
        }

    def start(self) -> None:
        """It is posted."""
        self.state, self.started = "started", time.monotonic_ns()

    def end(self, failed: bool) -> None:
        """It is over; one that failed stays what it was."""
        self.completed, self.retired = time.monotonic_ns(), True
        if not failed:
            self.state = "completed"


class Recorder:
    """The calls of this process: the last `capacity` of them, and the last of each group."""

    def __init__(self, capacity: int) -> None:
        self.calls: deque[Call] = deque(maxlen=capacity)
        self.last: dict[str, Call] = {}  # collectives
        self.profiled: list[Call] = []  # those while a profiler is on
        self._count = itertools.count()

    def note(
        self,
        group: Group,
        name: str,
        number: int,
        is_message: bool,
        inputs: Iterable[Any],
        outputs: Iterable[Any],
        facts: Iterable[Any],
        seconds: float,
        peer: int | None = None,
    ) -> Call:
        """Note a call that begins."""
        call = Call()
        call.record, call.group, call.name, call.number = next(self._count), group, name, number
        call.is_message, call.seconds, call.peer = is_message, seconds, peer
        call.outputs = _sketches(outputs)
        call.inputs = call.outputs if inputs is outputs else _sketches(inputs)
        call.notes = [fact for fact in facts if isinstance(fact, str)]
        call.state, call.retired = "scheduled", False
        call.started = call.completed = call.waited = 0
        call.thread = threading.get_ident()
        call.frames = _frames(sys._getframe(2))
        call.created = time.monotonic_ns()
        self.calls.append(call)
        if not is_message:
            self.last[group.name] = call
        if profiling.is_started():
            self.profiled.append(call)
        return call

    def find(self, group: str, number: int) -> Call | None:
        """A collective of a group by its number, where it is among the last."""
        last = self.last.get(group)
        if last is None or last.number == number:
            return last
        for call in reversed(list(self.calls)):  # not those of a group that had the name before
            if call.group is last.group and call.number == number and not call.is_message:
                return call
        return None


def _setting(*names: str) -> str | None:
    return next((os.environ[name] for name in names if name in os.environ), None)


def _capacity() -> int:
    text = _setting("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE") or "2000"
    if not text.isdecimal():
        raise ValueError(f"TORCH_FR_BUFFER_SIZE: the number of calls that are kept, not {text!r}")
    return int(text)


recorder = Recorder(_capacity())


def _bytes_of(sketches: Sequence[Sketch]) -> int:
    return sum(math.prod(shape) * dtype.itemsize for shape, dtype in sketches)


def _profiled(ended: int) -> list[tuple[str, int, int, int, int, dict[str, Any]]]:
    """Calls since this was last called: (name, thread's number, begun, over, nanoseconds of waiting, arguments)."""
    calls, recorder.profiled = recorder.profiled, []
    return [
        (f"{c.group.backend}:{c.name}", c.thread, c.created, c.completed or ended, c.waited, c.parameters())
        for c in calls
    ]


set_callback("collectives of a profile", _profiled)


def _sketches(tensors: Iterable[Any]) -> tuple[Sketch, ...]:
    result: list[Sketch] = []
    for each in tensors:
        if isinstance(each, TensorBase):
            result.append((each.shape, each.dtype))
        elif isinstance(each, list):
            result += _sketches(each)
    return tuple(result)


# Where a program is ------------------------------------------------------------------------------------------------------------
def _frames(frame: FrameType | None) -> list[tuple[CodeType, int]]:
    """The program's innermost frames, without those of this library: code, and the place in it."""
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    result: list[tuple[CodeType, int]] = []
    while frame is not None and len(result) < _FRAMES:
        result.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return result


def _line(code: CodeType, last: int) -> int:
    for begin, end, line in code.co_lines():
        if begin <= last < end and line is not None:
            return line
    return code.co_firstlineno


def caller() -> str:
    """The line of the program that calls this library, as file:line."""
    result = _frames(sys._getframe(1))
    if not result:
        return "an unknown line"
    code, last = result[0]
    return f"{os.path.basename(code.co_filename)}:{_line(code, last)}"


def whereabouts() -> str:
    """Where the main thread of this process is: the innermost line that is the program's own."""
    frame: FrameType | None = sys._current_frames().get(threading.main_thread().ident or 0)
    inner = frame
    while frame is not None:
        file = frame.f_code.co_filename
        own = file.startswith(_LIBRARY) and "site-packages" not in file
        if not (own or file.startswith((_PACKAGE, "<frozen"))):
            break
        frame = frame.f_back
    frame = frame or inner
    if frame is None:
        return "its end"
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_name}()"


# What processes say of themselves and of others -----------------------------------------------------------------------------------
def describe(question: dict[str, Any]) -> dict[str, Any]:
    """This process's answer to another that asks about a collective of a group: its own call of that number, the last, and where it is."""
    group, number = str(question["group"]), int(question["number"])
    last, result = recorder.last.get(group), recorder.find(group, number)
    waiting = [
        call
        for call in list(recorder.last.values())
        if call.state != "completed" and not call.retired and call.group.name != group
    ]
    return {
        "at": whereabouts(),
        "last": None if last is None else [last.number, last.text(), last.place()],
        "call": None if result is None else [result.name, result.text(), result.place()],
        "waiting": [[call.group.name, call.text(), call.place()] for call in waiting],
    }


def explain(group: Any, call: Call) -> str:
    """Which processes have not joined a call, and where in the program they are instead."""
    whom = f"{call.text()} at {call.place()}"
    if call.is_message:
        return f"{whom} has no counterpart: {explain_absence(group, group._ranks if call.peer is None else [call.peer])}"
    others = [rank for rank in group._ranks if rank != group._world.rank]
    question = {"group": group.group_name, "number": call.number}
    answers = group._world.ask(others, question, _ANSWERING)
    absent = [text for rank in others if (text := _of_a_member(rank, answers[rank], call)) is not None]
    if not absent:
        return f"all ranks have joined collective {call.number}, {whom}, which is not done yet"
    return f"not all ranks of {group._ranks_text()} have joined collective {call.number}, {whom}: {'; '.join(absent)}"


def explain_absence(group: Any, ranks: Sequence[int]) -> str:
    """Where in the program these processes are."""
    others = [rank for rank in ranks if rank != group._world.rank]
    answers = group._world.ask(others, {"group": group.group_name, "number": 0}, _ANSWERING)
    return "; ".join(_of_a_peer(rank, answers[rank]) for rank in others)


_SILENT = "does not answer: it is stopped, or cannot be reached"


def _of_a_peer(rank: int, answer: dict[str, Any] | None) -> str:
    return f"rank {rank} {_SILENT}" if answer is None else f"rank {rank} is at {answer['at']}"


def _of_a_member(rank: int, answer: dict[str, Any] | None, call: Call) -> str | None:
    """What keeps a process from a call; None for one that has joined it."""
    if answer is None:
        return f"rank {rank} {_SILENT}"
    last = answer["last"]
    if last is None or last[0] < call.number:
        text = f"rank {rank} is at {answer['at']}"
        if last is not None:
            text += f", after its collective {last[0]}, {last[1]} at {last[2]}"
        for name, waits, place in answer["waiting"]:
            text += f", and waits in {waits} of group {name} at {place}"
        return text
    if answer["call"] is not None and answer["call"][0] != call.name:
        return f"rank {rank} calls {answer['call'][1]} at {answer['call'][2]} instead"
    return None


# Dumps ----------------------------------------------------------------------------------------------------------------------------
def _entry(call: Call, frames: bool) -> dict[str, Any]:
    def clock(at: int) -> int | None:
        return at + _EPOCH if at else None

    name, desc = call.group[:2]
    result = {
        "record_id": call.record,
        "pg_id": int(name) if name.isdecimal() else 0,
        "process_group": (name, desc),
        "thread_id": str(call.thread),
        "collective_seq_id": 0 if call.is_message else call.number,
        "p2p_seq_id": call.number if call.is_message else 0,
        "op_id": call.record + 1,
        "profiling_name": _profiling_name(call),
        "time_created_ns": call.created + _EPOCH,
        "input_sizes": [list(shape) for shape, _ in call.inputs],
        "input_dtypes": [_scalar(dtype) for _, dtype in call.inputs],
        "output_sizes": [list(shape) for shape, _ in call.outputs],
        "output_dtypes": [_scalar(dtype) for _, dtype in call.outputs],
        "state": call.state,
        "time_discovered_started_ns": clock(call.started),
        "time_discovered_completed_ns": clock(call.completed) if call.state == "completed" else None,
        "duration_ms": (call.completed - call.started) / 1e6 if call.state == "completed" else None,
        "retired": call.retired,
        "timeout_ms": round(1000 * call.seconds),
        "is_p2p": call.is_message,
    }
    if frames:
        result["frames"] = [
            {"name": code.co_name, "filename": code.co_filename, "line": _line(code, last)}
            for code, last in call.frames
        ]
    return result


def _profiling_name(call: Call) -> str:
    """The call as PyTorch's reader knows it: under the one backend of the CPU that it has, a message with ranks in the group."""
    name = _RECORDED_AS.get(call.name, call.name)
    if call.peer is not None:
        own, other = call.group.ranks.index(call.group.rank), call.group.ranks.index(call.peer)
        name += f" {own}->{other}" if name == "send" else f" {own}<-{other}"
    return f"gloo:{name}"


def _scalar(dtype: Any) -> str:
    name = str(dtype).rpartition(".")[2]
    return _SCALARS.get(name, name)


def contents(collectives: bool = True, frames: bool = True, only_active: bool = False) -> dict[str, Any]:
    """The ring in PyTorch's layout; `only_active`: the calls that are not over."""
    calls = [call for call in list(recorder.calls) if not (only_active and call.retired)]
    groups = {call.group.name: call.group for call in [*recorder.last.values(), *calls]}
    status = {}
    for name in groups:
        own = [call for call in list(recorder.calls) if call.group is groups[name] and not call.is_message]
        status[name] = {
            "last_enqueued_collective": max((c.number for c in own), default=-1),
            "last_started_collective": max((c.number for c in own if c.started), default=-1),
            "last_completed_collective": max((c.number for c in own if c.state == "completed"), default=-1),
        }
    return {
        "version": "2.10",
        "pg_config": {
            name: {"name": name, "desc": desc, "ranks": str(list(ranks))}
            for name, (_, desc, _, ranks, _) in groups.items()
        },
        "pg_status": status,
        "comm_lib_version": "",
        "entries": [_entry(call, frames) for call in calls] if collectives else [],
    }


def _dump_fr_trace(
    includeCollectives: bool = True, includeStackTraces: bool = True, onlyActive: bool = False
) -> bytes:
    """The last calls of this process, pickled in the layout of PyTorch's flight recorder: {"version", "pg_config", "pg_status", "entries"}.

    The number of calls that are kept is TORCH_FR_BUFFER_SIZE, 2000 by default.

    >>> import pickle, flambeau as torch, flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> dist.all_reduce(torch.ones(3))
    >>> entry = pickle.loads(dist.distributed_c10d._dump_fr_trace())["entries"][-1]
    >>> entry["profiling_name"], entry["input_sizes"], entry["state"]
    ('gloo:all_reduce', [[3]], 'completed')
    >>> dist.destroy_process_group()
    """
    return pickle.dumps(contents(includeCollectives, includeStackTraces, onlyActive))


def _dump_fr_trace_json(includeCollectives: bool = True, onlyActive: bool = False) -> bytes:
    """The same as JSON, without frames."""
    return json.dumps(contents(includeCollectives, False, onlyActive)).encode()


_written = False


def write_on_fault(rank: int) -> None:
    """Where TORCH_FR_DUMP_ON_TIMEOUT says so, write the ring to the file that TORCH_FR_DUMP_TEMP_FILE begins the name of, once."""
    global _written
    wanted = _setting("TORCH_FR_DUMP_ON_TIMEOUT", "TORCH_NCCL_DUMP_ON_TIMEOUT") or "0"
    if _written or wanted.lower() not in ("1", "true", "y", "yes"):
        return
    _written = True
    prefix = _setting("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
    if prefix is None:
        folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        prefix = os.path.join(folder, "torch", "comm_lib_trace_rank_")
    os.makedirs(os.path.dirname(os.path.abspath(prefix)), exist_ok=True)
    with open(f"{prefix}{rank}", "wb") as file:
        file.write(_dump_fr_trace())


def _forget() -> None:
    """A forked process has called nothing."""
    global recorder
    recorder = Recorder(recorder.calls.maxlen or 0)


os.register_at_fork(after_in_child=_forget)
