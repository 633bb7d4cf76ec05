"""DLPack capsules: tensors of other libraries without a copy (https://dmlc.github.io/dlpack/latest/)."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from ..core.make.interchange import from_dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


class DLDeviceType(IntEnum):
    """The kinds of devices, as dlpack.h numbers them.

    >>> import flambeau
    >>> flambeau.ones(1).__dlpack_device__()[0] == DLDeviceType.kDLCPU
    True
    """

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


def to_dlpack(tensor: Any) -> Any:
    """A capsule over the tensor's memory, which another library takes once; its history stays here.

    BufferError for memory that cannot be shared: on `meta`, or read-only.

    >>> import flambeau
    >>> from flambeau.utils.dlpack import from_dlpack, to_dlpack
    >>> from_dlpack(to_dlpack(flambeau.tensor([1, 2])))
    tensor([1, 2])
    """
    return tensor.detach().__dlpack__()
