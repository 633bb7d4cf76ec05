"""`GradScaler("cpu")` by its old name."""

from __future__ import annotations

import warnings

from ... import amp as _amp
from ...amp.grad_scaler import OptState
from ...core.base import display

__all__ = ["GradScaler", "OptState"]


class GradScaler(_amp.GradScaler):
    """`amp.GradScaler("cpu", …)`; deprecated.

    Raises:
        TypeError: `growth_factor` or `backoff_factor` is no number

    >>> import flambeau, warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     scaler = flambeau.cpu.amp.GradScaler(enabled=False)
    >>> scaler.is_enabled()
    False
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warnings.warn(
            f"`{display.NAME}.cpu.amp.GradScaler(args...)` is deprecated. Please use "
            f"`{display.NAME}.amp.GradScaler('cpu', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
