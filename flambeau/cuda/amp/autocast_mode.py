"""`autocast("cuda")`, `custom_fwd` and `custom_bwd` for it, by their old names."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ...amp import autocast_mode as _amp
from ...core.base import display
from ...core.base.dtypes import by_name, dtype

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


def _deprecated(old: str, new: str) -> None:
    warnings.warn(
        f"`{display.NAME}.cuda.amp.{old}(args...)` is deprecated. Please use `{display.NAME}.amp.{new}` instead.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(_amp.autocast):
    """`autocast("cuda", …)`; deprecated.

    Raises:
        TypeError: an argument that it does not know is given

    >>> import flambeau, warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     _ = flambeau.cuda.amp.autocast(enabled=False)
    >>> len(caught) > 0
    True
    """

    def __init__(
        self, enabled: bool = True, dtype: dtype = by_name["float16"], cache_enabled: bool = True
    ) -> None:
        _deprecated("autocast", "autocast('cuda', args...)")
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


def custom_fwd(fwd: Callable | None = None, *, cast_inputs: dtype | None = None) -> Callable:
    """`amp.custom_fwd` for "cuda"; deprecated.

    Raises:
        AttributeError: the decorated function is called, and its first argument is no context

    >>> import flambeau
    >>> flambeau.cuda.amp.custom_fwd(lambda ctx, x: x).__name__
    '<lambda>'
    """
    _deprecated("custom_fwd", "custom_fwd(args..., device_type='cuda')")
    return _amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable) -> Callable:
    """`amp.custom_bwd` for "cuda"; deprecated.

    Raises:
        TypeError: the function that is decorated cannot be called, as soon as it is

    >>> import flambeau
    >>> flambeau.cuda.amp.custom_bwd(lambda ctx, grad: grad).__name__
    '<lambda>'
    """
    _deprecated("custom_bwd", "custom_bwd(args..., device_type='cuda')")
    return _amp.custom_bwd(bwd, device_type="cuda")


def _cast(value: Any, dtype: dtype) -> Any:
    """`amp.autocast_mode._cast` for "cuda"; deprecated."""
    _deprecated("autocast_mode._cast", "autocast_mode._cast(value, 'cuda', dtype)")
    return _amp._cast(value, "cuda", dtype)
