"""OpenMP: threads are those of our own pool."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """False.

    >>> import flambeau
    >>> flambeau.backends.openmp.is_available()
    False
    """
    return False
