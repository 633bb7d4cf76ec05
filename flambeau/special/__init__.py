"""Special functions, as `torch.special` names them."""

from ..operations.declare.registry import published as _published

globals().update(_published("special."))
__all__ = sorted(_published("special."))
