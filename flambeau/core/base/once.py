"""Warnings that are said once in a process, or at every call where the program asks for that."""

from __future__ import annotations

import warnings

_said: set[str] = set()
_always = False


def set_warn_always(b: bool) -> None:
    """Lets warnings that are said once, as that of typed storages, be said at every call, or no longer.

    RuntimeError unless it is a bool.

    >>> import flambeau
    >>> flambeau.set_warn_always(True)
    >>> flambeau.is_warn_always_enabled()
    True
    >>> flambeau.set_warn_always(False)
    """
    global _always
    if not isinstance(b, bool):
        raise RuntimeError(f"set_warn_always(): setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _always = b


def is_warn_always_enabled() -> bool:
    """Whether such warnings are said at every call; False at first.

    >>> import flambeau
    >>> flambeau.is_warn_always_enabled()
    False
    """
    return _always


def warn_once(message: str, category: type[Warning] = UserWarning, stacklevel: int = 2) -> None:
    """Say it, unless it was said before in this process."""
    if _always or message not in _said:
        _said.add(message)
        warnings.warn(message, category, stacklevel=stacklevel + 1)
