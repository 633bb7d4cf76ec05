"""DTensors as FSDP needs them: slices of this process, and whole tensors of them."""

from __future__ import annotations

from typing import Any

from ...core.base.tensor import TensorBase


def is_sharded(value: Any) -> bool:
    """Whether a tensor is a DTensor; asks without loading `distributed.tensor`."""
    return hasattr(type(value), "full_tensor") and hasattr(type(value), "to_local")


def full_tensor_of(value: Any) -> Any:
    """The whole tensor of a DTensor, on every process; another tensor itself."""
    return value.full_tensor() if is_sharded(value) else value


def slice_dtensor(value: TensorBase, mesh: Any, group: Any) -> Any:
    """A DTensor of this process's slice, along the first dimension, of a tensor that every process has; whole where it has none."""
    from ..device_mesh import DeviceMesh
    from ..tensor import DTensor, Replicate, Shard

    if mesh is None:
        mesh = DeviceMesh.from_group(group, "cpu")
    if value.dim() == 0 or group._size == 1:
        return DTensor.from_local(value.clone(), mesh, [Replicate()] * mesh.ndim, run_check=False)
    rank, n, rows = group._rank, group._size, value.shape[0]
    chunk = -(-rows // n)
    begin = min(rank * chunk, rows)
    local = value.narrow(0, begin, min(chunk, rows - begin)).clone()
    placements = [Replicate()] * (mesh.ndim - 1) + [Shard(0)]
    return DTensor.from_local(
        local, mesh, placements, run_check=False, shape=value.shape, stride=value.contiguous().stride()
    )
