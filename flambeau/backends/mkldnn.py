"""oneDNN: convolutions are our own.  Its switches are kept as programs set them, and change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ._switched import Part, during, has_precision

__all__ = ["flags", "is_available", "set_flags"]

enabled = True
deterministic = False
allow_tf32 = True
conv, matmul, rnn = Part(), Part(), Part()


def is_available() -> bool:
    """False.

    >>> import flambeau
    >>> flambeau.backends.mkldnn.is_available()
    False
    """
    return False


def set_flags(
    _enabled: bool | None = None, _deterministic: bool | None = None, _allow_tf32: bool | None = None
) -> tuple[bool, bool, bool]:
    """Sets the switches that are not None; returns all three as they were.

    Raises:
        TypeError: an argument that it does not know is given

    >>> import flambeau
    >>> flambeau.backends.mkldnn.set_flags()
    (True, False, True)
    """
    before = enabled, deterministic, allow_tf32
    for name, value in (
        ("enabled", _enabled),
        ("deterministic", _deterministic),
        ("allow_tf32", _allow_tf32),
    ):
        if value is not None:
            globals()[name] = bool(value)
    return before


@contextmanager
def flags(enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True) -> Iterator[None]:
    """A context in which the switches are these.

    Raises:
        TypeError: an argument that it does not know is given

    >>> import flambeau
    >>> with flambeau.backends.mkldnn.flags(deterministic=True):
    ...     flambeau.backends.mkldnn.deterministic
    True
    """
    with during(globals(), enabled=enabled, deterministic=deterministic, allow_tf32=allow_tf32):
        yield


has_precision(__name__)
