"""`load`, into the tensors of a state dict."""

from __future__ import annotations

import inspect
import os
import warnings
from typing import Any

from ._storage_utils import _storage_setup
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from .metadata import Metadata
from .planner import LoadPlan, LoadPlanner
from .state_dict_saver import _alone
from .stateful import Stateful
from .storage import StorageReader
from .utils import _DistWrapper, _takes_storage_by_position

__all__ = ["load", "load_state_dict"]


def load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: StorageReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    """The former name of `load`.

    Raises:
        CheckpointException: on every rank, where one of them fails

    >>> import tempfile, warnings
    >>> import flambeau.distributed.checkpoint as dcp
    >>> folder, state = tempfile.mkdtemp(), {"epoch": 0}
    >>> with warnings.catch_warnings(action="ignore"):
    ...     _ = dcp.save({"epoch": 3}, checkpoint_id=folder)
    ...     dcp.load_state_dict(state, dcp.FileSystemReader(folder), no_dist=True)
    >>> state
    {'epoch': 3}
    """
    warnings.warn(
        "`load_state_dict` is deprecated and will be removed in future versions. Please use `load` instead.",
        FutureWarning,
        stacklevel=2,
    )
    storage_reader.reset()
    _load_state_dict(state_dict, storage_reader, process_group, coordinator_rank, no_dist, planner)


@_takes_storage_by_position("storage_reader")
def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: StorageReader | None = None,
    planner: LoadPlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Read a checkpoint into a state dict, on any number of ranks, whatever number wrote it.

    Tensors are written in place: each rank reads what overlaps with what it has.  Other values are replaced.  Of `Stateful` objects the
    `state_dict()` is taken first, and given to `load_state_dict` at the end.  A tensor of another dtype is converted, where `can_cast` says
    that its values fit.  Where a load fails, tensors may have been written already.

    Nothing that the files say is run: objects other than tensors, containers, numbers and strings need
    `serialization.add_safe_globals`.

    Args:
        checkpoint_id: the folder.
        storage_reader: reads, in place of a `FileSystemReader` for that folder.
        planner: decides who reads what, in place of a `DefaultLoadPlanner`.
        process_group: the ranks, by default all.
        no_dist: this process alone, as also without a process group.

    Raises:
        RuntimeError: neither `checkpoint_id` nor `storage_reader` says where from
        CheckpointException: on every rank, where one of them fails: files are missing or damaged, names, sizes or dtypes do not match

    >>> import tempfile
    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> import flambeau.distributed.checkpoint as dcp
    >>> dist.init_process_group("fake", rank=0, world_size=1)
    >>> folder = tempfile.mkdtemp()
    >>> saved = dcp.save({"x": flambeau.arange(3), "epoch": 3}, checkpoint_id=folder)
    >>> state = {"x": flambeau.zeros(3), "epoch": 0}
    >>> dcp.load(state, checkpoint_id=folder)
    >>> state
    {'x': tensor([0., 1., 2.]), 'epoch': 3}
    >>> dist.destroy_process_group()
    """
    no_dist = _alone(no_dist, "load")
    reader = _storage_setup(storage_reader, checkpoint_id, reader=True)
    ranks = _DistWrapper(process_group, not no_dist, 0)
    states: dict[str, Any] = {}

    def take_states() -> dict[str, Any]:
        for key in sorted(state_dict):
            value = state_dict[key]
            states[key] = value.state_dict() if isinstance(value, Stateful) else value
        return states

    _load(take_states, reader, ranks, planner)
    for key, state in states.items():
        if isinstance(state_dict[key], Stateful):
            state_dict[key].load_state_dict(state)
        else:
            state_dict[key] = state


def _load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: StorageReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    """`load` into a state dict without `Stateful` objects, from a reader that is reset."""
    ranks = _DistWrapper(process_group, not no_dist, coordinator_rank)
    _load(lambda: state_dict, storage_reader, ranks, planner)


def _load(collect: Any, reader: StorageReader, ranks: _DistWrapper, planner: LoadPlanner | None) -> None:
    """Two steps, plan and read, that all ranks end in the same way."""
    made = DefaultLoadPlanner() if planner is None else planner

    def local_plan() -> LoadPlan:
        metadata, is_shared = _metadata(reader, ranks.rank)
        made.set_up_planner(collect(), metadata, ranks.is_coordinator)
        if "kwargs" in inspect.signature(reader.set_up_storage_reader).parameters:
            reader.set_up_storage_reader(
                metadata, ranks.is_coordinator, rank=ranks.rank, use_collectives=is_shared
            )
        else:
            reader.set_up_storage_reader(metadata, ranks.is_coordinator)
        return reader.prepare_local_plan(made.create_local_plan())

    def global_plan(plans: list[LoadPlan]) -> list[LoadPlan]:
        return reader.prepare_global_plan(made.create_global_plan(plans))

    def read(plan: LoadPlan) -> None:
        reader.read_data(made.finish_plan(plan), made).wait()

    plan = ranks.reduce_scatter("plan", local_plan, global_plan)
    ranks.all_gather("read", lambda: read(plan))


def _metadata(reader: StorageReader, rank: int) -> tuple[Metadata, bool]:
    """The metadata of the whole, or, where there is none, that which this rank saved by itself; and which it is."""
    try:
        return reader.read_metadata(), True
    except FileNotFoundError as error:
        if "kwargs" not in inspect.signature(reader.read_metadata).parameters:
            raise
        try:
            return reader.read_metadata(rank=rank), False
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no checkpoint: {error}") from None


def _load_state_dict_from_keys(
    keys: set[str] | str | None = None,
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: StorageReader | None = None,
    process_group: Any = None,
) -> dict[str, Any]:
    """What a checkpoint has under some names, all by default, in new tensors, whole on every rank."""
    no_dist = _alone(False, "load")
    reader = _storage_setup(storage_reader, checkpoint_id, reader=True)
    state_dict: dict[str, Any] = {}
    planner = _EmptyStateDictLoadPlanner(keys={keys} if isinstance(keys, str) else keys)
    _load_state_dict(state_dict, reader, process_group, no_dist=no_dist, planner=planner)
    return state_dict
