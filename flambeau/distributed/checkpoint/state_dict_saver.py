"""`save`, and `async_save`, which goes on in a thread."""

from __future__ import annotations

import inspect
import os
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import Any
from weakref import WeakKeyDictionary

from .._group_making import twin
from .._groups import is_initialized, resolve
from ._storage_utils import _storage_setup
from .default_planner import DefaultSavePlanner
from .metadata import STATE_DICT_TYPE, Metadata
from .planner import SavePlan, SavePlanner
from .staging import AsyncStager, DefaultStager, StagingOptions
from .stateful import Stateful
from .storage import StorageWriter
from .utils import _DistWrapper, _takes_storage_by_position

__all__ = ["AsyncCheckpointerType", "AsyncSaveResponse", "async_save", "save", "save_state_dict"]
_SINGLE = (
    "torch.distributed is unavailable or uninitialized, assuming the intent is to {} in a single process."
)


class AsyncCheckpointerType(Enum):
    """Where `async_save` goes on: in a thread, or in a process.

    >>> from flambeau.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
    >>> AsyncCheckpointerType.THREAD.value
    'thread'
    """

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """What `async_save` returns where the copy is made in a thread, too: when that is there, and when the checkpoint is.

    Raises nothing.

    >>> from concurrent.futures import Future
    >>> from flambeau.distributed.checkpoint.state_dict_saver import AsyncSaveResponse
    >>> AsyncSaveResponse(Future(), Future()).upload_completion.done()
    False
    """

    staging_completion: Future[None]
    upload_completion: Future[Metadata]


def save_state_dict(
    state_dict: STATE_DICT_TYPE,
    storage_writer: StorageWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: SavePlanner | None = None,
) -> Metadata:
    """The former name of `save`.

    Raises:
        CheckpointException: on every rank, where one of them fails

    >>> import tempfile, warnings
    >>> import flambeau.distributed.checkpoint as dcp
    >>> with warnings.catch_warnings(action="ignore"):
    ...     metadata = dcp.save_state_dict({"epoch": 3}, dcp.FileSystemWriter(tempfile.mkdtemp()), no_dist=True)
    >>> metadata.state_dict_metadata
    {'epoch': BytesStorageMetadata()}
    """
    warnings.warn(
        "`save_state_dict` is deprecated and will be removed in future versions. Please use `save` instead.",
        FutureWarning,
        stacklevel=2,
    )
    storage_writer.reset()
    return _save_state_dict(state_dict, storage_writer, process_group, coordinator_rank, no_dist, planner)


@_takes_storage_by_position("storage_writer")
def save(
    state_dict: STATE_DICT_TYPE,
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Write a checkpoint, of which every rank writes its part.

    `state_dict` has tensors, other objects and `Stateful` objects, whose `state_dict()` is taken; dictionaries may be nested.  Of a DTensor
    each rank writes what it has, of everything else, which is the same on all ranks, one of them.  In a folder the checkpoint is there when
    `.metadata` is; before that, one that was there already can be read.

    Args:
        checkpoint_id: the folder.
        storage_writer: writes, in place of a `FileSystemWriter` for that folder.
        planner: decides who writes what, in place of a `DefaultSavePlanner`.
        process_group: the ranks, by default all.
        no_dist: this process alone, as also without a process group.
        use_collectives: False: no rank waits for another, and each has metadata of its own, which the same number of ranks can load.

    Returns:
        The metadata, on every rank.

    Raises:
        RuntimeError: neither `checkpoint_id` nor `storage_writer` says where
        CheckpointException: on every rank, where one of them fails

    >>> import tempfile
    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> import flambeau.distributed.checkpoint as dcp
    >>> dist.init_process_group("fake", rank=0, world_size=1)
    >>> net, folder = flambeau.nn.Linear(2, 1), tempfile.mkdtemp()
    >>> sorted(dcp.save({"net": net, "epoch": 3}, checkpoint_id=folder).state_dict_metadata)
    ['epoch', 'net.bias', 'net.weight']
    >>> dist.destroy_process_group()
    """
    no_dist = _alone(no_dist, "save")
    writer = _storage_setup(storage_writer, checkpoint_id)
    return _save(
        lambda: _stateful_to_state_dict(state_dict),
        writer,
        _DistWrapper(process_group, not no_dist, 0),
        planner,
        use_collectives,
    )


def _alone(no_dist: bool, what: str) -> bool:
    if no_dist or not is_initialized():
        warnings.warn(_SINGLE.format(what), stacklevel=4)  # past `save` and its decorator
        return True
    return False


def _stateful_to_state_dict(state_dict: STATE_DICT_TYPE) -> STATE_DICT_TYPE:
    """The state dict with states in place of `Stateful` objects."""
    return {
        key: value.state_dict() if isinstance(value, Stateful) else value for key, value in state_dict.items()
    }


def _save_state_dict(
    state_dict: STATE_DICT_TYPE,
    storage_writer: StorageWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: SavePlanner | None = None,
    use_collectives: bool = True,
) -> Metadata:
    """`save` of a state dict without `Stateful` objects, to a writer that is reset."""
    ranks = _DistWrapper(process_group, not no_dist, coordinator_rank)
    return _save(lambda: state_dict, storage_writer, ranks, planner, use_collectives)


def _save(
    collect: Callable[[], STATE_DICT_TYPE],
    writer: StorageWriter,
    ranks: _DistWrapper,
    planner: SavePlanner | None,
    use_collectives: bool,
) -> Metadata:
    """Two steps, plan and write, that all ranks end in the same way."""
    made = DefaultSavePlanner() if planner is None else planner
    metadata: Metadata | None = None  # on the coordinator

    def local_plan() -> SavePlan:
        state_dict, meta = collect(), writer.storage_meta()
        if "storage_meta" in inspect.signature(made.set_up_planner).parameters:
            made.set_up_planner(state_dict=state_dict, storage_meta=meta, is_coordinator=ranks.is_coordinator)
        else:  # a planner of before PyTorch 2.3
            made.set_up_planner(state_dict, ranks.is_coordinator)  # type: ignore[arg-type]
        if "kwargs" in inspect.signature(writer.set_up_storage_writer).parameters:
            writer.set_up_storage_writer(
                ranks.is_coordinator, rank=ranks.rank, use_collectives=use_collectives
            )
        else:
            writer.set_up_storage_writer(ranks.is_coordinator)
        return writer.prepare_local_plan(made.create_local_plan())

    def global_plan(plans: list[SavePlan]) -> list[SavePlan]:
        nonlocal metadata
        plans, metadata = made.create_global_plan(plans)
        return writer.prepare_global_plan(plans)

    def write(plan: SavePlan) -> list[Any]:
        return writer.write_data(made.finish_plan(plan), made).wait()

    def finish(results: list[list[Any]]) -> Metadata:
        assert metadata is not None
        writer.finish(metadata=metadata, results=results)
        return metadata

    if use_collectives:
        plan = ranks.reduce_scatter("plan", local_plan, global_plan)
        return ranks.all_reduce("write", lambda: write(plan), finish)

    def alone() -> Metadata:
        return finish([write(global_plan([local_plan()])[0])])

    return ranks.all_gather("write", alone)[ranks.rank]


# --- in a thread ------------------------------

_executors: WeakKeyDictionary[Any, ThreadPoolExecutor] = WeakKeyDictionary()  # by group, and end with it
_without_group: ThreadPoolExecutor | None = None
_lock = threading.Lock()


def _forget() -> None:
    """A forked process has none of the threads."""
    global _lock, _without_group
    _lock, _without_group = threading.Lock(), None
    _executors.clear()


os.register_at_fork(after_in_child=_forget)


def _executor(group: Any) -> ThreadPoolExecutor:
    """The thread in which saves of a group go on, one after the other in the order of their calls, which is the same on all ranks."""
    global _without_group
    with _lock:
        if group is None:
            _without_group = _without_group or ThreadPoolExecutor(1, "async_save")
            return _without_group
        made = _executors.get(group)
        if made is None:
            made = _executors[group] = ThreadPoolExecutor(1, "async_save")
        return made


def async_save(
    state_dict: STATE_DICT_TYPE,
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD,
    async_stager: AsyncStager | None = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future | AsyncSaveResponse:
    """`save` a copy of a state dict, while the program goes on.

    The copy is made on the host before `async_save` returns (unless the stager does it in a thread of its own), so parameters may
    change at once.  The rest happens in a thread, with communicators that the program's own collectives do not meet; saves of a group
    go one after the other.  A program that ends waits for them.

    Args:
        async_checkpointer_type: `AsyncCheckpointerType.THREAD`.
        async_stager: makes the copy; by default `storage_writer`, where it is a stager.
        others: as for `save`.

    Returns:
        A `concurrent.futures.Future` of the metadata, which has the error where a rank fails; an `AsyncSaveResponse` where the stager
        returns a future.

    Raises:
        RuntimeError: neither `checkpoint_id` nor `storage_writer` says where
        NotImplementedError: a process is wanted in place of a thread

    >>> import tempfile
    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> import flambeau.distributed.checkpoint as dcp
    >>> dist.init_process_group("fake", rank=0, world_size=1)
    >>> x, folder = flambeau.ones(2), tempfile.mkdtemp()
    >>> future = dcp.async_save({"x": x}, checkpoint_id=folder)
    >>> _ = x.zero_()
    >>> _ = future.result()
    >>> dcp.load({"x": x}, checkpoint_id=folder)
    >>> x
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    if async_checkpointer_type is not AsyncCheckpointerType.THREAD:
        raise NotImplementedError("async_save: only AsyncCheckpointerType.THREAD is supported")
    no_dist = no_dist or not is_initialized()
    writer = _storage_setup(storage_writer, checkpoint_id)
    group = None if no_dist else twin(resolve(process_group))
    ranks = _DistWrapper(group, not no_dist, 0)
    stager, own = async_stager, None
    if stager is None and isinstance(storage_writer, AsyncStager):
        stager = storage_writer
    if stager is None:
        stager = own = DefaultStager(StagingOptions(False, False, False, False))
    staged = _staged(stager, state_dict)
    upload = _executor(group).submit(_save, staged.result, writer, ranks, planner, use_collectives)
    if own is not None:
        upload.add_done_callback(lambda done: own.close())
    if not staged.done():
        return AsyncSaveResponse(_when_done(staged), upload)
    if stager.should_synchronize_after_execute:
        stager.synchronize_staging()
    return upload


def _staged(stager: AsyncStager, state_dict: STATE_DICT_TYPE) -> Future[STATE_DICT_TYPE]:
    """The copy as a future.  An error is in it, so that this rank still takes part in the save, which fails on all."""
    result: Future[STATE_DICT_TYPE] = Future()
    try:
        made = stager.stage(_stateful_to_state_dict(state_dict))
        if isinstance(made, Future):
            return made
        result.set_result(made)
    except Exception as error:
        result.set_exception(error)
    return result


def _when_done(staged: Future[Any]) -> Future[None]:
    """A future without the copy, which would keep it alive."""
    done: Future[None] = Future()

    def pass_on(source: Future[Any]) -> None:
        error = source.exception()
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    staged.add_done_callback(pass_on)
    return done
