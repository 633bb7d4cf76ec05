"""Work that is written down to be repeated: graphs are not made here; whether another library makes one can be asked."""

from __future__ import annotations

from .streams import is_current_stream_capturing

__all__ = ["is_current_stream_capturing"]
