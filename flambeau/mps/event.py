"""The part of `mps` that would be about events."""

from __future__ import annotations

from . import Event

__all__ = [
    "Event",
]
