"""Groups that talk by NCCL: each call is work of a CUDA device, in a stream of the group's own.

The stream waits for the current one before a call, and the current one for it in `Work.wait`.  A communicator is made on a device at the
group's first call there, by an id that its first process leaves in the store; a message outside of `batch_isend_irecv` has one of its
two processes alone.  Bytes are moved as bytes, whatever the dtype; reductions take NCCL's dtypes, bool as uint8 and complex numbers as
pairs.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base import device as _devices
from ..core.base.dtypes import by_name
from ..core.base.dtypes import device as Device
from ..core.loops.launch import record_stream
from ..core.make.create import empty, zeros
from ..core.make.create import tensor as from_data
from ..core.places.join import cat
from ..devices import nccl
from ..devices.cuda import Cuda
from ..devices.cuda_events import Mark
from . import _queued
from ._flight import Call, explain
from ._group_mpi import check_reduction
from ._process_group import ProcessGroup, Started, until
from ._queued import Lane, Queued, QueuedWork
from ._reductions import RedOpType, kind_of
from ._stores import PrefixStore, Store
from ._work import Work
from ._world import DistBackendError, bounded

_NAP = 1e-3  # seconds between looks at what others are to do
_ABORTING = 1.0  # seconds that an abort waits for a call that is being posted
_CLOSING = 30.0  # seconds that a communicator may take to end
_OF_BOOL = {RedOpType.SUM: RedOpType.MAX, RedOpType.PRODUCT: RedOpType.MIN}
_BITWISE = (RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR)
_FACTORS = ("float16", "bfloat16", "float32", "float64")  # dtypes that have premultiplied sums


class NCCLGroup(ProcessGroup):
    """Processes that share tensors of CUDA devices."""

    _backend = "nccl"
    _types = ("cuda",)

    def __init__(
        self, world: Any, ranks: Sequence[int], name: str, seconds: float, desc: str, store: Store
    ) -> None:
        super().__init__(world, ranks, name, seconds, desc)
        origins = "-".join(str(world.origins[rank]) for rank in self._ranks)
        self._store = PrefixStore(f"nccl/{name}/{origins}", store)
        self._lanes: dict[Any, Lane] = {}
        self._put_off: list[Queued] = []  # by calls in a _coalescing_manager
        self._ending = threading.Lock()

    @functools.cached_property
    def _library(self) -> nccl.Library:
        return nccl.library()

    # Devices and communicators ---------------------------------------------------------------------------------------------------
    def _device(self) -> Any:
        """The device of calls without tensors."""
        if self._bound is not None:
            bound = Device("cuda", self._bound) if isinstance(self._bound, int) else Device(self._bound)
            if bound.index is not None:
                return bound
        return Device("cuda", _devices.current_device("cuda"))

    def _place_of_objects(self) -> Any:
        return self._device()

    def _lane(self, tensors: Sequence[Tensor | None], peer: int | None = None) -> Lane:
        """The communicator of the group on the tensors' device, or that of this process and `peer`."""
        places = {tensor.device for tensor in tensors if tensor is not None}
        if len(places) > 1:
            raise ValueError(
                f"{self._posted.name}(): tensors must be on one device, not on {' and '.join(sorted(map(str, places)))}"
            )
        on = _devices.find_device("cuda", places.pop().index)
        members = tuple(range(self._size)) if peer is None else tuple(sorted((self._rank, peer)))
        name = "all" if peer is None else "-".join(map(str, members))
        if (name, on.index) not in self._lanes:
            number = sum(each == name for each, _ in self._lanes)
            self._lanes[name, on.index] = self._make_lane(on, f"{name}/{number}", members)
        return self._lanes[name, on.index]

    def _make_lane(self, on: Cuda, key: str, members: Sequence[int]) -> Lane:
        """A communicator on a device.  Devices may have other indices in other processes: the first of each makes the first."""
        library, rank, ranks = self._library, members.index(self._rank), [self._ranks[k] for k in members]
        end = until(self._posted.seconds)
        stream = on.take_stream(0)
        if rank == 0:
            self._store.set(key, library.unique_id())
        self._wait_until(lambda: self._store.check([key]), ranks, end)
        shared = self._store.get(key)
        made: list[int] = []
        failed: list[BaseException] = []

        def make() -> None:
            try:
                on.stream_done(stream)  # makes the device this thread's
                made.append(library.start_communicator(shared, len(members), rank))
            except BaseException as error:
                failed.append(error)

        # Before 2.14 it returns when all have come: the host must be able to give up.
        threading.Thread(target=make, daemon=True, name="ncclCommInitRank").start()
        self._wait_until(lambda: bool(made or failed), ranks, end)
        if failed:
            raise DistBackendError(f"{self._posted.name} on rank {self._world.rank}: {failed[0]}")
        lane = Lane(on, stream, made[0])
        try:
            self._settle(lane, ranks, end)
        except DistBackendError:
            library.abort(lane.communicator)
            raise
        if rank == 0:
            self._store.delete_key(key)
        return lane

    def _settle(self, lane: Lane, ranks: Sequence[int], end: float) -> None:
        """Wait until a communicator has done on the host what it was called for."""
        self._wait_until(lambda: self._status_of(lane) != nccl.IN_PROGRESS, ranks, end)
        if (why := self._broken or self._error_of(lane)) is not None:
            self._abort(why)
            raise DistBackendError(f"{self._posted.name} on rank {self._world.rank}: {why}")

    def _wait_until(self, ready: Callable[[], bool], ranks: Sequence[int], end: float) -> None:
        """Wait on the host for what other processes are to do; DistBackendError, which says who does not, if one is gone or late."""
        while not ready():
            call = self._posted
            why = self._world.lost(ranks)
            if why is None and time.monotonic() > end:
                why = f"timed out after {1000 * call.seconds:.0f}ms: {explain(self, call)}"
            if why is not None:
                self._abort(why)
                raise DistBackendError(
                    f"{call.name} on rank {self._world.rank}: {why}", self._world.lost_ranks()
                )
            time.sleep(_NAP)

    def _error_of(self, lane: Lane) -> str | None:
        """What NCCL says has gone wrong on a communicator."""
        status = self._status_of(lane)
        return None if status in (nccl.SUCCESS, nccl.IN_PROGRESS) else self._library.describe(status)

    def _status_of(self, lane: Lane) -> int:
        with self._ending:  # it is not ended meanwhile
            return self._library.error_of(lane.communicator) if lane.communicator else nccl.SUCCESS

    def _abort(self, why: str) -> None:
        """End what the group does on devices; it is not used again."""
        self._break(why)
        has_turn = self._turn.acquire(
            timeout=_ABORTING
        )  # without it a call hangs in NCCL, which an abort ends
        try:
            for lane in list(self._lanes.values()):
                with self._ending:
                    communicator, lane.communicator = lane.communicator, 0
                if communicator:
                    self._library.abort(communicator)
        finally:
            if has_turn:
                self._turn.release()

    def _close(self) -> None:
        """Wait for this process's work, and end the communicators."""
        lanes = [lane for lane in self._lanes.values() if lane.communicator]
        end = until(min(self._seconds, _CLOSING))
        while self._broken is None and not all(lane.on.stream_done(lane.stream) for lane in lanes):
            if (why := self._world.lost(self._ranks)) is not None or time.monotonic() > end:
                self._abort(why or "destroy_process_group(): work of the group is not done")
                return
            time.sleep(_NAP)
        for lane in lanes:
            with self._ending:
                communicator, lane.communicator = lane.communicator, 0
            if communicator:
                end_it = functools.partial(self._library.destroy, communicator)
                bounded(end_it, "destroy_process_group()", end, lambda: None)
        _queued.watcher.look_at(self)
        self._broken = self._broken or "it was destroyed"

    # How calls are posted ----------------------------------------------------------------------------------------------------------
    def _work_of(
        self, call: Call, requests: Any, finish: Any, result: list[Any], seconds: float, status: Any
    ) -> Work:
        return QueuedWork(self, call, requests, result, seconds)

    def _see_to(self, work: Any, is_awaited: bool) -> None:
        if is_awaited:
            work._result = []  # memory that nobody waits for is not held until the thread looks
        _queued.watcher.add(work)
        if is_awaited:
            work._run()

    def _queue(
        self,
        lane: Lane,
        run: Callable[[], None],
        finish: Callable[[], None] | None,
        memory: Sequence[Tensor],
        is_barrier: bool = False,
    ) -> Any:
        queued = Queued(lane, run, finish, memory, is_barrier)
        if self._coalescing is None:
            self._post([queued])
        else:
            self._put_off.append(queued)
        return queued, None

    def _post_together(self) -> None:
        with self._turn:
            calls, self._put_off = self._put_off, []
            for lane in dict.fromkeys(each.lane for each in calls):
                self._post([each for each in calls if each.lane is lane])

    def _post(self, calls: Sequence[Queued]) -> None:
        """Post calls of one communicator together."""
        lane = calls[0].lane
        lane.order()
        try:
            self._library.group_start()
            try:
                for each in calls:
                    assert each.run is not None
                    each.run()
            finally:
                self._library.group_end()
        except nccl.NCCLError as error:
            self._abort(str(error))
            raise DistBackendError(f"{self._posted.name} on rank {self._world.rank}: {error}") from None
        self._settle(lane, self._ranks, until(self._posted.seconds))
        self._finish(lane, calls)

    def _finish(self, lane: Lane, calls: Sequence[Queued]) -> None:
        """Queue what follows calls, and the mark that they are done."""
        before = lane.on.current_stream()
        lane.on.set_stream(lane.stream)
        try:
            for each in calls:
                if each.finish is not None:
                    each.finish()
        finally:
            lane.on.set_stream(before)
        done = Mark()
        done.record(lane.on, lane.stream)
        for each in calls:
            for memory in each.memory:
                record_stream(memory, lane.stream)
            each.run, each.finish, each.memory, each.done = None, None, (), done  # nothing holds tensors

    def _copied(self, started: Started, buffer: Tensor, tensor: Tensor) -> Started:
        queued: Any = started[0]
        before, posted = queued.finish, queued.done is not None

        def copy() -> None:
            if before is not None:
                before()
            tensor.copy_(buffer)

        queued.finish, queued.memory = copy, [*queued.memory, buffer, tensor]
        if posted:
            self._finish(queued.lane, [queued])
        return started

    def _exchange_texts(self, call: Call, text: str) -> list[str]:
        keys = [f"call/{call.number}/{rank}" for rank in range(self._size)]
        self._store.set(keys[self._rank], text)
        self._wait_until(lambda: self._store.check(keys), self._ranks, until(call.seconds))
        result = [self._store.get(key).decode(errors="replace") for key in keys]
        self._store.delete_key(
            f"call/{call.number - 1}/{self._rank}"
        )  # all have read it: they have come here
        return result

    # Reductions ----------------------------------------------------------------------------------------------------------------------
    def _all_reduce(self, tensor: Tensor, op: Any) -> Started:
        buffer, lane = tensor.contiguous(), self._lane([tensor])
        reduce, memory = self._reduction(buffer, op, lane)
        at, library = buffer.data_ptr(), self._library

        def run(count: int, kind: int, how: int) -> None:
            library.all_reduce(at, at, count, kind, how, lane.communicator, lane.stream)

        return self._queue(
            lane, lambda: reduce(run, buffer.numel()), _into(tensor, buffer), [tensor, buffer, *memory]
        )

    def _reduce(self, tensor: Tensor, op: Any, root: int) -> Started:
        buffer, lane = tensor.contiguous(), self._lane([tensor])
        reduce, memory = self._reduction(buffer, op, lane)
        at, library = buffer.data_ptr(), self._library

        def run(count: int, kind: int, how: int) -> None:
            library.reduce(at, at, count, kind, how, root, lane.communicator, lane.stream)

        finish = _into(tensor, buffer) if self._rank == root else None
        return self._queue(lane, lambda: reduce(run, buffer.numel()), finish, [tensor, buffer, *memory])

    def _reduce_scatter(self, output: Tensor, inputs: list[Tensor], op: Any) -> Started:
        lane, library = self._lane([output, *inputs]), self._library
        counts = [each.numel() for each in inputs]
        if len(inputs) == 1:  # one tensor, a part for each
            counts = [counts[0] // self._size] * self._size
        full = inputs[0].contiguous() if len(inputs) == 1 else cat([each.reshape(-1) for each in inputs])
        part = (
            output
            if output.is_contiguous()
            else empty(output.shape, dtype=output.dtype, device=output.device)
        )
        reduce, memory = self._reduction(full, op, lane)
        source, target, size = full.data_ptr(), part.data_ptr(), full.element_size()

        def run(count: int, kind: int, how: int) -> None:
            library.reduce_scatter(source, target, count, kind, how, lane.communicator, lane.stream)

        def run_each() -> None:
            begin = source
            for root, count in enumerate(counts):

                def run_one(n: int, kind: int, how: int, at: int = begin, root: int = root) -> None:
                    library.reduce(at, target, n, kind, how, root, lane.communicator, lane.stream)

                reduce(run_one, count)
                begin += count * size

        post = run_each if len(set(counts)) > 1 else lambda: reduce(run, counts[0])
        return self._queue(lane, post, _into(output, part), [output, part, *inputs, full, *memory])

    def _reduction(self, buffer: Tensor, op: Any, lane: Lane) -> tuple[Callable[..., None], list[Tensor]]:
        """What calls a reduction with the number of NCCL's elements, their type and the operation; the memory that this needs."""
        which, dtype, library = kind_of(op), buffer.dtype, self._library
        check_reduction(dtype, which)
        if which in _BITWISE:
            raise ValueError(f"Cannot use ReduceOp.{which.name} with NCCL")
        name, each = str(dtype).rpartition(".")[2], 1
        if dtype is by_name["bool"]:
            name, which = "uint8", _OF_BOOL.get(which, which)
        elif dtype.is_complex:
            name, each = ("float32", 2) if dtype is by_name["complex64"] else ("float64", 2)
        kind = library.type_of(name)
        if kind is None:
            raise TypeError(
                f"{self._posted.name}(): Input tensor data type is not supported for NCCL process group: {dtype}"
            )
        if which is not RedOpType.PREMUL_SUM:
            number = nccl.OPS[which.name]
            return lambda run, count: run(count * each, kind, number) if count else None, []
        if name not in _FACTORS:
            raise TypeError(
                f"{self._posted.name}(): PreMulSum Data type must be half, float, bfloat16 or double, not {dtype}"
            )
        factor, memory = self._factor(op.factor, by_name[name], lane)

        def reduce(run: Callable[[int, int, int], None], count: int) -> None:
            if count:
                how = library.premultiplied_sum(factor, kind, lane.communicator)
                try:
                    run(count * each, kind, how)
                finally:
                    library.forget_op(how, lane.communicator)

        return reduce, memory

    def _factor(self, factor: Any, dtype: Any, lane: Lane) -> tuple[Any, list[Tensor]]:
        """The factor of a premultiplied sum as NCCL takes it: bytes on the host, or an address on the device."""
        if isinstance(factor, Tensor) and factor.device.type == "cuda":
            scalar = factor.detach().to(device=lane.on.place, dtype=dtype).reshape(-1).clone()
            return scalar.data_ptr(), [scalar]
        host = from_data(float(factor), dtype=dtype)
        return ctypes.create_string_buffer(ctypes.string_at(host.data_ptr(), host.element_size())), []

    # Bytes -----------------------------------------------------------------------------------------------------------------------------
    def _broadcast(self, tensor: Tensor, root: int) -> Started:
        buffer, lane = tensor.contiguous(), self._lane([tensor])
        at, count = buffer.data_ptr(), _bytes(buffer)

        def run() -> None:
            if count:
                self._library.broadcast(at, at, count, nccl.BYTE, root, lane.communicator, lane.stream)

        finish = _into(tensor, buffer) if self._rank != root else None
        return self._queue(lane, run, finish, [tensor, buffer])

    def _all_gather(self, outputs: list[Tensor], tensor: Tensor) -> Started:
        if any(output.numel() != tensor.numel() for output in outputs):
            return self._exchange([tensor] * self._size, outputs)
        lane, sent, count = self._lane([tensor, *outputs]), tensor.contiguous(), _bytes(tensor)
        first = outputs[0].data_ptr()
        is_contiguous = all(
            output.is_contiguous() and output.data_ptr() == first + k * count
            for k, output in enumerate(outputs)
        )
        full = (
            outputs[0]
            if is_contiguous
            else empty(count * self._size, dtype=by_name["uint8"], device=tensor.device)
        )
        source, target = sent.data_ptr(), full.data_ptr()

        def run() -> None:
            if count:
                self._library.all_gather(source, target, count, nccl.BYTE, lane.communicator, lane.stream)

        def finish() -> None:
            for k, output in enumerate(outputs):
                if count:
                    part = full.narrow(0, k * count, count)
                    output.copy_(part.view(tensor.dtype).view(output.shape))

        return self._queue(lane, run, None if is_contiguous else finish, [tensor, sent, full, *outputs])

    def _exchange(self, sent: Sequence[Tensor | None], received: Sequence[Tensor | None]) -> Started:
        lane = self._lane([*sent, *received])
        own, place = sent[self._rank], received[self._rank]
        if own is not None and place is not None and own is not place:
            place.copy_(own.view(place.shape))
        memory: list[Tensor] = []
        messages: list[tuple[Callable[..., None], int, int, int]] = []
        after: list[Callable[[], None]] = []
        for other in range(self._size):
            outgoing, incoming = sent[other], received[other]
            if other == self._rank:
                continue
            if outgoing is not None:
                buffer = outgoing.contiguous()
                memory += [outgoing, buffer]
                messages.append((self._library.send, buffer.data_ptr(), _bytes(buffer), other))
            if incoming is not None:
                buffer, copy = _receive_buffer(incoming)
                memory += [incoming, buffer]
                after += copy
                messages.append((self._library.receive, buffer.data_ptr(), _bytes(buffer), other))

        def run() -> None:
            for call, at, count, other in messages:
                if count:
                    call(at, count, nccl.BYTE, other, lane.communicator, lane.stream)

        return self._queue(lane, run, _all_of(after), memory)

    def _barrier(self) -> Started:
        token = zeros(1, device=self._device())
        lane, at = self._lane([token]), token.data_ptr()

        def run() -> None:
            kind, how = nccl.TYPES["float32"], nccl.OPS["SUM"]
            self._library.all_reduce(at, at, 1, kind, how, lane.communicator, lane.stream)

        return self._queue(lane, run, None, [token], is_barrier=True)

    # Messages of programs ----------------------------------------------------------------------------------------------------------------
    def _send(self, tensor: Tensor, to: int, tag: int) -> Started:
        buffer = tensor.contiguous()
        lane, peer = self._lane_of_message(tensor, to)
        at, count = buffer.data_ptr(), _bytes(buffer)

        def run() -> None:
            if count:
                self._library.send(at, count, nccl.BYTE, peer, lane.communicator, lane.stream)

        return self._queue(lane, run, None, [tensor, buffer])

    def _receive(self, tensor: Tensor, source: int | None, tag: int, status: Any) -> Started:
        if source is None:
            raise ValueError(
                f"{self._posted.name}(): NCCL receives from a source rank that is named, not from any"
            )
        buffer, copy = _receive_buffer(tensor)
        lane, peer = self._lane_of_message(tensor, source)
        at, count = buffer.data_ptr(), _bytes(buffer)

        def run() -> None:
            if count:
                self._library.receive(at, count, nccl.BYTE, peer, lane.communicator, lane.stream)

        return self._queue(lane, run, _all_of(copy), [tensor, buffer])

    def _lane_of_message(self, tensor: Tensor, peer: int) -> tuple[Lane, int]:
        """The communicator of a message, and the rank of the other process in it."""
        if self._coalescing is not None:
            return self._lane([tensor]), peer
        return self._lane([tensor], peer), int(peer > self._rank)


class GroupOfDevices(ProcessGroup):
    """Processes that talk by one backend on the CPU, and by another on CUDA devices."""

    _types = ("cpu", "cuda")

    def __init__(self, host: ProcessGroup, on_devices: NCCLGroup) -> None:
        self._host, self._on_devices = host, on_devices
        self._backend = f"cpu:{host._backend},cuda:{on_devices._backend}"
        super().__init__(host._world, host._ranks, host.group_name, host._seconds, host.group_desc)
        on_devices._turn = self._turn

    def _of(self, *tensors: Any) -> Any:
        """The group that does a call on these tensors."""
        first = next(tensor for tensor in tensors if tensor is not None)
        chosen = self._host if first.device.type == "cpu" else self._on_devices
        if chosen._broken is not None:
            raise DistBackendError(
                f"{self._posted.name}: the group is not usable any more, since a call of it failed: {chosen._broken}"
            )
        chosen._posted, chosen._coalescing = self._posted, self._coalescing
        return chosen

    def _break(self, why: str) -> None:
        super()._break(why)
        self._on_devices._broken = self._on_devices._broken or why

    def _work_of(
        self, call: Call, requests: Any, finish: Any, result: list[Any], seconds: float, status: Any
    ) -> Work:
        if isinstance(requests, Queued):
            return self._on_devices._work_of(call, requests, finish, result, seconds, status)
        return super()._work_of(call, requests, finish, result, seconds, status)

    def _see_to(self, work: Any, is_awaited: bool) -> None:
        if isinstance(work, QueuedWork):
            self._on_devices._see_to(work, is_awaited)
        else:
            super()._see_to(work, is_awaited)

    def _post_together(self) -> None:
        self._on_devices._coalescing = None
        self._on_devices._post_together()

    def _bind(self, device: Any) -> None:
        super()._bind(device)
        self._on_devices._bind(device)

    def _close(self) -> None:
        self._on_devices._close()
        self._host._close()

    def _copied(self, started: Started, buffer: Tensor, tensor: Tensor) -> Started:
        return self._of(tensor)._copied(started, buffer, tensor)

    def _exchange_texts(self, call: Call, text: str) -> list[str]:
        return self._host._exchange_texts(call, text)

    def _all_reduce(self, tensor: Tensor, op: Any) -> Started:
        return self._of(tensor)._all_reduce(tensor, op)

    def _reduce(self, tensor: Tensor, op: Any, root: int) -> Started:
        return self._of(tensor)._reduce(tensor, op, root)

    def _reduce_scatter(self, output: Tensor, inputs: list[Tensor], op: Any) -> Started:
        return self._of(output)._reduce_scatter(output, inputs, op)

    def _broadcast(self, tensor: Tensor, root: int) -> Started:
        return self._of(tensor)._broadcast(tensor, root)

    def _all_gather(self, outputs: list[Tensor], tensor: Tensor) -> Started:
        return self._of(tensor)._all_gather(outputs, tensor)

    def _exchange(self, sent: Sequence[Tensor | None], received: Sequence[Tensor | None]) -> Started:
        return self._of(*sent, *received)._exchange(sent, received)

    def _barrier(self) -> Started:
        return self._host._barrier()

    def _send(self, tensor: Tensor, to: int, tag: int) -> Started:
        return self._of(tensor)._send(tensor, to, tag)

    def _receive(self, tensor: Tensor, source: int | None, tag: int, status: Any) -> Started:
        return self._of(tensor)._receive(tensor, source, tag, status)

    def _status(self) -> Any:
        return self._host._status()


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _into(tensor: Tensor, buffer: Tensor) -> Callable[[], None] | None:
    """Copy what has come to where it belongs, if that is elsewhere."""
    return None if buffer is tensor else lambda: tensor.copy_(buffer)  # type: ignore[return-value]


def _receive_buffer(tensor: Tensor) -> tuple[Tensor, list[Callable[[], None]]]:
    """Where the elements of a tensor can arrive, and what copies them to it then."""
    if tensor.is_contiguous():
        return tensor, []
    buffer = empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    return buffer, [lambda: tensor.copy_(buffer)]  # type: ignore[list-item, return-value]


def _all_of(steps: Sequence[Callable[[], None]]) -> Callable[[], None] | None:
    def finish() -> None:
        for step in steps:
            step()

    return finish if steps else None
