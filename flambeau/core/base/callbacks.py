"""What a lower layer calls and a higher one defines: a function under a name, set when the higher one is imported.

No layer imports a higher one; where a lower one needs something of a higher one after all (a loop of the core that on a
device is a kernel, the text of a tensor), it calls `callbacks[name]`.  What few programs call is imported by its first call.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

_modules: dict[str, str] = {}  # of functions whose modules are not imported yet


class _Callbacks(dict[str, Callable[..., Any]]):
    def __missing__(self, name: str) -> Callable[..., Any]:
        import_module(_modules[name])
        return self[name]


callbacks = _Callbacks()


def set_callback(name: str, function: Callable[..., Any]) -> None:
    """Define what lower layers call by that name; ValueError for a name that is set already.

    >>> from flambeau.core.base.callbacks import set_callback, callbacks
    >>> set_callback("length of a text", len)
    >>> callbacks.pop("length of a text")("abc")
    3
    """
    if name in callbacks:
        raise ValueError(f"{name} is provided twice")
    callbacks[name] = function


def callbacks_in(module: str, *names: str) -> None:
    """Say which module sets callbacks, so that it is imported when one of them is first called."""
    _modules.update(dict.fromkeys(names, module))
