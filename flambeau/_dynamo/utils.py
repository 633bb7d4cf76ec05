"""Questions about the compiler of graphs."""

from __future__ import annotations

from .._compat.absent import refusing

__all__ = ["is_compile_supported"]


def is_compile_supported(device_type: str) -> bool:
    """Whether graphs are compiled for a type of device: False.

    >>> is_compile_supported("cpu")
    False
    """
    return False


__getattr__ = refusing("_dynamo.utils")
