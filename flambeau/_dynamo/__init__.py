"""The compiler of graphs from Python's code, which is not here: what programs ask and tell it has its true answer.

>>> import flambeau as torch
>>> torch._dynamo.is_compiling(), torch._dynamo.list_backends()
(False, [])
"""

from __future__ import annotations

from typing import Any

from .._compat.absent import refusing
from ..compiler import (
    OptimizedModule,
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    reset,
)
from . import config, eval_frame, exc

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "eval_frame",
    "exc",
    "forbid_in_graph",
    "graph_break",
    "is_compiling",
    "is_dynamo_supported",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "reset",
]


def is_dynamo_supported() -> bool:
    """Whether Python's code can be compiled to graphs: False.

    >>> is_dynamo_supported()
    False
    """
    return False


def forbid_in_graph(fn: Any) -> Any:
    """Keep a function, or each of a list, out of graphs: returned as it is.

    >>> forbid_in_graph(len) is len
    True
    """
    return allow_in_graph(fn)


def graph_break(msg: str = "") -> None:
    """End a graph here; there is none.

    >>> graph_break()
    """


def _told_of(what: str) -> Any:
    def tell(t: Any, *args: Any, **options: Any) -> None:
        return None

    tell.__doc__ = f"""Tell a compiler that {what}; there is none, and tensors stay as they are.

    >>> import flambeau as torch
    >>> torch._dynamo.mark_static(torch.ones(2))
    """
    return tell


mark_static_address = _told_of("a tensor stays where it is")
mark_dynamic = _told_of("a size changes from call to call")
maybe_mark_dynamic = _told_of("a size may change from call to call")
mark_static = _told_of("a size never changes")
__getattr__ = refusing("_dynamo")
