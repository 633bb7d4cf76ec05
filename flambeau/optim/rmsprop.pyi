# Written by `python tools/interface.py` from the declared options.
from builtins import bool as _bool
from builtins import float as _float
from builtins import str as _str
from typing import Any as _Any
from flambeau import Tensor as Tensor
from ._declared import Declared
from .optimizer import Params

class RMSprop(Declared):
    """RMSprop: steps by the gradient over the root of the running mean of its squares (Tieleman and Hinton, 2012)."""
    def __init__(self, params: Params, lr: _float | Tensor = 0.01, alpha: _float | Tensor = 0.99, eps: _float | Tensor = 1e-08, weight_decay: _float | Tensor = 0, momentum: _float | Tensor = 0, centered: _bool = False, capturable: _bool = False, foreach: _bool | None = None, maximize: _bool = False, differentiable: _bool = False) -> None: ...

def __getattr__(name: _str) -> _Any: ...
