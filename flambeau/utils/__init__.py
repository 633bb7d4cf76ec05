"""Helpers around training: loading data, checkpoints, hooks, DLPack."""

from __future__ import annotations

from . import _python_dispatch, checkpoint, data, dlpack, hooks  # noqa: F401

__all__ = ["_python_dispatch", "checkpoint", "data", "dlpack", "hooks"]
