# Written by `python tools/interface.py` from the declared options.
from builtins import bool as _bool
from builtins import float as _float
from builtins import str as _str
from typing import Any as _Any
from flambeau import Tensor as Tensor
from ._declared import Declared
from .optimizer import Params

class Adadelta(Declared):
    """Adadelta: steps by the gradient times a root of past steps over one of past gradients (Zeiler, 2012)."""
    def __init__(self, params: Params, lr: _float | Tensor = 1.0, rho: _float | Tensor = 0.9, eps: _float | Tensor = 1e-06, weight_decay: _float | Tensor = 0, foreach: _bool | None = None, *, capturable: _bool = False, maximize: _bool = False, differentiable: _bool = False) -> None: ...

def __getattr__(name: _str) -> _Any: ...
