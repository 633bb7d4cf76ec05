"""Whether a thread traces: apart, since programs ask before they work."""

from __future__ import annotations


def is_tracing() -> bool:
    """Whether this thread traces a program.

    Raises nothing.

    >>> import flambeau as torch
    >>> torch.jit.is_tracing()
    False
    """
    from .._symbols.sizes import RECORDING  # brings what only who traces needs

    return RECORDING.tracer is not None and RECORDING.tracer.is_jit
