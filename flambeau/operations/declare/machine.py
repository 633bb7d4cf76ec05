"""Machine code for a kernel, with an entry for the profiler: a first call's time is mostly this."""

from __future__ import annotations

from typing import Any

from ...codegen import build
from ...core.base import display
from ...core.base.recorder import begin_span, end_span


def address(kernel: Any) -> int:
    """Where the kernel's machine code stands; made, or read from the disk, when it is new in this process."""
    entry = begin_span(f"{display.NAME}::compile {getattr(kernel, 'name', type(kernel).__name__)}")
    try:
        return build.address(kernel)
    finally:
        end_span(entry)
