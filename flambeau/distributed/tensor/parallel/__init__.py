"""Tensor parallelism: modules whose parameters lie over several processes, as `torch.distributed.tensor.parallel`.

>>> import flambeau
>>> import flambeau.distributed as dist
>>> from flambeau import nn
>>> from flambeau.distributed.tensor import init_device_mesh
>>> from flambeau.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
>>> dist.init_process_group("fake", rank=0, world_size=2)
>>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
>>> plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
>>> net = parallelize_module(net, init_device_mesh("cpu", (2,)), plan)
>>> net[0].weight.to_local().shape, net(flambeau.ones(3, 4)).shape
(flambeau.Size([4, 4]), flambeau.Size([3, 4]))
>>> dist.destroy_process_group()
"""

from ...._compat.absent import refusing as _refusing
from .api import parallelize_module
from .loss import loss_parallel
from .style import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
    "loss_parallel",
    "parallelize_module",
]
__getattr__ = _refusing("distributed.tensor.parallel")
