"""What a room below calls and a room above defines: a function under a name, provided when the room above is imported.

No room imports one above it; where a lower one needs something of a higher one after all (a loop of the core that on a
device is a kernel, the text of a tensor), it calls `provided[name]`.  What few programs call is imported by its first call.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

_providers: dict[str, str] = {}  # of functions whose modules are not imported yet


class _Provided(dict[str, Callable[..., Any]]):
    def __missing__(self, name: str) -> Callable[..., Any]:
        import_module(_providers[name])
        return self[name]


provided = _Provided()


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


def provided_by(module: str, *names: str) -> None:
    """Say which module provides functions, so that it is imported when one of them is first called."""
    _providers.update(dict.fromkeys(names, module))
