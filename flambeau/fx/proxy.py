"""Where PyTorch keeps `Proxy`."""

from __future__ import annotations

from .._absent import refusing
from . import Proxy

__all__ = ["Proxy"]

__getattr__ = refusing("fx.proxy")
