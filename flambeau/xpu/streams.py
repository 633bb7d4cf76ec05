"""The part of `xpu` that would be about streams."""

from __future__ import annotations

from . import Event, Stream

__all__ = [
    "Event",
    "Stream",
]
