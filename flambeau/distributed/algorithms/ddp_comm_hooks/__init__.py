"""Ways of averaging gradients, for `DistributedDataParallel.register_comm_hook`."""

from __future__ import annotations

from enum import Enum
from typing import Any

from ...._compat.absent import refusing as _refusing
from . import debugging_hooks, default_hooks, powerSGD_hook
from . import post_localSGD_hook as post_localSGD_hook

__all__ = ["DDPCommHookType", "default_hooks", "register_ddp_comm_hook"]


class _Registering:
    """What registers a hook, with a process group or None as its state."""

    def __init__(self, hook: Any, rank: int | None = None) -> None:
        self._hook, self._rank = hook, rank

    def __call__(self, model: Any, state: Any = None, start_powerSGD_iter: int = 1_000) -> None:
        if self._rank is not None:
            state = powerSGD_hook.PowerSGDState(state, self._rank, start_powerSGD_iter)
        model.register_comm_hook(state, self._hook)


class DDPCommHookType(Enum):
    """The hooks by name; the value registers one: `value(model=…, state=process_group)`.

    >>> from flambeau.distributed.algorithms.ddp_comm_hooks import DDPCommHookType
    >>> DDPCommHookType["POWER_SGD"].name
    'POWER_SGD'
    """

    ALLREDUCE = _Registering(default_hooks.allreduce_hook)
    FP16_COMPRESS = _Registering(default_hooks.fp16_compress_hook)
    BF16_COMPRESS = _Registering(default_hooks.bf16_compress_hook)
    POWER_SGD = _Registering(powerSGD_hook.powerSGD_hook, 1)
    POWER_SGD_RANK2 = _Registering(powerSGD_hook.powerSGD_hook, 2)
    BATCHED_POWER_SGD = _Registering(powerSGD_hook.batched_powerSGD_hook, 1)
    BATCHED_POWER_SGD_RANK2 = _Registering(powerSGD_hook.batched_powerSGD_hook, 2)
    NOOP = _Registering(debugging_hooks.noop_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Register a hook by its name, with a process group as its state.

    Raises:
        RuntimeError: the model has a hook already

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
    >>> dist.init_process_group("fake", rank=0, world_size=1)
    >>> net = flambeau.nn.parallel.DistributedDataParallel(flambeau.nn.Linear(1, 1))
    >>> register_ddp_comm_hook(DDPCommHookType.FP16_COMPRESS, net)
    >>> dist.destroy_process_group()
    """
    comm_hook_type.value(model=model, state=state)


__getattr__ = _refusing("distributed.algorithms.ddp_comm_hooks")
