"""Linear algebra, as `torch.linalg` names it."""

from ..operations.declare.registry import published

globals().update(published("linalg."))
__all__ = sorted(published("linalg."))
