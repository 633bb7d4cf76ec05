"""oneDNN: convolutions are our own."""

from __future__ import annotations


def is_available() -> bool:
    """False.

    >>> import flambeau
    >>> flambeau.backends.mkldnn.is_available()
    False
    """
    return False
