"""What processes do together beside collectives: training on uneven inputs, ways of averaging gradients and parameters."""

from importlib import import_module as _import_module
from typing import Any as _Any

from ..._compat.absent import refusing as _refusing

_absent_name = _refusing("distributed.algorithms")


def __getattr__(name: str) -> _Any:
    if name in ("ddp_comm_hooks", "join", "model_averaging"):  # loaded when they are first used
        return _import_module(f"{__package__}.{name}")
    return _absent_name(name)
