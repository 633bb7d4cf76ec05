"""Exported programs, which are not kept yet: every name says that it is absent."""

from __future__ import annotations

from .._absent import refusing

__all__: list[str] = []
__getattr__ = refusing("export")
