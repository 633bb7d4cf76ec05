# Written by `python tools/interface.py` from the declared options.
from builtins import bool as _bool
from builtins import float as _float
from builtins import str as _str
from builtins import tuple as _tuple
from typing import Any as _Any
from flambeau import Tensor as Tensor
from ._declared import Declared
from .optimizer import Params

class SparseAdam(Declared):
    """Adam for sparse gradients: parameters and means change where the gradient has elements, and nowhere else."""
    def __init__(self, params: Params, lr: _float | Tensor = 0.001, betas: _tuple[_float | Tensor, _float | Tensor] = (0.9, 0.999), eps: _float | Tensor = 1e-08, maximize: _bool = False) -> None: ...

def __getattr__(name: _str) -> _Any: ...
