"""Neural networks: modules, the functions they are made of, initial values and tools for parameters."""

import typing as _typing

from ..core.base.lazily import lazily as _lazily
from . import functional, init, modules, utils
from .modules import __all__ as _names
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

if _typing.TYPE_CHECKING:
    from .modules import *
    from .parallel import DataParallel

_now = {name: value for name, value in vars(modules).items() if name in _names}
globals().update(_now)

# What few programs use is imported when it is requested.
__getattr__, __dir__ = _lazily(
    __name__,
    submodules=("attention", "common_types", "grad", "parallel", "quantized"),
    names={**{name: ".modules" for name in _names if name not in _now}, "DataParallel": ".parallel"},
)

__all__ = [
    *_names,
    "Buffer",
    "DataParallel",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "functional",
    "init",
    "modules",
    "utils",
]
