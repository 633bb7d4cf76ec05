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
    def __init__(self, params: Params, lr: _float | Tensor = ..., rho: _float | Tensor = ..., eps: _float | Tensor = ..., weight_decay: _float | Tensor = ..., foreach: _bool | None = ..., *, capturable: _bool = ..., maximize: _bool = ..., differentiable: _bool = ...) -> None: ...

def __getattr__(name: _str) -> _Any: ...
