# Written by `python tools/interface.py` from the declared options.
from builtins import bool as _bool
from builtins import float as _float
from builtins import str as _str
from builtins import tuple as _tuple
from typing import Any as _Any
from flambeau import Tensor as Tensor
from ._declared import Declared
from .optimizer import Params

class Rprop(Declared):
    """Resilient propagation: each element has a step of its own, and only the gradient's sign counts (Riedmiller and Braun, 1993)."""
    def __init__(self, params: Params, lr: _float | Tensor = 0.01, etas: _tuple[_float | Tensor, _float | Tensor] = (0.5, 1.2), step_sizes: _tuple[_float | Tensor, _float | Tensor] = (1e-06, 50), *, capturable: _bool = False, foreach: _bool | None = None, maximize: _bool = False, differentiable: _bool = False) -> None: ...

def __getattr__(name: _str) -> _Any: ...
