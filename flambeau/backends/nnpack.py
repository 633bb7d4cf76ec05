"""NNPACK: convolutions are our own.  Its switch is kept, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ._switched import during

__all__ = ["flags", "is_available", "set_flags"]

_state = {"enabled": True}


def is_available() -> bool:
    """False.

    >>> import flambeau
    >>> flambeau.backends.nnpack.is_available()
    False
    """
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Sets the switch; returns it as it was.

    Raises:
        TypeError: an argument that it does not know is given

    >>> import flambeau
    >>> flambeau.backends.nnpack.set_flags(True)
    (True,)
    """
    before = _state["enabled"]
    _state["enabled"] = bool(_enabled)
    return (before,)


@contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """A context in which the switch is so.

    Raises:
        TypeError: an argument that it does not know is given

    >>> import flambeau
    >>> with flambeau.backends.nnpack.flags(False):
    ...     flambeau.backends.nnpack.set_flags(False)
    (False,)
    """
    with during(_state, enabled=bool(enabled)):
        yield
