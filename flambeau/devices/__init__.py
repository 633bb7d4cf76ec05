"""What accelerators share: kernel images and their place on disk."""

from __future__ import annotations

from types import ModuleType

from ..core.base.callbacks import set_callback
from ..core.base.device import register_driver


def _images() -> ModuleType:
    """Imported with the first kernel: the code generator for accelerators comes with it."""
    from . import images

    return images


set_callback("images", _images)
for _type in ("cuda", "opencl"):
    register_driver(_type, f"{__name__}.{_type}")
