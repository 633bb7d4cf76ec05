"""Graphs, of which there are none yet: nothing is a `GraphModule` or a `Proxy`, and every other name says that it is absent.

>>> import flambeau as torch
>>> isinstance(torch.nn.Linear(2, 2), torch.fx.GraphModule)
False
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .._absent import refusing, unmakeable
from ..nn.modules.module import Module

__all__ = ["Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "wrap"]

F = TypeVar("F", bound="Callable | str")

Graph, Node, Proxy = unmakeable("fx.Graph"), unmakeable("fx.Node"), unmakeable("fx.Proxy")
GraphModule = unmakeable("fx.GraphModule", (Module,))
Interpreter = unmakeable("fx.Interpreter")
Transformer = unmakeable("fx.Transformer", (Interpreter,))
Tracer = unmakeable("fx.Tracer")


def wrap(fn_or_name: F) -> F:
    """Keep a function, or one named in the module, whole in graphs: returned as it is. RuntimeError for anything else.

    >>> wrap(len) is len, wrap("len")
    (True, 'len')
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            f"fx.wrap(): expected a global function or the name of one, got {type(fn_or_name).__name__}"
        )
    return fn_or_name


__getattr__ = refusing("fx")
