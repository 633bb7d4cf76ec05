"""What plans are carried out by: a `StorageWriter` writes the items of a save, a `StorageReader` reads those of a load."""

from __future__ import annotations

import abc
import os
from dataclasses import dataclass
from typing import Any

from ...futures import Future
from .metadata import Metadata, MetadataIndex, StorageMeta
from .planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner

__all__ = ["StorageReader", "StorageWriter", "WriteResult"]


@dataclass(frozen=True)
class WriteResult:
    """An item that was written: its index, its bytes, and where it is, which goes into the metadata.

    Raises nothing.

    >>> from flambeau.distributed.checkpoint.metadata import MetadataIndex
    >>> from flambeau.distributed.checkpoint.storage import WriteResult
    >>> WriteResult(MetadataIndex("epoch"), 400, None).size_in_bytes
    400
    """

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(abc.ABC):
    """Writes a checkpoint.

    Every rank has one.  A save calls `reset` and `set_up_storage_writer`, then `prepare_local_plan`, on the coordinator
    `prepare_global_plan`, `write_data`, and at last, on the coordinator, `finish`.

    >>> import inspect
    >>> from flambeau.distributed.checkpoint import FileSystemWriter, StorageWriter
    >>> inspect.isabstract(StorageWriter), issubclass(FileSystemWriter, StorageWriter)
    (True, True)
    """

    @abc.abstractmethod
    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """A new save begins; where `checkpoint_id` is given, to that place."""

    @abc.abstractmethod
    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Whether this rank is the coordinator.  With `**kwargs` it also gets `rank` and `use_collectives`."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """This rank's plan, with the storage's own data in it."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """All plans, with the storage's own data in them."""

    @abc.abstractmethod
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write the items, whose data `planner.resolve_data` has; tensors may be views, on any device."""

    @abc.abstractmethod
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the metadata, which makes it a checkpoint.  `results` are those of all ranks."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether this storage can write there."""

    def storage_meta(self) -> StorageMeta | None:
        """What the metadata say of this save."""
        return None


class StorageReader(abc.ABC):
    """Reads a checkpoint.

    Every rank has one.  A load calls `reset`, `read_metadata` and `set_up_storage_reader`, then `prepare_local_plan`, on the coordinator
    `prepare_global_plan`, and `read_data`.

    >>> import inspect
    >>> from flambeau.distributed.checkpoint import FileSystemReader, StorageReader
    >>> inspect.isabstract(StorageReader), issubclass(FileSystemReader, StorageReader)
    (True, True)
    """

    @abc.abstractmethod
    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """A new load begins; where `checkpoint_id` is given, from that place."""

    @abc.abstractmethod
    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """The metadata of the checkpoint.  With `**kwargs` also that of a `rank`."""

    @abc.abstractmethod
    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """The metadata, and whether this rank is the coordinator."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """This rank's plan, with the storage's own data in it."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """All plans, with the storage's own data in them."""

    @abc.abstractmethod
    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read the items: objects by `planner.load_bytes`, tensors into what `planner.resolve_tensor` returns."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether this storage can read there."""
