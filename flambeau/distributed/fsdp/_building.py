"""How `FullyShardedDataParallel` makes its unit: groups, what it leaves alone, materialised modules, buckets."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...core.base.dtypes import device as Device
from ...nn.modules.module import Module
from ...nn.parameter import Parameter
from .._group_making import new_subgroups, new_subgroups_by_enumeration
from .._groups import default_group, resolve
from ..utils import SYNCED_BYTES, _sync_params_and_buffers
from ._bucket import Bucket, Sharded, Slot
from ._engine import Unit, places_of
from ._layouts import Flat
from .api import MixedPrecision, ShardingStrategy
from .wrap import _Policy, _recursive_wrap, _wrap_each

HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
NO_RESHARD_AFTER_FORWARD = (
    ShardingStrategy.SHARD_GRAD_OP,
    ShardingStrategy._HYBRID_SHARD_ZERO2,
    ShardingStrategy.NO_SHARD,
)
FLAT_PARAM = "_flat_param"


class FlatParameter(Parameter):
    """This process's piece of several parameters that were written one behind the other.

    `FullyShardedDataParallel` without `use_orig_params` has one of them in place of a module's parameters.

    Shape:
        (n,): the number of all elements divided by the number of processes, rounded up

    Raises nothing.

    >>> from flambeau.distributed.fsdp import FlatParameter
    >>> issubclass(FlatParameter, __import__("flambeau").nn.Parameter)
    True
    """


def groups_of(process_group: Any, strategy: ShardingStrategy, mesh: Any) -> tuple[Any, Any]:
    """The group that shards, and the one of processes that hold the same shard; None for one of a single process."""
    if mesh is not None:
        if process_group is not None:
            raise ValueError(
                "Cannot pass both process_group and device_mesh at the same time. Please just pass only one."
            )
        if strategy in HYBRID:
            if mesh.ndim != 2:
                raise ValueError(
                    f"FSDP: HYBRID_SHARD needs a device_mesh of 2 dimensions, got one of {mesh.ndim}"
                )
            return mesh.get_group(1), mesh.get_group(0)
        if mesh.ndim != 1:
            raise ValueError(
                f"FSDP: {strategy.name} needs a device_mesh of 1 dimension, got one of {mesh.ndim}"
            )
        process_group = mesh.get_group(0)
    if strategy in HYBRID:
        if process_group is None:
            return _of_machines()
        if not (isinstance(process_group, (tuple, list)) and len(process_group) == 2):
            raise ValueError(
                "Expected process_group to be passed in as either None or Tuple[dist.ProcessGroup, dist.ProcessGroup] for "
                f"{strategy.name}, got {type(process_group).__name__}"
            )
        return resolve(process_group[0]), resolve(process_group[1])
    group = resolve(process_group)
    if group is None:
        raise ValueError("FullyShardedDataParallel: this process is not in the group")
    return (None, group) if strategy is ShardingStrategy.NO_SHARD else (group, None)


def _of_machines() -> tuple[Any, Any]:
    """Processes of one machine share parameters out; those of one number on all machines hold the same."""
    within, _ = new_subgroups()
    world, size = default_group(), within._size
    numbered = [list(range(k, world._size, size)) for k in range(size)]
    across, _ = new_subgroups_by_enumeration([[world._ranks[k] for k in ranks] for ranks in numbered])
    return within, across


def ignored_in(
    module: Module, ignored_modules: Iterable[Module] | None, ignored_states: Any
) -> tuple[set[Module], set[Any]]:
    """The modules and parameters that are left alone, with all that is in those modules.

    Raises:
        ValueError: both arguments are given, or the second mixes modules and parameters
        TypeError: something in them is neither
    """
    if ignored_modules is not None and ignored_states is not None:
        raise ValueError(
            "Cannot pass both ignored_modules and ignored_states at the same time. Please just pass ignored_states."
        )
    ignored = list(ignored_modules if ignored_modules is not None else ignored_states or ())
    parameters = {each for each in ignored if isinstance(each, Parameter)}
    modules = [each for each in ignored if isinstance(each, Module)]
    if len(parameters) + len(modules) != len(ignored):
        raise TypeError(
            f"FSDP: ignored modules and states must be nn.Module or nn.Parameter, got {[type(each) for each in ignored]}"
        )
    if parameters and modules:
        raise ValueError("ignored_states expects all nn.Parameter or all nn.Module list elements")
    if module in modules:
        warnings.warn(
            "Trying to ignore the top-level module passed into the FSDP constructor itself will result in all parameters being "
            "ignored and is not well-supported",
            stacklevel=3,
        )
    skipped = {inner for each in modules for inner in each.modules() if not hasattr(inner, "_fsdp_unit")}
    parameters |= {p for each in skipped for p in each.parameters(recurse=False)}
    return skipped, parameters


def auto_wrap(
    module: Module,
    policy: Any,
    wrapper: type,
    ignored_modules: set[Module],
    ignored_parameters: set[Any],
    kwargs: dict[str, Any],
) -> None:
    """Wrap modules in a module as a policy says; those that must not compute in a low precision on their own, without it."""
    mixed: MixedPrecision | None = kwargs["mixed_precision"]
    apart = tuple(mixed._module_classes_to_ignore) if mixed is not None else ()
    excepted = [m for m in module.modules() if apart and isinstance(m, apart) and m not in ignored_modules]
    if excepted:
        warnings.warn(
            "Both mixed precision and an auto_wrap_policy were specified to FSDP, where the wrapped module has submodules of type:\n"
            f"{set(map(type, excepted))}\nThese modules will be wrapped as separate FSDP instances with mixed precision disabled.",
            stacklevel=3,
        )
    if isinstance(policy, _Policy):
        targets = policy._run_policy(module, ignored_modules, kwargs)
        for each in excepted:
            targets[each] = {**targets.get(each, kwargs), "mixed_precision": None}
        targets.pop(module, None)
        _wrap_each(module, targets, wrapper)
        return
    for each in excepted:
        each._wrap_overrides = {"mixed_precision": None}  # type: ignore[assignment]

    def wanted(module: Module, recurse: bool, nonwrapped_numel: int) -> bool:
        if policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel):
            return True
        return bool(excepted) and (recurse or isinstance(module, apart))

    _recursive_wrap(
        module, wanted, wrapper, ignored_modules, ignored_parameters, only_wrap_children=True, **kwargs
    )


def check_device(device_id: Any) -> None:
    """ValueError for a device that no group of processes reaches."""
    if device_id is not None:
        device = Device("cuda", device_id) if isinstance(device_id, int) else Device(device_id)
        if device.type != "cpu":
            raise ValueError(
                f"FSDP: device_id must be None or the CPU, since groups are on the CPU, got {device_id}"
            )


def materialise(
    module: Module, places: dict[Any, list[tuple[Any, str, str]]], init: Callable[[Module], None] | None
) -> bool:
    """Give modules whose parameters are on device "meta" memory and values; whether there were such."""
    on_meta: list[Module] = []
    for parameter, where in places.items():
        if parameter.is_meta:
            on_meta += [holder for holder, _, _ in where if holder not in on_meta]
    on_meta += [
        m for m in module.modules() if m not in on_meta and any(b.is_meta for b in m.buffers(recurse=False))
    ]
    for each in on_meta:
        if init is not None:
            init(each)
            continue
        each.to_empty(device="cpu", recurse=False)
        if not callable(getattr(each, "reset_parameters", None)):
            raise ValueError(
                f"FSDP: {type(each).__name__} has parameters on device 'meta' and no reset_parameters(); pass param_init_fn"
            )
        each.reset_parameters()  # type: ignore[operator]
    return bool(on_meta)


def synchronise(module: Module, parameters: Sequence[Any], groups: Sequence[Any]) -> None:
    """Parameters and buffers become those of the first process of each group."""
    states = [p.detach() for p in parameters]
    done = [m for m in module.modules() if not hasattr(m, "_fsdp_unit")]
    states += [b.detach() for m in done for b in m.buffers(recurse=False) if b is not None]
    for group in groups:
        if group is not None and group._size > 1:
            _sync_params_and_buffers(group, states, SYNCED_BYTES, 0)


def build(
    wrapper: Module,
    module: Module,
    places: dict[Any, list[tuple[Any, str, str]]],
    groups: tuple[Any, Any],
    strategy: ShardingStrategy,
    mixed: MixedPrecision,
    use_orig_params: bool,
) -> Unit:
    """The unit of a wrapped module, whose parameters become shards."""
    claim(places)
    by_kind: dict[Any, list[Any]] = {}
    for parameter in places:
        by_kind.setdefault((parameter.dtype, parameter.requires_grad), []).append(parameter)
    if not use_orig_params and len(by_kind) > 1:
        if len({dtype for dtype, _ in by_kind}) > 1:
            raise ValueError(
                f"Must flatten tensors with uniform dtype but got {' and '.join(str(d) for d, _ in by_kind)}"
            )
        raise ValueError("Must flatten tensors with uniform requires_grad when use_orig_params=False")
    shard_group, replicas = groups
    buckets = []
    for parameters in by_kind.values():
        n = shard_group._size if shard_group is not None else 1
        layout = Flat([tuple(p.shape) for p in parameters], n)
        slots = [
            Slot([(m, a) for m, a, _ in places[p]], places[p][0][2], p, region)
            for p, region in zip(parameters, layout.regions)
        ]
        bucket = Bucket(
            slots,
            layout,
            shard_group,
            replicas,
            Sharded() if use_orig_params else None,
            param_dtype=mixed.param_dtype,
            reduce_dtype=mixed.reduce_dtype,
            keep_reduced_dtype=mixed.keep_low_precision_grads,
        )
        wanted = parameters[0].requires_grad
        bucket.shard()
        if not use_orig_params:
            bucket.set_flat(FlatParameter(bucket.row, wanted), module, FLAT_PARAM)
        buckets.append(bucket)
    unit = Unit(
        [wrapper],
        buckets,
        reshard_after_forward=False if strategy in NO_RESHARD_AFTER_FORWARD else None,
        input_dtype=mixed.param_dtype if mixed.cast_forward_inputs else None,
    )
    unit.root_input_dtype = mixed.param_dtype if mixed.cast_root_forward_inputs else None
    return unit


def claim(places: dict[Any, list[tuple[Any, str, str]]]) -> None:
    """ValueError for a parameter that another unit shards already, before any of these is touched."""
    for parameter, where in places.items():
        if parameter.__dict__.get("_is_sharded_by_fsdp", False):
            raise ValueError(
                f"Parameter '{where[0][2]}' is shared with a parameter already managed by another FSDP group. For shared/tied "
                "parameters, use fully_shard([module_a, module_b]) to place them in the same FSDP group, or wrap a module that has both."
            )
        if parameter.device.type not in ("cpu", "meta"):
            raise ValueError(
                f"FSDP: parameter '{where[0][2]}' is on {parameter.device}; groups of processes are on the CPU"
            )
        parameter.__dict__["_is_sharded_by_fsdp"] = True


__all__ = ["FlatParameter", "places_of"]
