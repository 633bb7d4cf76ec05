"""Workers of a launcher that restarts them, which is absent."""

from __future__ import annotations

from ...._absent import refusing

__getattr__ = refusing("distributed.elastic.multiprocessing")
