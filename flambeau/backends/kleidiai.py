"""KleidiAI: Arm's library, which nothing here uses."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """False.

    >>> import flambeau
    >>> flambeau.backends.kleidiai.is_available()
    False
    """
    return False
