"""Special functions, as `torch.special` names them."""

from ..ops.registry import published

globals().update(published("special."))
__all__ = sorted(published("special."))
