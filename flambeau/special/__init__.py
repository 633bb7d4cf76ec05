"""Special functions, as `torch.special` names them."""

from ..operations.declare.registry import published

globals().update(published("special."))
__all__ = sorted(published("special."))
