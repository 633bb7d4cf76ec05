"""Where PyTorch keeps `Node`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._absent import refusing
from .._tensor import Tensor
from ..core.base.dtypes import device, dtype
from ..core.base.formats import layout, memory_format
from . import Node

__all__ = ["Node"]

Target = Callable[..., Any] | str
BaseArgumentTypes = (
    str | int | float | bool | complex | dtype | Tensor | device | memory_format | layout | None
)
Argument = tuple[Any, ...] | Sequence[Any] | Mapping[str, Any] | slice | range | Node | BaseArgumentTypes
__getattr__ = refusing("fx.node")
