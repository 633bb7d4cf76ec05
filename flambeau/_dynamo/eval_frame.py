"""Where PyTorch keeps the module that `compile` returns."""

from __future__ import annotations

from .._compat.absent import refusing
from ..compiler import OptimizedModule

__all__ = ["OptimizedModule"]

__getattr__ = refusing("_dynamo.eval_frame")
