"""What programs ask of, and tell, a compiler of graphs, with true answers: there is none, every call runs as Python says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
]

F = TypeVar("F", bound=Callable)


def is_compiling() -> bool:
    """Whether a graph is being compiled or exported: False.

    >>> is_compiling()
    False
    """
    return False


def is_dynamo_compiling() -> bool:
    """Whether Python is being traced for a compiler: False.

    >>> is_dynamo_compiling()
    False
    """
    return False


def is_exporting() -> bool:
    """Whether a graph is being exported: False.

    >>> is_exporting()
    False
    """
    return False


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names of compilers: none.

    >>> list_backends()
    []
    """
    return []


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Keep a function, class or module from being compiled: it is returned as it is. Without `fn`, a decorator.

    TypeError where `fn` cannot be called.

    >>> @disable
    ... def double(x):
    ...     return 2 * x
    >>> double(2)
    4
    """
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)
    return _kept("disable", fn)


def allow_in_graph(fn: Any) -> Any:
    """Let a function, or each of a list, stand in graphs unseen: returned as it is.

    >>> allow_in_graph(len) is len
    True
    """
    if isinstance(fn, (list, tuple)):
        return [_kept("allow_in_graph", f) for f in fn]
    return _kept("allow_in_graph", fn)


def assume_constant_result(fn: F) -> F:
    """Let a compiler take a function's result for constant: returned as it is.

    >>> assume_constant_result(len) is len
    True
    """
    return _kept("assume_constant_result", fn)


def _kept(name: str, fn: Any) -> Any:
    if not callable(fn):
        raise TypeError(f"{name}(): expected something that can be called, got {type(fn).__name__}")
    return fn


def reset() -> None:
    """Forget all compiled graphs, of which there are none. Kernels stay: they are right for any program.

    >>> reset()
    """


def cudagraph_mark_step_begin() -> None:
    """Tell that a new step begins, to graphs captured by a compiler, of which there are none.

    >>> cudagraph_mark_step_begin()
    """
