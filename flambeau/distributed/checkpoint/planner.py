"""What is saved and loaded by whom: items, plans made of them, and the planners that make plans.

A save goes through `set_up_planner` and `create_local_plan` on every rank, `create_global_plan` on the coordinator, then `finish_plan`
and, for each item, `resolve_data` on every rank.  A load goes the same way, with `load_bytes`, or `resolve_tensor` and `commit_tensor`, for
each item.  Users derive from `DefaultSavePlanner` and `DefaultLoadPlanner`, and change one step.
"""

from __future__ import annotations

import abc
import io
import math
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from ..._tensor import Tensor
from ...core.base.dtypes import Size
from .metadata import (
    STATE_DICT_TYPE,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
)

__all__ = [
    "BytesIOWriteData",
    "LoadItemType",
    "LoadPlan",
    "LoadPlanner",
    "ReadItem",
    "SavePlan",
    "SavePlanner",
    "TensorWriteData",
    "WriteItem",
    "WriteItemType",
]


class WriteItemType(Enum):
    """What an item of a save is: a whole tensor, a chunk of one, or an object as bytes.

    >>> from flambeau.distributed.checkpoint.planner import WriteItemType
    >>> [kind.name for kind in WriteItemType]
    ['TENSOR', 'SHARD', 'BYTE_IO']
    """

    TENSOR = auto()
    SHARD = auto()
    BYTE_IO = auto()


class LoadItemType(Enum):
    """What an item of a load is.

    >>> from flambeau.distributed.checkpoint.planner import LoadItemType
    >>> [kind.name for kind in LoadItemType]
    ['TENSOR', 'BYTE_IO']
    """

    TENSOR = auto()
    BYTE_IO = auto()


@dataclass(frozen=True)
class BytesIOWriteData:
    """How many bytes an object takes.

    Raises nothing.

    >>> from flambeau.distributed.checkpoint.planner import BytesIOWriteData
    >>> BytesIOWriteData(8)
    BytesIOWriteData(nbytes=8)
    """

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """A chunk, and dtype and shape of the tensor that it belongs to.

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint import planner
    >>> from flambeau.distributed.checkpoint.metadata import ChunkStorageMetadata, TensorProperties
    >>> four, zero = flambeau.Size([4]), flambeau.Size([0])
    >>> planner.TensorWriteData(ChunkStorageMetadata(zero, four), TensorProperties(), four).size
    flambeau.Size([4])
    """

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: Size


@dataclass(frozen=True)
class WriteItem:
    """One thing that one rank writes.

    `tensor_data` has the shapes of the chunk and of the whole.

    Raises nothing.

    >>> from flambeau.distributed.checkpoint.planner import *
    >>> from flambeau.distributed.checkpoint.metadata import MetadataIndex
    >>> WriteItem(MetadataIndex("epoch"), WriteItemType.BYTE_IO).tensor_storage_size() is None
    True
    """

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self) -> int | None:
        """The bytes of the whole tensor; None for an object."""
        if self.tensor_data is None:
            return None
        return math.prod(self.tensor_data.size) * self.tensor_data.properties.dtype.itemsize


@dataclass(frozen=True)
class ReadItem:
    """A box of elements that one rank copies from a chunk in the checkpoint into a tensor.

    `storage_index` names the chunk and `storage_offsets` where the box begins in it; `dest_index` and `dest_offsets` the same in the state
    dict; `lengths` is the size of the box.

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint import ReadItem
    >>> from flambeau.distributed.checkpoint.metadata import MetadataIndex
    >>> from flambeau.distributed.checkpoint.planner import LoadItemType
    >>> where, zero = MetadataIndex("x", [0]), flambeau.Size([0])
    >>> ReadItem(LoadItemType.TENSOR, where, zero, where, zero, flambeau.Size([4])).lengths
    flambeau.Size([4])
    """

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: Size
    storage_index: MetadataIndex
    storage_offsets: Size
    lengths: Size


@dataclass(frozen=True)
class SavePlan:
    """What a rank writes.  `usable=False`: the same as the last time, where plans are cached.

    Raises nothing.

    >>> from flambeau.distributed.checkpoint import SavePlan
    >>> SavePlan([]).usable
    True
    """

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """What a rank reads.

    Raises nothing.

    >>> from flambeau.distributed.checkpoint import LoadPlan
    >>> LoadPlan([]).items
    []
    """

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(abc.ABC):
    """Decides what each rank writes.

    >>> from dataclasses import replace
    >>> import flambeau
    >>> import flambeau.distributed.checkpoint as dcp
    >>> class Renamed(dcp.DefaultSavePlanner):
    ...     def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
    ...         super().set_up_planner({f"model.{k}": v for k, v in state_dict.items()}, storage_meta, is_coordinator)
    >>> planner = Renamed()
    >>> planner.set_up_planner({"x": flambeau.ones(2)})
    >>> planner.create_local_plan().items[0].index.fqn
    'model.x'
    """

    @abc.abstractmethod
    def set_up_planner(
        self,
        state_dict: STATE_DICT_TYPE,
        storage_meta: StorageMeta | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """A save of this state dict begins.  On every rank."""

    @abc.abstractmethod
    def create_local_plan(self) -> SavePlan:
        """What this rank has to write.  On every rank."""

    @abc.abstractmethod
    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """What each rank writes, from what all have, and the metadata of the whole.  On the coordinator."""

    @abc.abstractmethod
    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """This rank's plan, from what the coordinator has made of it.  On every rank."""

    @abc.abstractmethod
    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """The tensor or the bytes of an item.  Storage may call it from any thread, and more than once."""


class LoadPlanner:
    """Decides what each rank reads.

    >>> import flambeau
    >>> import flambeau.distributed.checkpoint as dcp
    >>> planner = dcp.DefaultLoadPlanner(allow_partial_load=True)
    >>> planner.set_up_planner({"x": flambeau.ones(2)}, dcp.Metadata({}))
    >>> planner.create_local_plan().items
    []
    """

    @abc.abstractmethod
    def set_up_planner(
        self, state_dict: STATE_DICT_TYPE, metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """A load into this state dict begins.  On every rank."""

    @abc.abstractmethod
    def create_local_plan(self) -> LoadPlan:
        """What this rank has to read.  On every rank."""

    @abc.abstractmethod
    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """What each rank reads, from what all have to.  On the coordinator."""

    @abc.abstractmethod
    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """This rank's plan, from what the coordinator has made of it.  On every rank."""

    @abc.abstractmethod
    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Put an object, which a save planner has turned into these bytes, into the state dict."""

    def resolve_bytes(self, read_item: ReadItem) -> io.BytesIO:
        """Where the bytes of an item go; not every planner has it."""
        raise NotImplementedError(f"{type(self).__name__} has no resolve_bytes")

    @abc.abstractmethod
    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """The tensor, of the size `read_item.lengths`, that storage writes into."""

    @abc.abstractmethod
    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """What `resolve_tensor` returned has been written."""
