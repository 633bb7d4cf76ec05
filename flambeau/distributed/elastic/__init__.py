"""Launchers that restart workers, which are absent."""

from __future__ import annotations

from ..._absent import refusing

__getattr__ = refusing("distributed.elastic")
