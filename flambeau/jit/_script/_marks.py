"""Marks that programs put on functions for scripts: `ignore`, `unused`, `export`."""

from __future__ import annotations

from typing import Any, NamedTuple

MARK = "_torchscript_modifier"  # PyTorch's attribute, which libraries look at


def mark(function: Any, what: str) -> Any:
    """The function with a mark; one that takes no attributes as it is."""
    target = function.fget if isinstance(function, property) else function
    try:
        setattr(target, MARK, what)
    except AttributeError:
        return function
    return function


def mark_of(function: Any) -> str | None:
    """ "ignore" or "unused", where a function is marked so."""
    result = getattr(getattr(function, "__func__", function), MARK, None)
    return result if result in ("ignore", "unused") else None


def is_exported(function: Any) -> bool:
    """Whether a method is compiled beside `forward`."""
    return getattr(function, MARK, None) == "export"


RESOLVERS: dict[type, Any] = {}  # of classes: what names in them stand for where `script` was called
OVERLOADS: dict[
    tuple[str, str], list[Any]
] = {}  # by module and qualified name: functions whose signatures are overloads


def overload(function: Any) -> Any:
    """Enter a signature of a function that has several."""
    OVERLOADS.setdefault((function.__module__, function.__qualname__), []).append(function)
    return function


class Attribute(NamedTuple):
    """A value of a module, with the type that it has in scripts.

    Raises nothing.

    >>> import flambeau as torch
    >>> torch.jit.Attribute(0.5, float).value
    0.5
    """

    value: Any
    type: Any


class Written(Exception):
    """An attribute that was to be a constant and that a program writes."""
