"""Window functions, as `torch.signal.windows` names them."""

from ...operations.declare.registry import published as _published

globals().update(_published("signal.windows."))
__all__ = sorted(_published("signal.windows."))
