"""Where PyTorch keeps `LinearCrossEntropyOptions`."""

from __future__ import annotations

from .linear_cross_entropy import LinearCrossEntropyOptions

__all__ = ["LinearCrossEntropyOptions"]
