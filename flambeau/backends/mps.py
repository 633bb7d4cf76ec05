"""Apple's graphics processors, which have no driver here."""

from __future__ import annotations

__all__ = [
    "get_core_count",
    "get_name",
    "is_available",
    "is_built",
    "is_macos13_or_newer",
    "is_macos_or_newer",
]


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


def is_macos13_or_newer(minor: int = 0) -> bool:
    """False: there is no such device to ask about.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.backends.mps.is_macos13_or_newer()
    False
    """
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """False: there is no such device to ask about.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.backends.mps.is_macos_or_newer(14, 0)
    False
    """
    return False


def get_name() -> str:
    """RuntimeError: there is no such device.

    >>> import flambeau
    >>> flambeau.backends.mps.get_name()
    Traceback (most recent call last):
        ...
    RuntimeError: backends.mps.get_name(): there is no such device here
    """
    raise RuntimeError("backends.mps.get_name(): there is no such device here")


def get_core_count() -> int:
    """RuntimeError: there is no such device.

    >>> import flambeau
    >>> flambeau.backends.mps.get_core_count()
    Traceback (most recent call last):
        ...
    RuntimeError: backends.mps.get_core_count(): there is no such device here
    """
    raise RuntimeError("backends.mps.get_core_count(): there is no such device here")
