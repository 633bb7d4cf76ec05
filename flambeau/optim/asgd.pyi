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
    def __init__(self, params: Params, lr: _float | Tensor = ..., lambd: _float | Tensor = ..., alpha: _float | Tensor = ..., t0: _float | Tensor = ..., weight_decay: _float | Tensor = ..., foreach: _bool | None = ..., maximize: _bool = ..., differentiable: _bool = ..., capturable: _bool = ...) -> None: ...

def __getattr__(name: _str) -> _Any: ...
