"""States of models as one process has them; files in shards come with process groups."""

from ..._compat.absent import refusing as _refusing
from . import state_dict

__all__ = ["state_dict"]

__getattr__ = _refusing("distributed.checkpoint")
