"""Arguments that name a device."""

from __future__ import annotations

from ..core.base import device as _devices
from ..core.base.dtypes import device as _device
from ..devices.cuda import Cuda


def index_of(device: object) -> int | None:
    """The index in an argument that names a device of this kind: None where it names the current one."""
    if device is None or isinstance(device, int):
        return device
    result = device if isinstance(device, _device) else _device(device)  # type: ignore[call-overload]
    if result.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {result}")
    return result.index


def find(device: object) -> Cuda:
    """The device that the argument names, opened now if this is its first use."""
    return _devices.find_device("cuda", index_of(device))
