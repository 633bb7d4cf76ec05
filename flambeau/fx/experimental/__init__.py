"""Graphs of what tensors are called with, which are absent."""

from __future__ import annotations

from ..._absent import refusing

__getattr__ = refusing("fx.experimental")
