"""What a kernel is, before anyone decides how a processor runs it.

A kernel is a set of expressions and, for each operand, a dtype and how the innermost loop walks over it.
Sizes, strides and scalars are run-time values.  `schedule_cpu.py` and `schedule_gpu.py` turn the same kernel
into loops or into threads.

`Pointwise`: every output element is an expression of the input elements at the same place.
`Row`: the same along one row at a time, where expressions may also hold folds over the row (sum, maximum, …);
outputs are either as long as the row or one value a row.  A reduction is a row kernel whose outputs are all
one value a row; a scan is one whose outputs hold prefixes, the folds of each element and those before it.
`Indexed` (indexed.py): loads and stores at computed places, with loops.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from . import expr as ex
from .expr import Expr

# How the innermost loop walks over an operand.
CONTIGUOUS, BROADCAST, STRIDED = "c", "b", "s"


class Operand(NamedTuple):
    dtype: str
    access: str


class Pointwise(NamedTuple):
    """Outputs are expressions of `input` (numbered, in memory dtype), `param` and `index` leaves."""

    name: str
    outputs: tuple[Expr, ...]
    output_access: tuple[str, ...]
    inputs: tuple[Operand, ...]
    params: tuple[str, ...]

    def walking(self, access: Sequence[str]) -> Pointwise:
        """The same computation over operands that are walked over so, outputs first."""
        own, others = access[: len(self.outputs)], access[len(self.outputs) :]
        inputs = tuple(Operand(o.dtype, a) for o, a in zip(self.inputs, others, strict=True))
        return self._replace(output_access=tuple(own), inputs=inputs)

    def text(self) -> str:
        return f"pointwise {self.output_access} {self.inputs} {self.params}\n{ex.text(self.outputs)}"


class Row(NamedTuple):
    """Outputs are expressions that may hold folds.  `lanes_along` says which loop is innermost in memory: the
    row ("r"), or neighbouring rows ("k"); access patterns are along that loop.  `lanes`: elements a step, where the order in which
    folds take them is to be that of another kernel; 0: as many as the schedule finds good.
    """

    name: str
    outputs: tuple[Expr, ...]
    output_access: tuple[str, ...]
    inputs: tuple[Operand, ...]
    params: tuple[str, ...]
    lanes_along: str
    lanes: int = 0

    def varying(self) -> dict[int, bool]:
        """`varies` for these operands: an input's access tells where lanes run along the row; elsewhere assume that it does."""
        return varies(self.outputs, [o.access != BROADCAST or self.lanes_along != "r" for o in self.inputs])

    def walking(self, access: Sequence[str], lanes_along: str) -> Row:
        """The same computation over operands that are walked over so, outputs first."""
        own, others = access[: len(self.outputs)], access[len(self.outputs) :]
        inputs = tuple(Operand(o.dtype, a) for o, a in zip(self.inputs, others, strict=True))
        return self._replace(output_access=tuple(own), inputs=inputs, lanes_along=lanes_along)

    def full(self, row_inputs: Sequence[bool], full: Sequence[bool]) -> Row:
        """The same where those outputs are as long as the row, also those of which all elements are one, and the others have one value
        a row; `row_inputs` says which inputs vary along it.  ValueError for an output that varies where it has room for one value.
        """
        changes = varies(self.outputs, row_inputs)
        outputs = []
        for k, (e, whole) in enumerate(zip(self.outputs, full, strict=True)):
            if changes[id(e)] and not whole:
                raise ValueError(f"{self.name}: result {k} varies along the row: it needs a stride there")
            everywhere = whole and not changes[id(e)]
            outputs.append(ex.make("select", (ex.index(1) >= 0, e, e), e.dtype) if everywhere else e)
        return self._replace(outputs=tuple(outputs))

    def ordered(self) -> bool:
        """Whether it matters in which order the elements of a row stand."""
        return _has(self.outputs, "prefix") or _has(self.outputs, "index")

    def in_stages(self) -> tuple[Row, Row] | None:
        """The kernels of a reduction whose row is cut into blocks: states of a block, then results from states; None where there are
        no such.  Results are walked over as here, states side by side.
        """
        others = [e for e in _beside_folds(self.outputs) if e.op in ("input", "index", "prefix")]
        result = None if others else stages(self.outputs)  # the second stage has states alone
        if result is None:
            return None
        beside = BROADCAST if self.lanes_along == "r" else CONTIGUOUS
        states = tuple(Operand(e.dtype, CONTIGUOUS) for e in result.partial)
        first = self._replace(outputs=result.partial, output_access=(beside,) * len(states))
        return first, self._replace(outputs=result.final, inputs=states)

    def text(self) -> str:
        along = f"{self.lanes_along}{self.lanes or ''}"
        return f"row {along} {self.output_access} {self.inputs} {self.params}\n{ex.text(self.outputs)}"


def _has(roots: Iterable[Expr], op: str) -> bool:
    return builtins.any(e.op == op for e in ex.walk(roots))


class Fused(NamedTuple):
    """A kernel of expressions, and which of their leaves its inputs and scalars are, in the kernel's order."""

    kernel: Pointwise | Row
    inputs: tuple[int, ...]
    params: tuple[int, ...]


def fused(name: str, results: Sequence[Expr]) -> Fused:
    """One kernel of expressions that were traced apart and substituted into each other (`expr.substitute`): along rows where one folds,
    scans or reads its place in the row, else pointwise.  Leaves may have any numbers; each leaf has one dtype (TypeError).  How
    operands are walked over is not known yet: as if all were contiguous.

    The same structure gives the same text, and so the same machine code, whenever its parts were traced.

    >>> from flambeau.codegen import expr as ex
    >>> x, row = ex.input(7, "float32"), ex.input(3, "float32")
    >>> found = fused("scaled", [ex.call("exp", x) * row])
    >>> found.inputs, found.kernel.inputs[0].dtype
    ((3, 7), 'float32')
    """
    results = shared(results)
    replace: dict[Expr, Expr] = {}
    used: dict[str, list[Expr]] = {"input": [], "param": []}
    for kind, leaves in used.items():
        leaves += sorted((e for e in ex.walk(results) if e.op == kind), key=lambda e: e.value)
        numbers = [e.value for e in leaves]
        if len(set(numbers)) < len(numbers):
            twice = next(n for n in numbers if numbers.count(n) > 1)
            dtypes = sorted(e.dtype for e in leaves if e.value == twice)
            raise TypeError(
                f"{name}: {kind} {twice} is of one dtype in all expressions, got {' and '.join(dtypes)}"
            )
        replace.update({e: ex.make(kind, (), e.dtype, k) for k, e in enumerate(leaves)})
    outputs = tuple(ex.substitute(results, replace))
    inputs = tuple(Operand(e.dtype, CONTIGUOUS) for e in used["input"])
    params = tuple(e.dtype for e in used["param"])
    access = (CONTIGUOUS,) * len(outputs)
    along = builtins.any(
        e.op in ("fold", "prefix") or (e.op == "index" and e.value == 1) for e in ex.walk(outputs)
    )
    if along:
        kernel: Pointwise | Row = Row(name, outputs, access, inputs, params, "r")
    else:
        kernel = Pointwise(name, outputs, access, inputs, params)
    return Fused(kernel, tuple(e.value for e in used["input"]), tuple(e.value for e in used["param"]))


def shared(roots: Sequence[Expr]) -> list[Expr]:
    """The same expressions with all equal parts one, also where some were built after the table of shared ones had been dropped."""
    new: dict[int, Expr] = {}
    for e in ex.walk(roots):
        value = e.value
        if isinstance(value, FoldRule):
            value = FoldRule(tuple(shared(value.init)), tuple(shared(value.combine)), value.which)
        new[id(e)] = ex.make(e.op, tuple(new[id(a)] for a in e.args), e.dtype, value)
    return [new[id(r)] for r in roots]


def operands(kernel: Pointwise | Row) -> list[Operand]:
    """All of a kernel's operands, outputs first."""
    return [Operand(e.dtype, a) for e, a in zip(kernel.outputs, kernel.output_access)] + list(kernel.inputs)


# --- folds ------------------------------
class FoldRule(NamedTuple):
    """How a fold combines two partial results: `combine` holds an expression for each state, over `state`
    leaves 0 … n-1 (left) and n … 2n-1 (right).
    """

    init: tuple[Expr, ...]
    combine: tuple[Expr, ...]
    which: int

    def __repr__(self) -> str:
        return f"fold({', '.join(map(repr, self.init))}; {ex.text(self.combine)}; {self.which})"


def state(number: int, dtype: str) -> Expr:
    return ex.make("state", (), dtype, number)


def fold(combine: Callable, init: Sequence, *elements: Expr) -> tuple[Expr, ...]:
    """Combines the elements of a row, in any grouping: `combine(a, b)` takes and returns as many values as
    `elements` has and must be associative and commutative, with `init` as its identity.
    """
    return _combining("fold", combine, init, elements)


def prefix(combine: Callable, init: Sequence, *elements: Expr) -> tuple[Expr, ...]:
    """What `fold` gives for each element together with those before it."""
    return _combining("prefix", combine, init, elements)


def _combining(op: str, combine: Callable, init: Sequence, elements: Sequence[Expr]) -> tuple[Expr, ...]:
    n = len(elements)
    left = [state(k, e.dtype) for k, e in enumerate(elements)]
    right = [state(k + n, e.dtype) for k, e in enumerate(elements)]
    combined = combine(*left, *right) if n == 1 else combine(tuple(left), tuple(right))
    combined = (combined,) if n == 1 else tuple(combined)
    start = tuple(ex.like(e, v) for e, v in zip(elements, init))
    return tuple(
        ex.make(op, tuple(elements), e.dtype, FoldRule(start, combined, k)) for k, e in enumerate(elements)
    )


def fold_key(e: Expr) -> tuple:
    """Folds that share elements and rule are the states of one fold."""
    return (tuple(map(id, e.args)), tuple(map(id, e.value.combine)))


def grouped(folds: Iterable[Expr]) -> list[list[Expr]]:
    """The folds, or prefixes, those that are states of one together."""
    groups: dict[tuple, list[Expr]] = {}
    for e in folds:
        groups.setdefault(fold_key(e), []).append(e)
    return list(groups.values())


def length() -> Expr:
    """How many elements are folded in all (int64)."""
    return ex.make("length", (), "int64")


def sum(x: Expr) -> Expr:
    """Sum over the row."""
    if x.dtype == "bool":
        return fold(lambda a, b: a | b, (False,), x)[0]
    return from_zero(fold(ex.add, (nothing(x.dtype),), x)[0])


def nothing(dtype: str):
    """What changes no sum: -0, which a processor need not add."""
    return complex(-0.0, -0.0) if ex.is_complex(dtype) else -0.0 if ex.is_float(dtype) else 0


def from_zero(x: Expr) -> Expr:
    """A sum as it is when it begins with 0: that of no elements, and of -0 alone, is 0."""
    return x + ex.like(x, 0)


def prod(x: Expr) -> Expr:
    return fold(ex.mul, (1,), x)[0]


def max(x: Expr) -> Expr:
    """Largest element of the row; NaN where one is."""
    return fold(ex.maximum, (lowest(x.dtype),), x)[0]


def peak(x: Expr) -> Expr:
    """Largest of the elements that are not NaN: one instruction each, for what a NaN reaches by another way."""
    return fold(lambda a, b: ex.where(b > a, b, a), (lowest(x.dtype),), x)[0]


def min(x: Expr) -> Expr:
    return fold(ex.minimum, (highest(x.dtype),), x)[0]


def mean(x: Expr) -> Expr:
    return sum(x) / ex.cast(length(), x.dtype)


def any(x: Expr) -> Expr:
    return fold(lambda a, b: a | b, (False,), ex.cast(x, "bool"))[0]


def all(x: Expr) -> Expr:
    return fold(lambda a, b: a & b, (True,), ex.cast(x, "bool"))[0]


def _best(better: Callable[[Expr, Expr], Expr], earlier: bool = True) -> Callable:
    """Of equal elements, and of several NaN, the earlier or the later one counts."""

    def combine(a, b):
        (value_a, index_a), (value_b, index_b) = a, b
        tie = (
            (value_a == value_b)
            if not ex.is_float(value_a.dtype)
            else ((value_a == value_b) | (ex.isnan(value_a) & ex.isnan(value_b)))
        )
        wins = better(value_b, value_a)
        if ex.is_float(value_a.dtype):
            wins = wins | (ex.isnan(value_b) & ~ex.isnan(value_a))
            wins = wins & ~(ex.isnan(value_a) & ~ex.isnan(value_b))
        take = wins | (tie & ((index_b < index_a) if earlier else (index_b > index_a)))
        return ex.where(take, value_b, value_a), ex.where(take, index_b, index_a)

    return combine


def running_sum(x: Expr) -> Expr:
    return from_zero(prefix(ex.add, (nothing(x.dtype),), x)[0])


def running_prod(x: Expr) -> Expr:
    return prefix(ex.mul, (1,), x)[0]


def max_index(x: Expr) -> tuple[Expr, ...]:
    """The largest element and where it first stands; a NaN counts as the largest."""
    return fold(_best(lambda a, b: a > b), (lowest(x.dtype), NOWHERE), x, ex.index(1))


def min_index(x: Expr) -> tuple[Expr, ...]:
    return fold(_best(lambda a, b: a < b), (highest(x.dtype), NOWHERE), x, ex.index(1))


def running_max_index(x: Expr) -> tuple[Expr, ...]:
    """The largest element so far and where it last stood; a NaN counts as the largest."""
    return prefix(_best(lambda a, b: a > b, earlier=False), (lowest(x.dtype), -1), x, ex.index(1))


def running_min_index(x: Expr) -> tuple[Expr, ...]:
    return prefix(_best(lambda a, b: a < b, earlier=False), (highest(x.dtype), -1), x, ex.index(1))


NOWHERE = (1 << 62) - 1


def lowest(dtype: str):
    if dtype == "bool":
        return False
    if ex.is_float(dtype):
        return float("-inf")
    return -(1 << (ex.BITS[dtype] - 1)) if ex.is_signed(dtype) else 0


def highest(dtype: str):
    if dtype == "bool":
        return True
    if ex.is_float(dtype):
        return float("inf")
    return (1 << (ex.BITS[dtype] - 1 if ex.is_signed(dtype) else ex.BITS[dtype])) - 1


def folds_by_depth(outputs: Sequence[Expr]) -> list[list[list[Expr]]]:
    """The folds that each pass over the row computes, `grouped`: a fold comes after those its elements need."""
    depth: dict[int, int] = {}
    levels: list[list[Expr]] = []
    for e in ex.walk(outputs):
        below = _max([depth[id(a)] for a in e.args], 0)
        depth[id(e)] = below + (e.op == "fold")
        if e.op == "fold":
            while len(levels) <= below:
                levels.append([])
            levels[below].append(e)
    return [grouped(folds) for folds in levels]


def _max(values, default):
    best = default
    for v in values:
        best = v if v > best else best
    return best


def varies(outputs: Sequence[Expr], row_inputs: Sequence[bool]) -> dict[int, bool]:
    """For each expression, whether its value changes along the row."""
    out: dict[int, bool] = {}
    for e in ex.walk(outputs):
        if e.op == "input":
            out[id(e)] = row_inputs[e.value]
        elif e.op == "index":
            out[id(e)] = e.value == 1
        elif e.op in ("fold", "prefix"):
            out[id(e)] = e.op == "prefix"
        else:
            out[id(e)] = True in [out[id(a)] for a in e.args]
    return out


def prefixes(outputs: Sequence[Expr]) -> list[list[Expr]]:
    """The prefixes that the outputs read, those of one rule over the same elements together."""
    return grouped(e for e in ex.walk(outputs) if e.op == "prefix")


class ScanStages(NamedTuple):
    """A scan of a long row in blocks: the states of each block, their prefixes, and the scan of a block from the
    states before it, which follow the inputs.
    """

    totals: tuple[Expr, ...]
    joined: tuple[Expr, ...]
    continued: tuple[Expr, ...]


def scan_stages(outputs: Sequence[Expr], inputs: int) -> ScanStages:
    """The kernels that a scan over `inputs` inputs is made of, where its rows are cut into blocks."""
    totals: list[Expr] = []
    joined: list[Expr] = []
    replace: dict[Expr, Expr] = {}
    for members in prefixes(outputs):
        elements, rule = members[0].args, members[0].value
        alone = [ex.input(len(totals) + k, s.dtype) for k, s in enumerate(rule.combine)]
        before = [ex.input(inputs + len(totals) + k, s.dtype) for k, s in enumerate(rule.combine)]
        own = [
            ex.make("prefix", elements, s.dtype, rule._replace(which=k)) for k, s in enumerate(rule.combine)
        ]
        # the block's own prefix goes in as a state of its own, so that no rule is applied to what it gave
        after = continued_from(rule, before, own)
        for k, s in enumerate(rule.combine):
            totals.append(ex.make("fold", elements, s.dtype, rule._replace(which=k)))
            joined.append(ex.make("prefix", tuple(alone), s.dtype, rule._replace(which=k)))
        replace.update({e: after[e.value.which] for e in members})
    return ScanStages(tuple(totals), tuple(joined), tuple(ex.substitute(list(outputs), replace)))


def continued_from(rule: FoldRule, before: Sequence[Expr], own: Sequence[Expr]) -> list[Expr]:
    """The rule's combination of the states before with a block's own, spelled out."""
    given = [*before, *own]
    states = {e: given[e.value] for root in rule.combine for e in ex.walk([root]) if e.op == "state"}
    return ex.substitute(list(rule.combine), states)


def adds_float32(rule: FoldRule) -> bool:
    combined = rule.combine[0]
    return len(rule.combine) == 1 and combined.op == "add" and combined.dtype == "float32"


def sum_of_parts(parts: Expr) -> Expr:
    """Of few and large numbers, which lose the most digits: in float64."""
    return ex.cast(fold(ex.add, (nothing("float64"),), ex.cast(parts, "float64"))[0], parts.dtype)


def _beside_folds(roots: Sequence[Expr]) -> list[Expr]:
    """The expressions that are computed of folds, down to those and to leaves beside them."""
    result, stack, seen = [], list(roots), set()
    while stack:
        e = stack.pop()
        if id(e) not in seen:
            seen.add(id(e))
            result.append(e)
            if e.op != "fold":
                stack.extend(e.args)
    return result


class Stages(NamedTuple):
    """A reduction that can run in two stages: over blocks of the row, then over the blocks' states."""

    partial: tuple[Expr, ...]  # the states of one block
    final: tuple[Expr, ...]  # the outputs, reading the states as inputs


def stages(outputs: Sequence[Expr]) -> Stages | None:
    """Split a reduction whose folds need no other fold; None where one pass depends on another."""
    levels = folds_by_depth(outputs)
    if len(levels) != 1:
        return None
    states: list[Expr] = []
    replace: dict[Expr, Expr] = {}
    for members in levels[0]:
        rule = members[0].value
        elements = [ex.input(len(states) + k, s.dtype) for k, s in enumerate(rule.combine)]
        for k, s in enumerate(rule.combine):
            states.append(ex.make("fold", members[0].args, s.dtype, FoldRule(rule.init, rule.combine, k)))
        for e in members:
            if adds_float32(rule):
                replace[e] = sum_of_parts(elements[0])
            else:
                replace[e] = ex.make("fold", tuple(elements), e.dtype, e.value)
    return Stages(tuple(states), tuple(ex.substitute(list(outputs), replace)))
