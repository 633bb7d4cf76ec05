"""`compile` under the names by which PyTorch's own module has it, and what programs say to it.

>>> import flambeau as torch
>>> torch._dynamo.is_compiling(), torch._dynamo.list_backends()
(False, ['cudagraphs', 'inductor'])
"""

from __future__ import annotations

from typing import Any

from .._compat.absent import refusing
from ..compiler import (
    OptimizedModule,
    allow_in_graph,
    assume_constant_result,
    disable,
    error_on_graph_break,
    is_compiling,
    list_backends,
    lookup_backend,
    register_backend,
    reset,
    set_stance,
)
from ..graph.compiled import switch_off
from . import config, eval_frame, exc

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "error_on_graph_break",
    "eval_frame",
    "exc",
    "explain",
    "forbid_in_graph",
    "graph_break",
    "is_compiling",
    "is_dynamo_supported",
    "list_backends",
    "lookup_backend",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "register_backend",
    "reset",
    "set_stance",
]


def is_dynamo_supported() -> bool:
    """Whether Python's code can be compiled to graphs: True.

    >>> is_dynamo_supported()
    True
    """
    return True


def forbid_in_graph(fn: Any) -> Any:
    """Keep a function, or each of a list, out of graphs: returned as it is.

    >>> forbid_in_graph(len) is len
    True
    """
    return allow_in_graph(fn)


def graph_break(msg: str = "") -> None:
    """A function that calls this is not captured, and runs as Python says.

    >>> graph_break()
    """
    switch_off(0)


def explain(f: Any, *extra_args: Any, **extra_kwargs: Any) -> Any:
    """A function that calls `f` once and says what it is captured as; see `graph.explain.explain`.

    TypeError where `f` cannot be called; what `f` raises.

    >>> import flambeau as torch
    >>> torch._dynamo.explain(lambda x: x + 1)(torch.ones(2)).graph_count
    1
    """
    from ..graph.explain import explain

    return explain(f, *extra_args, **extra_kwargs)


def _marker(what: str) -> Any:
    def tell(t: Any, *args: Any, **options: Any) -> None:
        return None

    tell.__doc__ = f"""Tell `compile` that {what}: tensors stay as they are, for a new size costs no compilation.

    >>> import flambeau as torch
    >>> torch._dynamo.mark_static(torch.ones(2))
    """
    return tell


mark_static_address = _marker("a tensor stays where it is")
mark_dynamic = _marker("a size changes from call to call")
maybe_mark_dynamic = _marker("a size may change from call to call")
mark_static = _marker("a size never changes")
__getattr__ = refusing("_dynamo")
