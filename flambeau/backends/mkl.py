"""Intel's library of linear algebra, which serves where the user has installed it."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether products are MKL's.

    >>> import flambeau
    >>> flambeau.backends.mkl.is_available() in (True, False)
    True
    """
    from ..core.lib.products.blas import provider

    return provider()[0] == "mkl"
