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
from ..codegen.lower import fixed
from ..core.base.device import Device
from ..core.call.operands import promoted_dtype
from ..core.call.pointwise import InPlaceOp, PointwiseOp
from ..core.loops.rows import RowOp
from ..operations.declare.pointwise import CODES, NO_CODE, NUMBER
from .program import Call, Number, Value

OfValue = Callable[[Value], Expr]

# dtypes of numbers that kernels are given by value, and in which
WIDE = {
    "float32": "float32",
    "float64": "float64",
    **dict.fromkeys(
        ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"), "int64"
    ),
}


class Unfused(Exception):
    """The call cannot be part of a generated kernel; says why."""


class Loop(NamedTuple):
    """Which loops a call goes through: over `shape`, along rows of the dimensions `dims` (counted from the right: -1 is the last), or
    element by element where that is None; on `device`, which is None for the host.
    """

    shape: tuple[int, ...]
    dims: frozenset[int] | None
    device: Device | None = None


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


class Along(NamedTuple):
    """A reduction or row function as it was called: on tensors that broadcast to one shape, along `dim` (None: all dimensions)."""

    operation: RowOp
    tensors: tuple[Value, ...]
    dim: Any
    dtype: Any
    params: tuple[float, ...]


class Reader:
    """How a kernel reads values: as what it has computed, computes again, or finds in memory."""

    def __init__(self, known: Mapping[Value, Expr], leaves: Leaves, loop: Loop) -> None:
        self.known, self.leaves, self.loop = known, leaves, loop

    def __call__(self, value: Value) -> Expr:
        if value in self.known:
            return self.known[value]
        if value.reads is None:
            return self.leaves.of(value)
        assert value.call is not None
        return expressions(value.call, self, self.leaves, self.loop)[0]


def loop_of(call: Call) -> Loop | None:
    """The loops of a call that a generated kernel can compute; None for any other."""
    values = (*call.values(), *call.results)
    if not call.results or any(v.dtype.is_complex or v.dtype.name not in ex.BITS for v in values):
        return None
    device = call.results[0].device
    if not all(_is_readable(v, device) for v in values) or any(v.device is not device for v in call.results):
        return None
    if call.written and not _writes_in_loop(call):
        return None
    if pointwise_of(call) is not None:
        return Loop(broadcast([v.shape for v in values]), None, device)
    if isinstance(element_of(call), (Value, int, float)):
        return Loop(call.results[0].shape, None, device)
    along = None if call.written else along_of(call)
    if along is None:
        return None
    rank = len(along.tensors[0].shape)
    if any(len(v.shape) > rank for v in along.tensors):  # `dim` counts those of the first
        return None
    if any(v.device is not device for v in along.tensors):  # which an eager call refuses
        return None
    return Loop(broadcast([v.shape for v in along.tensors]), row_dims(rank, along.dim), device)


def _is_readable(value: Value, device: Device | None) -> bool:
    """Whether a kernel on a device reads a value: where it lies, or by value, as numbers of the host are passed."""
    return value.device is device or (device is not None and is_scalar(value))


def is_scalar(value: Value) -> bool:
    """Whether a value is one number in the memory of the host, of a dtype that kernels are given numbers in."""
    return value.device is None and value.shape == () and value.dtype.name in WIDE


def by_value(roots: Sequence[Expr], leaves: Leaves) -> list[Expr]:
    """The expressions of a kernel on a device, with numbers of the host as scalars that have the numbers of their leaves."""
    replace = {}
    for e in ex.walk(roots):
        if e.op == "input" and is_scalar(leaves.read[e.value][0]):
            scalar = ex.cast(ex.param(e.value, WIDE[e.dtype]), e.dtype)
            # not fixed, as what an eager call reads from memory is not (`extremes_of`)
            replace[e] = ex.make("bitcast", (scalar,), e.dtype) if ex.is_float(e.dtype) else scalar
    return ex.substitute(list(roots), replace)


def pointwise_of(call: Call) -> PointwiseOp | None:
    """The pointwise operation that a call computes: into a new tensor, into `out`, or over its first argument."""
    op = call.operation
    return op.op if isinstance(op, InPlaceOp) else op if isinstance(op, PointwiseOp) else None


def _writes_in_loop(call: Call) -> bool:
    """Whether a call writes each of its results over one tensor element by element, and reads nothing else of what it writes to."""
    at = {v.root: v.place for v in call.results}
    if len(at) < len(call.results) or set(at) != call.written or not all(map(_apart, call.results)):
        return False
    return all(at.get(v.root, v.place) == v.place for v in call.values())


def _apart(value: Value) -> bool:
    """Whether each of its elements certainly has memory of its own."""
    reach = 0
    for stride, n in sorted((s, n) for s, n in zip(value.place.stride, value.shape) if n != 1):
        if stride <= reach:
            return False
        reach += stride * (n - 1)
    return True


def element_of(call: Call) -> Any:
    """What each element of a call's one result is, as its declaration says (`element`): that of a tensor that it is given at the same
    place, or a number; None where the declaration says nothing.
    """
    entry = getattr(call.operation, "entry", None)
    said = None if entry is None else entry.details.get("element")
    if said is None or len(call.results) != 1:
        return None
    found, result = said(*call.args, **call.kwargs), call.results[0]
    if isinstance(found, Value):
        shape = broadcast([found.shape, result.shape])
        return found if shape == result.shape and len(found.shape) <= len(shape) else None
    if not isinstance(found, (int, float)) or isinstance(found, bool):
        return int(found) if isinstance(found, bool) else None
    if result.dtype.is_floating_point:  # rounded once: halves are rounded from float32
        exact = ex.const(found, "float32").value == found or result.dtype.itemsize >= 4
        return found if exact else None
    return found if isinstance(found, int) else None


def along_of(call: Call) -> Along | None:
    """A call as a reduction or row function; None for another, or with options that no kernel here knows."""
    op: Any = call.operation
    if isinstance(op, RowOp):
        given = arguments(call)
        tensors, dim, dtype, params, out = (
            (given["input"],),
            given["dim"],
            given.get("dtype"),
            (),
            given.get("out"),
        )
    else:
        op = getattr(
            getattr(op, "function", None), "__self__", None
        )  # of several tensors, or with parameters
        if not isinstance(op, RowOp) or len(call.args) != 6:
            return None
        tensors, dim, _, dtype, params, out = call.args
    declaration = op.declaration
    if (
        out is not None
        or not all(isinstance(v, Value) for v in tensors)
        or (not dim and dim not in (0, None))
    ):
        return None
    dtypes = {v.dtype for v, n in zip(tensors, declaration.inputs) if n not in declaration.raw}
    return Along(op, tuple(tensors), dim, dtype, tuple(params)) if len(dtypes) == 1 else None


def arguments(call: Call) -> Mapping[str, Any]:
    """The arguments by parameter, defaults included."""
    op = call.operation
    if isinstance(op, PointwiseOp) and op.signature is None:  # of a derivative: all are given
        return dict(zip(op.names, call.args)) | call.kwargs
    bound = inspect.signature(op).bind(*call.args, **call.kwargs)
    bound.apply_defaults()
    return bound.arguments


def broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    rank = max((len(s) for s in shapes), default=0)
    result = [1] * rank
    for s in shapes:
        for d, n in enumerate(s, rank - len(s)):
            result[d] = n if result[d] == 1 else result[d]
    return tuple(result)


def row_dims(rank: int, dim: Any) -> frozenset[int]:
    """The dimensions that a row operation goes along, counted from the right."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim or range(rank))
    return frozenset(d - rank if d >= 0 else d for d in dims)


def expressions(call: Call, of: OfValue, leaves: Leaves, loop: Loop) -> list[Expr]:
    """The results of a call, each in its dtype in memory; Unfused where they cannot be expressed."""
    op = pointwise_of(call)
    if op is not None:
        exprs = _pointwise(call, op, of)
    elif (element := element_of(call)) is not None:
        exprs = [_element(element, of, call.results[0].dtype.name)]
    else:
        exprs = _rows(call, of, leaves, loop)
    if call.written:
        exprs = [ex.cast(e, v.dtype.name) for e, v in zip(exprs, call.results, strict=True)]
    for e, value in zip(exprs, call.results, strict=True):
        if e.dtype != value.dtype.name:
            raise Unfused(f"{call.name}: a result of {value.dtype.name} whose expression is {e.dtype}")
    return exprs


def _element(element: Value | float, of: OfValue, dtype: str) -> Expr:
    if isinstance(element, Value):
        return ex.cast(of(element), dtype)
    if dtype in ("float16", "bfloat16"):
        return ex.cast(ex.const(element, "float32"), dtype)
    return ex.const(element, dtype)


def _pointwise(call: Call, op: PointwiseOp, of: OfValue) -> list[Expr]:
    declaration, given = op.declaration, arguments(call)
    names = op.names
    operands = [given[n] for n in names[: len(declaration.operands)]]
    inputs = []
    for x in operands:
        if isinstance(x, Number):
            inputs.append((1 if isinstance(x.example, int) else 2, NUMBER))
        elif isinstance(x, Value):
            inputs.append((CODES[x.dtype.name], 0))
        elif isinstance(x, complex):
            raise Unfused(f"{call.name}: a complex number")
        else:
            inputs.append((0 if isinstance(x, bool) else 1 if isinstance(x, int) else 2, NUMBER))
    counted = [x for x, n in zip(operands, declaration.operands) if n not in declaration.raw]
    common = promoted_dtype([_operand(x) for x in counted])
    results, memory, _, _ = declaration.instance(inputs, CODES[common.name])
    tensors = [x for x in operands if _is_tensor(x)]
    numbers = [x for x in operands if not _is_tensor(x)]
    if common.is_complex:  # which take both parts of a number
        numbers = [part for x in numbers for part in (x.real, x.imag)]
    numbers += [given[n] for n in names[len(operands) :]]
    replace = {}
    for x in ex.walk(results):
        if x.op == "input":
            replace[x] = of(tensors[x.value])
        elif x.op == "param":
            number = numbers[x.value]
            replace[x] = (
                ex.cast(of(number), x.dtype) if isinstance(number, Value) else ex.const(number, x.dtype)
            )
        elif x.op == "index":
            raise Unfused(f"{call.name}: reads the number of its element")
    return [ex.cast(r, m) for r, m in zip(_substituted(results, replace), memory)]


def _substituted(results: Sequence[Expr], replace: dict[Expr, Expr]) -> list[Expr]:
    """The results over other expressions."""
    new: dict[Expr, Expr] = {}
    for e in ex.walk(results):
        if e in replace:
            new[e] = replace[e]
        elif e.args:
            args = tuple([new[a] for a in e.args])
            new[e] = ex.remade(e, extremes_of(e, args))
        else:
            new[e] = e
    return [new[r] for r in results]


def extremes_of(e: Expr, args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Arguments of an expression so that, where it is `max` or `min`, it gives the same one of two equal zeros.

    That is the first where the second is fixed, and else the second (`codegen/lower.py`).  A fill that an eager call reads from memory is
    not fixed there, and is here; a number that varies is fixed there.
    """
    if e.op not in ("max", "min") or fixed(e.args[1]) == fixed(args[1]):
        return args
    first, second = args
    if fixed(second):
        return first, ex.make("bitcast", (second,), second.dtype)
    return second, first


def _is_tensor(x: Any) -> bool:
    """Whether an operand is a tensor, and no number."""
    return isinstance(x, Value) and not isinstance(x, Number)


def _operand(x: Any) -> Any:
    """An operand as promotion of dtypes takes it."""
    return (x.dtype, len(x.shape)) if _is_tensor(x) else x.example if isinstance(x, Number) else x


def _rows(call: Call, of: OfValue, leaves: Leaves, loop: Loop) -> list[Expr]:
    along = along_of(call)
    assert loop.dims is not None and along is not None
    declaration, wanted = along.operation.declaration, along.dtype
    common = next(v.dtype for v, n in zip(along.tensors, declaration.inputs) if n not in declaration.raw)
    working = declaration.working(CODES[common.name], NO_CODE if wanted is None else CODES[wanted.name])
    inputs = [of(v) for v in along.tensors]
    if len(declaration.inputs) > len(inputs):  # the row's first element
        inputs.append(leaves.standing_still(inputs[0], loop.dims))
    results, memory = declaration.program([e.dtype for e in inputs], working)
    named = inspect.signature(declaration.body).parameters
    params = [*along.params, *(named[n].default for n in declaration.params[len(along.params) :])]
    replace = {}
    for x in ex.walk(results):
        if x.op == "input":
            replace[x] = inputs[x.value]
        elif x.op == "param":
            replace[x] = ex.const(params[x.value], x.dtype)
    return [ex.cast(r, m) for r, m in zip(_substituted(results, replace), memory)]
