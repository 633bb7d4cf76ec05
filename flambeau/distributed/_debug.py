"""How much is checked between processes: TORCH_DISTRIBUTED_DEBUG, or what a program sets."""

from __future__ import annotations

import os
from collections.abc import Iterable
from enum import IntEnum
from typing import Any

from ..core.base.tensor import TensorBase


class DebugLevel(IntEnum):
    """How much is checked: with DETAIL, that all processes call the same collective with the same shapes.

    >>> import flambeau.distributed as dist
    >>> dist.DebugLevel.DETAIL > dist.DebugLevel.OFF
    True
    """

    OFF = 0
    INFO = 1
    DETAIL = 2


def _of_environment() -> DebugLevel:
    name = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if name not in DebugLevel.__members__:
        raise RuntimeError(
            f"The value of TORCH_DISTRIBUTED_DEBUG must be one of {', '.join(DebugLevel.__members__)}, not {name!r}"
        )
    return DebugLevel[name]


_level: DebugLevel | None = None


def get_debug_level() -> DebugLevel:
    """How much is checked.

    Raises:
        RuntimeError: TORCH_DISTRIBUTED_DEBUG is no level

    >>> import flambeau.distributed as dist
    >>> dist.get_debug_level().name
    'OFF'
    """
    global _level
    if _level is None:
        _level = _of_environment()
    return _level


def set_debug_level(level: DebugLevel) -> None:
    """Check that much from now on; all processes must do the same.  ValueError for what is no level.

    >>> import flambeau.distributed as dist
    >>> dist.set_debug_level(dist.DebugLevel.OFF)
    """
    global _level
    _level = DebugLevel(level)


def set_debug_level_from_env() -> None:
    """Check what TORCH_DISTRIBUTED_DEBUG says now.

    Raises:
        RuntimeError: it is no level

    >>> import flambeau.distributed as dist
    >>> dist.set_debug_level_from_env()
    """
    global _level
    _level = _of_environment()


_checked: bool | None = None


def _checks_numbers() -> bool:
    global _checked
    if _checked is None:
        _checked = os.environ.get("TORCH_NCCL_NAN_CHECK", "0").lower() in ("1", "true", "y", "yes")
    return _checked


def check_numbers(name: str, rank: int, tensors: Iterable[Any]) -> None:
    """With TORCH_NCCL_NAN_CHECK=1: RuntimeError where a tensor that is to be sent has a NaN, which would soon be everywhere."""
    if not _checks_numbers():
        return
    for tensor in tensors:
        if isinstance(tensor, (list, tuple)):
            check_numbers(name, rank, tensor)
        elif isinstance(tensor, TensorBase) and (tensor.is_floating_point() or tensor.is_complex()):
            if tensor.isnan().any():
                raise RuntimeError(
                    f"{name} on rank {rank}: NaN found in input tensor of shape {list(tensor.shape)} and {tensor.dtype}"
                )
