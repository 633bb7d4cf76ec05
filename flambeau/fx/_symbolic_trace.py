"""Whether a function is being traced to a graph: none is."""

from __future__ import annotations

from .._absent import refusing
from . import Tracer, wrap

__all__ = ["Tracer", "is_fx_symbolic_tracing", "is_fx_tracing", "wrap"]


def is_fx_tracing() -> bool:
    """Whether a function is being traced: False.

    >>> from flambeau.fx._symbolic_trace import is_fx_tracing
    >>> is_fx_tracing()
    False
    """
    return False


is_fx_symbolic_tracing = is_fx_tracing
__getattr__ = refusing("fx._symbolic_trace")
