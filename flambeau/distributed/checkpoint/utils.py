"""Values of state dicts by their index, and steps that all ranks take together or fail in together."""

from __future__ import annotations

import functools
import io
import os
import pickle
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from ..._tensor import Tensor
from ...autograd import no_grad
from .._collectives import barrier
from .._groups import resolve
from .._objects import all_gather_object, broadcast_object_list, gather_object, scatter_object_list
from .._world import DistBackendError
from .api import CheckpointException, Failure, _is_wrapped_exception, _wrap_exception
from .metadata import STATE_DICT_TYPE, MetadataIndex

__all__ = ["find_state_dict_object", "find_tensor_shard"]

T = TypeVar("T")
R = TypeVar("R")


def find_tensor_shard(tensor: Any, index: MetadataIndex) -> Any:
    """The chunk of a tensor at an index; ValueError where this rank has none there.

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint.metadata import MetadataIndex
    >>> from flambeau.distributed.checkpoint.utils import find_tensor_shard
    >>> find_tensor_shard(flambeau.ones(2), MetadataIndex("x", [1]))
    Traceback (most recent call last):
        ...
    ValueError: FQN: 'x' is on this rank as a whole, it has no chunk at offset flambeau.Size([1])
    """
    if hasattr(tensor, "__get_tensor_shard__"):
        return tensor.__get_tensor_shard__(index)
    if hasattr(tensor, "__create_chunk_list__"):
        if not any(tuple(chunk.offsets) == index.offset for chunk in tensor.__create_chunk_list__()):
            raise ValueError(f"FQN: '{index.fqn}' has no chunk at offset {index.offset} on this rank")
        with no_grad():
            return tensor.to_local()
    if index.offset is None or (len(index.offset) == tensor.dim() and not any(index.offset)):
        return tensor
    raise ValueError(
        f"FQN: '{index.fqn}' is on this rank as a whole, it has no chunk at offset {index.offset}"
    )


def find_state_dict_object(state_dict: STATE_DICT_TYPE, index: MetadataIndex) -> Any:
    """The value at an index, for a tensor this rank's chunk of it.

    Raises:
        ValueError: there is none

    >>> from flambeau.distributed.checkpoint.metadata import MetadataIndex
    >>> from flambeau.distributed.checkpoint.utils import find_state_dict_object
    >>> find_state_dict_object({"epoch": 3}, MetadataIndex("epoch"))
    3
    """
    if index.fqn not in state_dict:
        raise ValueError(f"Could not find FQN: '{index.fqn}'")
    result = state_dict[index.fqn]
    if isinstance(result, Tensor) or hasattr(result, "__get_tensor_shard__"):
        return find_tensor_shard(result, index)
    if index.offset is not None:
        raise ValueError(f"FQN: '{index.fqn}' is not a tensor, can't find by offset: '{index.offset}'")
    return result


def _assert_same_keys(state_dict: dict[str, Any], process_group: Any = None) -> None:
    """AssertionError on the ranks that lack a key which others have.  All ranks call it."""
    group = resolve(process_group)
    if group is None or group._size == 1:
        return
    result: list[Any] = [None] * group._size
    all_gather_object(result, list(state_dict), group)
    if missing := set().union(*result) - set(state_dict):
        raise AssertionError(f"Key(s) present in other ranks but not this one, difference: {missing}")


class _DistWrapper:
    """Steps of several processes, of which each ends on all ranks in the same way: with a result, or with a CheckpointException.

    What a rank contributes is pickled where an error still counts as its own, so that nothing can fail between two collectives.  Without
    `use_dist` there is one process.
    """

    def __init__(self, group: Any, use_dist: bool, coordinator_rank: int) -> None:
        self.use_dist, self.coordinator_rank = use_dist, coordinator_rank
        self.group = resolve(group) if use_dist else None
        if use_dist and self.group is None:
            raise ValueError("distributed.checkpoint: this process is not in the process group")
        self.rank = 0 if self.group is None else self.group._rank
        self.size = 1 if self.group is None else self.group._size
        if not 0 <= coordinator_rank < self.size:
            raise ValueError(f"coordinator_rank must be a rank of {self.size}, got {coordinator_rank}")
        self.is_coordinator = self.rank == coordinator_rank

    def get_rank(self) -> int:
        return self.rank

    def get_world_size(self) -> int:
        return self.size

    # Steps ---------------------------------------------------------------------------------------------------------------------
    def reduce_scatter(
        self, step: str, map_fun: Callable[[], T], reduce_fun: Callable[[list[T]], list[R]]
    ) -> R:
        """`map_fun()` on every rank, `reduce_fun` of all results on the coordinator; every rank gets its entry."""
        outcomes = self._reduced(step, map_fun, lambda results: [_pack(r) for r in reduce_fun(results)])
        mine = [b""]
        if self.group is None:
            mine[0] = outcomes[0]
        else:
            scatter_object_list(mine, outcomes, group=self.group, group_src=self.coordinator_rank)
        return self._together(lambda: _unpack(step, self.rank, mine[0]))

    def all_reduce(self, step: str, map_fun: Callable[[], T], reduce_fun: Callable[[list[T]], R]) -> R:
        """`map_fun()` on every rank, `reduce_fun` of all results on the coordinator; every rank gets the result."""

        def reduced(results: list[T]) -> list[bytes]:
            return [_pack(reduce_fun(results))] * self.size

        made = self._reduced(step, map_fun, reduced)
        outcome = [made[0] if made else b""]
        if self.group is not None:
            broadcast_object_list(outcome, group=self.group, group_src=self.coordinator_rank)
        return self._together(lambda: _unpack(step, self.rank, outcome[0]))

    def all_gather(self, step: str, map_fun: Callable[[], T]) -> list[T]:
        """`map_fun()` on every rank; every rank gets all results."""
        packed = _packed_result(map_fun)
        result = [packed] * self.size
        if self.group is not None:
            all_gather_object(result, packed, self.group)
        return self._together(lambda: _results(step, result))

    def _together(self, unpack: Callable[[], T]) -> T:
        """The result of a step.  A failure is raised when all ranks know of it: one that ends for it must not be a lost one to them."""
        try:
            return unpack()
        except CheckpointException:
            with suppress(DistBackendError):  # that rank has ended for it
                self.barrier()
            raise

    def barrier(self) -> None:
        if self.group is not None:
            barrier(self.group)

    def _reduced(
        self, step: str, map_fun: Callable[[], T], reduce_fun: Callable[[list[T]], list[bytes]]
    ) -> list[bytes]:
        """On the coordinator what every rank is to get, packed: its entry, or the failure of the step."""
        packed = _packed_result(map_fun)
        result = [packed] * self.size if self.is_coordinator else None
        if self.group is not None:
            gather_object(packed, result, group=self.group, group_dst=self.coordinator_rank)
        if result is None:
            return []
        try:
            made = reduce_fun(_results(step, result))
            if len(made) != self.size:
                raise ValueError(f"the plans of {self.size} ranks were made into {len(made)}")
            return made
        except CheckpointException as error:
            return [_pack(error)] * self.size
        except BaseException as error:
            return [_pack(CheckpointException(step, {self.rank: _wrap_exception(error)}))] * self.size


_pack = pickle.dumps


def _packed_result(map_fun: Callable[[], Any]) -> bytes:
    try:
        return _pack(map_fun())
    except BaseException as error:
        return _pack(_wrap_exception(error))


def _results(step: str, packed: list[bytes]) -> list[Any]:
    """The results of all ranks; CheckpointException with the errors, where there are any."""
    failures: dict[int, Failure] = {}
    results = []
    for rank, data in enumerate(packed):
        try:
            result = pickle.loads(data)
        except BaseException as error:
            result = _wrap_exception(error)
        results.append(result)
        if _is_wrapped_exception(result):
            failures[rank] = result
    if failures:
        raise CheckpointException(step, failures)
    return results


def _unpack(step: str, rank: int, data: bytes) -> Any:
    try:
        result = pickle.loads(data)
    except BaseException as error:
        raise CheckpointException(step, {rank: _wrap_exception(error)}) from error
    if isinstance(result, CheckpointException):
        raise result
    return result


class _ReaderView(io.RawIOBase):
    """The bytes `offset` to `offset + length` of a file, as a file."""

    def __init__(self, base_stream: Any, offset: int, length: int) -> None:
        self.base_stream, self.offset, self.length = base_stream, offset, length
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        begin = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.length}[whence]
        if begin + offset < 0:
            raise OSError(f"seek to {begin + offset}")
        self._at = begin + offset
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        n = min(len(buffer), max(self.length - self._at, 0))
        if n == 0:
            return 0
        self.base_stream.seek(self.offset + self._at)
        got = self.base_stream.readinto(memoryview(buffer)[:n])
        self._at += got
        return got


def _create_file_view(file: Any, offset: int, length: int) -> _ReaderView:
    return _ReaderView(file, offset, length)


def _takes_storage_by_position(name: str) -> Callable[[Callable], Callable]:
    """Let a function take its storage as a second argument without a name, as it did until PyTorch 2.2."""

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def taking(*args: Any, **kwargs: Any) -> Any:
            if len(args) != 2:
                return function(*args, **kwargs)
            warnings.warn(
                f"The argument order of {function.__name__} has been changed: give {name} by its name",
                stacklevel=2,
            )
            if name in kwargs:
                raise TypeError(f"{function.__name__}() got multiple values for argument '{name}'")
            return function(args[0], **{name: args[1]}, **kwargs)

        return taking

    return decorate
