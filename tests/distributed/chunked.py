"""The content of `sharded` as flambeau's: tensors cut over processes are `Chunked`, which says what a process has of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import sharded

import flambeau as torch
from flambeau.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
)
from flambeau.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType


class Chunked:
    """A box of a tensor, by the protocol through which checkpoints know what is sharded."""

    def __init__(self, local: torch.Tensor, offsets: list[int], whole: tuple[int, ...]) -> None:
        self.local, self.offsets, self.whole = local, torch.Size(offsets), torch.Size(whole)
        self.dtype = local.dtype

    def size(self) -> torch.Size:
        return self.whole

    def detach(self) -> Chunked:
        return self

    def __deepcopy__(self, memo: Any) -> Chunked:
        return Chunked(self.local.clone(), list(self.offsets), self.whole)

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        return [ChunkStorageMetadata(self.offsets, self.local.size())]

    def __create_write_items__(self, fqn: str, value: Any) -> list[WriteItem]:
        chunk = ChunkStorageMetadata(self.offsets, self.local.size())
        data = TensorWriteData(chunk, TensorProperties(self.dtype), self.whole)
        return [WriteItem(MetadataIndex(fqn, self.offsets), WriteItemType.SHARD, tensor_data=data)]

    def __get_tensor_shard__(self, index: MetadataIndex) -> torch.Tensor:
        assert index.offset == self.offsets
        return self.local


def box(array: np.ndarray, dim: int, rank: int, size: int) -> tuple[np.ndarray, list[int]]:
    """What a process has of an array, and where it begins."""
    offsets, sizes = sharded.chunk(array.shape, dim, rank, size)
    return array[tuple(slice(b, b + n) for b, n in zip(offsets, sizes))], offsets


def tensor(array: np.ndarray, fill: bool = True) -> torch.Tensor:
    made = torch.from_numpy(array.copy())
    return made if fill else torch.zeros_like(made)


def cut(array: np.ndarray, dim: int, rank: int, size: int, fill: bool = True) -> Chunked:
    local, offsets = box(array, dim, rank, size)
    return Chunked(tensor(np.ascontiguousarray(local), fill), offsets, array.shape)


def state(rank: int, size: int, fill: bool) -> dict[str, Any]:
    """The content of a process, or zeros to load into."""
    model: dict[str, Any] = {name: tensor(array, fill) for name, array in sharded.whole().items()}
    model |= {name: cut(array, dim, rank, size, fill) for name, (array, dim) in sharded.cut().items()}
    groups = [{"lr": g["lr"] if fill else 0.0, "betas": g["betas"] if fill else []} for g in sharded.GROUPS]
    optim = {"state": {"bias": {"step": torch.tensor(3.0 if fill else 0.0)}}, "param_groups": groups}
    objects = dict(sharded.OBJECTS) if fill else dict.fromkeys(sharded.OBJECTS)
    return {"model": model, "optim": optim, "meta": objects}


def compare(result: dict[str, Any], rank: int, size: int) -> None:
    """That a loaded state is the content."""
    for name, array in sharded.whole().items():
        np.testing.assert_array_equal(result["model"][name].numpy(), array, err_msg=name)
    compare_cut(result["model"], rank, size)
    assert result["meta"] == sharded.OBJECTS and result["optim"]["param_groups"] == sharded.GROUPS
    assert result["optim"]["state"]["bias"]["step"] == 3.0


def compare_cut(result: dict[str, Any], rank: int, size: int) -> None:
    for name, (array, dim) in sharded.cut().items():
        np.testing.assert_array_equal(
            result[name].local.numpy(), box(array, dim, rank, size)[0], err_msg=name
        )
