"""Tensors over several processes, and what is computed on them, as `torch.distributed.tensor`.

>>> import flambeau
>>> import flambeau.distributed as dist
>>> from flambeau.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
>>> dist.init_process_group("fake", rank=0, world_size=4)
>>> mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
>>> weight = distribute_tensor(flambeau.ones(6, 8), mesh, [Replicate(), Shard(1)])
>>> weight.shape, weight.to_local().shape
(flambeau.Size([6, 8]), flambeau.Size([6, 4]))
>>> dist.destroy_process_group()

`docs/distributed_tensors.md` tells which operations run, and how their results lie.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from ..._compat.absent import refusing as _refusing
from .. import _norms as _norms  # which gradients are clipped by
from ..device_mesh import DeviceMesh as DeviceMesh
from ..device_mesh import init_device_mesh as init_device_mesh
from ._api import DTensor, distribute_module, distribute_tensor, empty, full, ones, rand, randn, zeros
from .placement_types import Partial, Placement, Replicate, Shard

__all__ = [
    "DTensor",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "ones",
    "rand",
    "randn",
    "zeros",
]

_absent_name = _refusing("distributed.tensor")
_SUBMODULES = ("debug", "experimental", "parallel")


def __getattr__(name: str) -> _Any:
    return _import_module(f"{__name__}.{name}") if name in _SUBMODULES else _absent_name(name)
