"""Signal processing, as `torch.signal` names it."""

from . import windows

__all__ = ["windows"]
