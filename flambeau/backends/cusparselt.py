"""cuSPARSELt: products with half of the elements left out, which nothing here makes."""

from __future__ import annotations

__all__ = ["get_max_alg_id", "is_available", "version"]


def is_available() -> bool:
    """False.

    >>> import flambeau
    >>> flambeau.backends.cusparselt.is_available()
    False
    """
    return False


def version() -> None:
    """None.

    >>> import flambeau
    >>> flambeau.backends.cusparselt.version() is None
    True
    """
    return None


def get_max_alg_id() -> None:
    """None.

    >>> import flambeau
    >>> flambeau.backends.cusparselt.get_max_alg_id() is None
    True
    """
    return None
