"""`autocast("cpu")` by its old name."""

from __future__ import annotations

import warnings

from ...amp import autocast_mode as _amp
from ...core.base import display
from ...core.base.dtypes import by_name, dtype

__all__ = ["autocast"]


class autocast(_amp.autocast):
    """`autocast("cpu", …)`; deprecated.

    Raises:
        TypeError: an argument that it does not know is given

    >>> import flambeau, warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     _ = flambeau.cpu.amp.autocast(enabled=False)
    >>> len(caught) > 0
    True
    """

    def __init__(
        self, enabled: bool = True, dtype: dtype = by_name["bfloat16"], cache_enabled: bool = True
    ) -> None:
        warnings.warn(
            f"`{display.NAME}.cpu.amp.autocast(args...)` is deprecated. Please use "
            f"`{display.NAME}.amp.autocast('cpu', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)
