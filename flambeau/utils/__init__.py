"""Helpers around training: loading data, checkpoints, hooks."""

from __future__ import annotations

from . import checkpoint, data, hooks

__all__ = ["checkpoint", "data", "hooks"]
