"""Control flow as functions: `cond`, `while_loop`, `map`, `scan`, `associative_scan`, which PyTorch has for programs that are
compiled or exported.

Here they run as the Python they stand for, so gradients and modes see the operations inside. Operands and results are trees
(`utils._pytree`) whose leaves are tensors; what carries a state from step to step is held to its shape and dtype.
"""

from __future__ import annotations

from .associative_scan import associative_scan
from .cond import cond
from .map import map  # noqa: A004
from .scan import scan
from .while_loop import while_loop

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]
