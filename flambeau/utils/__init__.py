"""Helpers around training: loading data, hooks."""

from __future__ import annotations

from . import data, hooks

__all__ = ["data", "hooks"]
