"""What a thread traces: apart, since programs ask before they work."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._trace import Tracer


class Tracing(threading.local):
    """What this thread traces."""

    tracer: Tracer | None = None


TRACING = Tracing()


def is_tracing() -> bool:
    """Whether this thread traces a program.

    Raises nothing.

    >>> import flambeau as torch
    >>> torch.jit.is_tracing()
    False
    """
    return TRACING.tracer is not None
