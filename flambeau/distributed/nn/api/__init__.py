"""Modules whose forward runs in another process."""

from __future__ import annotations

from . import remote_module

__all__ = ["remote_module"]
