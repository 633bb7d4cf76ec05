"""Graphs of what tensors are called with, which are absent."""

from ..._compat.absent import refusing as _refusing

__getattr__ = _refusing("fx.experimental")
