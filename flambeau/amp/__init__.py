"""Mixed precision: operations that may compute in a half type do so, those that should not stay in float32.

`autocast` chooses the dtype of each operation, `GradScaler` keeps small gradients of float16 from becoming 0.
"""

from .autocast_mode import (
    _enter_autocast as _enter_autocast,
)
from .autocast_mode import (
    _exit_autocast as _exit_autocast,
)
from .autocast_mode import (
    autocast,
    custom_bwd,
    custom_fwd,
    is_autocast_available,
)
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
