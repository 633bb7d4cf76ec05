"""Functions of neural networks: what the registry declares at `nn.functional`."""

from __future__ import annotations

from ..operations.declare.registry import published
from ..operations.linalg.scaled import ScalingType, SwizzleType

globals().update(published("nn.functional."))
__all__ = sorted([*published("nn.functional."), ScalingType.__name__, SwizzleType.__name__])
