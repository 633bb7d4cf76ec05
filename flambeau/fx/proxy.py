"""Where PyTorch keeps `Proxy`."""

from __future__ import annotations

from .._absent import refusing
from . import Proxy
from .node import Argument

__all__ = ["Argument", "Proxy"]

__getattr__ = refusing("fx.proxy")
