"""Checkpoints as Hugging Face's libraries have them: safetensors, and an index of which file has which tensor."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import Any

from ..._files.safetensors import safe_open
from ...core.base.dtypes import Size
from ...futures import Future
from . import _hf_files
from .filesystem import FileSystemReader, FileSystemWriter, SerializationFormat, _copy_box, _named, _said_of
from .metadata import Metadata, MetadataIndex, StorageMeta, TensorStorageMetadata
from .planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner, WriteItem
from .storage import WriteResult

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]


@dataclass
class _HFStorageInfo:
    """Where a chunk is."""

    relative_path: str
    shape: Size
    dtype: Any


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes tensors as safetensors.  Files of a checkpoint that is in the folder already are overwritten.

    Args:
        path: the folder.
        fqn_to_index_mapping: the number, from 1, of the file that each tensor goes to; all go to one by default.
        thread_count: how many threads of a rank write, each a file.
        save_distributed: every rank writes its chunks; else one rank has all tensors as a whole.
        enable_consolidation: chunks go to `path/sharded`, and whole tensors, put together of them, to `path`.
        thread_count_consolidation: files are put together one after the other, whatever it is.

    ValueError from a save for an object that is no tensor.

    >>> import os, tempfile
    >>> import flambeau
    >>> import flambeau.distributed.checkpoint as dcp
    >>> folder = tempfile.mkdtemp()
    >>> saved = dcp.save({"x": flambeau.ones(2)}, storage_writer=dcp.HuggingFaceStorageWriter(folder), no_dist=True)
    >>> sorted(os.listdir(folder))
    ['model-00001-of-00001.safetensors', 'model.safetensors.index.json']
    """

    def __init__(
        self,
        path: str,
        fqn_to_index_mapping: dict[str, int] | None = None,
        thread_count: int = 1,
        save_distributed: bool = False,
        enable_consolidation: bool = False,
        thread_count_consolidation: int = 1,
    ) -> None:
        super().__init__(
            path=path, serialization_format=SerializationFormat.SAFETENSORS, thread_count=thread_count
        )
        self.fqn_to_index_mapping = fqn_to_index_mapping
        self.save_distributed = save_distributed
        self.enable_consolidation = enable_consolidation
        self.thread_count_consolidation = thread_count_consolidation
        self.consolidated_output_path: str | None = None
        if enable_consolidation:
            self.consolidated_output_path = str(self.path)
            self.path = self.fs.concat_path(self.path, _hf_files.SHARDED_FOLDER)

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """A new save begins."""
        super().reset(checkpoint_id)
        if checkpoint_id and self.enable_consolidation:
            self.consolidated_output_path = str(self.path)
            self.path = self.fs.concat_path(self.path, _hf_files.SHARDED_FOLDER)

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Which file each tensor goes to."""
        made = []
        for number, plan in enumerate(plans, 1):
            data: dict[str, Any] = {}
            if self.fqn_to_index_mapping is not None:
                data["fqn_to_index_mapping"] = self.fqn_to_index_mapping
            if self.save_distributed:
                data["shard_index"] = number
            made.append(dataclasses.replace(plan, storage_data=data))
        return made

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write the tensors.  ValueError for an object, and for a tensor without a number in `fqn_to_index_mapping`."""
        mapping = plan.storage_data.get("fqn_to_index_mapping")
        files: dict[int, list[WriteItem]] = {}
        for item in plan.items:
            if mapping is not None and item.index.fqn not in mapping:
                raise ValueError(f"fqn_to_index_mapping has no file for {item.index.fqn!r}")
            files.setdefault(1 if mapping is None else mapping[item.index.fqn], []).append(item)
        count = 1 if mapping is None else max(mapping.values())
        shard = plan.storage_data.get("shard_index")
        named = [(_hf_files.file_name(number, count, shard), items) for number, items in files.items()]
        return self._write_data(planner, named)

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the index, of chunks only where whole tensors are put together of them."""
        if self.save_distributed and not self.enable_consolidation:
            return
        if self.save_distributed:
            mapping = self.fqn_to_index_mapping or dict.fromkeys(metadata.state_dict_metadata, 1)
            assert self.consolidated_output_path is not None
            _hf_files.consolidate(str(self.path), self.consolidated_output_path, mapping)
            return
        written = [result for of_rank in results for result in of_rank]
        files = {result.index.fqn: result.storage_data.relative_path for result in written}
        nbytes = sum(result.storage_data.length for result in written)
        _hf_files.write_index(self.fs.concat_path(self.path, _hf_files.INDEX), files, nbytes)

    @property
    def metadata_path(self) -> str:
        """The name of the index."""
        return _hf_files.INDEX


class HuggingFaceStorageReader(FileSystemReader):
    """Reads safetensors, of whole tensors or of chunks, from a folder.

    Args:
        path: the folder.
        thread_count: files are mapped into memory and read one after the other, whatever it is.

    RuntimeError from a load where a file is damaged; the message names it.

    >>> import tempfile
    >>> import flambeau
    >>> import flambeau.distributed.checkpoint as dcp
    >>> folder, state = tempfile.mkdtemp(), {"x": flambeau.zeros(2)}
    >>> saved = dcp.save({"x": flambeau.ones(2)}, storage_writer=dcp.HuggingFaceStorageWriter(folder), no_dist=True)
    >>> dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(folder), no_dist=True)
    >>> state
    {'x': tensor([1., 1.])}
    """

    def __init__(self, path: str, thread_count: int = 1) -> None:
        super().__init__(path=path)
        self.thread_count = thread_count

    def read_metadata(self) -> Metadata:  # type: ignore[override]
        """What the headers of all files say.  FileNotFoundError where there is none."""
        paths = sorted(path for path in self.fs.ls(self.path) if path.endswith(_hf_files.SUFFIX))
        if not paths:
            raise FileNotFoundError(f"there is no file of safetensors in {os.fspath(self.path)!r}")
        tensors, places = _hf_files.tensors_in(paths)
        storage = {
            MetadataIndex(name, offset): _HFStorageInfo(
                path, tensors[name].size, tensors[name].properties.dtype
            )
            for (name, offset), path in places.items()
        }
        items: dict[str, Any] = dict[str, TensorStorageMetadata](tensors)
        return Metadata(items, storage_data=storage, storage_meta=StorageMeta(load_id=self.load_id))

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read the boxes of the items, of each file together."""
        by_file: dict[str, list[Any]] = {}
        for item in plan.items:
            place = self.storage_data.get(item.storage_index)
            if place is None:
                raise RuntimeError(f"no file has {_named(item)}")
            by_file.setdefault(place.relative_path, []).append(item)
        for path, items in by_file.items():
            with _said_of(path), safe_open(path) as file:
                for item in items:
                    _copy_box(file.get_tensor(item.storage_index.fqn), item, planner)
        done: Future[None] = Future()
        done.set_result(None)
        return done
