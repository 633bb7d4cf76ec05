"""Settings of `compile` under PyTorch's name for them: what is read and set here is what `graph/config.py` holds."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ..graph import config as _settings


class _Config(ModuleType):
    """The module, by whatever name it is imported."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_settings, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            setattr(_settings, name, value)

    def __dir__(self) -> list[str]:
        return dir(_settings)


sys.modules[__name__].__class__ = _Config
