"""Which of PyTorch's libraries computes layers over integers: `engine`, one of `supported_engines`, is kept as programs set it.

Layers run alike whatever it says; `ao.quantization.get_default_qconfig(engine)` has the configuration that goes with each.

>>> import flambeau
>>> flambeau.backends.quantized.engine, flambeau.backends.quantized.supported_engines
('x86', ['qnnpack', 'onednn', 'x86', 'fbgemm'])
"""

from __future__ import annotations

import sys
from types import ModuleType


class _Engines(ModuleType):
    _engine = "x86"

    @property
    def supported_engines(self) -> list[str]:
        return ["qnnpack", "onednn", "x86", "fbgemm"]

    @property
    def engine(self) -> str:
        return self._engine

    @engine.setter
    def engine(self, value: str) -> None:
        if value not in self.supported_engines:
            raise RuntimeError(
                f"{value} is not a valid value for quantized engine: it is one of {self.supported_engines}"
            )
        self._engine = value


sys.modules[__name__].__class__ = _Engines
