"""Checkpoints made into files of `save`, and back; also from the command line.

python -m flambeau.distributed.checkpoint.format_utils dcp_to_torch FOLDER FILE
python -m flambeau.distributed.checkpoint.format_utils torch_to_dcp FILE FOLDER
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from ..._files import load as load_object
from ..._files import save as save_object
from ..._tensor import Tensor
from ...core.make.create import empty
from ...futures import Future
from .._collectives import broadcast
from .._groups import is_initialized
from ._nested_dict import flatten_state_dict
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader, FileSystemWriter, _copy_box
from .metadata import STATE_DICT_TYPE, Metadata, TensorProperties, TensorStorageMetadata
from .planner import LoadItemType, LoadPlan, LoadPlanner
from .planner_helpers import _create_chunk_from_tensor
from .state_dict_loader import _load_state_dict
from .state_dict_saver import _save_state_dict
from .storage import StorageReader
from .utils import _DistWrapper

__all__ = ["BroadcastingTorchSaveReader", "DynamicMetaLoadPlanner", "dcp_to_torch_save", "torch_save_to_dcp"]


class BroadcastingTorchSaveReader(StorageReader):
    """Reads a file of `save` on one rank, which sends the tensors to the others; for a `DynamicMetaLoadPlanner`.

    All ranks load the same names.  RuntimeError, on all of them, where names, sizes or dtypes do not match.

    >>> import os, tempfile
    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> import flambeau.distributed.checkpoint as dcp
    >>> from flambeau.distributed.checkpoint.format_utils import *
    >>> dist.init_process_group("fake", rank=0, world_size=1)
    >>> path, state = os.path.join(tempfile.mkdtemp(), "x.pt"), {"x": flambeau.zeros(2)}
    >>> flambeau.save({"x": flambeau.ones(2)}, path)
    >>> dcp.load(state, storage_reader=BroadcastingTorchSaveReader(), planner=DynamicMetaLoadPlanner(), checkpoint_id=path)
    >>> state
    {'x': tensor([1., 1.])}
    >>> dist.destroy_process_group()
    """

    def __init__(
        self, checkpoint_id: str | os.PathLike[str] | None = None, coordinator_rank: int = 0
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.coordinator_rank = coordinator_rank
        self.is_coordinator = False

    def read_metadata(self) -> Metadata:  # type: ignore[override]
        """None of its own: the planner makes them of the state dict."""
        return Metadata({})

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool) -> None:  # type: ignore[override]
        """AssertionError where no file is named."""
        self.is_coordinator = is_coordinator
        if self.checkpoint_id is None:
            raise AssertionError("checkpoint_id must be set before setting up storage reader")

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """The plan as it is."""
        return plan

    def prepare_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:  # type: ignore[override]
        """The plans as they are."""
        return global_plan

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read, compare with what the ranks want, and send tensor by tensor."""
        assert isinstance(planner, DefaultLoadPlanner)
        ranks = _DistWrapper(None, is_initialized(), self.coordinator_rank)
        names = list(dict.fromkeys(item.dest_index.fqn for item in plan.items))
        result: dict[str, Any] = {}

        def wanted() -> list[tuple[str, list[int]]]:
            for item in plan.items:
                if item.type is LoadItemType.BYTE_IO:
                    raise RuntimeError(f"{item.dest_index.fqn!r} is no tensor, and only tensors are read")
            if ranks.is_coordinator:
                result.update(self._tensors(planner))
            return [(name, list(planner.state_dict[name].size())) for name in names]

        def compare(all_wanted: list[Any]) -> list[Any]:
            if any(theirs != all_wanted[0] for theirs in all_wanted):
                raise RuntimeError("the ranks load different names or sizes")
            for name, size in all_wanted[0]:
                if not isinstance(result.get(name), Tensor):
                    raise RuntimeError(f"{os.fspath(self.checkpoint_id or '')!r} has no tensor {name!r}")
                if list(result[name].shape) != size:
                    raise RuntimeError(
                        f"{name!r} has shape {list(result[name].shape)} in the file, and {size} here"
                    )
            return [{name: result[name].dtype for name in names}] * ranks.size

        dtypes = ranks.reduce_scatter("read", wanted, compare)
        for name in names:
            full = result[name].contiguous() if ranks.is_coordinator else None
            if full is None:
                full = empty(planner.state_dict[name].size(), dtype=dtypes[name])
            if ranks.group is not None:
                broadcast(full, group=ranks.group, group_src=self.coordinator_rank)
            for item in plan.items:
                if item.dest_index.fqn == name:
                    _copy_box(full, item, planner)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _tensors(self, planner: DefaultLoadPlanner) -> dict[str, Any]:
        assert self.checkpoint_id is not None
        result = load_object(self.checkpoint_id, map_location="cpu")
        return flatten_state_dict(result)[0] if planner.flatten_state_dict else result

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """A new load begins, from this file."""
        self.checkpoint_id = checkpoint_id

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether there is such a file."""
        return os.path.isfile(checkpoint_id)


class DynamicMetaLoadPlanner(DefaultLoadPlanner):
    """Takes from the state dict what there is to load, for files without metadata.

    RuntimeError where a value is no tensor.

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint.format_utils import DynamicMetaLoadPlanner
    >>> planner = DynamicMetaLoadPlanner()
    >>> planner.set_up_planner({"x": flambeau.ones(2)})
    >>> list(planner.metadata.state_dict_metadata)
    ['x']
    """

    def set_up_planner(
        self, state_dict: STATE_DICT_TYPE, metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """A load into this state dict begins."""
        super().set_up_planner(state_dict, metadata, is_coordinator)
        result: dict[str, Any] = {}
        for name, tensor in self.state_dict.items():
            if not isinstance(tensor, Tensor):
                raise RuntimeError(f"{name!r} is no tensor, and {type(self).__name__} only loads tensors")
            chunk = _create_chunk_from_tensor(tensor)
            result[name] = TensorStorageMetadata(TensorProperties(tensor.dtype), tensor.size(), [chunk])
        self.metadata = Metadata(result)


def dcp_to_torch_save(
    dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]
) -> None:
    """Write all of a checkpoint to one file, which `load` reads, here or in PyTorch.

    Raises:
        CheckpointException: the checkpoint cannot be read

    >>> import os, tempfile
    >>> import flambeau
    >>> import flambeau.distributed.checkpoint as dcp
    >>> from flambeau.distributed.checkpoint.format_utils import dcp_to_torch_save
    >>> folder = tempfile.mkdtemp()
    >>> saved = dcp.save({"net": {"x": flambeau.ones(2)}, "epoch": 3}, checkpoint_id=folder, no_dist=True)
    >>> dcp_to_torch_save(folder, os.path.join(folder, "all.pt"))
    >>> flambeau.load(os.path.join(folder, "all.pt"))
    {'net': {'x': tensor([1., 1.])}, 'epoch': 3}
    """
    state_dict: STATE_DICT_TYPE = {}
    _load_state_dict(
        state_dict,
        storage_reader=FileSystemReader(dcp_checkpoint_dir),
        planner=_EmptyStateDictLoadPlanner(),
        no_dist=True,
    )
    save_object(state_dict, torch_save_path)


def torch_save_to_dcp(
    torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]
) -> None:
    """Write what a file of `save` has, a dictionary, as a checkpoint.

    Raises:
        RuntimeError, UnpicklingError: the file cannot be read; it is read as `load` reads by default
        CheckpointException: the checkpoint cannot be written

    >>> import os, tempfile
    >>> import flambeau
    >>> from flambeau.distributed.checkpoint.format_utils import torch_save_to_dcp
    >>> folder = tempfile.mkdtemp()
    >>> flambeau.save({"x": flambeau.ones(2)}, os.path.join(folder, "all.pt"))
    >>> torch_save_to_dcp(os.path.join(folder, "all.pt"), os.path.join(folder, "sharded"))
    >>> sorted(os.listdir(os.path.join(folder, "sharded")))
    ['.metadata', '__0_0.distcp']
    """
    state_dict = load_object(torch_save_path, map_location="cpu")
    _save_state_dict(state_dict, storage_writer=FileSystemWriter(dcp_checkpoint_dir), no_dist=True)


def main(arguments: list[str] | None = None) -> None:
    """Convert as the command line says.  SystemExit where there is no such file.

    >>> from flambeau.distributed.checkpoint.format_utils import main
    >>> main(["dcp_to_torch", "nowhere", "all.pt"])
    Traceback (most recent call last):
        ...
    SystemExit: no checkpoint found at nowhere
    """
    parser = argparse.ArgumentParser(description="Checkpoints made into files of `save`, and back")
    parser.add_argument("mode", choices=["torch_to_dcp", "dcp_to_torch"])
    parser.add_argument("src")
    parser.add_argument("dst")
    options = parser.parse_args(arguments)
    there = os.path.isfile if options.mode == "torch_to_dcp" else os.path.isdir
    if not there(options.src):
        raise SystemExit(f"no checkpoint found at {options.src}")
    (torch_save_to_dcp if options.mode == "torch_to_dcp" else dcp_to_torch_save)(options.src, options.dst)


if __name__ == "__main__":
    main()
