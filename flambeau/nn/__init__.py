"""Neural networks: modules, the functions they are made of, initial values and tools for parameters."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from . import functional, init, modules, utils
from .modules import *
from .modules import __all__ as _modules_all
from .parameter import Buffer, Parameter


def __getattr__(name: str) -> Any:
    """`nn.attention`, imported when it is first asked for."""
    if name == "attention":
        return import_module(".attention", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [*_modules_all, "Buffer", "Parameter", "functional", "init", "modules", "utils"]
