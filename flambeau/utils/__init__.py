"""Helpers around training: loading data, checkpoints, the trainer, TensorBoard, trees, hooks, DLPack."""

from __future__ import annotations

from .._lazily import lazily
from . import _python_dispatch, checkpoint, data, dlpack, hooks  # noqa: F401

__all__ = ["_python_dispatch", "checkpoint", "data", "dlpack", "hooks", "tensorboard", "trainer"]  # noqa: F822

__getattr__, __dir__ = lazily(
    __name__,
    submodules=(
        "_pytree",
        "collect_env",
        "model_zoo",
        "safetensors",
        "serialization",
        "tensorboard",
        "trainer",
    ),
)
