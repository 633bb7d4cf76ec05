"""MIOpen: AMD's library of convolutions, which nothing here uses.  `immediate` is kept as programs set it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ._switched import during

__all__ = ["flags", "set_flags"]

immediate = False


def set_flags(_immediate: bool) -> tuple[bool]:
    """Sets the switch; returns it as it was.

    Raises:
        TypeError: an argument that it does not know is given

    >>> import flambeau
    >>> flambeau.backends.miopen.set_flags(False)
    (False,)
    """
    global immediate
    before, immediate = immediate, bool(_immediate)
    return (before,)


@contextmanager
def flags(immediate: bool = False) -> Iterator[None]:
    """A context in which the switch is so.

    Raises:
        TypeError: an argument that it does not know is given

    >>> import flambeau
    >>> with flambeau.backends.miopen.flags(immediate=True):
    ...     flambeau.backends.miopen.immediate
    True
    """
    with during(globals(), immediate=bool(immediate)):
        yield
