"""Pointwise kernels for a CPU core: loops over vectors, tiles of operands in another order, stages of chained functions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from . import expr as ex
from .expr import Expr
from .irtext import Value, i64
from .kernels import BROADCAST, CONTIGUOUS, STRIDED
from .lower import ITEMSIZE, MEMORY, Lowering, expanded, settled, walk_until
from .schedule_cpu_frame import VECTOR_BYTES, Frame, halved, lanes_for
from .stages import Stage, Stages, stages_of

TILES_ACROSS = 4  # tiles that are read beside each other before the next ones along a line ...
BLOCKED_BYTES = (
    1 << 20
)  # ... of such large results, and of those that no cache holds if their lines begin where vectors do
TILE_BODY = 8  # operations an element up to which turning tiles in registers pays
POINTWISE_HEAD = 4  # n0, n1, number of the first element, elements of the whole launch
STREAMING_BYTES = 1 << 25  # of a result, from which its stores go round the caches


class PointwiseSchedule:
    """for j in n1: for i in n0 (vectors): load, compute, store.

    An operand that is strided along i but contiguous along j, as in a transposed copy, is read in square tiles
    that are turned in registers, where the body is short: gathering its elements one by one costs more.
    """

    def __init__(self, frame: Frame):
        self.frame, self.f, self.kernel = frame, frame.f, frame.kernel
        count = len(frame.operands)
        self.n0, self.n1, self.first, self.total = (frame.geometry(k) for k in range(POINTWISE_HEAD))
        self.inner = [
            frame.geometry(POINTWISE_HEAD + k) if frame.operands[k].access == STRIDED else i64(1)
            for k in range(count)
        ]
        self.outer = [frame.geometry(POINTWISE_HEAD + count + k) for k in range(count)]
        accesses = [o.access for o in frame.operands]
        self.lanes = lanes_for(self.kernel.outputs, accesses, long=1 if halved(frame.f.module.triple) else 2)
        self.side = 16 if max(ITEMSIZE[e.dtype] for e in ex.walk(self.kernel.outputs)) <= 4 else 8
        self.bodies = expanded(list(self.kernel.outputs))

    def settle(self, lanes: Sequence[int]) -> dict[int | None, dict[Expr, Value]]:
        """What is the same for all elements, computed before the loops; in vectors of so many lanes."""
        params = {e: self.frame.params[e.value] for e in ex.walk(self.bodies) if e.op == "param"}
        early = settled(self.bodies, params)
        known = dict(params)
        known.update(zip(early, Lowering(self.f, None).values(early, dict(params))))
        return {n: {e: Lowering(self.f, n).splat(v) for e, v in known.items()} for n in lanes}

    def emit(self) -> None:
        self.fixed = self.settle([self.lanes, self.side] if self.turns() else [self.lanes])
        begin = self.tiles() if self.turns() else i64(0)
        self.stages = None if self.turns() else stages_of(self.kernel.outputs)
        if self.stages:
            capacity = self.stages.elements
            self.blocks = [
                self.f.op("ptr", f"alloca [{capacity} x {MEMORY[d]}], align {VECTOR_BYTES}")
                for d in self.stages.blocks
            ]
        self.f.loop(begin, self.n1, i64(1), [], lambda j, _: self.line(j))
        if not self.stages and self.may_stream(self.side if self.turns() else self.lanes):
            self.fence()

    def line(self, j: Value):
        rows = self.rows(j)
        if self.stages:
            self.by_stages(j, rows, self.stages)
            return []
        begin = None if self.turns() or not self.may_stream(self.lanes) else self.streamed(j, rows)
        body = lambda low, i, mask, _: self.step(low, j, i, rows, mask)  # noqa: E731
        self.frame.vectors(self.n0, self.lanes, [], body, begin)
        return []

    # --- streaming stores ---
    def may_stream(self, lanes: int) -> bool:
        """Whether the kernel has stores that go round the caches, of so many lanes.

        A plain store reads its line first, which a result of which no line is left in the caches when the kernel ends does in vain.
        Without, `a + 1` of 64 MB takes 0.6 of the time, and a transposed copy 0.3.  Bodies that compute long gain nothing, and other
        processors than x86 have no such stores of whole lines.
        """
        outputs, inputs = self.frame.operands[: self.frame.outputs], self.frame.operands[self.frame.outputs :]
        return (
            self.f.module.triple.startswith("x86_64")
            and any(o.access != BROADCAST for o in inputs)
            and all(o.access == CONTIGUOUS and lanes * ITEMSIZE[o.dtype] >= VECTOR_BYTES for o in outputs)
            and sum(bool(e.args) for e in ex.walk(self.bodies)) <= TILE_BODY
        )

    def pays(self, places: list[Value], steps: Sequence[Value] = ()) -> Value:
        """Whether streaming stores pay from these places on (of all operands), and as many elements on as the outputs' steps tell: for
        large results at addresses that vectors have, not over an operand, whose lines are read in any case.
        """
        f, outputs = self.f, self.frame.outputs
        result = f.binary("and", self.large(), self.aligned(places, steps))
        for place in places[:outputs]:
            for o, other in zip(self.frame.operands[outputs:], places[outputs:]):
                if o.access != BROADCAST:
                    result = f.binary("and", result, f.op("i1", f"icmp ne {place}, {other.name}"))
        return result

    def aligned(self, places: list[Value], steps: Sequence[Value] = ()) -> Value:
        """Whether the outputs, from these places on and as many elements on as their steps tell, begin where vectors do."""
        f, outputs, result = self.f, self.frame.outputs, Value("i1", "true")
        addresses = [f.op("i64", f"ptrtoint {place} to i64") for place in places[:outputs]]
        addresses += [f.mul(s, i64(ITEMSIZE[o.dtype])) for s, o in zip(steps, self.frame.operands[:outputs])]
        for address in addresses:
            beyond = f.binary("and", address, i64(VECTOR_BYTES - 1))
            result = f.binary("and", result, f.op("i1", f"icmp eq {beyond}, 0"))
        return result

    def streamed(self, j: Value, rows: list[Value]) -> Value:
        """The whole vectors of a line by streaming stores, where that pays; the number of elements done."""
        f, low = self.f, Lowering(self.f, self.lanes)

        def stream() -> list[Value]:
            whole = f.binary("and", self.n0, i64(-self.lanes))
            turn = lambda i, _: self.step(low, j, i, rows, None, streaming=True)  # noqa: E731
            f.loop(i64(0), whole, i64(self.lanes), [], turn)
            return [whole]

        return f.when(self.pays(rows), stream, [i64(0)])[0]

    def large(self, limit: int = STREAMING_BYTES) -> Value:
        """Whether the results of the whole launch have so many bytes."""
        return self.f.op("i1", f"icmp sge {self.total}, {limit // self.bytes_written()}")

    def fence(self) -> None:
        """Other threads see streaming stores in any order until then."""

        def wait() -> list[Value]:
            self.f.call("void", "llvm.x86.sse.sfence")
            return []

        self.f.when(self.large(), wait)

    def bytes_written(self) -> int:
        return sum(ITEMSIZE[o.dtype] for o in self.frame.operands[: self.frame.outputs])

    def rows(self, j: Value) -> list[Value]:
        return [
            self.f.gep(MEMORY[o.dtype], b, self.f.mul(j, s))
            for o, b, s in zip(self.frame.operands, self.frame.base, self.outer)
        ]

    def step(
        self,
        low: Lowering,
        j: Value,
        i: Value,
        rows: list[Value],
        mask: Value | None,
        streaming: bool = False,
    ):
        """One vector from element i of line j on."""
        self.store(low, i, rows, self.values(low, j, i, rows, mask), mask, streaming)
        return []

    def values(
        self, low: Lowering, j: Value, i: Value, rows: list[Value], mask: Value | None, turned=()
    ) -> list[Value]:
        """The results from element i of line j on; `turned` holds operands that are in registers already."""
        leaves = dict(self.fixed[low.lanes])
        self.load(low, j, i, self.at(rows, i), mask, self.bodies, leaves, turned)
        return low.values(self.bodies, leaves)

    def store(
        self,
        low: Lowering,
        i: Value,
        rows: list[Value],
        values: list[Value],
        mask: Value | None,
        streaming: bool,
    ) -> None:
        at = self.at(rows, i)
        for k, v in enumerate(values):
            self.frame.store(low, k, v, at[k], self.inner[k], mask, streaming)

    def at(self, rows: list[Value], i: Value) -> list[Value]:
        """Where element i of a line stands in each operand."""
        return [
            p if o.access == BROADCAST else self.f.gep(MEMORY[o.dtype], p, self.f.mul(i, s))
            for o, p, s in zip(self.frame.operands, rows, self.inner)
        ]

    def load(
        self,
        low: Lowering,
        j: Value,
        i: Value,
        at: list[Value],
        mask: Value | None,
        roots: list[Expr],
        leaves,
        turned=(),
    ) -> None:
        """Enter the elements that the roots read among the leaves."""
        f, frame = self.f, self.frame
        for e in walk_until(roots, leaves, unlikely=True):
            if e.op == "input":
                k = frame.outputs + e.value
                if k in turned:
                    leaves[e] = low.from_memory(turned[k], e.dtype)
                else:
                    leaves[e] = frame.load(low, k, at[k], self.inner[k], mask)
            elif e.op == "index":
                start = f.add(self.first, f.mul(j, self.n0))
                leaves[e] = f.binary("add", low.splat(f.add(start, i)), low.iota(64))

    # --- stages ---
    def by_stages(self, j: Value, rows: list[Value], result: Stages) -> None:
        """A line in blocks, each computed function by function."""
        f = self.f

        def block(begin: Value, _) -> list[Value]:
            end = self.frame.smaller(f.add(begin, i64(result.elements)), self.n0)
            count = f.binary("sub", end, begin)
            for stage in result.stages:
                outputs = [self.kernel.outputs[k] for k in stage.outputs]
                roots = expanded([*outputs, *(k.value for k in stage.keeps)], {k.value for k in stage.reads})
                turn = partial(self.stage_step, stage, roots, j, begin, rows)
                self.frame.vectors(count, self.lanes, [], turn)
            return []

        f.loop(i64(0), self.n0, i64(result.elements), [], block)

    def stage_step(
        self, stage: Stage, roots: list[Expr], j: Value, begin: Value, rows: list[Value], *turn: Any
    ):
        """One vector of one stage, from element i of the block on."""
        (low, i, mask, _), f = turn, self.f
        leaves = dict(self.fixed[low.lanes])
        for value, k in stage.reads:
            scalar = MEMORY[value.dtype]
            read = f.load(low.vector(scalar), f.gep(scalar, self.blocks[k], i), ITEMSIZE[value.dtype])
            leaves[value] = low.from_memory(read, value.dtype)
        element = f.add(begin, i)
        at = self.at(rows, element)
        self.load(low, j, element, at, mask, roots, leaves)
        values = low.values(roots, leaves)
        for number, value in zip(stage.outputs, values):
            self.frame.store(low, number, value, at[number], self.inner[number], mask)
        for (e, k), value in zip(stage.keeps, values[len(stage.outputs) :]):
            place = f.gep(MEMORY[e.dtype], self.blocks[k], i)
            f.store(low.to_memory(value, e.dtype), place, ITEMSIZE[e.dtype])
        return []

    # --- tiles ---
    def turns(self) -> list[int]:
        """The operands to read in tiles, if that pays."""
        frame = self.frame
        strided = [k for k, o in enumerate(frame.operands) if o.access == STRIDED]
        work = [e for e in ex.walk(self.kernel.outputs) if e.args]
        if min(strided, default=0) < frame.outputs or len(work) > TILE_BODY:
            return []
        return strided

    def tiles(self) -> Value:
        """All whole tiles, where the strided operands are contiguous along j; how many lines that were."""
        f, turned = self.f, self.turns()
        side = self.side
        fits = f.op("i1", f"icmp sge {self.n0}, {side}")
        for k in turned:
            fits = f.binary("and", fits, f.op("i1", f"icmp eq {self.outer[k]}, 1"))
        lines, whole = (f.binary("and", n, i64(-side)) for n in (self.n1, self.n0))
        low = Lowering(f, side)
        outputs = self.outer[: self.frame.outputs]
        pays = self.pays(self.frame.base, outputs) if self.may_stream(side) else None
        near = f.binary("xor", self.large(), Value("i1", "true"))
        near = f.binary("or", near, self.aligned(self.frame.base, outputs))
        blocked = f.binary("and", self.large(BLOCKED_BYTES), near)
        block_lines = f.op("i64", f"select {blocked}, {i64(side * TILES_ACROSS)}, {i64(side)}")

        def block(j: Value, _):
            end = self.frame.smaller(f.add(j, block_lines), lines)

            def across(i: Value, _):
                f.loop(j, end, i64(side), [], lambda at, _: self.tile(low, at, i, pays))
                return []

            f.loop(i64(0), whole, i64(side), [], across)
            rest = f.op("i1", f"icmp slt {whole}, {self.n0.name}")
            mask = self.frame.mask(low, whole, self.n0)

            def remainder():
                f.loop(j, end, i64(1), [], lambda r, _: self.step(low, r, whole, self.rows(r), mask))
                return []

            f.when(rest, remainder)
            return []

        def all_blocks():
            f.loop(i64(0), lines, block_lines, [], block)
            return [lines]

        return f.when(fits, all_blocks, [i64(0)])[0]

    def tile(self, low: Lowering, j: Value, i: Value, pays: Value | None):
        f = self.f
        squares = {k: self.turned(low, k, j, i) for k in self.turns()}
        lines = []
        for r in range(low.lanes or 1):
            line = f.add(j, i64(r))
            rows = self.rows(line)
            values = self.values(low, line, i, rows, None, {k: square[r] for k, square in squares.items()})
            lines.append((rows, values))

        def stored(streaming: bool) -> list[Value]:
            for rows, values in lines:
                self.store(low, i, rows, values, None, streaming)
            return []

        if pays is None:
            stored(False)
        else:
            f.when(f.binary("xor", pays, Value("i1", "true")), lambda: stored(False))
            f.when(pays, lambda: stored(True))
        return []

    def turned(self, low: Lowering, k: int, j: Value, i: Value) -> list[Value]:
        """A square tile, read in vectors along j; vectors along i.  Each round of the butterfly swaps blocks of
        twice the size across the diagonal.
        """
        f, dtype, side = self.f, self.frame.operands[k].dtype, low.lanes or 1
        corner = f.gep(MEMORY[dtype], f.gep(MEMORY[dtype], self.frame.base[k], j), f.mul(i, self.inner[k]))
        type, square = low.vector(MEMORY[dtype]), []
        for _ in range(side):
            square.append(f.load(type, corner, ITEMSIZE[dtype]))
            corner = f.gep(MEMORY[dtype], corner, self.inner[k])
        distance = 1
        while distance < side:
            for r in range(side):
                if not r & distance:
                    a, b = square[r], square[r + distance]
                    upper = [side + n - distance if n & distance else n for n in range(side)]
                    lower = [side + n if n & distance else n + distance for n in range(side)]
                    square[r], square[r + distance] = self.shuffled(a, b, upper), self.shuffled(a, b, lower)
            distance *= 2
        return square

    def shuffled(self, a: Value, b: Value, picks: list[int]) -> Value:
        picked = ", ".join(f"i32 {n}" for n in picks)
        return self.f.op(a.type, f"shufflevector {a}, {b}, <{len(picks)} x i32> <{picked}>")
