"""Graphs, of which there are none yet: nothing is a `GraphModule` or a `Proxy`, and every other name says that it is absent.

>>> import flambeau as torch
>>> isinstance(torch.nn.Linear(2, 2), torch.fx.GraphModule)
False
"""

from collections.abc import Callable as _Callable
from typing import TypeVar as _TypeVar

from .._absent import refusing as _refusing
from .._absent import unmakeable as _unmakeable
from ..nn.modules.module import Module as _Module

__all__ = ["Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "wrap"]

F = _TypeVar("F", bound=_Callable | str)

Graph, Node, Proxy = _unmakeable("fx.Graph"), _unmakeable("fx.Node"), _unmakeable("fx.Proxy")
GraphModule = _unmakeable("fx.GraphModule", (_Module,))
Interpreter = _unmakeable("fx.Interpreter")
Transformer = _unmakeable("fx.Transformer", (Interpreter,))
Tracer = _unmakeable("fx.Tracer")


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


__getattr__ = _refusing("fx")
