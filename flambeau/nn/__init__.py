"""Neural networks: modules, the functions they are made of, initial values and tools for parameters."""

from __future__ import annotations

from . import functional, init, modules, utils
from .modules import *
from .modules import __all__ as _modules_all
from .parameter import Buffer, Parameter

__all__ = [*_modules_all, "Buffer", "Parameter", "functional", "init", "modules", "utils"]
