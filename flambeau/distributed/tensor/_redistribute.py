"""From one placement to another: which collectives a tensor's pieces take, step by step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..._tensor import Tensor
from ...core.make.create import empty
from ...operations.moving.joining import cat, stack
from ...operations.rows.reductions import amax, amin
from .. import _collectives as calls
from .._reductions import ReduceOp
from ._dtensor_spec import DTensorSpec
from .placement_types import Partial, Placement, Replicate, Shard, _StridedShard

_OPS = {
    "sum": ReduceOp.SUM,
    "avg": ReduceOp.AVG,
    "product": ReduceOp.PRODUCT,
    "max": ReduceOp.MAX,
    "min": ReduceOp.MIN,
    "band": ReduceOp.BAND,
    "bor": ReduceOp.BOR,
    "bxor": ReduceOp.BXOR,
}

LISTENERS: list[Callable[[str, Any], None]] = []  # called for every collective: its name and its group


def _tell(name: str, group: Any) -> None:
    for listener in LISTENERS:
        listener(name, group)


@contextlib.contextmanager
def listening(listener: Callable[[str, Any], None]) -> Iterator[None]:
    """While it is on, the function is called with the name and the group of every collective between placements."""
    LISTENERS.append(listener)
    try:
        yield
    finally:
        LISTENERS.remove(listener)


def redistributed(local: Tensor, current: DTensorSpec, target: DTensorSpec) -> Tensor:
    """This process's piece of the tensor as `target` places it, given that piece as `current` does.  No history is recorded.

    Every process of the mesh calls it.  Where nothing has to be done, the piece itself is returned.
    """
    if current.placements == target.placements or current.mesh.get_coordinate() is None:
        return local
    return _Walk(local, current, target).run()


class _Walk:
    """A piece on its way from one placement to the next."""

    def __init__(self, local: Tensor, current: DTensorSpec, target: DTensorSpec) -> None:
        self.local, self.spec, self.target, self.mesh = local, current, target, current.mesh
        at = self.mesh.get_coordinate()
        assert at is not None
        self.at = at

    def run(self) -> Tensor:
        """First what is summed, then what moves, what is joined, and at last what is cut, which costs nothing."""
        for k in range(self.mesh.ndim):
            self._reduce(k)
        for k in range(self.mesh.ndim):
            self._move(k)
        for k in range(self.mesh.ndim):
            self._widen(k)
        for dim, order in list(self.spec.orders.items()):
            wanted = self.target.orders.get(dim, ())
            same = 0
            while same < min(len(order), len(wanted)) and order[same] == wanted[same]:
                same += 1
            for k in reversed(order[same:]):
                self._join(k, dim)
        for dim, wanted in self.target.orders.items():
            for k in wanted[len(self.spec.orders.get(dim, ())) :]:
                self._cut(k, dim)
        for k, placement in enumerate(self.target.placements):
            if self.spec.placements[k] != placement:
                self._leave_to_be_reduced(k, placement)
        return self.local

    def _placed(self, k: int, placement: Placement) -> None:
        placements = [*self.spec.placements[:k], placement, *self.spec.placements[k + 1 :]]
        if isinstance(placement, Shard) and placement.dim in self.spec.orders:
            placements = _in_order(
                self.spec, placements, placement.dim, (*self.spec.orders[placement.dim], k)
            )
        self.spec = self.spec.placed(placements)

    def _group(self, name: str, k: int) -> Any:
        group = self.mesh.get_group(k)
        _tell(name, group)
        return group

    def _pieces(self, size: int, k: int) -> list[tuple[int, int]]:
        """The sizes and first indices of all processes' pieces along a dimension of the mesh."""
        n = self.mesh.size(k)
        return [Shard.local_shard_size_and_offset(size, n, rank) for rank in range(n)]

    def _reduce(self, k: int) -> None:
        """Reduce over a dimension of the mesh: everything to everyone, or the piece that it will have to each."""
        current, wanted = self.spec.placements[k], self.target.placements[k]
        if not isinstance(current, Partial) or current == wanted:
            return
        op = _OPS[current.reduce_op]
        floating = current.reduce_op in ("max", "min") and self.local.is_floating_point()
        if (
            not floating
            and isinstance(wanted, Shard)
            and self.target.orders[wanted.dim]
            == (
                *self.spec.orders.get(wanted.dim, ()),
                k,
            )
        ):
            dim = wanted.dim
            full = self.local.contiguous()
            cuts = self._pieces(full.shape[dim], k)
            parts = [full.narrow(dim, begin, size).contiguous() for size, begin in cuts]
            mine = empty(parts[self.at[k]].shape, dtype=full.dtype, device=full.device)
            calls.reduce_scatter(mine, parts, op, self._group("reduce_scatter", k))
            self.local = mine
            self._placed(k, Shard(dim))
            return
        if floating:
            self.local = self._extreme(k, current.reduce_op)
        else:
            full = self.local.clone().contiguous()
            calls.all_reduce(full, op, self._group("all_reduce", k))
            self.local = full
        self._placed(k, Replicate())

    def _extreme(self, k: int, how: str) -> Tensor:
        """The greatest or least of all processes' numbers; NaN, which MPI passes over, where one is none."""
        mine = self.local.contiguous()
        result = [empty(mine.shape, dtype=mine.dtype, device=mine.device) for _ in range(self.mesh.size(k))]
        calls.all_gather(result, mine, self._group("all_gather", k))
        return amax(stack(result), 0) if how == "max" else amin(stack(result), 0)

    def _move(self, k: int) -> None:
        """From pieces along one dimension to pieces along another."""
        current, wanted = self.spec.placements[k], self.target.placements[k]
        if not (isinstance(current, Shard) and isinstance(wanted, Shard)) or current.dim == wanted.dim:
            return
        old, new = current.dim, wanted.dim
        last = (
            self.spec.orders[old][-1] == k and self.target.orders.get(old, ()) == self.spec.orders[old][:-1]
        )
        if not last or self.target.orders[new] != (*self.spec.orders.get(new, ()), k):
            return
        local, joined = self.local, self.spec.cut(old, self.spec.orders[old][:-1])[0]
        parts = [
            local.narrow(new, begin, size).contiguous() for size, begin in self._pieces(local.shape[new], k)
        ]
        shape = list(parts[self.at[k]].shape)
        result = []
        for size, _ in self._pieces(joined, k):
            shape[old] = size
            result.append(empty(shape, dtype=local.dtype, device=local.device))
        calls.all_to_all(result, parts, self._group("all_to_all", k))
        self.local = cat(result, old)
        self._placed(k, Replicate())
        self._placed(k, Shard(new))

    def _widen(self, k: int) -> None:
        """From a piece to a summand of the whole: zeros in place of the others' pieces."""
        current = self.spec.placements[k]
        if self.target.placements[k] != Partial() or not isinstance(current, Shard):
            return
        dim, order = current.dim, self.spec.orders[current.dim]
        if order[-1] != k:
            return
        shape = list(self.local.shape)
        shape[dim] = self.spec.cut(dim, order[:-1])[0]
        size, begin = self._pieces(shape[dim], k)[self.at[k]]
        full = self.local.new_zeros(shape)
        full.narrow(dim, begin, size).copy_(self.local)
        self.local = full
        self._placed(k, Partial())

    def _join(self, k: int, dim: int) -> None:
        """Every process gets all pieces along a dimension of the mesh."""
        before = tuple(other for other in self.spec.orders[dim] if other != k)
        length, local = self.spec.cut(dim, before)[0], self.local.contiguous()
        shape, result = list(local.shape), []
        for size, _ in self._pieces(length, k):
            shape[dim] = size
            result.append(empty(shape, dtype=local.dtype, device=local.device))
        calls.all_gather(result, local, self._group("all_gather", k))
        self.local = cat(result, dim)
        placements = [*self.spec.placements[:k], Replicate(), *self.spec.placements[k + 1 :]]
        self.spec = self.spec.placed(_in_order(self.spec, placements, dim, before))

    def _cut(self, k: int, dim: int) -> None:
        """Each process keeps its piece.  What had to be reduced over that dimension of the mesh no longer has."""
        assert self.spec.placements[k].is_replicate()
        size, begin = Shard.local_shard_size_and_offset(self.local.shape[dim], self.mesh.size(k), self.at[k])
        self.local = self.local.narrow(dim, begin, size).contiguous().clone()
        self._placed(k, Shard(dim))

    def _leave_to_be_reduced(self, k: int, wanted: Placement) -> None:
        """What a reduction makes the tensor of: itself on the first process, and nothing on the others, or itself everywhere."""
        assert isinstance(wanted, Partial)
        if self.at[k] and wanted.reduce_op in ("sum", "product", "bxor"):
            self.local = self.local.new_full(self.local.shape, 1 if wanted.reduce_op == "product" else 0)
        self._placed(k, wanted)


def _in_order(
    spec: DTensorSpec, placements: Sequence[Placement], dim: int, order: Sequence[int]
) -> list[Placement]:
    """The placements in which these dimensions of the mesh cut a dimension in that order."""
    result = list(placements)
    for place, k in enumerate(order):
        pieces = 1
        for other in order[:place]:
            pieces *= spec.mesh.size(other) if other > k else 1
        result[k] = Shard(dim) if pieces == 1 else _StridedShard(dim, split_factor=pieces)
    return result
