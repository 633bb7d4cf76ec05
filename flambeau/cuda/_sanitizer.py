"""A sanitizer of streams: two streams that use the same memory, one of them writing, with nothing that orders them.

Such a program gives right results on most runs and wrong ones on some.  The sanitizer looks at every operation as it is called, on whatever
data, so that one run finds what is missing:

    from flambeau.cuda._sanitizer import enable_cuda_sanitizer
    enable_cuda_sanitizer()

An access comes after another where both are on one stream, where an event was recorded behind the one and waited for before the other
(directly or by way of other streams), or where the host has seen the one finished: by `synchronize`, by `query` that was True, by a copy to
the host that it waited for.  For each stream it is known how far every other one had come when it last waited (vector clocks: C. J. Fidge,
"Timestamps in message-passing systems that preserve the partial ordering", 1988).

Memory that was freed and handed out again counts, too: a tensor that another stream still used when it died (`Tensor.record_stream` was not
called) races with the next owner of its memory.

Not seen are replays of graphs, what is captured for one, collectives, and what other libraries do with an address.  Operations of other
threads are seen where the sanitizer was enabled in those.
"""

from __future__ import annotations

import enum
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.base.tensor import TensorBase
from ..core.call.custom import CustomOp
from ..devices import cuda as _driver
from ..devices import holders
from ..utils._python_dispatch import TorchDispatchMode
from ._find import find
from ._snapshots import apply_watcher

LINES = 8  # of the program that led to an access
MOST = 1024  # accesses of a block that are remembered
WORK = 10_000  # steps that are taken to find out whether two views share a byte; they count as sharing one after those

Stream = tuple[int, int]  # a device's index, and the driver's handle of one of its streams
Clock = dict[
    Stream, int
]  # the number of the last access on each stream that has finished before what comes next


class AccessType(enum.Enum):
    """What an operation does with memory.

    >>> from flambeau.cuda._sanitizer import AccessType
    >>> str(AccessType.WRITE)
    'writing to'
    """

    READ = enum.auto()
    WRITE = enum.auto()

    def __str__(self) -> str:
        return "reading from" if self is AccessType.READ else "writing to"


@dataclass
class Access:
    """One use of memory by one operation: its running number, the stream, the operation, the arguments that it came by, whether it is
    (also) the result, the program's lines, the memory, and whether the tensor that it was has been freed since.
    """

    type: AccessType
    seq_num: int
    stream: int
    operator: str
    aliases: list[str]
    is_output: bool
    stack_trace: traceback.StackSummary
    device: int
    region: Region
    freed: bool = False

    @property
    def place(self) -> Stream:
        """Its stream among those of all devices."""
        return self.device, self.stream

    def __str__(self) -> str:
        what = [f"argument(s) {', '.join(self.aliases)}"] if self.aliases else []
        what += ["the output"] if self.is_output else []
        lines = "".join(self.stack_trace.format()) or "  (no line of the program)\n"
        return f"{self.operator}, {self.type} {' and '.join(what)}, called at:\n{lines}"


class SynchronizationError(Exception):
    """What the sanitizer has found; the base of the errors that say what."""


class UnsynchronizedAccessError(SynchronizationError):
    """Two accesses of the same memory, on two streams that nothing orders."""

    def __init__(
        self,
        data_ptr: int,
        allocation_stack_trace: traceback.StackSummary | None,
        current_access: Access,
        previous_access: Access,
    ) -> None:
        self.data_ptr, self.allocation_stack_trace = data_ptr, allocation_stack_trace
        self.current_access, self.previous_access = current_access, previous_access

    def __str__(self) -> str:
        now, before = self.current_access, self.previous_access
        freed = (
            "The tensor of the earlier access was freed, and its memory handed out again: before a tensor that another stream uses is let "
            "go, Tensor.record_stream says so.\n"
            if before.freed
            else ""
        )
        made = self.allocation_stack_trace
        where = "" if not made else "The memory was allocated at:\n" + "".join(made.format())
        return (
            f"CSAN detected a possible data race on tensor with data pointer {self.data_ptr}: nothing orders these two accesses\n"
            f"On stream {now.stream:#x} of cuda:{now.device}: {now}"
            f"Before that on stream {before.stream:#x} of cuda:{before.device}: {before}{freed}{where}"
        ).rstrip()


class CUDASanitizerErrors(Exception):
    """All that was found in one operation, in `errors`; the message says all of it."""

    def __init__(self, errors: list[SynchronizationError]) -> None:
        self.errors = errors

    def __str__(self) -> str:
        return "\n".join([f"detected {len(self.errors)} errors", *map(str, self.errors)])


class Region:
    """The bytes of a view, without the view."""

    def __init__(self, tensor: TensorBase) -> None:
        width = tensor.element_size()
        strides = tuple(step * width for step in tensor.stride())
        spans = [(n - 1) * step for n, step in zip(tensor.shape, strides, strict=True)]
        place = tensor._address()  # type: ignore[attr-defined]
        self.start, self.end = place, place + sum(spans) + width
        self.is_dense = self.end - self.start == tensor.numel() * width
        # NumPy looks at addresses alone, never at what is there
        self.__array_interface__ = {
            "version": 3,
            "shape": tuple(tensor.shape),
            "typestr": f"|V{width}",
            "strides": strides,
            "data": (place, False),
        }

    def overlaps(self, other: Region) -> bool:
        """Whether the two share a byte."""
        if self.start >= other.end or other.start >= self.end:
            return False
        if self.is_dense and other.is_dense:
            return True
        try:
            return np.shares_memory(np.asarray(self), np.asarray(other), max_work=WORK)  # type: ignore[arg-type]  # any number, as NumPy's documentation says
        except np.exceptions.TooHardError:
            return True

    def covers(self, other: Region) -> bool:
        """Whether it has all of the other's bytes."""
        ours, theirs = self.__array_interface__, other.__array_interface__
        return self.start <= other.start and other.end <= self.end and (self.is_dense or ours == theirs)


@dataclass
class _Block:
    """A block of the allocator: where it was allocated, what has used it, and the streams that `record_stream` has named."""

    made: traceback.StackSummary | None = None
    accesses: list[Access] = field(default_factory=list)
    waited_for: set[int] = field(default_factory=set)


class _Order:
    """Which accesses have finished before what comes next: the device tells it what orders streams."""

    def __init__(self) -> None:
        self.number = 0
        self.clocks: dict[Stream, Clock] = {}
        self.marks: dict[int, Clock] = {}  # event -> the clock of its stream where it was recorded
        self.host: Clock = {}

    def clock(self, stream: Stream) -> Clock:
        """Of what is queued on a stream from now on; what the host has seen finished is part of it."""
        result = self.clocks.setdefault(stream, {})
        _merge(result, self.host)
        return result

    def next(self, streams: set[Stream]) -> int:
        """The number of an operation that is queued now."""
        self.number += 1
        for stream in streams:
            self.clock(stream)[stream] = self.number
        return self.number

    # what the device tells
    def recorded(self, event: int, index: int, stream: int) -> None:
        self.marks[event] = dict(self.clock((index, stream)))

    def waits(self, event: int, index: int, stream: int) -> None:
        _merge(self.clock((index, stream)), self.marks.get(event, {}))

    def reached(self, event: int) -> None:
        _merge(self.host, self.marks.get(event, {}))

    def finished(self, index: int, stream: int | None) -> None:
        for place in list(self.clocks) if stream is None else [(index, stream)]:
            if place[0] == index:
                _merge(self.host, self.clock(place))


def _merge(into: Clock, other: Clock) -> None:
    for stream, number in other.items():
        if into.get(stream, 0) < number:
            into[stream] = number


class _Blocks:
    """What has used which memory; the allocator tells it who owns that."""

    def __init__(self, order: _Order) -> None:
        self.order = order
        self.blocks: dict[int, _Block] = {}

    # what the allocator tells
    def taken(self, address: int) -> None:
        before = self.blocks.get(address)
        self.blocks[address] = _Block(_program(), [] if before is None else before.accesses)

    def freed(self, address: int) -> None:
        block = self.blocks.get(address)
        if block is not None:  # the allocator itself waits for streams that were recorded
            block.accesses = [each for each in block.accesses if each.stream not in block.waited_for]
            for each in block.accesses:
                each.freed = True

    def returned(self, address: int) -> None:
        self.blocks.pop(address, None)

    def add(self, base: int, access: Access) -> Iterator[UnsynchronizedAccessError]:
        """Note an access of the block that begins at `base`; the errors that it makes with earlier ones."""
        block = self.blocks.setdefault(base, _Block())
        clock = self.order.clock(access.place)
        previous, racing = [], {}
        for each in block.accesses:
            before = each.seq_num <= clock.get(each.place, 0) or each.place == access.place
            writes = AccessType.WRITE in (access.type, each.type)
            if not before and writes and access.region.overlaps(each.region):
                racing[each.place] = each  # the last on each stream
            replaced = (
                before
                and access.region.covers(each.region)
                and (access.type is AccessType.WRITE or access.type is each.type)
            )
            if not replaced and each.seq_num > self.order.host.get(each.place, 0):
                previous.append(each)
        block.accesses = [*previous, access][-MOST:]
        for each in racing.values():
            yield UnsynchronizedAccessError(access.region.start, block.made, access, each)


def _program() -> traceback.StackSummary:
    """The innermost of the program's own lines, the last of them last; the library's where there are none of its own."""
    lines = holders.frames(holders.lines_here())
    own = [line for line in lines if not line["filename"].startswith(holders.OWN)] or lines
    return traceback.StackSummary.from_list(
        [(line["filename"], line["line"], line["name"], None) for line in reversed(own[:LINES])]
    )


def _tensors(value: Any, name: str = "") -> Iterator[tuple[str, TensorBase]]:
    """The tensors of CUDA devices in an argument or a result."""
    if isinstance(value, TensorBase):
        if value.is_cuda and value.layout is _strided() and value.numel():  # type: ignore[attr-defined]
            yield name, value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _tensors(each, name)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors(each, name)


def _strided() -> Any:
    from ..core.base.formats import strided

    return strided


def _base(tensor: TensorBase) -> int:
    return tensor.untyped_storage()._address()  # type: ignore[attr-defined]


class CUDASanitizerDispatchMode(TorchDispatchMode):
    """The mode that looks at operations: which memory they read and write, on which stream."""

    def __init__(self) -> None:
        super().__init__()
        self.order = _Order()
        self.blocks = _Blocks(self.order)
        self.lock = threading.RLock()

    def __torch_dispatch__(
        self, func: Callable, types: Sequence, args: tuple = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.__name__ == "record_stream":
            return self.record_stream(func, args, kwargs)
        inputs = list(_arguments(func, args, kwargs))
        streams = _current(inputs, kwargs)
        with self.lock:
            number = self.order.next(set(streams.values()))
        versions = [_version(t) for _, t in inputs]
        result = func(*args, **kwargs)
        made = list(_tensors(result))
        others = {k: v for k, v in _current(made, {}).items() if k not in streams}
        if others:  # of an operation that takes no tensor of theirs
            streams |= others
            with self.lock:
                number = self.order.next(set(others.values()))
        if any(find(k).capturing() for k in streams):
            return result
        written = {id(t) for (_, t), before in zip(inputs, versions, strict=True) if _version(t) != before}
        written |= {id(t) for t in _written(func, args, kwargs)}
        uses = _uses(func, inputs, made, written)
        if uses:
            with self.lock:
                errors = list(self.check(func, number, streams, uses))
            if errors:
                for error in errors:
                    print(error, file=sys.stderr)
                raise CUDASanitizerErrors(errors)
        return result

    def check(
        self, func: Callable, number: int, streams: dict[int, Stream], uses: list[_Use]
    ) -> Iterator[SynchronizationError]:
        """What is wrong with an operation's accesses, which are noted."""
        lines = _program()
        for use in uses:
            index, stream = streams[use.tensor.get_device()]  # type: ignore[attr-defined]
            kind = AccessType.WRITE if use.writes else AccessType.READ
            access = Access(
                kind, number, stream, func.__name__, use.names, use.output, lines, index, Region(use.tensor)
            )
            yield from self.blocks.add(_base(use.tensor), access)

    def record_stream(self, func: Callable, args: tuple, kwargs: dict) -> Any:
        """The allocator waits for that stream before the tensor's memory is handed out again."""
        tensor = args[0] if args else kwargs["self"]
        stream = args[1] if len(args) > 1 else kwargs["stream"]
        result = func(*args, **kwargs)
        with self.lock:
            block = self.blocks.blocks.setdefault(_base(tensor), _Block())
            block.waited_for.add(stream.cuda_stream)
        return result


@dataclass
class _Use:
    """A tensor that an operation reads or writes: the arguments that it is, and whether it is the result."""

    tensor: TensorBase
    names: list[str]
    writes: bool
    output: bool


def _arguments(func: Callable, args: tuple, kwargs: dict) -> Iterator[tuple[str, TensorBase]]:
    names = [each.name for each in func._schema.arguments]  # type: ignore[attr-defined]
    for k, value in enumerate(args):
        yield from _tensors(value, names[k] if k < len(names) else f"#{k}")
    for name, value in kwargs.items():
        yield from _tensors(value, name)


def _written(func: Callable, args: tuple, kwargs: dict) -> list[TensorBase]:
    """What the operation is declared to write to; of its arguments that is seen by their versions, too, except through `.data`."""
    first = args[0] if args else kwargs.get("self")
    own = [t for _, t in _tensors(first)] if getattr(func, "writes", False) else []
    if isinstance(func, CustomOp):
        own = [
            t
            for arg, value in zip(func._schema.arguments, args, strict=False)
            if _writes(arg)
            for _, t in _tensors(value)
        ]  # type: ignore[attr-defined]
    return own + [t for _, t in _tensors(kwargs.get("out"))]


def _writes(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _uses(
    func: Callable,
    inputs: list[tuple[str, TensorBase]],
    made: list[tuple[str, TensorBase]],
    written: set[int],
) -> list[_Use]:
    """What the operation reads and writes; nothing where it only looks at shapes, or gives another view of the same memory."""
    results = {id(t) for _, t in made}
    bases = {_base(t) for _, t in inputs}
    entry = getattr(getattr(func, "op", func), "entry", None)
    only_shapes = entry is not None and entry.kind == "creation"
    views = not written and bool(made) and all(_base(t) in bases for _, t in made)
    aliased = {
        each.name
        for each in func._schema.arguments  # type: ignore[attr-defined]
        if each.alias_info is not None and not each.alias_info.is_write
    }
    uses: dict[int, _Use] = {}
    for name, t in inputs:
        writes = id(t) in written
        if writes or not (only_shapes or views or name in aliased):
            use = uses.setdefault(id(t), _Use(t, [], writes, id(t) in results))
            use.names.append(name)
    for _, t in made:
        if id(t) not in uses and _base(t) not in bases:
            uses[id(t)] = _Use(t, [], True, True)
    return list(uses.values())


def _version(tensor: TensorBase) -> int | None:
    return None if tensor.is_inference() else tensor._version  # type: ignore[attr-defined]


def _current(tensors: list[tuple[str, TensorBase]], options: dict) -> dict[int, Stream]:
    """The current stream of each device that has one of the tensors, or that the options of an operation name."""
    devices = {int(t.get_device()) for _, t in tensors}  # type: ignore[attr-defined]
    place = options.get("device")
    if place is not None and str(place).startswith("cuda"):
        devices.add(find(place).index)
    return {k: (k, find(k).current_stream()) for k in devices}


class CUDASanitizer:
    """The sanitizer of this thread, on or off.

    >>> from flambeau.cuda._sanitizer import CUDASanitizer
    >>> CUDASanitizer().enabled
    False
    """

    def __init__(self) -> None:
        self.dispatch: CUDASanitizerDispatchMode | None = None

    @property
    def enabled(self) -> bool:
        """Whether operations are looked at."""
        return self.dispatch is not None

    def enable(self) -> None:
        """Look at the operations that this thread calls from now on; what ran before counts as finished.

        RuntimeError where a sanitizer is on already.
        """
        if holders.watcher is not None:
            raise RuntimeError("enable_cuda_sanitizer(): the sanitizer is on already")
        self.dispatch = CUDASanitizerDispatchMode()
        _driver.watch(self.dispatch.order)
        apply_watcher(self.dispatch.blocks)
        self.dispatch.__enter__()

    def disable(self) -> None:
        """Look no longer.  Nothing happens where it is off."""
        if self.dispatch is not None:
            self.dispatch.__exit__(None, None, None)
            self.dispatch = None
            _driver.watch(None)
            apply_watcher(None)


cuda_sanitizer = CUDASanitizer()


def enable_cuda_sanitizer() -> None:
    """Look at every operation that this thread calls from now on: two accesses of the same memory, at least one of them a write, by two
    streams that no event orders are a CUDASanitizerErrors that names both operations, their streams, and the program's lines.  It is
    also printed to the standard error.  For the best results it is called first of all; programs run several times slower.

    Raises:
        RuntimeError: it is on already

    >>> import flambeau
    >>> from flambeau.cuda import _sanitizer
    >>> if flambeau.cuda.is_available():
    ...     _sanitizer.enable_cuda_sanitizer()
    ...     x = flambeau.zeros(4, device="cuda")
    ...     with flambeau.cuda.stream(flambeau.cuda.Stream()):
    ...         try:
    ...             x.add_(1)
    ...         except _sanitizer.CUDASanitizerErrors as error:
    ...             assert "add_, writing to argument(s) self" in str(error)
    ...         else:
    ...             raise AssertionError("a race was missed")
    ...     flambeau.cuda.synchronize()
    ...     _sanitizer.cuda_sanitizer.disable()
    """
    cuda_sanitizer.enable()
