"""The average of gradients, computed as they are or in half the bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...._tensor import Tensor
from ....core.base.dtypes import by_name
from ....futures import Future
from ..._collectives import all_reduce
from ..._groups import resolve
from ..._work import Work

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]
Hook = Callable[[Any, Any], Future[Tensor]]


def average(tensor: Tensor, group: Any) -> Future:
    """A future of [the average of a tensor over a group], which is written into it.  Divided first, so that halves do not overflow."""
    members = resolve(group)
    if members is None:
        raise ValueError("a communication hook's process group must have this process in it")
    tensor.div_(members._size)
    work = all_reduce(tensor, group=group, async_op=True)
    assert isinstance(work, Work)
    return work.get_future()


def allreduce_hook(process_group: Any, bucket: Any) -> Future[Tensor]:
    """The average of the bucket, a flat tensor of shape (n,), as without a hook.  Its future raises DistBackendError.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> net = flambeau.nn.parallel.DistributedDataParallel(flambeau.nn.Linear(1, 1))
    >>> net.register_comm_hook(None, default_hooks.allreduce_hook)
    >>> net(flambeau.ones(1, 1)).sum().backward()
    >>> net.module.bias.grad
    tensor([0.5000])
    >>> dist.destroy_process_group()
    """
    return average(bucket.buffer(), process_group).then(lambda done: done.value()[0])


def _compressed(dtype: Any, process_group: Any, bucket: Any) -> Future[Tensor]:
    buffer = bucket.buffer()
    return average(buffer.to(dtype), process_group).then(lambda done: buffer.copy_(done.value()[0]))


def fp16_compress_hook(process_group: Any, bucket: Any) -> Future[Tensor]:
    """The average of the bucket, of shape (n,), in float16.  Its future raises DistBackendError.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> net = flambeau.nn.parallel.DistributedDataParallel(flambeau.nn.Linear(1, 1))
    >>> net.register_comm_hook(None, default_hooks.fp16_compress_hook)
    >>> net(flambeau.ones(1, 1)).sum().backward()
    >>> net.module.bias.grad
    tensor([0.5000])
    >>> dist.destroy_process_group()
    """
    return _compressed(by_name["float16"], process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: Any) -> Future[Tensor]:
    """The average of the bucket, of shape (n,), in bfloat16.  Its future raises DistBackendError.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> net = flambeau.nn.parallel.DistributedDataParallel(flambeau.nn.Linear(1, 1))
    >>> net.register_comm_hook(None, default_hooks.bf16_compress_hook)
    >>> net(flambeau.ones(1, 1)).sum().backward()
    >>> net.module.bias.grad
    tensor([0.5000])
    >>> dist.destroy_process_group()
    """
    return _compressed(by_name["bfloat16"], process_group, bucket)


def _wrapped(dtype: Any, hook: Hook) -> Hook:
    def compressed(state: Any, bucket: Any) -> Future[Tensor]:
        buffer = bucket.buffer()
        bucket._buffer = buffer.to(dtype)
        try:
            future = hook(state, bucket)
        finally:
            bucket._buffer = buffer
        return future.then(lambda done: buffer.copy_(done.value()))

    return compressed


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """`hook` on buckets in float16.

    Raises nothing.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> net = flambeau.nn.parallel.DistributedDataParallel(flambeau.nn.Linear(1, 1))
    >>> net.register_comm_hook(None, default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook))
    >>> net(flambeau.ones(1, 1)).sum().backward()
    >>> net.module.bias.grad
    tensor([0.5000])
    >>> dist.destroy_process_group()
    """
    return _wrapped(by_name["float16"], hook)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """`hook` on buckets in bfloat16.

    Raises nothing.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> net = flambeau.nn.parallel.DistributedDataParallel(flambeau.nn.Linear(1, 1))
    >>> net.register_comm_hook(None, default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook))
    >>> net(flambeau.ones(1, 1)).sum().backward()
    >>> net.module.bias.grad
    tensor([0.5000])
    >>> dist.destroy_process_group()
    """
    return _wrapped(by_name["bfloat16"], hook)
