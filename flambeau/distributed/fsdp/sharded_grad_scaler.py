"""`ShardedGradScaler`: a GradScaler whose processes agree on what is not finite."""

from __future__ import annotations

from typing import Any

from ...amp.grad_scaler import GradScaler
from .._collectives import all_reduce
from .._reductions import ReduceOp

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """A `GradScaler` for gradients in pieces: where one process finds an infinite or NaN gradient, all skip the step.

    Args:
        device: where losses are; "cuda" by default, as in PyTorch: give "cpu" here.
        process_group: the processes that share the gradients out, by default all.

    Other arguments and errors are those of `GradScaler`; gradients of float16 are unscaled, too.

    Raises DistBackendError from `step` and `unscale_` where processes are gone.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> weight = flambeau.ones(1, requires_grad=True)
    >>> optimizer, scaler = flambeau.optim.SGD([weight], lr=0.5), ShardedGradScaler("cpu")
    >>> scaler.scale(weight.sum()).backward()
    >>> scaler.step(optimizer)
    >>> weight.item()
    0.5
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        backoff_factor: float = 0.5,
        growth_factor: float = 2.0,
        growth_interval: int = 2000,
        enabled: bool = True,
        process_group: Any = None,
    ) -> None:
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self.process_group = process_group

    def _unscale_grads_(self, optimizer: Any, inv_scale: Any, found_inf: Any, allow_fp16: bool) -> Any:
        result = super()._unscale_grads_(optimizer, inv_scale, found_inf, True)
        if not result:  # this process has no gradient, and hears what others have
            result = {found_inf.device: found_inf}
        for marked in result.values():
            all_reduce(marked, ReduceOp.MAX, self.process_group)
        return result
