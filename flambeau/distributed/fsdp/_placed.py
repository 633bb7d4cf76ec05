"""Sharded parameters that are DTensors."""

from __future__ import annotations

from typing import Any

from ..._tensor import Tensor
from ...autograd import enable_grad
from ...nn.parameter import Parameter
from ..tensor import DTensor, Replicate, Shard
from ..tensor._dtensor_spec import DTensorSpec, TensorMeta
from ._bucket import Sharded, Slot


class Placed(Sharded):
    """A parameter's shard as a DTensor on a mesh, cut along the region's dimension over the mesh's last one."""

    def __init__(self, mesh: Any) -> None:
        self.mesh = mesh

    def _spec(self, slot: Slot, local: Tensor) -> DTensorSpec:
        if slot.specs is not None:
            both = slot.specs[0]
            meta = TensorMeta(both.shape, both.stride, local.dtype)
            return DTensorSpec(both.mesh, both.placements, meta)
        shape = slot.region.shape
        strides, step = [], 1
        for size in reversed(shape):
            strides.append(step)
            step *= max(size, 1)
        placements = (*[Replicate()] * (self.mesh.ndim - 1), Shard(slot.region.dim))
        return DTensorSpec(self.mesh, placements, TensorMeta(shape, tuple(reversed(strides)), local.dtype))

    def make(self, slot: Slot, local: Tensor) -> Any:
        """A parameter over a view of the process's row."""
        original, slot.original = slot.original, None
        made = Parameter(DTensor(local, self._spec(slot, local)), requires_grad=original.requires_grad)
        for name, value in slot.extra.items():
            if not hasattr(made, name):
                setattr(made, name, value)
        return made

    def unsharded(self, slot: Slot) -> Any:
        """The gathered leaf; of a parameter that is a DTensor without FSDP a DTensor over it, whose gradient goes to the leaf."""
        if slot.specs is None:
            return slot.unsharded
        spec = slot.specs[1]
        with enable_grad():
            return DTensor.from_local(
                slot.unsharded, spec.mesh, spec.placements, shape=spec.shape, stride=spec.stride
            )

    def local(self, parameter: Any) -> Tensor:
        """The tensor of this process."""
        return parameter._local_tensor

    def set_local(self, slot: Slot, local: Tensor) -> None:
        """Let the parameter lie there."""
        before = slot.sharded
        grad = before.grad
        before._local_tensor, before._spec = local, self._spec(slot, local)
        if grad is not None and grad.dtype is not local.dtype:
            before.grad = None

    def gradient(self, slot: Slot, local: Tensor) -> Any:
        """A gradient from this process's piece."""
        return DTensor(local, self._spec(slot, local))

    def local_gradient(self, grad: Any) -> Tensor:
        """The tensor of this process in a gradient, or in a state of an optimiser."""
        return grad._local_tensor if isinstance(grad, DTensor) else grad
