"""Ranges and marks that NVIDIA's profilers show, through libnvToolsExt where it is installed.

FLAMBEAU_LIBNVTX names another library with the same functions.  Without one every call is a RuntimeError.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


@functools.cache
def _library() -> Any:
    import ctypes

    try:
        result = ctypes.CDLL(os.environ.get("FLAMBEAU_LIBNVTX", "libnvToolsExt.so.1"))
    except OSError as error:
        raise RuntimeError(f"NVTX functions not installed: {error}") from None
    result.nvtxRangeStartA.restype = ctypes.c_uint64
    result.nvtxRangeEnd.argtypes = [ctypes.c_uint64]
    return result


def range_push(msg: str) -> int:
    """Begin a range inside of those this thread is in; returns how many it was in.  RuntimeError without the library.

    >>> import flambeau
    >>> try:
    ...     depth = flambeau.cuda.nvtx.range_push("a step")
    ...     assert flambeau.cuda.nvtx.range_pop() == depth
    ... except RuntimeError as error:
    ...     assert "not installed" in str(error)
    """
    return _library().nvtxRangePushA(str(msg).encode())


def range_pop() -> int:
    """End the innermost range; returns how many this thread is in still.

    >>> import flambeau
    >>> try:
    ...     _ = flambeau.cuda.nvtx.range_pop()
    ... except RuntimeError as error:
    ...     assert "not installed" in str(error)
    """
    return _library().nvtxRangePop()


def range_start(msg: str) -> int:
    """Begin a range that any thread may end; returns its number.

    Raises:
        RuntimeError: the library NVTX is not installed

    >>> import flambeau
    >>> try:
    ...     flambeau.cuda.nvtx.range_end(flambeau.cuda.nvtx.range_start("loading"))
    ... except RuntimeError as error:
    ...     assert "not installed" in str(error)
    """
    return _library().nvtxRangeStartA(str(msg).encode())


def range_end(range_id: int) -> None:
    """End the range of that number.

    Raises:
        RuntimeError: the library NVTX is not installed

    >>> import flambeau
    >>> try:
    ...     flambeau.cuda.nvtx.range_end(0)
    ... except RuntimeError as error:
    ...     assert "not installed" in str(error)
    """
    _library().nvtxRangeEnd(range_id)


def mark(msg: str) -> None:
    """Something that happens at one moment.

    Raises:
        RuntimeError: the library NVTX is not installed

    >>> import flambeau
    >>> try:
    ...     flambeau.cuda.nvtx.mark("here")
    ... except RuntimeError as error:
    ...     assert "not installed" in str(error)
    """
    _library().nvtxMarkA(str(msg).encode())


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A context, or decorator, that is a range; the message is formatted with the arguments.

    Raises:
        RuntimeError: the context is entered, and the library NVTX is not installed

    >>> import flambeau
    >>> try:
    ...     with flambeau.cuda.nvtx.range("step {}", 3):
    ...         y = flambeau.ones(2) + 1
    ... except RuntimeError as error:
    ...     assert "not installed" in str(error)
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
