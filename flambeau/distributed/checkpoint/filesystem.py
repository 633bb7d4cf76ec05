"""Checkpoints in a folder: `__R_I.distcp`, the I-th file of rank R, with its tensors and objects one after the other, and `.metadata`.

Each item is a file of `save` of its own, so PyTorch reads ours and we read PyTorch's.  A checkpoint is what `.metadata` names: it is
written last, to another name, and takes its place in one step.  A save into a folder with a checkpoint writes files of new numbers, and
those that the new `.metadata` does not name are removed after it is there.  So whenever a process is killed, one of the two is whole.
"""

from __future__ import annotations

import io
import math
import os
import re
import stat
import uuid
import warnings
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

from ..._files import load as load_object
from ..._files import save as save_object
from ..._tensor import Tensor
from ...futures import Future
from ._metadata_file import _StorageInfo, _StoragePrefix, dump_metadata, load_metadata
from .metadata import Metadata, MetadataIndex, StorageMeta, TensorStorageMetadata
from .planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from .planner_helpers import _narrowed
from .staging import BlockingAsyncStager
from .storage import StorageReader, StorageWriter, WriteResult
from .utils import _create_file_view

__all__ = ["FileSystem", "FileSystemBase", "FileSystemReader", "FileSystemWriter", "SerializationFormat"]

Path_ = str | os.PathLike[str]
CURRENT_DCP_VERSION = "1.0.0"
DEFAULT_SUFFIX = ".distcp"
_METADATA = ".metadata"
_DATA_FILE = re.compile(r"__(\d+)_(\d+)\.distcp")


class SerializationFormat(Enum):
    """How tensors are written: each as `save` writes it, or all of a file as safetensors.

    >>> from flambeau.distributed.checkpoint.filesystem import SerializationFormat
    >>> SerializationFormat("safetensors").name
    'SAFETENSORS'
    """

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


class FileSystemBase(ABC):
    """What checkpoints in folders need of a file system; one that is not the system's derives from it.

    >>> import inspect
    >>> from flambeau.distributed.checkpoint.filesystem import FileSystemBase
    >>> inspect.isabstract(FileSystemBase)
    True
    """

    @contextmanager
    @abstractmethod
    def create_stream(self, path: Path_, mode: str) -> Generator[Any, None, None]:
        """A file, opened as by `open`."""

    @abstractmethod
    def concat_path(self, path: Path_, suffix: str) -> Path_:
        """The path of a file in a folder."""

    @abstractmethod
    def rename(self, path: Path_, new_path: Path_) -> None:
        """Give a file another name, in one step, in place of one that has it."""

    @abstractmethod
    def init_path(self, path: Path_) -> Path_:
        """A path as the other methods take it."""

    @abstractmethod
    def mkdir(self, path: Path_) -> None:
        """Make a folder, and those around it, where there is none."""

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: Path_) -> bool:
        """Whether it is a path here."""

    @abstractmethod
    def exists(self, path: Path_) -> bool:
        """Whether there is such a file."""

    @abstractmethod
    def rm_file(self, path: Path_) -> None:
        """Remove a file."""


class FileSystem(FileSystemBase):
    """The system's files.

    OSError where the system refuses.

    >>> from flambeau.distributed.checkpoint.filesystem import FileSystem
    >>> FileSystem.validate_checkpoint_id("s3://bucket/run")
    False
    """

    @contextmanager
    def create_stream(self, path: Path_, mode: str) -> Generator[Any, None, None]:
        """A file, opened as by `open`; what is read must be a regular file."""
        with open(path, mode, opener=_open_regular if "r" in mode else None) as stream:
            yield stream

    def concat_path(self, path: Path_, suffix: str) -> Path:
        """The path of a file in a folder."""
        return Path(path) / suffix

    def rename(self, path: Path_, new_path: Path_) -> None:
        """Give a file another name, in place of one that has it; the name has reached the disk then."""
        os.replace(path, new_path)
        _sync_folder(Path(new_path).parent)

    def init_path(self, path: Path_) -> Path:
        """A `pathlib.Path`."""
        return Path(path)

    def mkdir(self, path: Path_) -> None:
        """Make a folder, and those around it, where there is none."""
        if not os.path.isdir(path):
            os.makedirs(path, exist_ok=True)
            _sync_folder(Path(path).absolute().parent)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Path_) -> bool:
        """Whether it is a path, and a folder on the way can be written to."""
        if isinstance(checkpoint_id, Path):
            return True
        if "://" in str(checkpoint_id):
            return False
        return any(parent.exists() and os.access(parent, os.W_OK) for parent in Path(checkpoint_id).parents)

    def exists(self, path: Path_) -> bool:
        """Whether there is such a file."""
        return os.path.exists(path)

    def rm_file(self, path: Path_) -> None:
        """Remove a file."""
        os.unlink(path)

    def ls(self, path: Path_) -> list[str]:
        """The paths of the files in a folder."""
        return [str(result) for result in Path(path).iterdir()]


def _open_regular(path: str, flags: int) -> int:
    """A pipe or a device in place of a file of a checkpoint would hang."""
    handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"{path} is no regular file")
    return handle


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError:  # a file system that has no such thing
        return
    finally:
        os.close(handle)


# --- writing ------------------------------


class FileSystemWriter(StorageWriter, BlockingAsyncStager):
    """Writes checkpoints into folders.

    Args:
        path: the folder, which is made if need be.
        single_file_per_rank: a rank writes one file (or `thread_count`), not one for each item.
        sync_files: files have reached the disk when a save returns.
        thread_count: how many threads of a rank write, each a file.
        per_thread_copy_ahead: for PyTorch's copies from devices while files are written; tensors are copied one by one here.
        cache_staged_state_dict: copies of `async_save` go into the memory of the last ones, whose save must be over.
        overwrite: a checkpoint in the folder is replaced, with a warning; RuntimeError if false.
        serialization_format: SAFETENSORS is what `HuggingFaceStorageWriter` uses.

    Raises:
        NotImplementedError: `_extensions`, PyTorch's experimental transforms of streams, are given

    >>> import tempfile
    >>> import flambeau
    >>> import flambeau.distributed.checkpoint as dcp
    >>> folder = tempfile.mkdtemp()
    >>> writer = dcp.FileSystemWriter(folder)
    >>> metadata = dcp.save({"x": flambeau.ones(2)}, storage_writer=writer, no_dist=True)
    >>> import os; sorted(os.listdir(folder))
    ['.metadata', '__0_0.distcp']
    """

    def __init__(
        self,
        path: Path_,
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
        _extensions: Sequence[Any] | None = None,
        serialization_format: SerializationFormat = SerializationFormat.TORCH_SAVE,
    ) -> None:
        BlockingAsyncStager.__init__(self, cache_staged_state_dict=cache_staged_state_dict)
        if _extensions:
            raise NotImplementedError(
                "FileSystemWriter: _extensions (transforms of streams) are not supported"
            )
        if thread_count < 1:
            raise ValueError(f"FileSystemWriter: thread_count must be at least 1, got {thread_count}")
        self.fs: Any = FileSystem()
        self.path = self.fs.init_path(path)
        self.single_file_per_rank = single_file_per_rank
        self.sync_files = sync_files
        self.thread_count = thread_count
        self.per_thread_copy_ahead = per_thread_copy_ahead
        self.overwrite = overwrite
        self.serialization_format = serialization_format
        self.save_id = str(uuid.uuid4())
        self.rank: int | None = None
        self.use_collectives = True

    def reset(self, checkpoint_id: Path_ | None = None) -> None:
        """A new save begins."""
        if checkpoint_id:
            self.path = self.fs.init_path(checkpoint_id)
        self.save_id = str(uuid.uuid4())

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """`rank` and `use_collectives` say whose metadata this rank writes."""
        self.rank = kwargs.get("rank")
        self.use_collectives = kwargs.get("use_collectives", True)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Make the folder.  RuntimeError where it has a checkpoint that is not to be overwritten."""
        self.fs.mkdir(self.path)
        if self.fs.exists(self._get_metadata_path(None if self.use_collectives else 0)):
            if not self.overwrite:
                raise RuntimeError(f"Checkpoint already exists in {self.path} and self.overwrite=False.")
            warnings.warn(
                f"Detected an existing checkpoint in {self.path}, overwriting since self.overwrite=True.",
                stacklevel=2,
            )
        if not self.use_collectives and self.rank is not None:
            plan = replace(plan, storage_data=_StoragePrefix(f"__{self.rank}_"))
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """How the files of each rank are called."""
        return [
            replace(plan, storage_data=_StoragePrefix(f"__{rank}_")) if plan.storage_data is None else plan
            for rank, plan in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write the items, into files that the folder does not have yet."""
        prefix = plan.storage_data.prefix
        if self.single_file_per_rank:
            buckets = [b for b in _split_by_size_and_type(self.thread_count, plan.items) if b]
        else:
            buckets = [[item] for item in plan.items]
        first = 1 + max((number for number, _ in self._data_files(prefix)), default=-1)
        return self._write_data(
            planner, [(f"{prefix}{first + k}{DEFAULT_SUFFIX}", items) for k, items in enumerate(buckets)]
        )

    def _write_data(
        self, planner: SavePlanner, files: Iterable[tuple[str, list[WriteItem]]]
    ) -> Future[list[WriteResult]]:
        """Write files of items, `thread_count` at a time; the first error that one of them meets is raised."""
        jobs = list(files)

        def write(job: tuple[str, list[WriteItem]]) -> list[WriteResult]:
            return self._write_file(planner, *job)

        if self.thread_count == 1 or len(jobs) < 2:
            written = [write(job) for job in jobs]
        else:
            with ThreadPoolExecutor(self.thread_count, "checkpoint") as pool:
                written = list(pool.map(write, jobs))
        done: Future[list[WriteResult]] = Future()
        done.set_result([result for results in written for result in results])
        return done

    def _write_file(self, planner: SavePlanner, name: str, items: list[WriteItem]) -> list[WriteResult]:
        with self.fs.create_stream(self.fs.concat_path(self.path, name), "wb") as stream:
            if self.serialization_format is SerializationFormat.SAFETENSORS:
                results = _write_safetensors(stream, planner, name, items)
            else:
                results = [_write_item(stream, planner, name, item) for item in items]
            self._sync(stream)
        return results

    def _sync(self, stream: Any) -> None:
        if not self.sync_files:
            return
        stream.flush()
        try:
            handle = stream.fileno()
        except (AttributeError, OSError):
            return  # no file of the system's
        os.fsync(handle)

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the metadata, which makes it a checkpoint, and remove the data of the one before."""
        metadata.version = CURRENT_DCP_VERSION
        metadata.storage_data = {r.index: r.storage_data for of_rank in results for r in of_rank}
        metadata.storage_meta = self.storage_meta()
        own = None if self.use_collectives else self.rank
        path = self._get_metadata_path(own)
        temporary = self.fs.concat_path(self.path, f"{os.path.basename(path)}.tmp")
        with self.fs.create_stream(temporary, "wb") as stream:
            stream.write(dump_metadata(metadata))
            self._sync(stream)
        self.fs.rename(temporary, path)
        named = {place.relative_path for place in metadata.storage_data.values()}
        for _, name in self._data_files("__" if own is None else f"__{own}_"):
            if name not in named:
                with suppress(OSError):  # the checkpoint is there, whatever remains of the old one
                    self.fs.rm_file(self.fs.concat_path(self.path, name))

    def _data_files(self, prefix: str) -> list[tuple[int, str]]:
        """The data files in the folder whose names begin so: their numbers and names."""
        if not hasattr(self.fs, "ls"):
            return []
        names = [os.path.basename(path) for path in self.fs.ls(self.path)]
        result = [(_DATA_FILE.fullmatch(name), name) for name in names if name.startswith(prefix)]
        return [(int(match[2]), name) for match, name in result if match is not None]

    def storage_meta(self) -> StorageMeta | None:
        """Where this save goes, and its identity."""
        return StorageMeta(checkpoint_id=self.checkpoint_id, save_id=self.save_id)

    def _get_metadata_path(self, rank: int | None = None) -> Any:
        return self.fs.concat_path(self.path, _METADATA if rank is None else f"__{rank}{_METADATA}")

    @property
    def checkpoint_id(self) -> Path_:
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Path_) -> bool:
        """Whether it is a path, and a folder on the way can be written to."""
        return FileSystem.validate_checkpoint_id(checkpoint_id)


def _item_size(item: WriteItem) -> int:
    data = item.tensor_data
    return 0 if data is None else math.prod(data.chunk.sizes) * data.properties.dtype.itemsize


def _split_by_size_and_type(bins: int, items: list[WriteItem]) -> list[list[WriteItem]]:
    """Items in so many lists of about the same number of bytes."""
    if bins == 1:
        return [items]
    buckets: list[list[WriteItem]] = [[] for _ in range(bins)]
    sizes = [0] * bins
    for item in sorted(items, key=_item_size, reverse=True):
        k = sizes.index(min(sizes))
        buckets[k].append(item)
        sizes[k] += _item_size(item) or 1
    return buckets


def _host_tensor(planner: SavePlanner, item: WriteItem) -> Tensor:
    """The tensor of an item, on the host, in memory that is no larger than it."""
    result = planner.resolve_data(item)
    if not isinstance(result, Tensor):
        raise TypeError(
            f"{type(planner).__name__}.resolve_data: {item.index.fqn!r} is no tensor but {type(result).__name__}"
        )
    tensor = result.detach().cpu()
    owns_storage = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.dtype.itemsize
    return tensor if owns_storage else tensor.clone()


def _write_item(stream: Any, planner: SavePlanner, name: str, item: WriteItem) -> WriteResult:
    begin = stream.tell()
    if item.type is WriteItemType.BYTE_IO:
        data = planner.resolve_data(item)
        if not isinstance(data, io.BytesIO):
            raise TypeError(
                f"{type(planner).__name__}.resolve_data: {item.index.fqn!r} is no BytesIO but {type(data).__name__}"
            )
        stream.write(data.getbuffer())
    else:
        save_object(_host_tensor(planner, item), stream)
    length = stream.tell() - begin
    return WriteResult(item.index, length, _StorageInfo(name, begin, length))


def _write_safetensors(
    stream: Any, planner: SavePlanner, name: str, items: list[WriteItem]
) -> list[WriteResult]:
    from ._hf_files import write_tensors

    tensors, offsets = {}, {}
    for item in items:
        if item.tensor_data is None:
            raise ValueError(f"{item.index.fqn!r} is an object, which safetensors do not hold: only tensors")
        tensors[item.index.fqn] = _host_tensor(planner, item).contiguous()
        offsets[item.index.fqn] = list(item.tensor_data.chunk.offsets)
    write_tensors(stream, tensors, offsets)
    lengths = [_item_size(item) for item in items]
    return [
        WriteResult(item.index, length, _StorageInfo(name, 0, length)) for item, length in zip(items, lengths)
    ]


# --- reading ------------------------------


class FileSystemReader(StorageReader):
    """Reads checkpoints from folders.  Nothing in them is run.

    RuntimeError from a load where a file is missing, cut short or damaged; the message names it.

    >>> import tempfile
    >>> import flambeau
    >>> import flambeau.distributed.checkpoint as dcp
    >>> folder = tempfile.mkdtemp()
    >>> saved = dcp.save({"x": flambeau.ones(2)}, checkpoint_id=folder, no_dist=True)
    >>> dcp.FileSystemReader(folder).read_metadata().state_dict_metadata["x"].size
    flambeau.Size([2])
    """

    def __init__(self, path: Path_, _extension_registry: Any = None) -> None:
        if _extension_registry is not None:
            raise NotImplementedError("FileSystemReader: transforms of streams are not supported")
        self.fs: Any = FileSystem()
        self.path = self.fs.init_path(path)
        self.storage_data: dict[MetadataIndex, Any] = {}
        self.load_id = str(uuid.uuid4())
        self._tensors: dict[str, TensorStorageMetadata] = {}

    def reset(self, checkpoint_id: Path_ | None = None) -> None:
        """A new load begins."""
        self.storage_data = {}
        if checkpoint_id:
            self.path = self.fs.init_path(checkpoint_id)
        self.load_id = str(uuid.uuid4())

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """The metadata; with `rank`, that which this rank saved by itself.

        Raises:
            FileNotFoundError: there is none
            RuntimeError: it is damaged, or names what is not allowed
        """
        path = self._get_metadata_path(kwargs.get("rank"))
        with self.fs.create_stream(path, "rb") as stream:
            data = stream.read()
        with _said_of(path):
            metadata = load_metadata(data)
        if metadata.storage_meta is None:
            metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Where the items are."""
        if metadata.storage_data is None:
            raise AssertionError("the metadata do not say where items are stored")
        self.storage_data = metadata.storage_data
        self._tensors = {
            name: item
            for name, item in metadata.state_dict_metadata.items()
            if isinstance(item, TensorStorageMetadata)
        }

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """The plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """The plans as they are."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read the items, file by file and each chunk once."""
        by_file: dict[str, list[tuple[_StorageInfo, ReadItem]]] = {}
        for item in plan.items:
            place = self.storage_data.get(item.storage_index)
            if not isinstance(place, _StorageInfo):
                raise RuntimeError(f"the metadata do not say where {_named(item)} is stored")
            by_file.setdefault(place.relative_path, []).append((place, item))
        for name, result in by_file.items():
            path = self.fs.concat_path(self.path, name)
            with self.fs.create_stream(path, "rb") as stream:
                self._read_file(path, stream, sorted(result, key=lambda pair: pair[0].offset), planner)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _read_file(
        self, path: Any, stream: Any, result: list[tuple[_StorageInfo, ReadItem]], planner: LoadPlanner
    ) -> None:
        size = stream.seek(0, os.SEEK_END)
        last: tuple[MetadataIndex, Tensor] | None = None  # a chunk of which several boxes are wanted
        for place, item in result:
            with _said_of(path, item):
                if place.offset + place.length > size:
                    end = place.offset + place.length
                    raise EOFError(f"the file has {size} bytes, and the item ends at byte {end}")
                if place.transform_descriptors:
                    raise NotImplementedError(
                        f"its bytes are transformed by {str(place.transform_descriptors)[:60]}"
                    )
                view = _create_file_view(stream, place.offset, place.length)
                if item.type is LoadItemType.BYTE_IO:
                    planner.load_bytes(item, io.BytesIO(view.read()))
                    continue
                if last is None or last[0] != item.storage_index:
                    last = item.storage_index, self._chunk(view, item)
            _copy_box(last[1], item, planner)

    def _chunk(self, view: Any, item: ReadItem) -> Tensor:
        """A chunk from its file; RuntimeError where it is not what the metadata say."""
        tensor = load_object(view, map_location="cpu", weights_only=True)
        if not isinstance(tensor, Tensor):
            raise RuntimeError(f"the file has a {type(tensor).__name__} in place of a tensor")
        saved = self._tensors.get(item.storage_index.fqn)
        chunks = [] if saved is None else [c for c in saved.chunks if c.offsets == item.storage_index.offset]
        if saved is None or not chunks:
            return tensor
        if tensor.shape != chunks[0].sizes or tensor.dtype is not saved.properties.dtype:
            raise RuntimeError(
                f"the file has a tensor of {tensor.dtype}{list(tensor.shape)}, and the metadata say "
                f"{saved.properties.dtype}{list(chunks[0].sizes)}"
            )
        return tensor

    def _get_metadata_path(self, rank: int | None = None) -> Any:
        return self.fs.concat_path(self.path, _METADATA if rank is None else f"__{rank}{_METADATA}")

    @property
    def checkpoint_id(self) -> Path_:
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Path_) -> bool:
        """Whether it is a path."""
        return isinstance(checkpoint_id, Path) or "://" not in str(checkpoint_id)


def _copy_box(chunk: Tensor, item: ReadItem, planner: LoadPlanner) -> None:
    """Copy the box of an item out of a chunk into the tensor that the planner has for it."""
    box = _narrowed(chunk, item.storage_offsets, item.lengths)
    target = planner.resolve_tensor(item).detach()
    if target.shape != box.shape:
        raise AssertionError(f"{_named(item)}: mismatch sizes {target.shape} vs {box.shape}")
    target.copy_(box)
    planner.commit_tensor(item, target)


def _named(item: ReadItem) -> str:
    offset = item.storage_index.offset
    return repr(item.storage_index.fqn) + ("" if offset is None else f" at {list(offset)}")


@contextmanager
def _said_of(path: Any, item: ReadItem | None = None) -> Generator[None, None, None]:
    """Put the file's name, and the item's, before what is wrong with it."""
    try:
        yield
    except Exception as error:
        where = f"{os.fspath(path)!r}" + ("" if item is None else f", {_named(item)}")
        raise RuntimeError(f"checkpoint {where}: {error}") from error
