"""Items of plans, made from the values of a state dict.

A sharded value says by `__create_chunk_list__()` which chunks this rank has of it, as DTensor does, and gives their data by
`to_local()`, or by `__create_write_items__(fqn, value)` and `__get_tensor_shard__(index)`.  Other tensors are on every rank as a
whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._tensor import Tensor
from ...autograd import no_grad
from ...core.base import formats
from ...core.base.dtypes import Size
from ...core.make.create import empty_like
from .metadata import (
    STORAGE_TYPES,
    BytesStorageMetadata,
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from .planner import LoadItemType, ReadItem, SavePlan, TensorWriteData, WriteItem, WriteItemType
from .resharding import shared_box

__all__ = ["create_read_items_for_chunk_list"]


def _create_chunk_from_tensor(tensor: Tensor) -> ChunkStorageMetadata:
    return ChunkStorageMetadata(offsets=Size([0] * tensor.dim()), sizes=Size(tensor.shape))


def _create_write_items(fqn: str, value: Any) -> list[WriteItem]:
    """What this rank has to write of a value.  ValueError for a tensor that has no dense data."""
    if hasattr(value, "__create_write_items__"):
        return value.__create_write_items__(fqn, value)
    if hasattr(value, "__create_chunk_list__"):
        if any(placement.is_partial() for placement in getattr(value, "placements", ())):
            raise ValueError(
                f"{fqn!r} is a sum that is still to be added up, {value.placements}: redistribute it before"
            )
        properties = TensorProperties.create_from_tensor(_piece(value))
        return [_shard(fqn, chunk, properties, value) for chunk in _create_chunk_list(value)]
    if not isinstance(value, Tensor):
        return [WriteItem(index=MetadataIndex(fqn), type=WriteItemType.BYTE_IO)]
    if value.layout is not formats.strided or value.is_meta:
        what = "on device 'meta', without data" if value.is_meta else f"of layout {value.layout}"
        raise ValueError(f"{fqn!r} is {what}: only dense tensors are saved")
    chunk = _create_chunk_from_tensor(value)
    data = TensorWriteData(chunk, TensorProperties.create_from_tensor(value), Size(value.shape))
    return [WriteItem(MetadataIndex(fqn, chunk.offsets), WriteItemType.TENSOR, tensor_data=data)]


def _shard(fqn: str, chunk: ChunkStorageMetadata, properties: TensorProperties, value: Any) -> WriteItem:
    data = TensorWriteData(chunk, properties, Size(value.size()))
    return WriteItem(MetadataIndex(fqn, chunk.offsets), WriteItemType.SHARD, tensor_data=data)


def _piece(value: Any) -> Tensor:
    """What this rank has of a DTensor: its memory, without history."""
    with no_grad():
        return value.to_local()


def _create_chunk_list(tensor: Any) -> list[ChunkStorageMetadata]:
    """The chunks that this rank has of a tensor.  ValueError for what is none."""
    if hasattr(tensor, "__create_chunk_list__"):
        mesh = getattr(tensor, "device_mesh", None)
        if mesh is not None and mesh.get_coordinate() is None:
            return []  # this rank has nothing of it
        chunks = tensor.__create_chunk_list__()
        return [ChunkStorageMetadata(Size(chunk.offsets), Size(chunk.sizes)) for chunk in chunks]
    if isinstance(tensor, Tensor):
        return [_create_chunk_from_tensor(tensor)]
    raise ValueError(f"Unsupported Type, expecting one of [Tensor, DTensor], but got {type(tensor)}")


def _create_read_items(fqn: str, md: STORAGE_TYPES, value: Any) -> list[ReadItem]:
    """What this rank has to read for a value of its state dict.  ValueError where the checkpoint has a tensor and it has none."""
    if isinstance(md, BytesStorageMetadata):
        zero, where = Size([0]), MetadataIndex(fqn)
        return [ReadItem(LoadItemType.BYTE_IO, where, zero, where, zero, zero)]
    try:
        chunks = _create_chunk_list(value)
    except ValueError as error:
        raise ValueError(
            f"Invalid checkpoint metadata for {fqn}, expected BytesStorageMetadata but found {type(md)}"
        ) from error
    return create_read_items_for_chunk_list(fqn, md, chunks)


def create_read_items_for_chunk_list(
    fqn: str, checkpoint_md: TensorStorageMetadata, local_chunks: list[ChunkStorageMetadata]
) -> list[ReadItem]:
    """The boxes that fill `local_chunks` from the chunks of a tensor in the checkpoint.

    Args:
        fqn: the name of the tensor.
        checkpoint_md: its size and chunks in the checkpoint; one that stands there twice is read once.
        local_chunks: what is wanted.

    Raises:
        ValueError: a wanted chunk has other dimensions than the tensor in the checkpoint

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint.metadata import *
    >>> from flambeau.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list
    >>> box = lambda begin, n: ChunkStorageMetadata(flambeau.Size([begin]), flambeau.Size([n]))
    >>> saved = TensorStorageMetadata(TensorProperties(), flambeau.Size([6]), [box(0, 3), box(3, 3)])
    >>> for item in create_read_items_for_chunk_list("x", saved, [box(2, 2)]):
    ...     print(item.storage_index.offset, item.storage_offsets, item.dest_offsets, item.lengths)
    flambeau.Size([0]) flambeau.Size([2]) flambeau.Size([0]) flambeau.Size([1])
    flambeau.Size([3]) flambeau.Size([0]) flambeau.Size([1]) flambeau.Size([1])
    """
    items = []
    saved = {tuple(chunk.offsets): (k, chunk) for k, chunk in reversed(list(enumerate(checkpoint_md.chunks)))}
    ordered = sorted(saved.values(), key=lambda result: result[0])
    for i, wanted in enumerate(local_chunks):
        if len(wanted.sizes) != len(checkpoint_md.size):
            raise ValueError(
                f"{fqn!r} has {len(checkpoint_md.size)} dimensions in the checkpoint, and {len(wanted.sizes)} here"
            )
        for k, chunk in ordered:
            shared = shared_box(chunk, wanted)
            if shared is None:
                continue
            items.append(
                ReadItem(
                    type=LoadItemType.TENSOR,
                    dest_index=MetadataIndex(fqn, wanted.offsets, i),
                    dest_offsets=Size(shared.in_current),
                    storage_index=MetadataIndex(fqn, chunk.offsets, k),
                    storage_offsets=Size(shared.in_saved),
                    lengths=Size(shared.lengths),
                )
            )
    return items


def _narrowed(tensor: Tensor, offsets: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """The box of a tensor, as a view."""
    for dim, (begin, n) in enumerate(zip(offsets, sizes)):
        if n != tensor.shape[dim]:
            tensor = tensor.narrow(dim, begin, n)
    return tensor


def _init_state_dict(state_dict: Any) -> Any:
    """Give tensors on device "meta" memory, in place in dictionaries and lists."""
    if isinstance(state_dict, Tensor):
        return _with_memory(state_dict) if state_dict.device.type == "meta" else state_dict
    if isinstance(state_dict, dict):
        for key, value in state_dict.items():
            state_dict[key] = _init_state_dict(value)
    elif isinstance(state_dict, list):
        state_dict[:] = [_init_state_dict(value) for value in state_dict]
    elif type(state_dict) is tuple:
        return tuple(_init_state_dict(value) for value in state_dict)
    return state_dict


def _with_memory(tensor: Any) -> Tensor:
    if not hasattr(tensor, "device_mesh"):
        return empty_like(tensor, device="cpu")
    return _with_piece(tensor, empty_like(_piece(tensor), device="cpu"))


def _with_piece(tensor: Any, piece: Tensor) -> Any:
    """A DTensor like another, of another piece."""
    mesh, placements = tensor.device_mesh, tensor.placements
    return type(tensor).from_local(piece, mesh, placements, shape=tensor.size(), stride=tensor.stride())


def _same_plan(one: SavePlan, other: SavePlan) -> bool:
    """Whether two plans write the same."""
    return one.usable == other.usable and one.items == other.items and one.planner_data == other.planner_data
