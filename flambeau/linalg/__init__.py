"""Linear algebra, as `torch.linalg` names it."""

from ..ops.registry import published

globals().update(published("linalg."))
__all__ = sorted(published("linalg."))
