"""Helpers around training: loading data, the Trainer, TensorBoard, checkpoints, hooks, DLPack."""

from __future__ import annotations

from typing import Any

from . import _python_dispatch, checkpoint, data, dlpack, hooks  # noqa: F401

__all__ = ["_python_dispatch", "checkpoint", "data", "dlpack", "hooks", "tensorboard", "trainer"]  # noqa: F822


def __getattr__(name: str) -> Any:
    """The modules that stand above `nn` and `optim`, and are imported when they are used."""
    if name in ("tensorboard", "trainer"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
