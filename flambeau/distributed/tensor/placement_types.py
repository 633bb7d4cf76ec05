"""How a tensor lies along one dimension of a mesh: `Shard`, `Replicate` and `Partial`, as `torch.distributed.tensor.placement_types`."""

from __future__ import annotations

from typing import Any

from ...core.base import display

__all__ = ["Partial", "Placement", "Replicate", "Shard"]

_REDUCTIONS = ("sum", "avg", "product", "max", "min", "band", "bor", "bxor")


class Placement:
    """How a tensor lies along one dimension of a mesh; one of its subclasses.

    >>> from flambeau.distributed.tensor import Replicate, Shard
    >>> Shard(1).is_shard(), Shard(1).is_shard(dim=0), Replicate().is_replicate()
    (True, False, True)
    """

    __slots__ = ()

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether it is cut, along that dimension where one is given, in contiguous shards."""
        return type(self) is Shard and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each process has it whole."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether it is to be reduced over processes, by that reduction where one is given."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)

    def _key(self) -> tuple[Any, ...]:
        raise NotImplementedError(f"{type(self).__name__} says how no tensor lies")

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is type(self) and other._key() == self._key())  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self).__name__, *self._key()))

    def __reduce__(self) -> Any:
        return type(self), self._key()


class Shard(Placement):
    """Cut along a dimension: process k of n has the k-th piece of `chunk(n, dim)`, so the last ones may be smaller, or empty.

    dim: the tensor's dimension; counted from the end where it is negative, once there is a tensor.

    Raises nothing.

    >>> from flambeau.distributed.tensor import Shard
    >>> Shard(0)
    Shard(dim=0)
    >>> [Shard.local_shard_size_and_offset(5, 4, rank) for rank in range(4)]
    [(2, 0), (2, 2), (1, 4), (0, 5)]
    """

    __slots__ = ("dim",)

    def __init__(self, dim: int) -> None:
        if isinstance(dim, bool) or not hasattr(dim, "__index__"):
            raise TypeError(f"Shard(): dim is an int, got {type(dim).__name__}")
        self.dim = dim.__index__()

    def _key(self) -> tuple[Any, ...]:
        return (self.dim,)

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """The size and the first index of process `rank`'s piece of a dimension of `curr_local_size`, cut for `num_chunks` processes."""
        if num_chunks < 1:
            raise ValueError(f"local_shard_size_and_offset(): num_chunks is at least 1, got {num_chunks}")
        step = -(-curr_local_size // num_chunks)
        begin = min(rank * step, curr_local_size)
        return min(step, curr_local_size - begin), begin

    @staticmethod
    def _local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        return Shard.local_shard_size_and_offset(curr_local_size, num_chunks, rank)


class _StridedShard(Placement):
    """Cut along a dimension that later dimensions of the mesh have cut before: in `split_factor` pieces.

    So lie the shards of a parameter that a mesh ("dp", "tp") has, cut for tensor parallelism first, then by FSDP:
    `(_StridedShard(0, split_factor=tp), Shard(0))`.
    """

    __slots__ = ("dim", "split_factor")

    def __init__(self, dim: int, *, split_factor: int) -> None:
        self.dim, self.split_factor = dim, split_factor

    def _key(self) -> tuple[Any, ...]:
        return self.dim, self.split_factor

    def __reduce__(self) -> Any:
        return _strided, (self.dim, self.split_factor)

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


def _strided(dim: int, split_factor: int) -> _StridedShard:
    return _StridedShard(dim, split_factor=split_factor)


class Replicate(Placement):
    """Whole on every process.

    >>> from flambeau.distributed.tensor import Replicate
    >>> Replicate() == Replicate()
    True
    """

    __slots__ = ()

    def _key(self) -> tuple[Any, ...]:
        return ()

    def __repr__(self) -> str:
        return "Replicate()"

    def __str__(self) -> str:
        return "R"


class Partial(Placement):
    """Of the whole shape on every process, and what the tensor is only when it is reduced over them.

    reduce_op: "sum", "avg", "product", "max", "min", "band", "bor" or "bxor".

    Raises:
        ValueError: there is no reduction of that name

    >>> from flambeau.distributed.tensor import Partial
    >>> Partial(), Partial("max").is_partial("sum")
    (Partial(sum), False)
    """

    __slots__ = ("reduce_op",)

    def __init__(self, reduce_op: str = "sum") -> None:
        if reduce_op not in _REDUCTIONS:
            raise ValueError(f"Partial(): reduce_op is one of {', '.join(_REDUCTIONS)}, got {reduce_op!r}")
        self.reduce_op = reduce_op

    def _key(self) -> tuple[Any, ...]:
        return (self.reduce_op,)

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


for _class in (Placement, Shard, Replicate, Partial, _StridedShard):
    _class.__module__ = display.public("distributed.tensor.placement_types")
