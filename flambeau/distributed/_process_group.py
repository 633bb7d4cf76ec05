"""A group of processes: who is in it, how long it waits, and how each of its calls is begun, checked and waited for."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from .._tensor import Tensor
from ..core.base import display
from ..core.base.tensor import TensorBase
from . import _flight
from ._debug import DebugLevel, check_numbers, get_debug_level
from ._reductions import ReduceOp
from ._work import Work, progress
from ._world import DistBackendError

# Requests (or, of a call in pieces, what posts one after the other), and what to do when they are complete.
Started = tuple[list[Any] | Iterator[Any], Callable[[], None] | None]


class ProcessGroup:
    """Processes that call collectives together.

    `init_process_group` and `new_group` make them; functions such as `all_reduce` take one as `group`.  DistBackendError from calls whose
    processes are gone or late; from then on the group is not used again.

    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=1, world_size=4)
    >>> group = dist.new_group([1, 3])
    >>> group.rank(), group.size(), dist.get_process_group_ranks(group)
    (0, 2, [1, 3])
    >>> dist.destroy_process_group()
    """

    _backend = "undefined"
    _types: tuple[str, ...] = ("cpu",)  # of the devices that it takes tensors from

    def __init__(self, world: Any, ranks: Sequence[int], name: str, seconds: float, desc: str = "") -> None:
        self._world, self._ranks, self._seconds = world, tuple(ranks), seconds
        self._rank, self._size = self._ranks.index(world.rank), len(self._ranks)
        self.group_name, self.group_desc = name, desc or "undefined"
        self._broken: str | None = None
        self._calls = self._sent = 0  # collectives, and messages, that were begun
        self._recorded = _flight.Group(name, self.group_desc, world.rank, self._ranks, self._backend)
        self._bound: Any = None  # device_id
        self._posted: Any = None  # the last call that was begun
        self._turn = threading.RLock()  # calls are posted one after the other
        self._coalescing: list[Work] | None = None
        self._in_pieces: deque[Work] = (
            deque()
        )  # large calls: one after the other, so that all processes post pieces in one order

    def rank(self) -> int:
        """This process's rank in the group."""
        return self._rank

    def size(self) -> int:
        """How many processes there are in the group."""
        return self._size

    def name(self) -> str:
        """The backend."""
        return self._backend

    def set_timeout(self, timeout: timedelta) -> None:
        """How long calls wait from now on."""
        self._seconds = timeout.total_seconds()

    def __repr__(self) -> str:
        return f"<{display.public('distributed.ProcessGroup')} {self.group_name} of {self._ranks_text()}, backend {self._backend}>"

    def _ranks_text(self) -> str:
        return f"ranks {list(self._ranks)}" if self._size <= 16 else f"{self._size} ranks"

    # How calls begin -----------------------------------------------------------------------------------------------------------
    def _break(self, why: str) -> None:
        """After a fault the processes no longer agree on what comes next, so the group is not used again."""
        self._broken = self._broken or why
        self._world.failed = True

    def _begin(
        self,
        name: str,
        start: Callable[[], Started],
        result: list[Any],
        async_op: bool,
        *,
        facts: tuple[Any, ...] | None = None,
        inputs: Sequence[Any] | None = None,
        seconds: float | None = None,
        status: Any = None,
        peer: int | None = None,
    ) -> Work | None:
        """Post a call, and wait for it unless it is asynchronous.

        facts: what all processes of a collective must agree on, tensors by shape and dtype; None for a message.
        peer: of a message, the group's rank that it goes to or comes from.
        inputs: the tensors that are sent, where these are not those of `result`.
        """
        if self._broken is not None:
            raise DistBackendError(
                f"{name}: the group is not usable any more, since a call of it failed: {self._broken}"
            )
        if (why := self._world.lost(self._ranks)) is not None:
            self._break(why)
            raise DistBackendError(f"{name} on rank {self._world.rank}: {why}", self._world.lost_ranks())
        wait = self._seconds if seconds is None else seconds
        sent = result if inputs is None else inputs
        self._check_places(name, [*result, *sent])
        check_numbers(name, self._world.rank, sent)
        with self._turn:
            is_message = facts is None
            if is_message:
                self._sent += 1
            else:
                self._calls += 1
            number = self._sent if is_message else self._calls
            whom = None if peer is None else self._ranks[peer]
            call = _flight.recorder.note(
                self._recorded, name, number, is_message, sent, result, facts or (), wait, whom
            )
            self._posted = call
            try:
                if facts is not None and get_debug_level() is DebugLevel.DETAIL:
                    self._compare(call, facts)
                requests, finish = start()
            except BaseException:
                call.end(failed=True)
                raise
            work = self._work_of(call, requests, finish, result, wait, status)
            if work._rest is not None:
                self._in_pieces.append(work)
            else:
                call.start()
            is_awaited = not async_op and self._coalescing is None
            if self._coalescing is not None:
                self._coalescing.append(work)
        self._see_to(work, is_awaited)
        return None if is_awaited else work

    def _work_of(
        self,
        call: _flight.Call,
        requests: Any,
        finish: Callable[[], None] | None,
        result: list[Any],
        seconds: float,
        status: Any,
    ) -> Work:
        return Work(self, call, requests, finish, result, seconds, status)

    def _see_to(self, work: Work, is_awaited: bool) -> None:
        """Complete a call that was posted, or let it be completed."""
        if is_awaited:
            work._run()
        elif work._requests or work._rest is not None:
            progress(self._world).add(work)
        else:
            work._end_at_once()

    def _bind(self, device: Any) -> None:
        """Let calls without tensors use this device, or the current one."""
        self._bound = device

    def _post_together(self) -> None:
        """Post what the calls in a `_coalescing_manager` have put off, at its end."""

    def _check_places(self, name: str, tensors: Sequence[Any]) -> None:
        """RuntimeError for a tensor that is on a device of another type than the backend takes."""
        for tensor in tensors:
            if isinstance(tensor, (list, tuple)):
                self._check_places(name, tensor)
            elif isinstance(tensor, TensorBase) and tensor.device.type not in self._types:
                raise RuntimeError(
                    f"{name}(): No backend type associated with device type {tensor.device.type}: backend {self._backend} takes "
                    f"tensors that are on {' or '.join(self._types)}"
                )

    def _place_of_objects(self) -> Any:
        """The device that pickles travel from and to."""
        return "cpu"

    def _compare(self, mine: _flight.Call, facts: Sequence[Any]) -> None:
        """Tell the others what is about to be called, and hear what they call; RuntimeError where these differ."""
        here = f"{mine.name}({', '.join(map(_described, facts))})"
        report = f"{self._calls}|{here}|{mine.place()}"
        others = [text.split("|", 2) for text in self._exchange_texts(mine, report)]
        for rank, (number, call, place) in zip(self._ranks, others):
            if (number, call) != (str(self._calls), here):
                self._break(f"collectives differ: {call} on rank {rank}")
                raise RuntimeError(
                    f"Detected mismatch between collectives on ranks. Rank {self._world.rank} is running collective {self._calls} of the "
                    f"group: {here} at {mine.place()}, but Rank {rank} is running collective {number}: {call} at {place}."
                )

    def _exchange_texts(self, call: _flight.Call, text: str) -> list[str]:
        """What every process of the group says, in the order of ranks."""
        raise NotImplementedError(f"{type(self).__name__} does not talk")

    # Methods of PyTorch's groups -----------------------------------------------------------------------------------------------
    def allreduce(self, tensors: Any, op: Any = None) -> Work:
        """`all_reduce` of a tensor, or of a list of one, asynchronously."""
        tensor = _only(tensors)
        reduction = ReduceOp.SUM if op is None else getattr(op, "reduceOp", op)
        return self._begun("all_reduce", lambda: self._all_reduce(tensor.detach(), reduction), [tensor])

    def broadcast(self, tensors: Any, root: Any = 0) -> Work:
        """`broadcast` from the group's rank `root`, asynchronously."""
        tensor, rank = _only(tensors), getattr(root, "rootRank", root)
        return self._begun("broadcast", lambda: self._broadcast(tensor.detach(), rank), [tensor])

    def allgather(self, outputs: Any, inputs: Any) -> Work:
        """`all_gather` of lists of lists and tensors, asynchronously."""
        received = [t.detach() for t in (outputs[0] if isinstance(outputs[0], list) else outputs)]
        tensor = _only(inputs)
        return self._begun("all_gather", lambda: self._all_gather(received, tensor.detach()), outputs)

    def barrier(self, opts: Any = None) -> Work:
        """`barrier`, asynchronously."""
        return self._begun("barrier", self._barrier, [])

    def _begun(self, name: str, start: Callable[[], Started], result: list[Any]) -> Work:
        work = self._begin(name, start, result, True, facts=())
        assert work is not None
        return work

    # What backends do: each begins a call on contiguous tensors ------------------------------------------------------------------
    def _all_reduce(self, tensor: Tensor, op: Any) -> Started:
        raise NotImplementedError(f"{self._backend} has no all_reduce")

    def _reduce(self, tensor: Tensor, op: Any, root: int) -> Started:
        raise NotImplementedError(f"{self._backend} has no reduce")

    def _reduce_scatter(self, output: Tensor, inputs: list[Tensor], op: Any) -> Started:
        raise NotImplementedError(f"{self._backend} has no reduce_scatter")

    def _broadcast(self, tensor: Tensor, root: int) -> Started:
        raise NotImplementedError(f"{self._backend} has no broadcast")

    def _exchange(self, sent: Sequence[Tensor | None], received: Sequence[Tensor | None]) -> Started:
        """A tensor to each process, and one from each; None where there is none."""
        raise NotImplementedError(f"{self._backend} has no exchange")

    def _all_gather(self, outputs: list[Tensor], tensor: Tensor) -> Started:
        return self._exchange([tensor] * self._size, outputs)

    def _copied(self, started: Started, buffer: Tensor, tensor: Tensor) -> Started:
        """A call that was begun, and then a copy of what it leaves in a buffer."""
        requests, finish = started

        def copy() -> None:
            if finish is not None:
                finish()
            tensor.copy_(buffer)

        return requests, copy

    def _barrier(self) -> Started:
        raise NotImplementedError(f"{self._backend} has no barrier")

    def _send(self, tensor: Tensor, to: int, tag: int) -> Started:
        raise NotImplementedError(f"{self._backend} has no send")

    def _receive(self, tensor: Tensor, source: int | None, tag: int, status: Any) -> Started:
        raise NotImplementedError(f"{self._backend} has no recv")

    def _status(self) -> Any:
        """Where the source of a message will stand."""
        return None

    def _close(self) -> None:
        """Give back what the group holds."""


def _only(tensors: Any) -> Tensor:
    """A tensor, or that of a list of one."""
    if isinstance(tensors, Tensor):
        return tensors
    if len(tensors) != 1:
        raise ValueError(f"ProcessGroup: one tensor expected, got {len(tensors)}")
    return tensors[0]


def _described(fact: Any) -> str:
    """A tensor's dtype and shape, or those of several; a text as it is."""
    if isinstance(fact, Tensor):
        return f"{fact.dtype}{list(fact.shape)}"
    return " ".join(map(_described, fact)) if isinstance(fact, list) else str(fact)


def until(seconds: float) -> float:
    """The moment that is so many seconds away."""
    return time.monotonic() + seconds


ProcessGroup.__module__ = display.public("distributed")
