"""Marks on functions that write ONNX for an operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._compat.absent import refusing

__all__ = ["parse_args"]


def parse_args(*arg_descriptors: str) -> Callable[[Any], Any]:
    """A decorator that keeps, on the function, what each argument is: "v" a value, "i" an int, "f", "b", "s", "t", "is", "fs", "none".

    ValueError for another letter.

    >>> parse_args("v", "i")(lambda g, x, dim: None)._arg_descriptors
    ('v', 'i')
    """
    for letter in arg_descriptors:
        if letter not in ("v", "i", "is", "f", "fs", "b", "s", "t", "none"):
            raise ValueError(f"parse_args(): unknown description {letter!r}")

    def mark(fn: Any) -> Any:
        fn._arg_descriptors = arg_descriptors
        return fn

    return mark


__getattr__ = refusing("onnx.symbolic_helper")
