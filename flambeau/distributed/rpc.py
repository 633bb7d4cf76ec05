"""Calls of functions in other processes, which are absent: a true answer to the question whether they are there."""

from __future__ import annotations

from .._compat.absent import refusing

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether functions can be called in other processes: False.

    >>> from flambeau.distributed import rpc
    >>> rpc.is_available()
    False
    """
    return False


__getattr__ = refusing("distributed.rpc")
