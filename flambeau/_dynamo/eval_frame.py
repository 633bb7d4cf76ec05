"""Where PyTorch keeps the module that `compile` returns."""

from __future__ import annotations

from ..compiler import OptimizedModule

__all__ = ["OptimizedModule"]
