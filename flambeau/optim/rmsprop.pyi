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
    def __init__(self, params: Params, lr: _float | Tensor = ..., alpha: _float | Tensor = ..., eps: _float | Tensor = ..., weight_decay: _float | Tensor = ..., momentum: _float | Tensor = ..., centered: _bool = ..., capturable: _bool = ..., foreach: _bool | None = ..., maximize: _bool = ..., differentiable: _bool = ...) -> None: ...

def __getattr__(name: _str) -> _Any: ...
