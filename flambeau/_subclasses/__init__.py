"""Tensors that only pretend to have data, which are absent: device "meta" knows shapes and dtypes."""

from __future__ import annotations

from .._compat.absent import refusing

__getattr__ = refusing("_subclasses")
