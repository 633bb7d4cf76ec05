"""OpenMP: threads are those of our own pool."""

from __future__ import annotations


def is_available() -> bool:
    """False."""
    return False
