"""The classes of operations that programs have added, under PyTorch's names."""

from __future__ import annotations

from . import ops
from .library._operators import OpOverload
from .library._packets import OpNamespace as _OpNamespace
from .library._packets import OpOverloadPacket

__all__ = ["OpOverload", "OpOverloadPacket", "_OpNamespace", "ops"]
