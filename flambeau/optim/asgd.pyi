# Written by `python tools/interface.py` from the declared options.
from builtins import bool as _bool
from builtins import float as _float
from builtins import str as _str
from typing import Any as _Any
from flambeau import Tensor as Tensor
from ._declared import Declared
from .optimizer import Params

class ASGD(Declared):
    """Stochastic gradient descent that keeps the average of the parameters, too (Polyak and Juditsky, 1992)."""
    def __init__(self, params: Params, lr: _float | Tensor = 0.01, lambd: _float | Tensor = 0.0001, alpha: _float | Tensor = 0.75, t0: _float | Tensor = 1000000.0, weight_decay: _float | Tensor = 0, foreach: _bool | None = None, maximize: _bool = False, differentiable: _bool = False, capturable: _bool = False) -> None: ...

def __getattr__(name: _str) -> _Any: ...
