"""`state_dict` and `load_state_dict` of wrapped modules: whole, in flat pieces, or in slices.

Each wrapper sees to its own unit: before its entries are collected, or loaded, its parameters are whole, and afterwards pieces again.
Keys are those of the module before it was wrapped.
"""

from __future__ import annotations

from typing import Any

from ...autograd import no_grad
from ...core.base.tensor import TensorBase
from ._dtensors import full_tensor_of, is_sharded, slice_dtensor
from .api import FullOptimStateDictConfig, FullStateDictConfig, StateDictSettings, StateDictType

PREFIXES = ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_mod.")
_WRAPPED = PREFIXES[0]


def clean(name: str) -> str:
    """A dotted name without what wrappers add to it."""
    for prefix in PREFIXES:
        name = name.replace(prefix, "")
    return name


def settings_of(module: Any) -> StateDictSettings:
    """What the wrappers in a module are set to.  AssertionError where they differ."""
    result = [m._settings for m in module.modules() if "_fsdp_wrapped_module" in m._modules]
    if not result:
        return StateDictSettings(
            StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig()
        )
    if any(each != result[0] for each in result):
        raise AssertionError(f"All FSDP modules must have the same state dict settings. Got {result}")
    return result[0]


def register(wrapper: Any) -> None:
    """Let a wrapper's states be as its settings say."""
    wrapper.register_state_dict_pre_hook(_before_saving)
    wrapper._register_state_dict_hook(_after_saving)
    wrapper._register_load_state_dict_pre_hook(_before_loading, with_module=True)
    wrapper.register_load_state_dict_post_hook(_after_loading)


def _kind(wrapper: Any) -> StateDictType:
    return wrapper._settings.state_dict_type


def _before_saving(wrapper: Any, prefix: str, keep_vars: bool) -> None:
    unit = wrapper._fsdp_unit
    if unit.is_summoned:
        return
    if _kind(wrapper) is StateDictType.LOCAL_STATE_DICT:
        unit.reshard()
        return
    unit.summon()
    wrapper.__dict__["_summoned_for_state"] = True


def _after_saving(wrapper: Any, state: Any, prefix: str, metadata: Any) -> Any:
    unit, kind, config = wrapper._fsdp_unit, _kind(wrapper), wrapper._settings.state_dict_config
    inside = prefix + _WRAPPED
    own = {inside + clean_name for clean_name in _names(unit)}
    with no_grad():
        if kind is StateDictType.LOCAL_STATE_DICT:
            _pieces(unit, state, inside)
        for key in [key for key in state if key.startswith(inside)]:
            state[prefix + key[len(inside) :]] = _shown(
                wrapper, state.pop(key), key in own, key[len(inside) :]
            )
    if wrapper.__dict__.pop("_summoned_for_state", False):
        unit.dismiss(False)
    if kind is StateDictType.FULL_STATE_DICT and config.rank0_only and wrapper.rank != 0:
        for key in [key for key in state if key.startswith(prefix)]:
            del state[key]
    return state


def _names(unit: Any) -> list[str]:
    """The dotted names of a unit's parameters in the wrapped module, of all their places."""
    module = unit.modules[0]._fsdp_wrapped_module
    prefixes = {id(m): f"{name}." if name else "" for name, m in module.named_modules()}
    return [
        clean(prefixes[id(holder)] + attribute)
        for bucket in unit.buckets
        for slot in bucket.slots
        for holder, attribute in slot.modules()
    ]


def _shown(wrapper: Any, value: Any, is_own: bool, name: str) -> Any:
    """An entry as the state holds it."""
    kind, config = _kind(wrapper), wrapper._settings.state_dict_config
    if not isinstance(value, TensorBase):
        return value
    if kind is not StateDictType.LOCAL_STATE_DICT:
        dtype = (wrapper._buffer_dtypes or {}).get(name)
        if dtype is not None and not is_sharded(value):
            value = value.to(dtype)
        if is_own:
            if kind is StateDictType.SHARDED_STATE_DICT:
                value = slice_dtensor(value.detach(), *_mesh_of(wrapper))
            else:
                value = value.detach().clone()
    return value.cpu() if config.offload_to_cpu else value


def _mesh_of(wrapper: Any) -> tuple[Any, Any]:
    """The mesh that slices are cut along, and the group that shards."""
    group = next((b.group for b in wrapper._fsdp_unit.buckets), None)
    return wrapper._device_mesh, group or wrapper.process_group


def _pieces(unit: Any, state: Any, inside: str) -> None:
    """A unit's rows in place of its parameters."""
    for name in _names(unit):
        state.pop(inside + name, None)
    for k, bucket in enumerate(unit.buckets):
        bucket.keep_in_row()
        state[f"{inside}{_flat_name(k)}"] = bucket.row.detach()


def _flat_name(k: int) -> str:
    return "_flat_param" if k == 0 else f"_flat_param_{k}"


# Loading ---------------------------------------------------------------------------------------------------------------------------
def _before_loading(wrapper: Any, state: Any, prefix: str, *rest: Any) -> None:
    unit, kind = wrapper._fsdp_unit, _kind(wrapper)
    inside = prefix + _WRAPPED
    for key in [key for key in state if key.startswith(prefix) and not key.startswith(inside)]:
        state[inside + key[len(prefix) :]] = state.pop(key)
    if kind is StateDictType.LOCAL_STATE_DICT:
        unit.reshard()
        _load_pieces(unit, state, inside)
        return
    for name in _names(unit):
        value = state.get(inside + name)
        if isinstance(value, TensorBase) and is_sharded(value):
            state[inside + name] = full_tensor_of(value)
    if not unit.is_summoned:
        unit.summon()
        wrapper.__dict__["_summoned_for_state"] = True


def _load_pieces(unit: Any, state: Any, inside: str) -> None:
    for k, bucket in enumerate(unit.buckets):
        key = f"{inside}{_flat_name(k)}"
        bucket.keep_in_row()
        if key not in state:
            continue
        value = state[key] if bucket.kind is None else state.pop(key)
        if tuple(value.shape) != tuple(bucket.row.shape):
            raise RuntimeError(
                f"load_state_dict(): {key} has shape {list(value.shape)}, this process's piece has {list(bucket.row.shape)}"
            )
        with no_grad():
            bucket.row.detach().copy_(value)
        if bucket.kind is not None:  # so that names of parameters are not missed
            for slot in bucket.slots:
                for holder, attribute in slot.modules():
                    name = _name_in(unit, holder, attribute)
                    state[inside + name] = slot.sharded.detach()


def _name_in(unit: Any, holder: Any, attribute: str) -> str:
    module = unit.modules[0]._fsdp_wrapped_module
    return next(f"{name}." if name else "" for name, m in module.named_modules() if m is holder) + attribute


def _after_loading(wrapper: Any, keys: Any) -> None:
    for listed in keys:
        listed[:] = [clean(key) for key in listed]
    if wrapper.__dict__.pop("_summoned_for_state", False):
        wrapper._fsdp_unit.dismiss(True)
