"""Apple's graphics processors, which have no driver here."""

from __future__ import annotations


def is_available() -> bool:
    """False.

    >>> import flambeau
    >>> flambeau.backends.mps.is_available()
    False
    """
    return False


def is_built() -> bool:
    """False.

    >>> import flambeau
    >>> flambeau.backends.mps.is_built()
    False
    """
    return False
