"""Work that is written down to be repeated: graphs are not made here; whether another library makes one can be asked."""

from __future__ import annotations

from .._compat.absent import unmakeable
from .streams import is_current_stream_capturing

__all__ = ["CUDAGraph", "graph", "is_current_stream_capturing"]

CUDAGraph, graph = unmakeable("cuda.CUDAGraph"), unmakeable("cuda.graph")
