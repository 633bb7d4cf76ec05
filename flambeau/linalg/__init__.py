"""Linear algebra, as `torch.linalg` names it."""

from ..operations.declare.registry import published as _published

globals().update(_published("linalg."))
__all__ = sorted(_published("linalg."))
