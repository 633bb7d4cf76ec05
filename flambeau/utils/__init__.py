"""Helpers around training: loading data, checkpoints, the trainer, TensorBoard, trees, hooks, DLPack."""

from typing import TYPE_CHECKING

from ..core.base.lazily import lazily as _lazily
from ._swap import swap_tensors

if TYPE_CHECKING:
    from . import (  # noqa: F401
        _python_dispatch,
        benchmark,
        checkpoint,
        cpp_extension,
        data,
        dlpack,
        flop_counter,
        hooks,
        module_tracker,
        pytree,
        tensorboard,
        trainer,
    )

__all__ = [  # noqa: F822
    "_python_dispatch",
    "benchmark",
    "checkpoint",
    "data",
    "dlpack",
    "flop_counter",
    "hooks",
    "module_tracker",
    "pytree",
    "swap_tensors",
    "tensorboard",
    "trainer",
]

__getattr__, __dir__ = _lazily(
    __name__,
    submodules=(
        "_python_dispatch",
        "_pytree",
        "benchmark",
        "bottleneck",
        "checkpoint",
        "collect_env",
        "cpp_extension",
        "data",
        "dlpack",
        "flop_counter",
        "hooks",
        "model_zoo",
        "module_tracker",
        "pytree",
        "safetensors",
        "serialization",
        "tensorboard",
        "trainer",
    ),
)
