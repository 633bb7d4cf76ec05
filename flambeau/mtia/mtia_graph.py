"""The part of `mtia` that would be about graphs."""

from __future__ import annotations

from . import MTIAGraph, graph, graph_pool_handle

__all__ = [
    "MTIAGraph",
    "graph",
    "graph_pool_handle",
]
