"""Modules of devices that nothing here drives: what they would do is an error that says so by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.base import display


def refusals(module: str, names: str, error: type[Exception]) -> dict[str, Any]:
    """For each name a function, or for a capital a class, whose every call raises `error`."""
    return {name: (_class if name[0].isupper() else _function)(module, name, error) for name in names.split()}


def _message(module: str, name: str) -> str:
    return f"{module}.{name}(): device '{module.partition('.')[0]}' is not available: this build of {display.NAME} has no support for it"


def _docstring(module: str, name: str, error: type[Exception]) -> str:
    return f"""Raises {error.__name__}: there is no such device here.

    >>> import {display.NAME}
    >>> {display.public(module)}.{name}()
    Traceback (most recent call last):
        ...
    {error.__name__}: {_message(module, name)}
    """


def _function(module: str, name: str, error: type[Exception]) -> Callable[..., Any]:
    def refuse(*args: Any, **options: Any) -> Any:
        raise error(_message(module, name))

    refuse.__module__ = display.public(module)
    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = _docstring(module, name, error)
    return refuse


def _class(module: str, name: str, error: type[Exception]) -> type:
    def refuse(self: Any, *args: Any, **options: Any) -> None:
        raise error(_message(module, name))

    return type(
        name,
        (),
        {
            "__init__": refuse,
            "__module__": display.public(module),
            "__doc__": _docstring(module, name, error),
        },
    )
