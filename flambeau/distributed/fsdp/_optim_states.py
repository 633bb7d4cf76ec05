"""States of optimisers over pieces of parameters: whole ones by names of parameters, and back."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from ...autograd import no_grad
from ...core.base.tensor import TensorBase
from ...core.make.create import zeros
from .._groups import default_group
from .._objects import all_gather_object, broadcast_object_list
from ._bucket import Bucket
from ._dtensors import full_tensor_of, slice_dtensor
from ._engine import units_below
from ._states import clean, settings_of
from .api import (
    LocalOptimStateDictConfig,
    OptimStateDictConfig,
    ShardedOptimStateDictConfig,
)


class _Names:
    """How parameters of a model, in pieces, and an optimiser's numbers belong together."""

    def __init__(self, model: Any, optim: Any) -> None:
        self.buckets: list[tuple[Bucket, list[str]]] = []
        inside = {id(m): clean(f"{name}.") if name else "" for name, m in model.named_modules()}
        for unit in units_below(model):
            for bucket in unit.buckets:
                names = [inside[id(m)] + a for slot in bucket.slots for m, a in [next(slot.modules())]]
                self.buckets.append((bucket, [clean(name) for name in names]))
        managed = {id(p) for bucket, _ in self.buckets for p in bucket.trained()}
        self.others = {clean(name): p for name, p in model.named_parameters() if id(p) not in managed}
        self.numbers: dict[int, int] = {}
        for group in optim.param_groups:
            for p in group["params"]:
                self.numbers.setdefault(id(p), len(self.numbers))
        self.by_number: dict[int, list[str]] = {}
        for bucket, names in self.buckets:
            for p, mine in zip(bucket.trained(), [names] if bucket.kind is None else [[n] for n in names]):
                if id(p) in self.numbers:
                    self.by_number[self.numbers[id(p)]] = mine
        for name, p in self.others.items():
            if id(p) in self.numbers:
                self.by_number[self.numbers[id(p)]] = [name]

    def pieces(self, bucket: Bucket, names: list[str]) -> Iterator[tuple[str, int, int]]:
        """The parameters of a bucket that the optimiser has: name, slot, number."""
        for k, (name, slot) in enumerate(zip(names, bucket.slots)):
            p = bucket.flat if bucket.kind is None else slot.sharded
            if id(p) in self.numbers:
                yield name, k, self.numbers[id(p)]


def _config(model: Any) -> OptimStateDictConfig:
    return settings_of(model).optim_state_dict_config


@no_grad()
def gathered(
    model: Any, optim: Any, state_dict: dict[str, Any] | None, config: OptimStateDictConfig | None = None
) -> dict[str, Any]:
    """The state by names of parameters."""
    config = _config(model) if config is None else config
    names = _Names(model, optim)
    local = optim.state_dict() if state_dict is None else state_dict
    states = local["state"]
    if isinstance(config, LocalOptimStateDictConfig):
        return copy.copy(local)
    result: dict[str, Any] = {"state": {}, "param_groups": _named_groups(local["param_groups"], names)}
    mine = not getattr(config, "rank0_only", False) or default_group()._rank == 0
    for bucket, bucket_names in names.buckets:
        for name, state in _of_bucket(bucket, bucket_names, names, states, config).items():
            if mine:
                result["state"][name] = state
    for name, p in names.others.items():
        number = names.numbers.get(id(p))
        if number is not None and number in states and mine:
            result["state"][name] = {key: _offloaded(value, config) for key, value in states[number].items()}
    return result if mine else {}


def _offloaded(value: Any, config: OptimStateDictConfig) -> Any:
    if isinstance(value, TensorBase):
        return value.cpu() if config.offload_to_cpu else value
    return value


def _of_bucket(
    bucket: Bucket,
    bucket_names: list[str],
    names: _Names,
    states: dict[Any, Any],
    config: OptimStateDictConfig,
) -> dict[str, dict[str, Any]]:
    """What the optimiser knows of a bucket's parameters, whole."""
    facts: dict[
        str, dict[str, Any]
    ] = {}  # of each parameter: dtypes of what is in pieces, and the rest itself
    for name, k, number in names.pieces(bucket, bucket_names):
        shape = bucket.row.shape if bucket.kind is None else bucket.kind.local(bucket.slots[k].sharded).shape
        for key, value in states.get(number, {}).items():
            in_pieces = (
                isinstance(value, TensorBase) and value.dim() > 0 and _local(bucket, value).shape == shape
            )
            facts.setdefault(name, {})[key] = ("pieces", value.dtype) if in_pieces else ("same", value)
    everywhere: list[Any] = [None] * bucket.n
    if bucket.n > 1:
        all_gather_object(everywhere, facts, bucket.group)
    else:
        everywhere = [facts]
    united: dict[str, dict[str, Any]] = {}
    for each in everywhere:
        for name, keys in each.items():
            for key, fact in keys.items():
                united.setdefault(name, {}).setdefault(key, fact)
    keys = dict.fromkeys(
        (key, fact[1]) for name in united for key, fact in united[name].items() if fact[0] == "pieces"
    )
    result: dict[str, dict[str, Any]] = {
        name: {key: fact[1] for key, fact in united[name].items() if fact[0] == "same"}
        for name in bucket_names
        if name in united
    }
    for key, dtype in keys:
        vector = zeros(bucket.layout.length, dtype=dtype)
        for _, k, number in names.pieces(bucket, bucket_names):
            value = states.get(number, {}).get(key)
            if isinstance(value, TensorBase) and value.dtype is dtype:
                if bucket.kind is None:
                    vector.copy_(value)
                    break
                bucket.layout.shard(vector, bucket.slots[k].region, bucket.rank).copy_(_local(bucket, value))
        for name, unsharded in zip(bucket_names, bucket.gather_vector(vector)):
            if united.get(name, {}).get(key) == ("pieces", dtype):
                made: Any = unsharded.clone()
                if isinstance(config, ShardedOptimStateDictConfig):
                    made = slice_dtensor(unsharded, None, bucket.group)
                result[name][key] = _offloaded(made, config)
    return result


def _local(bucket: Bucket, value: Any) -> Any:
    return value if bucket.kind is None else bucket.kind.local_gradient(value)


def _named_groups(groups: list[dict[str, Any]], names: _Names) -> list[dict[str, Any]]:
    named = []
    for group in groups:
        listed = [name for number in group["params"] for name in names.by_number.get(number, [])]
        named.append({**{key: copy.copy(value) for key, value in group.items()}, "params": listed})
    return named


@no_grad()
def local(
    model: Any, optim: Any, state_dict: dict[str, Any] | None, from_rank0: bool, named: bool
) -> dict[str, Any]:
    """This process's pieces of a state by names, by the optimiser's numbers or, if `named`, by names."""
    if from_rank0 and default_group()._size > 1:
        carried = [state_dict if default_group()._rank == 0 else None]
        broadcast_object_list(carried, src=0)
        state_dict = carried[0]
    if not state_dict:
        raise ValueError(
            "optim_state_dict_to_load(): there is no state on this rank; set FullOptimStateDictConfig(rank0_only=True) where rank 0 has it"
        )
    names = _Names(model, optim)
    if isinstance(_config(model), LocalOptimStateDictConfig):
        return state_dict
    states: dict[str, Any] = state_dict["state"]
    result: dict[Any, Any] = {}
    for bucket, bucket_names in names.buckets:
        _into_pieces(bucket, bucket_names, names, states, result)
    for name, p in names.others.items():
        if id(p) in names.numbers and name in states:
            result[names.numbers[id(p)]] = states[name]
    numbered = {name: number for number, mine in names.by_number.items() for name in mine}
    groups = []
    for group in state_dict["param_groups"]:
        listed = dict.fromkeys(numbered[name] for name in group["params"] if name in numbered)
        groups.append({**group, "params": list(listed)})
    if named:
        by_name = {number: mine[0] for number, mine in names.by_number.items()}
        result = {by_name[number]: state for number, state in result.items()}
        groups = [{**group, "params": [by_name[n] for n in group["params"]]} for group in groups]
    return {"state": result, "param_groups": groups}


def _into_pieces(
    bucket: Bucket, bucket_names: list[str], names: _Names, states: dict[str, Any], result: dict[Any, Any]
) -> None:
    for name, k, number in names.pieces(bucket, bucket_names):
        if name not in states:
            continue
        region = bucket.slots[k].region
        for key, value in states[name].items():
            value = full_tensor_of(value)
            there = result.setdefault(number, {})
            if not isinstance(value, TensorBase) or tuple(value.shape) != region.shape or value.dim() == 0:
                there.setdefault(key, value)
                continue
            piece = bucket.layout.slice_of(value, region, bucket.rank)
            if bucket.kind is not None:
                there[key] = piece.clone()
                continue
            if key not in there:
                there[key] = zeros(bucket.layout.length, dtype=value.dtype)
            bucket.layout.shard(there[key], region, bucket.rank).copy_(
                piece.view(-1) if bucket.n > 1 else piece
            )


def rekeyed(state_dict: dict[str, Any], to_names: bool, model: Any, optim: Any) -> dict[str, Any]:
    """A state of a model that is not sharded, by names or by numbers."""
    keys = [*state_dict["state"], *(key for group in state_dict["param_groups"] for key in group["params"])]
    if all(isinstance(key, str if to_names else int) for key in keys):
        return state_dict
    name_of = {id(p): clean(name) for name, p in model.named_parameters()}
    if optim is not None:
        ordered = [p for group in optim.param_groups for p in group["params"]]
    else:
        ordered = list(model.parameters())
    numbers = {name_of[id(p)]: k for k, p in enumerate(ordered) if id(p) in name_of}
    table: dict[Any, Any] = {k: name for name, k in numbers.items()} if to_names else dict(numbers)
    groups = [
        {
            **copy.deepcopy({k: v for k, v in group.items() if k != "params"}),
            "params": sorted(table[p] for p in group["params"]),
        }
        for group in state_dict["param_groups"]
    ]
    return {
        "state": {table[key]: value for key, value in state_dict["state"].items()},
        "param_groups": groups,
    }
