"""Gradients averaged over all processes at first, then over those of a machine only, while parameters are averaged now and then."""

from __future__ import annotations

from typing import Any

from ...._tensor import Tensor
from ....futures import Future
from ..._group_making import new_subgroups
from .default_hooks import average

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """What `post_localSGD_hook` is registered with.

    Args:
        process_group: the processes over which gradients are averaged at first, by default all.
        subgroup: those from step `start_localSGD_iter` on, by default those of this machine.
        start_localSGD_iter: how many steps there are before.
        post_local_gradient_allreduce: False: from then on gradients are not averaged at all.

    Raises nothing.

    >>> from flambeau.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState
    >>> PostLocalSGDState(None, None, start_localSGD_iter=100).iter
    0
    """

    def __init__(
        self,
        process_group: Any,
        subgroup: Any,
        start_localSGD_iter: int,
        post_local_gradient_allreduce: bool = True,
    ) -> None:
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket: Any) -> None:
        """Count a step when its last bucket comes."""
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state: PostLocalSGDState, bucket: Any) -> Future[Tensor]:
    """The average of the bucket, of shape (n,), over the processes that `state` says for this step.

    It goes with a `ModelAverager` or a `PostLocalSGDOptimizer`.  Its future raises DistBackendError.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import *
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> net = flambeau.nn.parallel.DistributedDataParallel(flambeau.nn.Linear(1, 1))
    >>> state = PostLocalSGDState(None, None, 0, post_local_gradient_allreduce=False)
    >>> net.register_comm_hook(state, post_localSGD_hook)
    >>> net(flambeau.ones(1, 1)).sum().backward()
    >>> net.module.bias.grad
    tensor([1.])
    >>> dist.destroy_process_group()
    """
    buffer = bucket.buffer()
    if state.iter < state.start_localSGD_iter:
        state.maybe_increase_iter(bucket)
        return average(buffer, state.process_group).then(lambda done: done.value()[0])
    if not state.post_local_gradient_allreduce:
        done: Future[Tensor] = Future()
        done.set_result(buffer)
        return done
    if state.subgroup is None:
        state.subgroup, _ = new_subgroups()
    return average(buffer, state.subgroup).then(lambda done: done.value()[0])
