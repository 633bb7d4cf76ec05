"""What libraries take from `torch._utils`: how tensors in files are made again, sizes of elements, indices of devices, flat tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ._tensor import Tensor
from .accelerator import current_accelerator, current_device_index, device_count
from .core.base.dtypes import device as Device
from .core.base.dtypes import dtype as Dtype
from .core.base.lazily import lazily
from .operations.moving.joining import cat

__all__ = [
    "_element_size",
    "_flatten_dense_tensors",
    "_get_all_device_indices",
    "_get_available_device_type",
    "_get_current_device_index",
    "_get_device_index",
    "_reorder_tensors_as",
    "_take_tensors",
    "_unflatten_dense_tensors",
]

_REBUILDING = (
    "_rebuild_device_tensor_from_cpu_tensor",
    "_rebuild_meta_tensor_no_storage",
    "_rebuild_nested_tensor",
    "_rebuild_parameter",
    "_rebuild_parameter_with_state",
    "_rebuild_sparse_tensor",
    "_rebuild_tensor",
    "_rebuild_tensor_v2",
    "_rebuild_tensor_v3",
)

__getattr__, __dir__ = lazily(
    __name__,
    names={
        **dict.fromkeys(_REBUILDING, "._files.rebuilding"),
        "ExceptionWrapper": ".utils.data._utils.errors",
    },
)


def _element_size(dtype: Dtype) -> int:
    """Bytes of one element of a dtype.  RuntimeError for what is no dtype.

    >>> import flambeau
    >>> flambeau._utils._element_size(flambeau.bfloat16)
    2
    """
    if not isinstance(dtype, Dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


def _get_available_device_type() -> str | None:
    """The type of the accelerator there is, None without one."""
    accelerator = current_accelerator(check_available=True)
    return None if accelerator is None else accelerator.type


def _get_all_device_indices() -> list[int]:
    """The numbers of the accelerators there are.

    >>> import flambeau
    >>> flambeau._utils._get_all_device_indices() == list(range(flambeau.accelerator.device_count()))
    True
    """
    return list(range(device_count()))


def _get_current_device_index() -> int:
    """The number of the current accelerator; -1 without one."""
    return current_device_index() if _get_available_device_type() is not None else -1


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a device given as a number, a name or a device; -1 for the CPU where that is allowed.

    ValueError for the CPU otherwise, and for a device without a number unless `optional`, which takes the current one's.

    >>> import flambeau
    >>> flambeau._utils._get_device_index("cuda:1"), flambeau._utils._get_device_index("cpu", allow_cpu=True)
    (1, -1)
    """
    given = Device(device) if isinstance(device, str) else device
    index = None
    if isinstance(given, Device):
        if given.type == "cpu" and not allow_cpu:
            raise ValueError(f"Expected a non cpu device, but got: {given}")
        index = -1 if given.type == "cpu" else given.index
    elif isinstance(given, int):
        index = given
    if index is None:
        if not optional:
            raise ValueError(f"Expected a device with a specified index or an integer, but got:{device}")
        index = _get_current_device_index()
    return index


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of tensors of one dtype, one after another.

    >>> import flambeau
    >>> flambeau._utils._flatten_dense_tensors([flambeau.ones(1, 2), flambeau.zeros(1)])
    tensor([1., 1., 0.])
    """
    return cat([tensor.reshape(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of a flat tensor in the shapes of others, in their order."""
    parts, start = [], 0
    for tensor in tensors:
        parts.append(flat[start : start + tensor.numel()].view(tensor.shape))
        start += tensor.numel()
    return tuple(parts)


def _take_tensors(tensors: Sequence[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Lists of tensors of one type each, of at most `size_limit` bytes where no tensor alone has more."""
    lists: dict[str, list[Tensor]] = {}
    sizes: dict[str, int] = {}
    for tensor in tensors:
        kind, size = tensor.type(), tensor.numel() * tensor.element_size()
        if sizes.get(kind, 0) + size > size_limit and sizes.get(kind, 0) > 0:
            yield lists.pop(kind)
            sizes[kind] = 0
        lists.setdefault(kind, []).append(tensor)
        sizes[kind] = sizes.get(kind, 0) + size
    yield from (result for result in lists.values() if result)


def _reorder_tensors_as(tensors: Sequence[Tensor], ordered_tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Tensors of several types in the order in which those types follow one another in other tensors."""
    by_type: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        by_type.setdefault(tensor.type(), []).append(tensor)
    left = {kind: iter(result) for kind, result in by_type.items()}
    return tuple(next(left[tensor.type()]) for tensor in ordered_tensors)
