"""How a distributed tensor lies: a mesh, a placement for each of its dimensions, and shape, strides and dtype of the whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from ..device_mesh import DeviceMesh
from .placement_types import Partial, Placement, Replicate, Shard, _StridedShard


class TensorMeta(NamedTuple):
    """Shape, strides and dtype of the whole tensor."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: Any


class DTensorSpec:
    """A mesh, placements, and what the whole tensor is.  It does not change."""

    def __init__(self, mesh: DeviceMesh, placements: Sequence[Placement], tensor_meta: TensorMeta) -> None:
        self.mesh, self.placements, self.tensor_meta = mesh, tuple(placements), tensor_meta

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh."""
        return self.mesh

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole."""
        return self.tensor_meta.shape

    @property
    def stride(self) -> tuple[int, ...]:
        """The strides that the whole would have."""
        return self.tensor_meta.stride

    @property
    def ndim(self) -> int:
        """How many dimensions the tensor has."""
        return len(self.tensor_meta.shape)

    @cached_property
    def key(self) -> str:
        """All but the mesh, as text, whose hash is computed once."""
        placements = [(type(p).__module__, type(p).__qualname__, p._key()) for p in self.placements]
        meta = self.tensor_meta
        return f"{placements}{tuple(meta.shape)}{tuple(meta.stride)}{meta.dtype}"

    @cached_property
    def orders(self) -> dict[int, tuple[int, ...]]:
        """For each dimension of the tensor that is cut: by which dimensions of the mesh, in this order."""
        result: dict[int, list[int]] = {}
        for k in reversed(range(len(self.placements))):
            placement = self.placements[k]
            if isinstance(placement, Shard):
                result.setdefault(placement.dim, []).insert(0, k)
            elif isinstance(placement, _StridedShard):
                before = result.setdefault(placement.dim, [])
                before.insert(_place(before, placement.split_factor, self), k)
        return {dim: tuple(order) for dim, order in result.items()}

    def cut(self, dim: int, by: Sequence[int] | None = None) -> tuple[int, int]:
        """The size of this process's piece of a dimension, and its first index, when these dimensions of the mesh have cut it."""
        size, begin = self.shape[dim], 0
        at = self.mesh.get_coordinate()
        assert at is not None
        for k in self.orders.get(dim, ()) if by is None else by:
            size, offset = Shard.local_shard_size_and_offset(size, self.mesh.size(k), at[k])
            begin += offset
        return size, begin

    @property
    def local_shape(self) -> tuple[int, ...]:
        """The shape of this process's piece; (0,) where it is not in the mesh."""
        if self.mesh.get_coordinate() is None:
            return (0,)
        return tuple(self.cut(dim)[0] for dim in range(self.ndim))

    def placed(self, placements: Sequence[Placement]) -> DTensorSpec:
        """The same tensor, which lies in another way."""
        return DTensorSpec(self.mesh, placements, self.tensor_meta)

    # What programs ask PyTorch's ------------------------------------------------------------------------------------------------------
    @property
    def num_shards(self) -> int:
        """How many shards there are."""
        return math.prod(self.mesh.size(k) for order in self.orders.values() for k in order)

    @property
    def dim_map(self) -> list[int]:
        """For each dimension of the tensor, which dimension of the mesh cuts it first; -1 for none."""
        return [self.orders[dim][0] if dim in self.orders else -1 for dim in range(self.ndim)]

    @property
    def sums(self) -> list[int]:
        """The dimensions of the mesh over which it is to be reduced."""
        return [k for k, placement in enumerate(self.placements) if placement.is_partial()]

    def is_replicated(self) -> bool:
        """Whether every process has it whole."""
        return all(isinstance(placement, Replicate) for placement in self.placements)

    def is_sharded(self) -> bool:
        """Whether it is cut."""
        return bool(self.orders)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DTensorSpec) and (self.mesh, self.placements, self.tensor_meta) == (
            other.mesh,
            other.placements,
            other.tensor_meta,
        )

    def __hash__(self) -> int:
        return hash((self.mesh, self.placements, self.tensor_meta))

    def __repr__(self) -> str:
        return f"Spec({', '.join(map(str, self.placements))} on {self.shape}, {self.mesh})"

    def __reduce__(self) -> Any:
        return DTensorSpec, (self.mesh, self.placements, self.tensor_meta)


def _place(order: list[int], split_factor: int, spec: DTensorSpec) -> int:
    """After which dimensions of the mesh one cuts that finds `split_factor` pieces."""
    pieces = 1
    for place in range(len(order) + 1):
        if pieces == split_factor:
            return place
        if place < len(order):
            pieces *= spec.mesh.size(order[place])
    sizes = [spec.mesh.size(k) for k in order]
    raise ValueError(
        f"{spec.placements}: split_factor is the product of the first of the later meshes' sizes that cut the same dimension, {sizes}; "
        f"got {split_factor}"
    )


def normalized(
    placements: Sequence[Any] | None, mesh: DeviceMesh, rank: int, call: str
) -> tuple[Placement, ...]:
    """Placements as they are given, by default `Replicate`, checked; dimensions counted from the front.

    TypeError for what is no placement; ValueError where there are not as many as the mesh has dimensions, or they mix reductions;
    IndexError for a dimension that the tensor does not have.
    """
    if placements is None:
        return tuple(Replicate() for _ in range(mesh.ndim))
    checked = (placements,) if isinstance(placements, Placement) else tuple(placements)
    if len(checked) != mesh.ndim:
        raise ValueError(
            f"{call}(): `placements` must have the same length as `device_mesh.ndim`! "
            f"Found placements length: {len(checked)}, and device_mesh.ndim: {mesh.ndim}."
        )
    result: list[Placement] = []
    for placement in checked:
        if not isinstance(placement, Placement):
            raise TypeError(f"{call}(): placements are of Placement, got {type(placement).__name__}")
        if isinstance(placement, (Shard, _StridedShard)):
            if not -rank <= placement.dim < rank:
                raise IndexError(f"{call}(): {placement!r}, but the tensor has {rank} dimensions")
            dim = placement.dim % rank
            placement = (
                Shard(dim)
                if isinstance(placement, Shard)
                else _StridedShard(dim, split_factor=placement.split_factor)
            )
        result.append(placement)
    check_reductions(result, call)
    return tuple(result)


def check_reductions(placements: Sequence[Placement], call: str) -> None:
    """ValueError where several reductions are to be made: which comes first would decide what comes out."""
    kinds = {placement.reduce_op for placement in placements if isinstance(placement, Partial)}
    if len(kinds) > 1 and kinds != {"sum", "avg"}:
        raise ValueError(
            f"{call}(): Mixing Partial reduce types is not supported: got {sorted(kinds)} in {tuple(placements)}"
        )


def dense_strides(shape: Sequence[int], like: Sequence[int]) -> tuple[int, ...]:
    """The strides of a dense tensor of a shape whose dimensions lie in memory as those of strides `like` do."""
    result, step = [0] * len(shape), 1
    for dim in sorted(range(len(shape)), key=lambda d: (like[d], -d)):
        if like[dim] == 0 and shape[dim] != 1:
            continue  # expanded
        result[dim] = step
        step *= max(shape[dim], 1)
    return tuple(result)
