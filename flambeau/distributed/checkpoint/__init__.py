"""States of models as one process has them; files in shards come with process groups."""

from __future__ import annotations

from ..._absent import refusing
from . import state_dict

__all__ = ["state_dict"]

__getattr__ = refusing("distributed.checkpoint")
