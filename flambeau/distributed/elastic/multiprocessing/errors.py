"""Errors of workers, which a launcher would be told."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...._compat.absent import refusing

__all__ = ["record"]


def record(fn: Callable[..., Any], error_handler: Any = None) -> Callable[..., Any]:
    """A program's main function: as it is where no launcher has started the process, and none can here.

    Raises nothing.

    >>> from flambeau.distributed.elastic.multiprocessing.errors import record
    >>> record(len)([1, 2])
    2
    """

    @functools.wraps(fn)
    def run(*args: Any, **options: Any) -> Any:
        return fn(*args, **options)

    return run


__getattr__ = refusing("distributed.elastic.multiprocessing.errors")
