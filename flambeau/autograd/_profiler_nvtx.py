"""A mode that makes a range for NVIDIA's profilers of each operation."""

from __future__ import annotations

from typing import Any

from .._tensor import Tensor
from ..cuda import nvtx
from ..utils._python_dispatch import TorchDispatchMode


class Ranges(TorchDispatchMode):
    """Begins a range before each operation, and ends it after; RuntimeError where there is no library for that."""

    def __init__(self, record_shapes: bool) -> None:
        super().__init__()
        nvtx.mark("profiling begins")  # raises here, before any operation runs, where there is no library
        self.record_shapes = record_shapes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__
        if self.record_shapes:
            name += f", sizes = {[list(x.shape) for x in args if isinstance(x, Tensor)]}"
        nvtx.range_push(name)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            nvtx.range_pop()
