"""Whether operations on tensors are being traced: none are."""

from __future__ import annotations

from ..._absent import refusing

__all__ = ["get_innermost_proxy_mode", "get_proxy_mode"]


def get_proxy_mode() -> None:
    """The mode that traces operations: None.

    >>> from flambeau.fx.experimental.proxy_tensor import get_proxy_mode
    >>> get_proxy_mode() is None
    True
    """
    return None


get_innermost_proxy_mode = get_proxy_mode
__getattr__ = refusing("fx.experimental.proxy_tensor")
