"""Where PyTorch keeps `GraphModule`."""

from __future__ import annotations

from .._absent import refusing, unmakeable
from ..nn.modules.module import Module
from . import GraphModule

__all__ = ["GraphModule"]

_CodeOnlyModule = unmakeable("fx.graph_module._CodeOnlyModule", (Module,))
__getattr__ = refusing("fx.graph_module")
