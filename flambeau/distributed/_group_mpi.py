"""Groups that talk by MPI: each call as MPI's non-blocking ones, on the tensors' own memory where it is contiguous.

Reductions are MPI's, in chunks.  Halves are sent as they are, added in float32 by the process that a part falls to, and rounded once
(see `_halves`); few of them are reduced in float32 by MPI, and rounded once, too.  Everything else moves bytes, in messages between
pairs where pieces differ, on a communicator of the group's own that messages of programs do not meet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.dtypes import by_name
from ..core.make.create import empty
from ..core.places.join import cat
from ._flight import Call, explain
from ._halves import all_reduced, is_in_halves, reduce_scattered
from ._mpi import CHUNK, pieces, type_of
from ._process_group import ProcessGroup, Started, until
from ._reductions import RedOpType, kind_of
from ._world import DistBackendError, World, bounded

LARGE = 8 << 20  # bytes from which a reduction goes in pieces
PIECE = 4 << 20  # bytes of one, which stay in the caches
_OPS = {
    RedOpType.SUM: "SUM",
    RedOpType.AVG: "SUM",
    RedOpType.PREMUL_SUM: "SUM",
    RedOpType.PRODUCT: "PROD",
    RedOpType.MIN: "MIN",
    RedOpType.MAX: "MAX",
    RedOpType.BAND: "BAND",
    RedOpType.BOR: "BOR",
    RedOpType.BXOR: "BXOR",
}
_OF_BOOL = {
    "SUM": "LOR",
    "MAX": "LOR",
    "BOR": "LOR",
    "PROD": "LAND",
    "MIN": "LAND",
    "BAND": "LAND",
    "BXOR": "LXOR",
}
_BITWISE = (RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR)
_OF_COMPLEX = (RedOpType.SUM, RedOpType.AVG, RedOpType.PREMUL_SUM)


class MPIGroup(ProcessGroup):
    """Processes of an MPI world."""

    def __init__(
        self, world: World, ranks: Sequence[int], name: str, seconds: float, desc: str, tag: int, backend: str
    ) -> None:
        self._backend = backend
        super().__init__(world, ranks, name, seconds, desc)

        def make() -> tuple[Any, Any, Any]:
            members = world.communicator.Get_group().Incl(list(ranks))
            messages = world.communicator.Create_group(members, tag=tag)
            return messages, messages.Dup(), messages.Dup()

        self._messages, self._communicator, self._large = bounded(
            make, "new_group()", until(seconds), lambda: world.lost(ranks)
        )
        self._api = world.mpi.api

    def _close(self) -> None:
        """Communicators stay: to free one is a collective, which processes that end would wait in."""

    # Reductions ----------------------------------------------------------------------------------------------------------------
    def _all_reduce(self, tensor: Tensor, op: Any) -> Started:
        if is_in_halves(tensor, kind_of(op), self._size):
            buffer = tensor.contiguous()
            return all_reduced(self._large, self._rank, buffer, kind_of(op), PIECE), _into(tensor, buffer)
        buffer, how, finish = self._reducible(tensor, op)
        kind, size = type_of(buffer.dtype), buffer.element_size()
        if buffer.numel() * size > LARGE:
            parts = pieces(buffer, kind, PIECE // size)
            return (self._large.Iallreduce(self._api.IN_PLACE, part, op=how) for part in parts), finish
        requests = [
            self._communicator.Iallreduce(self._api.IN_PLACE, piece, op=how) for piece in pieces(buffer, kind)
        ]
        return requests, finish

    def _reduce(self, tensor: Tensor, op: Any, root: int) -> Started:
        buffer, how, finish = self._reducible(tensor, op)
        kind, here = type_of(buffer.dtype), self._rank == root
        requests = []
        for piece in pieces(buffer, kind):
            sent, received = (self._api.IN_PLACE, piece) if here else (piece, None)
            requests.append(self._communicator.Ireduce(sent, received, op=how, root=root))
        return requests, finish if here else _keep(buffer)

    def _reduce_scatter(self, output: Tensor, inputs: list[Tensor], op: Any) -> Started:
        flat = inputs[0] if len(inputs) == 1 else cat([t.reshape(-1) for t in inputs])
        counts = [t.numel() for t in inputs]
        if len(inputs) == 1:  # already one tensor, a part for each
            counts = [flat.numel() // self._size] * self._size
        if is_in_halves(flat, kind_of(op), self._size) and flat.numel() <= CHUNK:
            return reduce_scattered(
                self._communicator, self._rank, flat.contiguous(), counts, kind_of(op), output
            )
        buffer, how, _ = self._reducible(flat, op)
        kind = type_of(buffer.dtype)
        buffer, mine = buffer.reshape(-1), counts[self._rank]
        part = empty(mine, dtype=buffer.dtype)
        if sum(counts) <= CHUNK:
            (received,), (sent,) = pieces(part, kind), pieces(buffer, kind)
            requests = [self._communicator.Ireduce_scatter(sent, received, recvcounts=counts, op=how)]
        else:
            requests, begin = [], 0
            for root, count in enumerate(counts):
                there = pieces(buffer.narrow(0, begin, count), kind)
                mine_now: list[Any] = list(pieces(part, kind)) if root == self._rank else [None] * len(there)
                for sent, received in zip(there, mine_now):
                    requests.append(self._communicator.Ireduce(sent, received, op=how, root=root))
                begin += count

        def finish() -> None:
            if kind_of(op) is RedOpType.AVG:
                _divide(part, self._size)
            output.copy_(part.view(output.shape))
            _keep(buffer)()

        return requests, finish

    def _reducible(self, tensor: Tensor, op: Any) -> tuple[Tensor, Any, Callable[[], None]]:
        """What MPI reduces in place of a tensor, how, and what makes the result of it then."""
        which, n = kind_of(op), self._size
        check_reduction(tensor.dtype, which)
        name = _OPS[which]
        if tensor.dtype is by_name["bool"]:
            name = _OF_BOOL[name]
        wide = tensor.dtype if type_of(tensor.dtype) is not None else by_name["float32"]
        buffer = tensor if tensor.is_contiguous() and wide is tensor.dtype else tensor.to(wide).contiguous()
        if which is RedOpType.PREMUL_SUM:
            buffer = buffer * op.factor

        def finish() -> None:
            if which is RedOpType.AVG:
                _divide(buffer, n)
            if buffer is not tensor:
                tensor.copy_(buffer)

        return buffer, getattr(self._api, name), finish

    # Bytes -----------------------------------------------------------------------------------------------------------------------
    def _broadcast(self, tensor: Tensor, root: int) -> Started:
        buffer = tensor.contiguous()
        requests = [self._communicator.Ibcast(piece, root=root) for piece in pieces(buffer)]
        return requests, _into(tensor, buffer) if self._rank != root else _keep(buffer)

    def _exchange(self, sent: Sequence[Tensor | None], received: Sequence[Tensor | None]) -> Started:
        requests, after = [], []
        for other, tensor in enumerate(received):
            if tensor is not None and other != self._rank:
                buffer = tensor if tensor.is_contiguous() else empty(tensor.shape, dtype=tensor.dtype)
                requests += [self._communicator.Irecv(piece, source=other) for piece in pieces(buffer)]
                after.append(_into(tensor, buffer))
        contiguous: dict[int, Tensor] = {}
        for k in range(1, self._size):  # each begins with another, so that nobody is everyone's first
            other = (self._rank + k) % self._size
            if (tensor := sent[other]) is not None:
                buffer = contiguous.setdefault(id(tensor), tensor.contiguous())
                requests += [self._communicator.Isend(piece, dest=other) for piece in pieces(buffer)]
        own, place = sent[self._rank], received[self._rank]
        if own is not None and place is not None and not _same(own, place):
            place.copy_(own.view(place.shape))

        def finish() -> None:
            for step in after:
                step()
            contiguous.clear()

        return requests, finish

    def _barrier(self) -> Started:
        return [self._communicator.Ibarrier()], None

    # Messages of programs ----------------------------------------------------------------------------------------------------------
    def _send(self, tensor: Tensor, to: int, tag: int) -> Started:
        buffer = tensor.contiguous()
        return [self._messages.Isend(piece, dest=to, tag=tag) for piece in pieces(buffer)], _keep(buffer)

    def _receive(self, tensor: Tensor, source: int | None, tag: int, status: Any) -> Started:
        buffer = tensor if tensor.is_contiguous() else empty(tensor.shape, dtype=tensor.dtype)
        parts = pieces(buffer)
        if source is None and len(parts) > 1:
            raise ValueError(f"recv(): a tensor of more than {CHUNK} bytes needs a source rank")
        origin = self._api.ANY_SOURCE if source is None else source
        return [self._messages.Irecv(piece, source=origin, tag=tag) for piece in parts], _into(tensor, buffer)

    def _status(self) -> Any:
        return self._api.Status()

    # Texts ---------------------------------------------------------------------------------------------------------------------------
    def _exchange_texts(self, call: Call, text: str) -> list[str]:
        mine = bytearray(text.encode()[:1000].ljust(1000))
        result = bytearray(1000 * self._size)
        api = self._api
        request = self._messages.Iallgather([mine, 1000, api.BYTE], [result, 1000, api.BYTE])
        end, done = until(self._seconds), bytearray(1)
        while not all(done):
            self._world.mpi.poller.poll((api._addressof(request),), (0,), done, 0.02, True, True)
            why = self._world.lost(self._ranks)
            if why is None and time.monotonic() > end and not all(done):
                why = f"timed out after {1000 * self._seconds:.0f}ms: {explain(self, call)}"
            if why is not None and not all(done):
                _ABANDONED.append((request, mine, result))
                self._break(why)
                raise DistBackendError(
                    f"{call.name} on rank {self._world.rank}: {why}", self._world.lost_ranks()
                )
        return [result[k : k + 1000].decode(errors="replace").strip() for k in range(0, len(result), 1000)]


_ABANDONED: list[Any] = []  # memory that MPI may still write


def check_reduction(dtype: Any, which: RedOpType) -> None:
    """RuntimeError or ValueError, as in PyTorch, for a reduction that a dtype does not have."""
    if dtype.is_complex:
        if which not in _OF_COMPLEX:
            raise ValueError(f"all_reduce does not support {which} on complex tensors")
    elif dtype.is_floating_point:
        if which in _BITWISE:
            raise RuntimeError(f"Cannot use ReduceOp.{which.name} with non-integral dtype {dtype}")
    elif dtype is by_name["bool"] and which in (RedOpType.AVG, RedOpType.PREMUL_SUM):
        raise RuntimeError(f"Cannot use ReduceOp.{which.name} with dtype {dtype}")


def _divide(tensor: Tensor, n: int) -> None:
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        tensor.div_(n)
    else:
        tensor.div_(n, rounding_mode="trunc")


def _into(tensor: Tensor, buffer: Tensor) -> Callable[[], None]:
    """Copy what has come to where it belongs, if that is elsewhere."""

    def finish() -> None:
        if buffer is not tensor:
            tensor.copy_(buffer)

    return finish


def _keep(*tensors: Tensor) -> Callable[[], None]:
    """Nothing to do at the end, until which the tensors live."""

    def finish() -> None:
        assert tensors

    return finish


def _same(one: Tensor, other: Tensor) -> bool:
    return one.data_ptr() == other.data_ptr() and one.is_contiguous() and other.is_contiguous()
