"""Groups of which only one process exists: it plays any rank, and the others are taken to have what it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ._group_mpi import check_reduction
from ._process_group import ProcessGroup, Started
from ._reductions import kind_of


class FakeWorld:
    """As many processes as one says, of which only this one is there."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size, self.failed = rank, size, False

    def lost(self, ranks: Sequence[int]) -> str | None:
        """Nobody can die."""
        return None

    def without(self, ranks: Sequence[int], seconds: float) -> FakeWorld:
        """The world of all but these."""
        return FakeWorld(self.rank - sum(rank < self.rank for rank in ranks), self.size - len(ranks))

    def lost_ranks(self) -> list[int]:
        """Nobody can die."""
        return []


class FakeGroup(ProcessGroup):
    """Calls end at once.  Reductions and broadcasts leave a tensor; what would come from others is what this one sends to itself."""

    _backend = "fake"
    _types = ("cpu", "cuda")

    def _all_reduce(self, tensor: Tensor, op: Any) -> Started:
        check_reduction(tensor.dtype, kind_of(op))
        return [], None

    def _reduce(self, tensor: Tensor, op: Any, root: int) -> Started:
        return self._all_reduce(tensor, op)

    def _reduce_scatter(self, output: Tensor, inputs: list[Tensor], op: Any) -> Started:
        check_reduction(output.dtype, kind_of(op))
        if len(inputs) == 1:
            n = output.numel()
            output.copy_(inputs[0].reshape(-1).narrow(0, n * self._rank, n).view(output.shape))
        else:
            output.copy_(inputs[self._rank])
        return [], None

    def _broadcast(self, tensor: Tensor, root: int) -> Started:
        return [], None

    def _exchange(self, sent: Sequence[Tensor | None], received: Sequence[Tensor | None]) -> Started:
        mine = sent[self._rank]
        for place in received:
            if mine is not None and place is not None and mine.numel() == place.numel():
                place.copy_(mine.view(place.shape))
        return [], None

    def _barrier(self) -> Started:
        return [], None

    def _send(self, tensor: Tensor, to: int, tag: int) -> Started:
        return [], None

    def _receive(self, tensor: Tensor, source: int | None, tag: int, status: Any) -> Started:
        return [], None

    def _exchange_texts(self, call: Any, text: str) -> list[str]:
        return [text] * self._size
