"""Where a function stands, for messages."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any


def where(function: Any) -> str:
    """A function's name, file and line: "`sine` in ops.py:12".

    >>> from flambeau.library._where import where
    >>> where(len)
    '`len` in builtins'
    """
    name = getattr(function, "__qualname__", type(function).__qualname__)
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    if code is None:
        return f"`{name}` in {getattr(function, '__module__', None) or type(function).__module__}"
    return f"`{name}` in {code.co_filename}:{code.co_firstlineno}"


def caller(level: int) -> str:
    """The file and line of the function that called, `level` frames up."""
    frame = sys._getframe(level + 1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class Registered:
    """A function that somebody has registered, and where."""

    __slots__ = ("function", "source")

    def __init__(self, function: Callable, source: str) -> None:
        self.function, self.source = function, source
