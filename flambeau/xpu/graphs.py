"""The part of `xpu` that would be about graphs."""

from __future__ import annotations

from . import XPUGraph, graph, graph_pool_handle, is_current_stream_capturing, make_graphed_callables

__all__ = [
    "XPUGraph",
    "graph",
    "graph_pool_handle",
    "is_current_stream_capturing",
    "make_graphed_callables",
]
