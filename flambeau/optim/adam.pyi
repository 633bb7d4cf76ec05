# Written by `python tools/interface.py` from the declared options.
from builtins import bool as _bool
from builtins import float as _float
from builtins import str as _str
from builtins import tuple as _tuple
from typing import Any as _Any
from flambeau import Tensor as Tensor
from ._declared import Declared
from .optimizer import Params

class Adam(Declared):
    """Adam: steps by the running mean of gradients over the root of that of their squares (Kingma and Ba, 2015)."""
    def __init__(self, params: Params, lr: _float | Tensor = 0.001, betas: _tuple[_float | Tensor, _float | Tensor] = (0.9, 0.999), eps: _float | Tensor = 1e-08, weight_decay: _float | Tensor = 0, amsgrad: _bool = False, *, foreach: _bool | None = None, maximize: _bool = False, capturable: _bool = False, differentiable: _bool = False, fused: _bool | None = None, decoupled_weight_decay: _bool = False) -> None: ...

def __getattr__(name: _str) -> _Any: ...
