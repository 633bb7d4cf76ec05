"""What programs use of a launcher that starts processes anew: errors of processes, and metrics.

The launcher is `distributed.run`; `distributed.launcher` calls it from Python.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any as _Any

from ..._compat.absent import refusing as _refusing

__all__ = ["metrics", "multiprocessing"]
_absent_name = _refusing("distributed.elastic")


def __getattr__(name: str) -> _Any:
    return _import_module(f"{__package__}.{name}") if name in __all__ else _absent_name(name)
