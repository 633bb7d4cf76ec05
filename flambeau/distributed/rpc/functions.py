"""Marks on functions that other processes call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from ...futures import Future

__all__ = ["async_execution"]


class Later(NamedTuple):
    """What a function returns whose result comes later."""

    future: Future


def async_execution(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Say that `fn` returns a Future, whose value is what the caller of `rpc_sync`, `rpc_async` and `remote` gets.

    No thread of the callee waits for it.  With `staticmethod` and `classmethod` this is the inner decorator.

    Raises:
        RuntimeError: in the caller, where `fn` returns something else

    >>> from flambeau.distributed import rpc
    >>> @rpc.functions.async_execution
    ... def larger(to, x, y):
    ...     return rpc.rpc_async(to, max, args=(x, y))
    >>> larger.__name__
    'larger'
    """

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    wrapper._wrapped_async_rpc_function = fn  # type: ignore[attr-defined]
    return wrapper


def coming(function: Callable[..., Any], result: Any) -> Future | None:
    """The future of a call's result, where that comes later."""
    if hasattr(function, "_wrapped_async_rpc_function"):
        result = Later(result)
    if not isinstance(result, Later):
        return None
    if not isinstance(result.future, Future):
        raise RuntimeError(
            "Functions decorated with @rpc.functions.async_execution must return a torch.futures.Future object, but got type "
            f"{type(result.future).__name__}"
        )
    return result.future
