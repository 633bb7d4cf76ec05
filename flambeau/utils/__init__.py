"""Helpers around training: loading data, checkpoints, the trainer, TensorBoard, trees, hooks, DLPack."""

from typing import TYPE_CHECKING

from .._lazily import lazily as _lazily
from . import _python_dispatch, checkpoint, data, dlpack, hooks  # noqa: F401
from ._swap import swap_tensors

if TYPE_CHECKING:
    from . import benchmark, cpp_extension, flop_counter, module_tracker, pytree, tensorboard, trainer  # noqa: F401

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
        "_pytree",
        "benchmark",
        "bottleneck",
        "collect_env",
        "cpp_extension",
        "flop_counter",
        "model_zoo",
        "module_tracker",
        "pytree",
        "safetensors",
        "serialization",
        "tensorboard",
        "trainer",
    ),
)
