"""Machine code for a kernel, with an entry for the profiler: a first call's time is mostly this."""

from __future__ import annotations

import atexit
import time
import warnings
from typing import Any

from ...codegen import build, lower, target
from ...core.base import display
from ...core.base.callbacks import set_callback
from ...core.base.lazily import use_waiting
from ...core.base.memory import memory_stats
from ...core.base.profiling import begin_span, end_span
from ...core.base.stacks import deep

_OWN = __name__.partition(".")[0]
_OF_CALLS = (
    "codegen",
    "operations",
    "nn",
    "fft",
    "functional",
    "linalg",
    "special",
)  # that users call, and what runs then
LONG = 1.0  # seconds of the processor's time from which a compilation is reported


def address(kernel: Any) -> int:
    """Where the kernel's machine code stands; made, or read from the disk, when it is new in this process."""
    name = getattr(kernel, "name", type(kernel).__name__)
    entry = begin_span(f"{display.NAME}::compile {name}")
    try:
        result, seconds = deep(_made, kernel)
    finally:
        end_span(entry)
    if seconds > LONG:
        warnings.warn(
            f"compiling a kernel of '{name}' took {seconds:.1f} seconds, which grows with what one element computes: the body of a "
            "kernel, and of its derivatives, may be cut into several; the kernel is kept on the disk",
            stacklevel=2,
        )
    return result


set_callback("kernel_address", address)


def _made(kernel: Any) -> tuple[int, float]:
    """The address, and how long this thread worked for it."""
    begun = time.thread_time()
    return build.address(kernel), time.thread_time() - begun


def _before_the_end() -> None:
    """The last finalisers may want their first kernel, and Python imports nothing for them: where tensors are left, the compiler is
    there.
    """
    if memory_stats()["allocated_bytes"]:
        use_waiting(*(f"{_OWN}.{module}" for module in _OF_CALLS))
        target.llvm(), target.processor(), lower._expansions()


atexit.register(_before_the_end)
