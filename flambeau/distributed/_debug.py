"""How much is checked between processes: TORCH_DISTRIBUTED_DEBUG, or what a program sets."""

from __future__ import annotations

import os
from enum import IntEnum


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
