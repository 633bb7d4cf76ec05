"""What calls are given is looked at before anything is sent: tensors, lists of them, and who is meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base.formats import strided
from ..core.base.tensor import TensorBase
from ._async_tensor import AsyncCollectiveTensor
from ._process_group import ProcessGroup


def _tensor(call: str, name: str, value: Any) -> Tensor:
    """A tensor as it is sent: without history, where some backend takes it."""
    if not isinstance(value, TensorBase):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n             but got {type(value)} instead."
        )
    if isinstance(value, AsyncCollectiveTensor):
        value = value.trigger_wait()
    if value.device.type not in ("cpu", "cuda"):
        raise RuntimeError(
            f"{call}(): No backend type associated with device type {value.device.type}: `{name}` must be on the CPU, or on a CUDA device"
        )
    if value.layout is not strided:
        raise ValueError(f"{call}(): `{name}` must be strided, not {value.layout}")
    if value.data_ptr() == 0 and value.numel():
        raise TypeError(
            f"{call}(): `{name}` is a {type(value).__name__} without elements of its own; give the tensor that it is made of"
        )
    return value.detach()  # type: ignore[return-value]


def _tensors(call: str, name: str, values: Any, count: int | None = None) -> list[Tensor]:
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, TensorBase) for value in values):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n             but got {type(values)} "
            f"with elements of type {[type(v) for v in values] if isinstance(values, (list, tuple)) else None}."
        )
    if count is not None and len(values) != count:
        raise ValueError(
            f"{call}(): `{name}` must have a tensor for each of the group's {count} ranks, got {len(values)}"
        )
    return [_tensor(call, name, value) for value in values]


def _same_dtype(call: str, *tensors: Tensor) -> None:
    for tensor in tensors:
        if tensor.dtype is not tensors[0].dtype:
            raise ValueError(
                f"{call}(): Invalid usage of tensors with different dtypes: Found {tensors[0].dtype} and  {tensor.dtype}"
            )


def _same_numel(call: str, name: str, tensors: Sequence[Tensor], like: Tensor) -> None:
    for k, tensor in enumerate(tensors):
        if tensor.numel() != like.numel():
            raise ValueError(
                f"{call}(): Tensor sizes must match: {name}[{k}] has shape {list(tensor.shape)}, the other {list(like.shape)}"
            )


def _root(
    call: str,
    name: str,
    group: ProcessGroup,
    rank: int | None,
    group_rank: int | None,
    default: int | None = None,
) -> int:
    """The rank in the group of the process that an argument names by its rank among all, or by that in the group."""
    if group_rank is not None:
        if rank is not None:
            raise ValueError(f"{call}(): can't specify both group_{name} and {name}")
        if not 0 <= group_rank < group._size:
            raise ValueError(f"Group rank {group_rank} is not part of group {group}")
        return group_rank
    if rank is None:
        if default is None:
            raise ValueError(f"{call}(): {name} or group_{name} is needed")
        rank = default
    if rank not in group._ranks:
        raise ValueError(f"Global rank {rank} is not part of group {group}")
    return group._ranks.index(rank)
