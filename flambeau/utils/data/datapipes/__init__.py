"""Pipes of data, which PyTorch deprecated: what libraries look for before they take another way."""

from ...._compat.absent import refusing as _refusing

__getattr__ = _refusing("utils.data.datapipes")
