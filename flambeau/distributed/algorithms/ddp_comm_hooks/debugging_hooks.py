"""A hook that shows what communication costs, by leaving it out."""

from __future__ import annotations

from typing import Any

from ...._tensor import Tensor
from ....futures import Future

__all__ = ["noop_hook"]


def noop_hook(_: Any, bucket: Any) -> Future[Tensor]:
    """The bucket, of shape (n,), as it is: every process keeps its own gradients.

    Raises nothing.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> net = flambeau.nn.parallel.DistributedDataParallel(flambeau.nn.Linear(1, 1))
    >>> net.register_comm_hook(None, noop_hook)
    >>> net(flambeau.ones(1, 1)).sum().backward()
    >>> net.module.bias.grad
    tensor([1.])
    >>> dist.destroy_process_group()
    """
    done: Future[Tensor] = Future()
    done.set_result(bucket.buffer())
    return done
