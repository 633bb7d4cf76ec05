"""What accelerators share: kernel images and their place on disk."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..core.base.callbacks import set_callback
from ..core.base.device import register_driver


def _images() -> ModuleType:
    """Imported with the first kernel: the code generator for accelerators comes with it."""
    from . import images

    return images


set_callback("images", _images)


def _solver(matrices: Any) -> Any:
    """Imported with the first decomposition on a CUDA device."""
    from .cusolver import solver_for

    return solver_for(matrices)


set_callback("device.solver", _solver)
for _type in ("cuda", "opencl"):
    register_driver(_type, f"{__name__}.{_type}")
