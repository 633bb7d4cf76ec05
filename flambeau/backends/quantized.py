"""Libraries of quantised operations, of which there are none: `engine` is "none", the only one in `supported_engines`.

>>> import flambeau
>>> flambeau.backends.quantized.engine, flambeau.backends.quantized.supported_engines
('none', ['none'])
"""

from __future__ import annotations

import sys
from types import ModuleType


class _Engines(ModuleType):
    @property
    def supported_engines(self) -> list[str]:
        return ["none"]

    @property
    def engine(self) -> str:
        return "none"

    @engine.setter
    def engine(self, value: str) -> None:
        if value != "none":
            raise RuntimeError(f"{value} is not a valid value for quantized engine: there is 'none' alone")


sys.modules[__name__].__class__ = _Engines
