# Written by `python tools/interface.py` from the declared options.
from builtins import bool as _bool
from builtins import float as _float
from builtins import str as _str
from typing import Any as _Any
from flambeau import Tensor as Tensor
from ._declared import Declared
from .optimizer import Params

class SGD(Declared):
    """Stochastic gradient descent, with momentum if wanted (Sutskever et al., 2013)."""
    def __init__(self, params: Params, lr: _float | Tensor = 0.001, momentum: _float | Tensor = 0, dampening: _float | Tensor = 0, weight_decay: _float | Tensor = 0, nesterov: _bool = False, *, maximize: _bool = False, foreach: _bool | None = None, differentiable: _bool = False, fused: _bool | None = None) -> None: ...

def __getattr__(name: _str) -> _Any: ...
