# Written by `python tools/interface.py` from the declared options.
from builtins import bool as _bool
from builtins import float as _float
from builtins import str as _str
from typing import Any as _Any
from flambeau import Tensor as Tensor
from ._declared import Declared
from .optimizer import Params

class Adagrad(Declared):
    """Adagrad: steps by the gradient over the root of the sum of its squares so far (Duchi et al., 2011)."""
    def __init__(self, params: Params, lr: _float | Tensor = 0.01, lr_decay: _float | Tensor = 0, weight_decay: _float | Tensor = 0, initial_accumulator_value: _float | Tensor = 0, eps: _float | Tensor = 1e-10, foreach: _bool | None = None, *, maximize: _bool = False, differentiable: _bool = False, fused: _bool | None = None) -> None: ...

def __getattr__(name: _str) -> _Any: ...
