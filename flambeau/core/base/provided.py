"""What a room below calls and a room above defines: a function under a name, provided when the room above is imported.

No room imports one above it; where a lower one needs something of a higher one after all (a loop of the core that on a
device is a kernel, the text of a tensor), it calls `provided[name]`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

provided: dict[str, Callable[..., Any]] = {}


def provide(name: str, function: Callable[..., Any]) -> None:
    """Define what lower rooms call by that name; ValueError for a name that is provided already.

    >>> from flambeau.core.base.provided import provide, provided
    >>> provide("length of a text", len)
    >>> provided.pop("length of a text")("abc")
    3
    """
    if name in provided:
        raise ValueError(f"{name} is provided twice")
    provided[name] = function
