"""Where PyTorch keeps `Node`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._absent import refusing
from . import Node

__all__ = ["Node"]

Target = Callable[..., Any] | str
__getattr__ = refusing("fx.node")
