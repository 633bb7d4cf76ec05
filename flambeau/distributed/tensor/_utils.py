"""Shapes of pieces and of wholes, as `torch.distributed.tensor._utils`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..device_mesh import DeviceMesh
from ._dtensor_spec import DTensorSpec, TensorMeta, dense_strides, normalized
from .placement_types import Placement

__all__ = [
    "compute_global_tensor_info",
    "compute_local_shape_and_global_offset",
    "compute_local_stride",
]


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of this process's piece, and the index in the whole at which it begins; (0,) and () outside of the mesh.

    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.device_mesh import init_device_mesh
    >>> from flambeau.distributed.tensor import Shard
    >>> from flambeau.distributed.tensor._utils import compute_local_shape_and_global_offset
    >>> dist.init_process_group("fake", rank=2, world_size=4)
    >>> compute_local_shape_and_global_offset((5, 3), init_device_mesh("cpu", (4,)), [Shard(0)])
    ((1, 3), (4, 0))
    >>> dist.destroy_process_group()
    """
    shape = tuple(global_shape)
    if mesh.get_coordinate() is None:
        return (0,), ()
    call = "compute_local_shape_and_global_offset"
    result = normalized(placements, mesh, len(shape), call)
    spec = DTensorSpec(mesh, result, TensorMeta(shape, dense_strides(shape, range(len(shape), 0, -1)), None))
    cuts = [spec.cut(dim) for dim in range(len(shape))]
    return tuple(size for size, _ in cuts), tuple(begin for _, begin in cuts)


def compute_global_tensor_info(
    tensor: Any, mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[list[int], list[int]]:
    """Shape and strides of the whole where every process has a piece of that shape."""
    shape = list(tensor.shape)
    spec = DTensorSpec(mesh, placements, TensorMeta(tuple(shape), tuple(tensor.stride()), tensor.dtype))
    for dim, order in spec.orders.items():
        for k in order:
            shape[dim] *= mesh.size(k)
    local = tensor.stride()
    dense = tuple(local) == dense_strides(tensor.shape, local)
    return shape, list(dense_strides(shape, local) if dense or spec.orders else local)


def compute_local_stride(
    global_stride: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[int, ...]:
    """The strides of a piece where all processes' pieces are of one shape and lie as the whole does."""
    spec = DTensorSpec(mesh, placements, TensorMeta((1,) * len(global_stride), tuple(global_stride), None))
    result = list(global_stride)
    for dim, order in spec.orders.items():
        for other, step in enumerate(global_stride):
            for k in order:
                if step > global_stride[dim]:
                    result[other] //= mesh.size(k)
    return tuple(result)
