"""`autocast` and `GradScaler` for "cpu", by their old names."""

from .autocast_mode import autocast
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast"]
