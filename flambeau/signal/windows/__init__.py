"""Window functions, as `torch.signal.windows` names them."""

from ...operations.declare.registry import published

globals().update(published("signal.windows."))
__all__ = sorted(published("signal.windows."))
