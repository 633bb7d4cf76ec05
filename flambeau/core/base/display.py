"""The name that the library shows: in reprs, in messages, and as the module of operations and public classes."""

from __future__ import annotations

NAME = "flambeau"


def public(what: str) -> str:
    """The dotted name under which users find it.

    >>> from flambeau.core.base.display import public
    >>> public("float32")
    'flambeau.float32'
    """
    return f"{NAME}.{what}"
