"""Processes of a launcher: their errors."""

from ...._compat.absent import refusing as _refusing
from . import errors

__all__ = ["errors"]
__getattr__ = _refusing("distributed.elastic.multiprocessing")
