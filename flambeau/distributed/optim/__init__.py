"""Optimizers of several processes: of parameters that other processes own, of states kept by parts, of parameters averaged now and then.

>>> from flambeau.distributed import optim
>>> optim.DistributedOptimizer.__name__
'DistributedOptimizer'
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any as _Any

from ..._compat.absent import refusing as _refusing

_WHERE = {
    "DistributedOptimizer": "_distributed_optimizer",
    "PostLocalSGDOptimizer": "post_localSGD_optimizer",
    "ZeroRedundancyOptimizer": "zero_redundancy_optimizer",
    "_apply_optimizer_in_backward": "apply_optimizer_in_backward",
    "_get_in_backward_optimizers": "apply_optimizer_in_backward",
}
_absent_name = _refusing("distributed.optim")


def __getattr__(name: str) -> _Any:
    if name not in _WHERE:
        return _absent_name(name)
    value = globals()[name] = getattr(_import_module(f"{__name__}.{_WHERE[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})


__all__ = [name for name in _WHERE if not name.startswith("_")]
