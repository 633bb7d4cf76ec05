"""Whether a thread traces: apart, since programs ask before they work."""

from __future__ import annotations

from .._symbols.sizes import RECORDING


def is_tracing() -> bool:
    """Whether this thread traces a program.

    Raises nothing.

    >>> import flambeau as torch
    >>> torch.jit.is_tracing()
    False
    """
    return RECORDING.tracer is not None and RECORDING.tracer.is_jit
