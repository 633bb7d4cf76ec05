"""DLPack capsules: tensors of other libraries without a copy (https://dmlc.github.io/dlpack/latest/)."""

from __future__ import annotations

from typing import Any

from ..core.make import bridge

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Any) -> Any:
    """A capsule over the tensor's memory, which another library takes once.

    RuntimeError for tensors that require a gradient.

    >>> import flambeau
    >>> from flambeau.utils.dlpack import from_dlpack, to_dlpack
    >>> from_dlpack(to_dlpack(flambeau.tensor([1, 2])))
    tensor([1, 2])
    """
    return tensor.__dlpack__()


def from_dlpack(ext_tensor: Any) -> Any:
    """A tensor over the memory of a capsule, or of anything that has `__dlpack__`."""
    return bridge.from_dlpack(ext_tensor)
