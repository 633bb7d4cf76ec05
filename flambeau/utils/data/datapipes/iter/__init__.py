"""Pipes that are iterated: the one that libraries ask whether a dataset is of."""

from ....._compat.absent import refusing as _refusing
from .combinatorics import ShufflerIterDataPipe

__all__ = ["ShufflerIterDataPipe"]

__getattr__ = _refusing("utils.data.datapipes.iter")
