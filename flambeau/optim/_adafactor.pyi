# Written by `python tools/interface.py` from the declared options.
from builtins import bool as _bool
from builtins import float as _float
from builtins import str as _str
from builtins import tuple as _tuple
from typing import Any as _Any
from flambeau import Tensor as Tensor
from ._declared import Declared
from .optimizer import Params

class Adafactor(Declared):
    """Adafactor: keeps of the mean squares of a matrix those of its rows and columns alone (Shazeer and Stern, 2018)."""
    def __init__(self, params: Params, lr: _float | Tensor = 0.01, beta2_decay: _float | Tensor = -0.8, eps: _tuple[_float | Tensor | None, _float | Tensor] = (None, 0.001), d: _float | Tensor = 1.0, weight_decay: _float | Tensor = 0.0, *, foreach: _bool | None = None, maximize: _bool = False) -> None: ...

def __getattr__(name: _str) -> _Any: ...
