# Written by `python tools/interface.py` from the declared options.
from builtins import bool as _bool
from builtins import float as _float
from builtins import str as _str
from builtins import tuple as _tuple
from typing import Any as _Any
from flambeau import Tensor as Tensor
from ._declared import Declared
from .optimizer import Params

class Muon(Declared):
    """Muon: steps by the orthogonal matrix nearest to the momentum of a matrix (Jordan et al., 2024)."""
    def __init__(self, params: Params, lr: _float | Tensor = 0.001, weight_decay: _float | Tensor = 0.1, momentum: _float | Tensor = 0.95, nesterov: _bool = True, ns_coefficients: _tuple[_float | Tensor, _float | Tensor, _float | Tensor] = (3.4445, -4.775, 2.0315), eps: _float | Tensor = 1e-07, ns_steps: _float | Tensor = 5, adjust_lr_fn: _bool | None = None) -> None: ...

def __getattr__(name: _str) -> _Any: ...
