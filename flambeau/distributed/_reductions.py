"""How the tensors of several processes are made one."""

from __future__ import annotations

from enum import Enum
from typing import Any

from ..core.base import display


class RedOpType(Enum):
    """The reductions."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"


class ReduceOp:
    """A reduction, such as `ReduceOp.SUM`.  Two are equal where they are the same reduction.

    Raises:
        TypeError: the argument names no reduction

    >>> import flambeau
    >>> flambeau.distributed.ReduceOp(flambeau.distributed.ReduceOp.MAX) == flambeau.distributed.ReduceOp.MAX
    True
    """

    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX = (
        RedOpType.SUM,
        RedOpType.AVG,
        RedOpType.PRODUCT,
        RedOpType.MIN,
        RedOpType.MAX,
    )
    BAND, BOR, BXOR, PREMUL_SUM = RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR, RedOpType.PREMUL_SUM

    def __init__(self, op: Any) -> None:
        if not isinstance(op, RedOpType):
            raise TypeError(
                f"ReduceOp(): op must be a reduction such as ReduceOp.SUM, not {type(op).__name__}"
            )
        self.op = op
        self.factor: Any = None  # of PREMUL_SUM: what every process multiplies its tensor by before

    def __eq__(self, other: Any) -> bool:
        return self.op is (other.op if isinstance(other, ReduceOp) else other)

    def __hash__(self) -> int:
        return hash(self.op)


def premultiplied_sum(factor: Any) -> ReduceOp:
    """The sum of every process's tensor times its `factor`, a number or a tensor of one element.

    >>> import flambeau.distributed as dist
    >>> dist._make_nccl_premul_sum(0.5) == dist.ReduceOp.PREMUL_SUM
    True
    """
    op = ReduceOp(ReduceOp.PREMUL_SUM)
    op.factor = factor
    return op


def kind_of(op: Any) -> RedOpType:
    """Which reduction an argument names; TypeError for anything else."""
    return (op if isinstance(op, ReduceOp) else ReduceOp(op)).op


ReduceOp.__module__ = display.public("distributed")
