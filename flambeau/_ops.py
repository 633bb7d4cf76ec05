"""The classes of operations that programs have added, under PyTorch's names."""

from __future__ import annotations

from abc import ABCMeta

from . import ops
from ._compat.absent import refusing
from .core.call.operation import Op
from .library._operators import OpOverload
from .library._packets import OpNamespace as _OpNamespace
from .library._packets import OpOverloadPacket

__all__ = ["OpOverload", "OpOverloadPacket", "OperatorBase", "_OpNamespace", "ops"]


class OperatorBase(metaclass=ABCMeta):  # noqa: B024
    """What operations are, this library's own and those of programs: for `isinstance` and annotations.

    >>> import flambeau
    >>> isinstance(flambeau.ops.aten.mm.default, flambeau._ops.OperatorBase)
    True
    """


OperatorBase.register(OpOverload)
OperatorBase.register(Op)
__getattr__ = refusing("_ops")
