"""Collectives that gradients pass through."""

from importlib import import_module as _import_module
from typing import Any as _Any

from ..._compat.absent import refusing as _refusing
from . import functional
from .functional import (
    all_gather,
    all_reduce,
    all_to_all,
    all_to_all_single,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
)

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "functional",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]
_absent_name = _refusing("distributed.nn")


def __getattr__(name: str) -> _Any:
    if name == "api":
        return _import_module(f"{__name__}.api")
    return (
        _import_module(f"{__name__}.api.remote_module").RemoteModule
        if name == "RemoteModule"
        else _absent_name(name)
    )
