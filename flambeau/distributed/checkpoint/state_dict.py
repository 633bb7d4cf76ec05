"""States of models and optimisers by the names that parameters have before anything is wrapped or sharded.

What `fully_shard`, `FullyShardedDataParallel`, `DistributedDataParallel` or nothing has been done to a model does not show in the keys, so
a state goes from one to the other.  Values are DTensors where parameters are shared out, or whole tensors with `full_state_dict`.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..._compat.absent import refusing
from ...autograd import no_grad
from ...core.base.tensor import TensorBase
from ...core.make.create import empty, zeros_like
from ...nn.parallel.distributed import DistributedDataParallel
from .._collectives import broadcast
from .._groups import default_group, is_initialized
from .._objects import broadcast_object_list

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]
_PREFIXES = ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_mod.")


@dataclass
class StateDictOptions:
    """What is taken or set.

    Args:
        full_state_dict: values are whole tensors, rather than DTensors.
        cpu_offload: values are copies on the host; with `full_state_dict` only rank 0 has them, and others an empty state.
        ignore_frozen_params: only parameters that require a gradient.
        keep_submodule_prefixes: keys of `submodules` are whole names.
        strict: as in `load_state_dict`.
        broadcast_from_rank0: when a state is set, rank 0 has it, and the others receive it, one tensor after the other.
        flatten_optimizer_state_dict: a state of an optimiser has one level, with keys such as "state.weight.exp_avg".

    Raises:
        TypeError: an option that it does not know is given

    >>> from flambeau.distributed.checkpoint.state_dict import StateDictOptions
    >>> StateDictOptions(strict=False).strict
    False
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


class _Model:
    """A model, its names and how it is wrapped."""

    def __init__(self, model: Any, options: StateDictOptions | None, submodules: Any = None) -> None:
        self.model, self.options = model, options or StateDictOptions()
        if self.options.broadcast_from_rank0 and not self.options.full_state_dict:
            raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
        inside = {
            f"{name}." if name else ""
            for name, m in model.named_modules()
            if isinstance(m, DistributedDataParallel)
        }
        self._ddp = sorted((f"{prefix}module." for prefix in inside), key=len, reverse=True)
        self.names = {id(p): self.clean(n) for n, p in model.named_parameters()}
        self.wrappers = any("_fsdp_wrapped_module" in m.__dict__.get("_modules", {}) for m in model.modules())
        self.prefixes: list[str] = []
        if submodules:
            warnings.warn(
                "Getting submodules only model/optim state_dict is deprecated and will be removed in 2.5. This feature can be achieved "
                "by manually filtering out the state_dict returned from get_state_dict.",
                FutureWarning,
                stacklevel=4,
            )
            self.prefixes = [
                f"{self.clean(f'{n}.')}" for n, m in model.named_modules() if m in set(submodules)
            ]

    def clean(self, name: str) -> str:
        """A dotted name without what wrappers add to it."""
        for prefix in self._ddp:
            if name.startswith(prefix):
                name = name[: -len(name) + len(prefix) - len("module.")] + name[len(prefix) :]
        for prefix in _PREFIXES:
            name = name.replace(prefix, "")
        return name

    @contextlib.contextmanager
    def settings(self, rank0_only: bool = False) -> Any:
        """In the block, wrappers give and take what the options say."""
        if not self.wrappers:
            yield
            return
        from ..fsdp import api
        from ..fsdp.fully_sharded_data_parallel import FullyShardedDataParallel

        host = self.options.cpu_offload
        config: Any
        optim: Any
        if self.options.full_state_dict:
            kind, config = api.StateDictType.FULL_STATE_DICT, api.FullStateDictConfig(host, host)
            optim = api.FullOptimStateDictConfig(host, rank0_only)
        else:
            kind, config = api.StateDictType.SHARDED_STATE_DICT, api.ShardedStateDictConfig(host)
            optim = api.ShardedOptimStateDictConfig(host)
        with FullyShardedDataParallel.state_dict_type(self.model, kind, config, optim):
            yield

    def shown(self, value: Any) -> Any:
        """A value of a state as the options want it."""
        if isinstance(value, TensorBase):
            if self.options.full_state_dict and _is_distributed(value):
                value = value.full_tensor()  # type: ignore[attr-defined]
            return value.cpu() if self.options.cpu_offload else value
        if isinstance(value, dict):
            return {key: self.shown(each) for key, each in value.items()}
        return value

    @property
    def is_elsewhere(self) -> bool:
        """Whether only rank 0 has the result, and this is another one."""
        options = self.options
        return (
            options.full_state_dict
            and options.cpu_offload
            and is_initialized()
            and default_group()._rank != 0
        )

    def is_wanted(self, name: str) -> bool:
        """Whether a name is of the submodules."""
        return not self.prefixes or any(name.startswith(prefix) for prefix in self.prefixes)

    def short(self, name: str) -> str:
        """A name as the result has it."""
        if self.prefixes and not self.options.keep_submodule_prefixes:
            return next(name[len(prefix) :] for prefix in self.prefixes if name.startswith(prefix))
        return name


def _is_distributed(value: Any) -> bool:
    return hasattr(type(value), "full_tensor") and hasattr(type(value), "to_local")


def _listed(optimizers: Any) -> list[Any]:
    return [optimizers] if hasattr(optimizers, "param_groups") else list(optimizers)


# Taking ----------------------------------------------------------------------------------------------------------------------------
def get_model_state_dict(
    model: Any, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The model's `state_dict`, by names without what wrappers add.  Where it is sharded, every process calls it.

    Raises:
        ValueError: the options exclude each other

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint.state_dict import get_model_state_dict
    >>> list(get_model_state_dict(flambeau.nn.Linear(2, 2)))
    ['weight', 'bias']
    """
    return _model_state(_Model(model, options, submodules))


@no_grad()
def _model_state(info: _Model) -> dict[str, Any]:
    with info.settings():
        state = info.model.state_dict()
    frozen: set[str] = set()
    if info.options.ignore_frozen_params:
        frozen = {info.clean(n) for n, p in info.model.named_parameters() if not p.requires_grad}
    result = {}
    for name, value in state.items():
        name, value = info.clean(name), info.shown(value)  # which every process computes
        if info.is_wanted(name) and name not in frozen and not info.is_elsewhere:
            result[info.short(name)] = value
    return result


def get_optimizer_state_dict(
    model: Any, optimizers: Any, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The states of one or several optimisers of a model's parameters, by the parameters' names.

    An optimiser that has not stepped makes its state by a step that changes nothing.  Where the model is sharded, every process calls it.

    Raises:
        RuntimeError: there is no optimiser
        ValueError: the options exclude each other

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint.state_dict import get_optimizer_state_dict
    >>> net = flambeau.nn.Linear(2, 2)
    >>> sorted(get_optimizer_state_dict(net, flambeau.optim.Adam(net.parameters()))["state"]["weight"])
    ['exp_avg', 'exp_avg_sq', 'step']
    """
    return _optimizer_state(_Model(model, options, submodules), _listed(optimizers))


@no_grad()
def _optimizer_state(info: _Model, optimizers: list[Any]) -> dict[str, Any]:
    if not optimizers:
        raise RuntimeError("Optimizers are not passed in but optim_only is set to True.")
    result: dict[str, Any] = {"state": {}, "param_groups": []}
    for optimizer in optimizers:
        make_state(optimizer)
        state = _named(info, optimizer)
        result["state"].update(
            {n: info.shown(each) for n, each in state["state"].items() if info.is_wanted(n)}
        )
        for group in state["param_groups"]:
            result["param_groups"].append(
                {**group, "params": [n for n in group["params"] if info.is_wanted(n)]}
            )
    if info.is_elsewhere:
        return {}
    return _flattened(result) if info.options.flatten_optimizer_state_dict else result


def _named(info: _Model, optimizer: Any) -> dict[str, Any]:
    """An optimiser's state by names."""
    if info.wrappers:
        from ..fsdp.fully_sharded_data_parallel import FullyShardedDataParallel

        with info.settings():
            return FullyShardedDataParallel.optim_state_dict(info.model, optimizer)
    result = optimizer.state_dict()
    names = _names_by_number(info, optimizer)
    groups = [{**group, "params": [names[k] for k in group["params"]]} for group in result["param_groups"]]
    return {"state": {names[k]: each for k, each in result["state"].items()}, "param_groups": groups}


def _names_by_number(info: _Model, optimizer: Any) -> dict[int, str]:
    ordered = [p for group in optimizer.param_groups for p in group["params"]]
    missing = [list(p.shape) for p in ordered if id(p) not in info.names]
    if missing:
        raise RuntimeError(f"the optimizer has parameters that are not the model's, of shapes {missing}")
    return {k: info.names[id(p)] for k, p in enumerate(ordered)}


def make_state(optimizer: Any) -> None:
    """Let an optimiser that has not stepped make its state, by a step with gradients of zeros and a learning rate of zero."""
    if optimizer.state or any(p.grad is not None for g in optimizer.param_groups for p in g["params"]):
        return
    rates = [group.get("lr") for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.requires_grad:
                p.grad = zeros_like(p)
        if "lr" in group:
            group["lr"] = zeros_like(group["lr"]) if isinstance(group["lr"], TensorBase) else 0.0
    try:
        optimizer.step(closure=None)
    finally:
        for group, rate in zip(optimizer.param_groups, rates):
            if "lr" in group:
                group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)


def get_state_dict(
    model: Any, optimizers: Any, *, submodules: Any = None, options: StateDictOptions | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """`get_model_state_dict` and `get_optimizer_state_dict`; the latter is empty without optimisers.

    Raises ValueError for options that exclude each other.

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint.state_dict import get_state_dict
    >>> net = flambeau.nn.Linear(2, 2)
    >>> model, optimizer = get_state_dict(net, flambeau.optim.SGD(net.parameters()))
    >>> optimizer["param_groups"][0]["params"]
    ['weight', 'bias']
    """
    info, listed = _Model(model, options, submodules), _listed(optimizers)
    return _model_state(info), _optimizer_state(info, listed) if listed else {}


def _flattened(state: dict[str, Any]) -> dict[str, Any]:
    """A state of one level."""
    result: dict[str, Any] = {}

    def put(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, each in value.items():
                put(f"{prefix}.{key}", each)
        else:
            result[prefix] = value

    for name, each in state["state"].items():
        put(f"state.{name}", each)
    for group in state["param_groups"]:
        for name in group["params"]:
            for key, value in group.items():
                if key != "params":
                    result[f"param_groups.{name}.{key}"] = value
    return result


def _unflattened(info: _Model, optimizer: Any, flat: Mapping[str, Any]) -> dict[str, Any]:
    """What `_flattened` has made, for an optimiser.  RuntimeError where parameters of one of its groups have other options."""
    state: dict[str, Any] = {}
    groups = []
    for group, names in zip(optimizer.param_groups, _names_of_groups(info, optimizer)):
        made: dict[str, Any] = {"params": names}
        for name in names:
            prefix = f"state.{name}."
            entries = {key[len(prefix) :]: value for key, value in flat.items() if key.startswith(prefix)}
            if entries:
                state[name] = entries
            for key in group:
                value = flat.get(f"param_groups.{name}.{key}")
                if key == "params" or f"param_groups.{name}.{key}" not in flat:
                    continue
                if made.setdefault(key, value) != value:
                    raise RuntimeError(
                        "All the parameters in the same parameter group should have the same saved param_group value. But "
                        f"{name}.{key} is {value} while other(s) is {made[key]}."
                    )
        groups.append(made)
    return {"state": state, "param_groups": groups}


def _names_of_groups(info: _Model, optimizer: Any) -> list[list[str]]:
    """The names of the parameters in each of an optimiser's groups."""
    if info.wrappers:
        from ..fsdp._optim_states import _Names

        names = _Names(info.model, optimizer)
        numbers = {k: mine for k, mine in names.by_number.items()}
    else:
        numbers = {k: [name] for k, name in _names_by_number(info, optimizer).items()}
    result, place = [], 0
    for group in optimizer.param_groups:
        result.append([n for k in range(place, place + len(group["params"])) for n in numbers.get(k, [])])
        place += len(group["params"])
    return result


# Setting ---------------------------------------------------------------------------------------------------------------------------
def set_model_state_dict(
    model: Any, model_state_dict: Mapping[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """`model.load_state_dict` of what `get_model_state_dict` has made; parameters without data (`device="meta"`) take over its values.

    Where the model is sharded, every process calls it.

    Returns:
        The missing and the unexpected keys.

    Raises:
        RuntimeError: as `load_state_dict`
        ValueError: the options exclude each other

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint.state_dict import set_model_state_dict
    >>> empty = flambeau.nn.Linear(2, 2, device="meta")
    >>> set_model_state_dict(empty, flambeau.nn.Linear(2, 2).state_dict())
    <All keys matched successfully>
    >>> empty.weight.device
    device(type='cpu')
    """
    return _set_model(_Model(model, options), model_state_dict)


@no_grad()
def _set_model(info: _Model, state: Mapping[str, Any]) -> Any:
    model, options = info.model, info.options
    tensors = dict(_from_rank0(state)) if options.broadcast_from_rank0 else dict(state)
    if info.wrappers:
        with info.settings():
            return model.load_state_dict(tensors, strict=options.strict)
    on_meta = any(t.device.type == "meta" for t in (*model.parameters(), *model.buffers()))
    own = model.state_dict()
    loaded = {}
    names = {info.clean(name): name for name in own}
    for name, value in tensors.items():
        place = names.get(name, name)
        loaded[place] = _like(own.get(place), value)
    together = _shared(model) if on_meta else []
    keys = model.load_state_dict(loaded, strict=options.strict, assign=on_meta)
    for (first, name), *others in together:  # each place was assigned to
        for module, other in others:
            module._parameters[other] = first._parameters[name]
    return keys


def _shared(model: Any) -> list[list[tuple[Any, str]]]:
    """The places of each parameter that has several."""
    places: dict[int, list[tuple[Any, str]]] = {}
    for module in model.modules():
        for name, p in module._parameters.items():
            if p is not None:
                places.setdefault(id(p), []).append((module, name))
    return [result for result in places.values() if len(result) > 1]


def _like(own: Any, value: Any) -> Any:
    """A whole tensor as a DTensor, if that is what it goes into; a DTensor whole, if it goes into a plain tensor."""
    if not isinstance(value, TensorBase) or not isinstance(own, TensorBase):
        return value
    if _is_distributed(own) and not _is_distributed(value) and own.shape == value.shape:
        from ..tensor import distribute_tensor

        return distribute_tensor(value.detach(), own.device_mesh, own.placements, src_data_rank=None)  # type: ignore[attr-defined]
    if _is_distributed(value) and not _is_distributed(own):
        return value.full_tensor()  # type: ignore[attr-defined]
    return value


def _from_rank0(state: Any) -> Any:
    """A state, nested in dictionaries and lists, as rank 0 has it: first its structure, then one tensor after the other."""
    if not is_initialized() or default_group()._size == 1:
        return state
    mine = default_group()._rank == 0
    tensors: list[TensorBase] = []

    def described(value: Any) -> Any:
        if isinstance(value, TensorBase):
            tensors.append(value)
            return _Tensor(tuple(value.shape), value.dtype)
        if isinstance(value, Mapping):
            return {key: described(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(described(each) for each in value)
        return value

    carried = [described(state) if mine else None]
    broadcast_object_list(carried, src=0)
    following = iter(tensors)

    def received(value: Any) -> Any:
        if isinstance(value, _Tensor):
            there = (
                next(following).detach().cpu().contiguous() if mine else empty(value.shape, dtype=value.dtype)
            )  # type: ignore[attr-defined]
            broadcast(there, src=0)
            return there
        if isinstance(value, dict):
            return {key: received(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(received(each) for each in value)
        return value

    return received(carried[0])


@dataclass
class _Tensor:
    """The description of a tensor, sent before it."""

    shape: tuple[int, ...]
    dtype: Any


def set_optimizer_state_dict(
    model: Any,
    optimizers: Any,
    optim_state_dict: Mapping[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Load what `get_optimizer_state_dict` has made into one or several optimisers, each the part of its parameters.

    Where the model is sharded, every process calls it.

    Raises:
        RuntimeError: a parameter that requires a gradient has no state, if `strict`
        ValueError: the options exclude each other

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
    >>> net = flambeau.nn.Linear(2, 2)
    >>> before, after = flambeau.optim.Adam(net.parameters(), lr=0.5), flambeau.optim.Adam(net.parameters())
    >>> set_optimizer_state_dict(net, after, get_optimizer_state_dict(net, before))
    >>> after.param_groups[0]["lr"]
    0.5
    """
    _set_optimizers(_Model(model, options), _listed(optimizers), optim_state_dict)


@no_grad()
def _set_optimizers(info: _Model, optimizers: list[Any], state: Mapping[str, Any]) -> None:
    if info.options.broadcast_from_rank0:
        state = _from_rank0(state)
    for optimizer in optimizers:
        make_state(optimizer)
        full = state if "state" in state else _unflattened(info, optimizer, state)
        _set_one(info, optimizer, _part_of(info, optimizer, full))


def _part_of(info: _Model, optimizer: Any, state: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a state by names that is one optimiser's, with groups in its order."""
    states = state["state"]
    trained = {info.names[id(p)] for p in info.model.parameters() if p.requires_grad and id(p) in info.names}
    stateful = any(optimizer.state.values())
    result: dict[str, Any] = {}
    groups = []
    for names in _names_of_groups(info, optimizer):
        for name in names:
            if name in states:
                result[name] = states[name]
            elif info.options.strict and stateful and name in trained:
                raise RuntimeError(
                    f"Missing optimizer state for parameter '{name}' in checkpoint. The parameter requires gradients but has no saved "
                    "optimizer state. To load anyway, use StateDictOptions(strict=False)."
                )
        options: Any = next((g for g in state["param_groups"] if set(g["params"]) & set(names)), {})
        groups.append(
            {**{key: copy.copy(v) for key, v in options.items() if key != "params"}, "params": names}
        )
    return {"state": result, "param_groups": groups}


def _set_one(info: _Model, optimizer: Any, state: dict[str, Any]) -> None:
    if info.wrappers:
        from ..fsdp.fully_sharded_data_parallel import FullyShardedDataParallel

        with info.settings():
            loaded = FullyShardedDataParallel.optim_state_dict_to_load(info.model, optimizer, state)
        optimizer.load_state_dict(loaded)
        return
    numbers = {name: k for k, name in _names_by_number(info, optimizer).items()}
    ordered = [p for group in optimizer.param_groups for p in group["params"]]
    entries = {}
    for name, values in state["state"].items():
        p = ordered[numbers[name]]
        entries[numbers[name]] = {
            key: _like(p, value) if isinstance(value, TensorBase) and value.shape == p.shape else value
            for key, value in values.items()
        }
    groups = [{**group, "params": [numbers[n] for n in group["params"]]} for group in state["param_groups"]]
    for group, own in zip(groups, optimizer.param_groups):
        for key, value in own.items():
            group.setdefault(key, value)
    optimizer.load_state_dict({"state": entries, "param_groups": groups})


def set_state_dict(
    model: Any,
    optimizers: Any,
    *,
    model_state_dict: Mapping[str, Any],
    optim_state_dict: Mapping[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """`set_model_state_dict` and `set_optimizer_state_dict`; the missing and the unexpected keys of the model.

    Raises RuntimeError and ValueError as these do.

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    >>> net = flambeau.nn.Linear(2, 2)
    >>> optimizer = flambeau.optim.SGD(net.parameters())
    >>> model, states = get_state_dict(net, optimizer)
    >>> set_state_dict(net, optimizer, model_state_dict=model, optim_state_dict=states)
    <All keys matched successfully>
    """
    info, listed = _Model(model, options), _listed(optimizers)
    keys = (
        _set_model(info, model_state_dict) if model_state_dict or info.options.broadcast_from_rank0 else None
    )
    if listed:
        _set_optimizers(info, listed, optim_state_dict)
    return keys


__getattr__ = refusing("distributed.checkpoint.state_dict")
