"""Ways of adding gradients up, for `DistributedDataParallel.register_comm_hook`."""

from ...._compat.absent import refusing as _refusing
from . import default_hooks

__all__ = ["default_hooks"]
__getattr__ = _refusing("distributed.algorithms.ddp_comm_hooks")
