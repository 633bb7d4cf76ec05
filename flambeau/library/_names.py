"""What is public in `flambeau.library`."""

from __future__ import annotations

import types

from ..core.base import display
from . import _targets  # noqa: F401  by it code of graphs finds operations
from ._checking import opcheck
from ._definitions import (
    CustomOpDef,
    custom_op,
    get_kernel,
    impl_abstract,
    register_autocast,
    register_autograd,
    register_fake,
    register_kernel,
    register_torch_dispatch,
    register_vmap,
    triton_op,
    wrap_triton,
)
from ._fakes import get_ctx
from ._inference import infer_schema
from ._libraries import Library, define, fallthrough_kernel, impl

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "get_kernel",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
    "triton_op",
    "wrap_triton",
]

for _name in __all__:
    if isinstance(_function := globals()[_name], types.FunctionType):
        _function.__module__ = display.public("library")
