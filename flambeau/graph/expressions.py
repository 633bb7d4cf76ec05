"""What a call computes, as expressions: the traced body of its declaration over the expressions of its arguments.

An expression says what an element is where it stands.  Its leaves are values of the program, each with strides aligned from the right
and 0 where a dimension has size 1; so broadcasting needs no call, and a view is another leaf.  A fold over the row stays a
fold: what reads it in the same kernel has it in a register.  Results are rounded to their dtype in memory between calls, so
that fused kernels round as calls one after another do.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..codegen import expr as ex
from ..codegen.expr import Expr
from ..core.call.operands import promoted_dtype
from ..core.call.pointwise import PointwiseOp
from ..core.loops.rows import RowOp
from ..operations.declare.pointwise import CODES, NO_CODE, NUMBER
from .program import Call, Value

OfValue = Callable[[Value], Expr]


class Unfused(Exception):
    """The call cannot be part of a generated kernel; says why."""


class Loop(NamedTuple):
    """Which loops a call goes through: over `shape`, along rows of the dimensions `dims` (counted from the right: -1 is the last), or
    element by element where that is None.
    """

    shape: tuple[int, ...]
    dims: frozenset[int] | None


class Leaves:
    """The values that one kernel reads, each with the strides that it is read with."""

    def __init__(self) -> None:
        self.read: list[tuple[Value, tuple[int, ...]]] = []
        self.exprs: dict[tuple[int, tuple[int, ...]], Expr] = {}

    def of(self, value: Value, strides: Sequence[int] | None = None) -> Expr:
        own = tuple(value.strides if strides is None else strides)
        while own and own[0] == 0:
            own = own[1:]
        key = (value.number, own)
        if key not in self.exprs:
            self.exprs[key] = ex.input(len(self.read), value.dtype.name)
            self.read.append((value, own))
        return self.exprs[key]

    def standing_still(self, e: Expr, dims: frozenset[int]) -> Expr:
        """The expression at the row's first element."""
        replace = {}
        for x in ex.walk([e]):
            if x.op == "input":
                value, strides = self.read[x.value]
                moving = [0 if k - len(strides) in dims else s for k, s in enumerate(strides)]
                replace[x] = self.of(value, moving)
            elif x.op == "index":
                replace[x] = ex.const(0, "int64")
        return ex.substitute([e], replace)[0]


def loop_of(call: Call) -> Loop | None:
    """The loops of a call that a generated kernel can compute; None for any other."""
    if call.written or any(v.dtype.is_complex for v in (*call.values(), *call.results)):
        return None
    if isinstance(call.operation, PointwiseOp):
        return Loop(broadcast([v.shape for v in (*call.values(), *call.results)]), None)
    if isinstance(call.operation, RowOp):
        given = arguments(call)
        if given.get("out") is not None or not isinstance(given["input"], Value):
            return None
        return Loop(given["input"].shape, row_dims(given["input"], given["dim"]))
    return Loop(call.results[0].shape, None) if _converts(call) else None


def _converts(call: Call) -> bool:
    """Whether a call gives its one tensor in another dtype that kernels know."""
    entry = getattr(call.operation, "entry", None)
    given = call.values()
    if entry is None or entry.kind != "conversion" or len(given) != 1 or len(call.results) != 1:
        return False
    (value,), (result,) = given, call.results
    known = value.dtype.name in ex.BITS and result.dtype.name in ex.BITS
    return (
        known and value.shape == result.shape and value.dtype != result.dtype and result.place.device is None
    )


def arguments(call: Call) -> Mapping[str, Any]:
    """The arguments by parameter, defaults included."""
    op = call.operation
    if op.signature is None:  # of a derivative: all are given
        return dict(zip(op.names, call.args)) | call.kwargs
    bound = inspect.signature(op).bind(*call.args, **call.kwargs)
    bound.apply_defaults()
    return bound.arguments


def broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    rank = max((len(s) for s in shapes), default=0)
    found = [1] * rank
    for s in shapes:
        for d, n in enumerate(s, rank - len(s)):
            found[d] = n if found[d] == 1 else found[d]
    return tuple(found)


def row_dims(value: Value, dim: Any) -> frozenset[int]:
    """The dimensions that a row operation goes along, counted from the right."""
    rank = len(value.shape)
    dims = (dim,) if isinstance(dim, int) else tuple(dim or range(rank))
    return frozenset(d - rank if d >= 0 else d for d in dims)


def expressions(call: Call, of: OfValue, leaves: Leaves, loop: Loop) -> list[Expr]:
    """The results of a call, each in its dtype in memory; Unfused where they cannot be expressed."""
    if isinstance(call.operation, PointwiseOp):
        exprs = _pointwise(call, of)
    elif isinstance(call.operation, RowOp):
        exprs = _rows(call, of, leaves, loop)
    else:
        exprs = [ex.cast(of(call.values()[0]), call.results[0].dtype.name)]
    for e, value in zip(exprs, call.results, strict=True):
        if e.dtype != value.dtype.name:
            raise Unfused(f"{call.name}: a result of {value.dtype.name} whose expression is {e.dtype}")
    return exprs


def _pointwise(call: Call, of: OfValue) -> list[Expr]:
    declaration, given = call.operation.declaration, arguments(call)
    names = call.operation.names
    operands = [given[n] for n in names[: len(declaration.operands)]]
    inputs = []
    for x in operands:
        if isinstance(x, Value):
            inputs.append((CODES[x.dtype.name], 0))
        elif isinstance(x, complex):
            raise Unfused(f"{call.name}: a complex number")
        else:
            inputs.append((0 if isinstance(x, bool) else 1 if isinstance(x, int) else 2, NUMBER))
    counted = [x for x, n in zip(operands, declaration.operands) if n not in declaration.raw]
    common = promoted_dtype([(x.dtype, len(x.shape)) if isinstance(x, Value) else x for x in counted])
    results, memory, _, _ = declaration.instance(inputs, CODES[common.name])
    tensors = [x for x in operands if isinstance(x, Value)]
    numbers = [x for x in operands if not isinstance(x, Value)] + [given[n] for n in names[len(operands) :]]
    replace = {}
    for x in ex.walk(results):
        if x.op == "input":
            replace[x] = of(tensors[x.value])
        elif x.op == "param":
            replace[x] = ex.const(numbers[x.value], x.dtype)
        elif x.op == "index":
            raise Unfused(f"{call.name}: reads the number of its element")
    return [ex.cast(r, m) for r, m in zip(ex.substitute(list(results), replace), memory)]


def _rows(call: Call, of: OfValue, leaves: Leaves, loop: Loop) -> list[Expr]:
    op, given = call.operation, arguments(call)
    declaration, value = op.declaration, given["input"]
    assert loop.dims is not None
    wanted = given.get("dtype")
    working = declaration.working(CODES[value.dtype.name], NO_CODE if wanted is None else CODES[wanted.name])
    inputs = [of(value)]
    if len(declaration.inputs) > 1:  # the row's first element
        inputs.append(leaves.standing_still(inputs[0], loop.dims))
    results, memory = declaration.program([e.dtype for e in inputs], working)
    replace = {}
    for x in ex.walk(results):
        if x.op == "input":
            replace[x] = inputs[x.value]
        elif x.op == "param":
            replace[x] = ex.const(given[declaration.params[x.value]], x.dtype)
    return [ex.cast(r, m) for r, m in zip(ex.substitute(list(results), replace), memory)]
