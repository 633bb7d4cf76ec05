"""The planners that `save` and `load` use: every rank's chunks, replicated values once, any chunks into any others."""

from __future__ import annotations

import io
import math
from collections import ChainMap
from dataclasses import replace
from typing import Any

from ..._compat.queries import can_cast
from ..._files import load as load_object
from ..._files import save as save_object
from ..._tensor import Tensor
from ...core.make.create import empty
from ._dedup_save_plans import dedup_save_plans
from ._nested_dict import FLATTEN_MAPPING, flatten_state_dict, set_element
from .metadata import (
    STATE_DICT_TYPE,
    STORAGE_TYPES,
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorStorageMetadata,
)
from .planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem, WriteItemType
from .planner_helpers import (
    _create_chunk_list,
    _create_read_items,
    _create_write_items,
    _init_state_dict,
    _narrowed,
    _same_plan,
)
from .resharding import outside, overlapping
from .utils import find_state_dict_object

__all__ = [
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "create_default_global_load_plan",
    "create_default_global_save_plan",
    "create_default_local_load_plan",
    "create_default_local_save_plan",
]


class DefaultSavePlanner(SavePlanner):
    """Every rank writes its chunks; what several ranks have the same of, one of them writes.

    Args:
        flatten_state_dict: names are paths in the nested state dict, and the paths are saved.
        flatten_sharded_tensors: for PyTorch's ShardedTensor, which there is not here; nothing depends on it.
        dedup_replicated_tensors: deprecated in PyTorch, nothing depends on it.
        dedup_save_to_lowest_rank: replicated values are written on the lowest rank, not where the least is written.
        enable_plan_caching: ranks whose plan is the same as in this planner's last save do not send it again.

    ValueError from its methods for what cannot be saved.

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint import DefaultSavePlanner
    >>> planner = DefaultSavePlanner()
    >>> planner.set_up_planner({"net": {"weight": flambeau.ones(2)}, "epoch": 3}, is_coordinator=True)
    >>> plan = planner.create_local_plan()
    >>> [item.index.fqn for item in plan.items]
    ['net.weight', 'epoch']
    >>> planner.create_global_plan([plan])[1].planner_data
    {'net.weight': ('net', 'weight'), 'epoch': ('epoch',)}
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.mappings: FLATTEN_MAPPING = {}
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self._enable_plan_caching = enable_plan_caching
        self._sent: SavePlan | None = None  # this rank's plan in the last save that came to `finish_plan`
        self._received: list[SavePlan] | None = None  # on the coordinator: those of all ranks in that save
        self._pending: list[SavePlan] | None = None  # and in this one

    def set_up_planner(
        self,
        state_dict: STATE_DICT_TYPE,
        storage_meta: StorageMeta | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """A save of this state dict begins.  ValueError where two values have one name."""
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict = state_dict
        self.is_coordinator = is_coordinator

    def create_local_plan(self) -> SavePlan:
        """An item for each value, of this rank's chunks.  ValueError for a tensor without dense data."""
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        if self.flatten_state_dict:
            plan = replace(plan, planner_data=self.mappings)
        self.plan = plan
        if self._enable_plan_caching and self._sent is not None and _same_plan(plan, self._sent):
            return SavePlan([], usable=False)
        return plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Replicated items each in one plan.

        Raises:
            ValueError: chunks overlap or do not make up their tensor, or ranks have different things under one name
        """
        if self._enable_plan_caching:
            all_plans = self._with_those_of_the_last_save(all_plans)
        plans = dedup_save_plans(all_plans, self.dedup_save_to_lowest_rank)
        plans, metadata = create_default_global_save_plan(plans)
        if self.flatten_state_dict:
            metadata = replace(metadata, planner_data=dict(ChainMap(*(p.planner_data for p in plans))))
        if errors := _validate_global_plan(plans, metadata):
            raise ValueError(f"Failed to validate global plan: {'; '.join(errors)[:500]}")
        self.global_plan, self.metadata = plans, metadata
        return plans, metadata

    def _with_those_of_the_last_save(self, all_plans: list[SavePlan]) -> list[SavePlan]:
        previous = self._received
        if not all(plan.usable for plan in all_plans):
            if previous is None or len(previous) != len(all_plans):
                raise ValueError("the coordinator has no plans of a last save; use one planner on every rank")
            all_plans = [new if new.usable else old for new, old in zip(all_plans, previous)]
        self._pending = all_plans
        return all_plans

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """The plan as the coordinator has made it."""
        if self._enable_plan_caching:
            self._sent, self._received = self.plan, self._pending
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """The tensor, or the object as `save` writes it."""
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index: MetadataIndex) -> Any:
        """The value at an index; for classes that derive from this one."""
        return find_state_dict_object(self.state_dict, index)

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """What is written of a value; for classes that derive from this one."""
        if write_item.type is not WriteItemType.BYTE_IO:
            return object
        data = io.BytesIO()
        save_object(object, data)
        return data


class DefaultLoadPlanner(LoadPlanner):
    """Every rank reads what overlaps with its chunks, in place.

    Objects that are no tensors are read as `load` reads them: by default no code of the file is run, and `safe_globals` says what else is
    allowed.

    Args:
        flatten_state_dict: names are paths in the nested state dict.
        flatten_sharded_tensors: for PyTorch's ShardedTensor, which there is not here; nothing depends on it.
        allow_partial_load: names that the checkpoint does not have stay as they are.

    RuntimeError and ValueError from its methods for what does not match.

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint import DefaultLoadPlanner, Metadata
    >>> planner = DefaultLoadPlanner()
    >>> planner.set_up_planner({"x": flambeau.ones(2)}, Metadata({}))
    >>> planner.create_local_plan()
    Traceback (most recent call last):
        ...
    RuntimeError: Missing key in checkpoint state_dict: x.
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.allow_partial_load = allow_partial_load
        self.original_state_dict: STATE_DICT_TYPE = {}
        self.mappings: FLATTEN_MAPPING = {}

    def set_up_planner(
        self, state_dict: STATE_DICT_TYPE, metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """A load into this state dict begins.  Its tensors on device "meta" get memory."""
        _init_state_dict(state_dict)
        self.original_state_dict = state_dict
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict = state_dict
        self.metadata = metadata
        self.is_coordinator = is_coordinator

    def create_local_plan(self) -> LoadPlan:
        """What fills this rank's chunks.

        Raises:
            RuntimeError: the checkpoint lacks a name
            ValueError: it has a tensor of another size there, or one whose values do not fit the dtype here, or not all of it
        """
        if self.metadata is None:
            raise AssertionError("create_local_plan(): set_up_planner() was given no metadata")
        if self.flatten_state_dict:
            self._take_names_of_before_2_4(self.metadata)
        return create_default_local_load_plan(self.state_dict, self.metadata, not self.allow_partial_load)

    def _take_names_of_before_2_4(self, metadata: Metadata) -> None:
        extra = metadata.state_dict_metadata.keys() - self.state_dict.keys()
        if extra:
            old, mappings = flatten_state_dict(self.original_state_dict, before_2_4=True)
            if old.keys() & extra:
                self.state_dict, self.mappings = old, mappings

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """The plans as they are."""
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """The plan as it is."""
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Put an object into the state dict."""
        name, loaded = read_item.dest_index.fqn, load_object(value)
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], loaded)
        else:
            self.state_dict[name] = loaded

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """The box of a tensor in the state dict."""
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """Tensors are written in place, so nothing is left to do."""

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        """This rank's chunk at an index; for classes that derive from this one."""
        return find_state_dict_object(self.state_dict, index)

    def transform_tensor(self, read_item: ReadItem, tensor: Tensor) -> Tensor:
        """The box of a chunk; for classes that derive from this one."""
        return _narrowed(tensor, read_item.dest_offsets, read_item.lengths)


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Loads what the checkpoint has into an empty dictionary, all of it or what is under some `keys`, whole on every rank."""

    def __init__(self, keys: set[str] | None = None, *args: Any, **kwargs: Any) -> None:
        self.keys = keys
        super().__init__(*args, **kwargs)

    def _should_include_key(self, key: str, metadata: Metadata) -> bool:
        if self.keys is None or key in self.keys:
            return True
        path = (metadata.planner_data or {}).get(key, ())
        return any(".".join(map(str, path[:n])) in self.keys for n in range(1, len(path) + 1))

    def set_up_planner(
        self, state_dict: STATE_DICT_TYPE, metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        if state_dict:
            raise AssertionError("the state dict must be empty")
        if metadata is None:
            raise AssertionError("there must be metadata")
        paths = metadata.planner_data
        if paths is not None and type(paths) is not dict:
            raise ValueError(f"the planner's data are a {type(paths).__name__}, not the paths of names")
        for name, item in metadata.state_dict_metadata.items():
            if self._should_include_key(name, metadata):
                value = item
                if isinstance(item, TensorStorageMetadata):
                    _check_complete(name, item)  # before memory is taken for it
                    value = empty(item.size, dtype=item.properties.dtype)
                set_element(state_dict, (paths or {}).get(name, (name,)), value)
        super().set_up_planner(state_dict, metadata, is_coordinator)


# --- plans ------------------------------


def create_default_local_save_plan(state_dict: dict[str, Any], is_coordinator: bool) -> SavePlan:
    """An item for each value, of this rank's chunks.

    Raises:
        ValueError: a tensor has no dense data

    >>> from flambeau.distributed.checkpoint.default_planner import create_default_local_save_plan
    >>> len(create_default_local_save_plan({"epoch": 3}, True).items)
    1
    """
    return SavePlan([item for fqn, value in state_dict.items() for item in _create_write_items(fqn, value)])


def create_default_global_save_plan(
    all_plans: list[SavePlan], rewrite_index_hints: bool = True
) -> tuple[list[SavePlan], Metadata]:
    """The metadata of all items, and the plans with each chunk's place in the metadata in its index.

    Raises:
        AssertionError: a whole tensor or an object is in two plans

    >>> from flambeau.distributed.checkpoint.default_planner import *
    >>> plan = create_default_local_save_plan({"epoch": 3}, True)
    >>> create_default_global_save_plan([plan])[1].state_dict_metadata
    {'epoch': BytesStorageMetadata()}
    """
    result: dict[str, STORAGE_TYPES] = {}
    plans = []
    for plan in all_plans:
        items = []
        for item in plan.items:
            fqn, data = item.index.fqn, item.tensor_data
            if item.type is not WriteItemType.SHARD and fqn in result:
                raise AssertionError(f"{fqn!r} is in two plans")
            if data is None:
                result[fqn] = BytesStorageMetadata()
                items.append(item)
                continue
            tensor = result.setdefault(fqn, TensorStorageMetadata(data.properties, data.size, []))
            if not isinstance(tensor, TensorStorageMetadata) or tensor.size != data.size:
                raise ValueError(f"ranks save different things as {fqn!r}")
            if rewrite_index_hints:
                item = replace(item, index=replace(item.index, index=len(tensor.chunks)))
            items.append(item)
            tensor.chunks.append(data.chunk)
        plans.append(replace(plan, items=items))
    return plans, Metadata(result)


def create_default_local_load_plan(
    state_dict: dict[str, Any], metadata: Metadata, strict: bool = True
) -> LoadPlan:
    """What fills this rank's chunks of the values in `state_dict`.

    Raises:
        RuntimeError: the checkpoint lacks a name, and `strict` is true
        ValueError: it has a tensor of another size there, or one whose values do not fit the dtype here, or not all of it

    >>> from flambeau.distributed.checkpoint import BytesStorageMetadata, Metadata
    >>> from flambeau.distributed.checkpoint.default_planner import create_default_local_load_plan
    >>> len(create_default_local_load_plan({"epoch": 0}, Metadata({"epoch": BytesStorageMetadata()})).items)
    1
    """
    items: list[ReadItem] = []
    for fqn, value in state_dict.items():
        if fqn not in metadata.state_dict_metadata:
            if strict:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {fqn}.")
            continue
        saved = metadata.state_dict_metadata[fqn]
        if isinstance(saved, TensorStorageMetadata) and hasattr(value, "size"):
            _check_fits(fqn, saved, value)
        wanted = _create_read_items(fqn, saved, value)
        if isinstance(saved, TensorStorageMetadata):
            _check_filled(fqn, wanted, _create_chunk_list(value))
        items += wanted
    return LoadPlan(items)


def create_default_global_load_plan(all_plans: list[LoadPlan]) -> list[LoadPlan]:
    """The plans as they are: no rank's reads depend on another's.

    Raises nothing.

    >>> from flambeau.distributed.checkpoint.default_planner import create_default_global_load_plan
    >>> create_default_global_load_plan([])
    []
    """
    return all_plans


# --- what must hold ------------------------------


def _check_fits(fqn: str, saved: TensorStorageMetadata, value: Any) -> None:
    if saved.size != value.size():
        raise ValueError(f"Size mismatch between saved {saved.size} and current: {value.size()} for {fqn}")
    if not can_cast(saved.properties.dtype, value.dtype):
        raise ValueError(
            f"dtype mismatch between saved {saved.properties.dtype} and current: {value.dtype} for {fqn}"
        )
    if any(True for _ in overlapping(_distinct(saved.chunks))):
        raise ValueError(f"chunks of {fqn!r} overlap in the checkpoint")


def _distinct(chunks: list[ChunkStorageMetadata]) -> list[ChunkStorageMetadata]:
    """A chunk that stands twice, as old versions wrote replicated ones, is one."""
    return list({(tuple(c.offsets), tuple(c.sizes)): c for c in chunks}.values())


def _check_complete(fqn: str, saved: TensorStorageMetadata) -> None:
    there = sum(math.prod(chunk.sizes) for chunk in _distinct(saved.chunks))
    if there < math.prod(saved.size):
        raise ValueError(f"of {fqn!r} the checkpoint has {there} of {math.prod(saved.size)} elements")


def _check_filled(fqn: str, items: list[ReadItem], chunks: list[ChunkStorageMetadata]) -> None:
    wanted = sum(math.prod(chunk.sizes) for chunk in chunks)
    there = sum(math.prod(item.lengths) for item in items)
    if there < wanted:
        raise ValueError(f"of {fqn!r} the checkpoint has {there} of {wanted} elements that this rank needs")


def _validate_global_plan(global_plan: list[SavePlan], metadata: Metadata) -> list[str]:
    """What is wrong with the chunks of a save: outside of their tensor, overlapping, or not all of it."""
    errors = []
    for fqn, item in metadata.state_dict_metadata.items():
        if not isinstance(item, TensorStorageMetadata):
            continue
        errors += [f"key:{fqn} has out of bounds chunk: {c}" for c in item.chunks if outside(item.size, c)]
        errors += [f"key:{fqn} has overlapping chunks: {a} {b}" for a, b in overlapping(item.chunks)]
        there = sum(math.prod(chunk.sizes) for chunk in item.chunks)
        if len(global_plan) > 1 and there != math.prod(item.size):
            errors.append(
                f"key:{fqn} invalid fill tensor-volume: {math.prod(item.size)} chunks-volume: {there}"
            )
    return errors
