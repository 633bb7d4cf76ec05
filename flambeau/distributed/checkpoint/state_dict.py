"""A model's state taken and set, as `torch.distributed.checkpoint.state_dict` does where there is one process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..._compat.absent import refusing

__all__ = ["StateDictOptions", "get_model_state_dict", "set_model_state_dict"]


@dataclass
class StateDictOptions:
    """What is taken or set: with `cpu_offload` copies on the host, with `ignore_frozen_params` only what requires a gradient;
    `strict` as in `load_state_dict`.  The others say how processes share a state, which changes nothing for one.

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


def get_model_state_dict(model: Any, *, submodules: Any = None, options: Any = None) -> dict[str, Any]:
    """The model's `state_dict`.  NotImplementedError for `submodules`.

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint.state_dict import get_model_state_dict
    >>> list(get_model_state_dict(flambeau.nn.Linear(2, 2)))
    ['weight', 'bias']
    """
    if submodules:
        raise NotImplementedError(
            "get_model_state_dict(): submodules is not supported; take the state_dict of the submodule"
        )
    asked = options or StateDictOptions()
    frozen = {n for n, p in model.named_parameters() if asked.ignore_frozen_params and not p.requires_grad}
    state = {name: value for name, value in model.state_dict().items() if name not in frozen}
    if asked.cpu_offload:
        return {name: value.cpu() if hasattr(value, "cpu") else value for name, value in state.items()}
    return state


def set_model_state_dict(model: Any, model_state_dict: Mapping[str, Any], *, options: Any = None) -> Any:
    """`model.load_state_dict`; parameters without data (`device="meta"`) take over those of the state.

    Returns the missing and the unexpected keys.  RuntimeError as `load_state_dict` raises.

    >>> import flambeau
    >>> from flambeau.distributed.checkpoint.state_dict import set_model_state_dict
    >>> empty = flambeau.nn.Linear(2, 2, device="meta")
    >>> set_model_state_dict(empty, flambeau.nn.Linear(2, 2).state_dict())
    <All keys matched successfully>
    >>> empty.weight.device
    device(type='cpu')
    """
    asked = options or StateDictOptions()
    empty = any(tensor.device.type == "meta" for tensor in (*model.parameters(), *model.buffers()))
    return model.load_state_dict(model_state_dict, strict=asked.strict, assign=empty)


__getattr__ = refusing("distributed.checkpoint.state_dict")
