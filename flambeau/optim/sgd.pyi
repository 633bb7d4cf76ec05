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
    def __init__(self, params: Params, lr: _float | Tensor = ..., momentum: _float | Tensor = ..., dampening: _float | Tensor = ..., weight_decay: _float | Tensor = ..., nesterov: _bool = ..., *, maximize: _bool = ..., foreach: _bool | None = ..., differentiable: _bool = ..., fused: _bool | None = ...) -> None: ...

def __getattr__(name: _str) -> _Any: ...
