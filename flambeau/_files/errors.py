"""What is wrong with a file, and the error's text."""

from __future__ import annotations

from typing import Any

INT64 = 2**63


class Damaged(RuntimeError):
    """A file is no such file, or does not hold together; `load` puts the file's name before the message."""


def require(condition: bool, what: str) -> None:
    if not condition:
        raise Damaged(what)


def count(x: Any, what: str) -> int:
    """`x`, where it is a number of at least 0 that fits 64 bits."""
    require(type(x) is int and 0 <= x < INT64, f"{what} is no number of at least 0: {short(x)}")
    return x


def short(x: Any) -> str:
    """A value out of a file as messages show it: never long, and never by a `__repr__` of its own."""
    if type(x) is int and abs(x) >= 2**128:
        return f"a number of {x.bit_length()} bits"
    return repr(x)[:60] if type(x) in (str, int, float, bool) or x is None else type(x).__name__
