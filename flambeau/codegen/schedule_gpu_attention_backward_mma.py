"""Gradients of attention in float16 and bfloat16 by tensor cores: `mma.sync`, for NVIDIA's sm_80 on.

Two kernels, as in `schedule_gpu_attention_backward.py`, whose formulas these are, with a block's rows of one *side* and those of the other,
OTHER at a time, in order.  On either side the scores are computed with the block's own rows as rows, so that what comes of them is a left
operand of the sums without leaving its thread:

    side      own      other    scores        dP            sums
    queries   Q, dO    K, V     Q Kᵀ          dO Vᵀ         dQ += dS K
    keys      K, V     Q, dO    (Q Kᵀ)ᵀ       (dO Vᵀ)ᵀ      dK += dSᵀ Q,  dV += Pᵀ dO

Weights and dS are rounded to the operands' dtype before they are multiplied, sums are in float32.  Each result is added up by one thread,
in the order of the other side's rows: no atomics, and the same bits on every run.

A weight is exp(factor · s - lse) = ex2(k · s - log₂ e · lse) with k = factor · log₂ e.  The logarithms and the deltas of the other side's
queries are copied to shared memory with their rows, those of a block's own queries are in registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .irtext import Module, Value, i64
from .schedule_gpu_attention_backward import SIZE, WIDTH, parameters
from .schedule_gpu_attention_halves import MOST_WIDTH, SEGMENT, Halves
from .schedule_gpu_copies import LINE, PATTERN, Operand
from .schedule_gpu_mma import DEEP, HIGH, WIDE
from .schedule_gpu_scores import KernelOfScores
from .schedule_gpu_stages import STAGES
from .schedule_gpu_threads import MOST_BLOCKS, WARP, Blocks

if TYPE_CHECKING:
    from .schedule_gpu_attention_backward import AttentionBackward

WARPS = 4
OWN = WARPS * HIGH  # rows of a block
OTHER = 32  # rows of the other side at a time
LOG2_E = math.log2(math.e)
OPERANDS = {
    "queries": ("qg", "kv"),
    "keys": ("kv", "qg"),
}  # of the block's own side and of the other: of scores, of dP


class _Fields(NamedTuple):
    dtype: str
    processor: str
    side: str
    width: int
    columns: int


class TensorCoreBackward(_Fields, KernelOfScores):
    """The kernel of a `side`, without functions of scores and masks; `width`, `columns`: of queries and values, up to which it has room."""

    __slots__ = ()
    name = "scaled_dot_product_attention_backward"
    instruction = "mma"
    threads = WARPS * WARP
    score = mask = None
    captures: tuple[tuple[str, int], ...] = ()

    @property
    def segments(self) -> dict[str, int]:
        """Lines of shared memory for a row of each operand."""
        wide, across = -(-self.width // SEGMENT), -(-self.columns // SEGMENT)
        return {"q": wide, "k": wide, "g": across, "v": across}

    @property
    def places(self) -> dict[str, int]:
        """Where operands begin in shared memory, and "rows", the logarithms and deltas of the other side; "end" of it all."""
        result, at = {}, 0
        for names, rows in zip(OPERANDS[self.side], (OWN, OTHER)):
            for name in names:
                result[name], at = at, at + LINE * rows * self.segments[name]
        return {**result, "rows": at, "end": at + 8 * OTHER}

    def text(self) -> str:
        return f"tensor core attention backward {tuple(self)}"

    def blocks(self, target: str, numbers: Sequence[int]) -> Blocks:
        batches, heads, groups, queries, keys, *_ = numbers
        rows, groups = (queries, groups) if self.side == "queries" else (keys, 1)
        count = batches * heads * groups * -(-rows // OWN)
        return Blocks((min(count, MOST_BLOCKS), 1, 1), (self.threads, 1, 1), self.places["end"] + PATTERN)

    def module(self, target: str) -> Module:
        return _Writer(self).module


def chosen(kernel: AttentionBackward, processor: str) -> TensorCoreBackward | None:
    """The kernel by tensor cores, where the processor has those that take its dtype, and its widths fit into registers."""
    wide, across = (-(-n // DEEP) * DEEP for n in (kernel.shape.width, kernel.shape.columns))
    if kernel.dtype not in ("float16", "bfloat16") or processor not in STAGES:
        return None
    if max(wide, across) > MOST_WIDTH or kernel.score is not None or kernel.mask is not None:
        return None
    return TensorCoreBackward(kernel.dtype, processor, kernel.side, wide, across)


class _Writer(Halves):
    kernel: TensorCoreBackward
    size, width = SIZE, WIDTH

    def __init__(self, kernel: TensorCoreBackward) -> None:
        self.by_queries = kernel.side == "queries"
        self.own, self.other = OPERANDS[kernel.side]
        # the right operands of sums, and how many tiles of 8 columns each has
        self.summed = {"k": kernel.width // WIDE} if self.by_queries else {}
        if not self.by_queries:
            self.summed = {"q": kernel.width // WIDE, "g": kernel.columns // WIDE}
        super().__init__(kernel, parameters(kernel))

    # --- the walk ---
    def count(self) -> Value:
        heads = ("batches", "heads", "groups") if self.by_queries else ("batches", "heads")
        return self.product_of(self.tiles_of(self.kernel.side, OWN), *heads)

    def locate(self, number: Value) -> None:
        """Which rows a block has, and what of them the thread does."""
        f, given, kernel = self.f, self.given, self.kernel
        self.place_thread()
        row = self.times(f.binary("lshr", self.thread, i64(5)), HIGH)
        self.lines = {name: self.places(True, True, row, kernel.places[name])[0] for name in self.own}
        self.lines |= {name: self.places(False, True, 0, kernel.places[name])[0] for name in self.other}
        self.turned = {name: self.places(False, False, 0, kernel.places[name])[0] for name in self.summed}
        # the thread's first row and column of a tile of sums
        self.row = f.add(row, f.binary("lshr", self.lane, i64(2)))
        self.column = self.times(f.binary("and", self.lane, i64(3)), 2)
        self.factor = self.low.cast(given["factor"], "float64", "float32")
        self.k = self.times_float(self.factor, self.number(LOG2_E))
        down = self.tiles_of(kernel.side, OWN)
        if self.by_queries:
            self.batch, self.head, own, tile = f.coordinates(
                self.anew(number), [given["heads"], given["groups"], down]
            )
            self.query_head = f.add(f.mul(self.head, given["groups"]), own)
            # the last queries first: under a causal mask they see most
            tile = f.binary("sub", f.binary("sub", down, i64(1)), tile)
        else:
            self.batch, self.head, tile = f.coordinates(self.anew(number), [given["heads"], down])
        self.row0 = self.times(tile, OWN)

    def operand(self, name: str, first: Value) -> Operand:
        kernel = self.kernel
        head = self.query_head if name in "qg" else self.head
        side = OWN if name in self.own else OTHER
        return self.operand_at(name, head, first, side, kernel.segments[name], kernel.places[name])

    def copy_side(self, names: str, first: Value) -> None:
        """The rows from `first` on of a side's two operands."""
        for name in names:
            self.copy(self.operand(name, first), WIDTH[name])

    def block(self, carried: list[Value]) -> list[Value]:
        f, given, number = self.f, self.given, carried[0]
        self.locate(number)
        self.threads.barrier()  # all have read what was there
        sums = [self.zero] * (4 * sum(self.summed.values()))
        if self.by_queries:
            self.copy_side(self.own, self.row0)
            own = [self.row_numbers(f.add(self.row0, self.row_of(r))) for r in range(2)]
            last = self.last(f.add(self.row0, i64(OWN - 1)))  # the keys that any of the queries sees
            sums = f.loop(i64(0), last, i64(OTHER), sums, lambda first, sums: self.some(first, sums, own))
        else:
            # the first query that sees the block's first key
            begin = f.binary("sub", self.row0, given["reach"])
            begin = self.low.select(self.test("sgt", begin, i64(0)), begin, i64(0))
            begin = f.binary("and", begin, i64(-OTHER))

            def of_head(group: Value, sums: list[Value]) -> list[Value]:
                self.query_head = f.add(f.mul(self.head, given["groups"]), group)
                return f.loop(
                    begin, given["queries"], i64(OTHER), sums, lambda first, sums: self.some(first, sums, [])
                )

            self.copy_side(self.own, self.row0)
            sums = f.loop(i64(0), given["groups"], i64(1), sums, of_head)
        self.all_copied()
        self.locate(number)
        self.store(sums)
        return [f.add(number, self.threads.blocks())]

    def row_of(self, r: int) -> Value:
        """Which of the block's rows is the thread's row `r`."""
        return self.f.add(self.row, i64(8 * r))

    # --- logarithms and deltas ---
    def row_numbers(self, query: Value) -> list[Value]:
        """A query's logarithm, of base 2, and its delta; -inf and 0 for one that does not exist."""
        f, given = self.f, self.given
        heads = f.mul(given["heads"], given["groups"])
        line = f.mul(f.add(f.mul(self.batch, heads), self.query_head), given["queries"])
        all = f.mul(f.mul(given["batches"], heads), given["queries"])

        def load() -> list[Value]:
            places = f.add(line, query), f.add(f.add(all, line), query)
            lse, delta = (f.load("float", f.gep("float", given["rows"], at), 4) for at in places)
            return [self.times_float(lse, self.number(LOG2_E)), delta]

        return f.when(self.test("slt", query, given["queries"]), load, [self.nothing, self.zero])

    def copy_numbers(self, first: Value) -> None:
        """The same of the other side's queries, to shared memory: a thread for each."""

        def put() -> list[Value]:
            place = self.bytes(self.memory, self.times(self.thread, 4))
            for n, value in enumerate(self.row_numbers(self.f.add(first, self.thread))):
                self.f.store(value, self.bytes(place, self.kernel.places["rows"] + 4 * OTHER * n), 4)
            return []

        self.f.when(self.test("slt", self.thread, i64(OTHER)), put)

    def numbers_of(self, j: int) -> list[list[Value]]:
        """Of the thread's two columns in a tile of 8: each its logarithm and its delta."""
        f, place = self.f, self.bytes(self.memory, self.times(self.column, 4))
        pairs = []
        for n in range(2):
            here = self.bytes(place, self.kernel.places["rows"] + 4 * (OTHER * n + WIDE * j))
            pairs.append(f.load("<2 x float>", here, 8))
        return [[f.op("float", f"extractelement {pair}, i32 {n}") for pair in pairs] for n in range(2)]

    # --- some rows of the other side ---
    def some(self, first: Value, sums: list[Value], own: list[list[Value]]) -> list[Value]:
        """The sums with those of OTHER rows more; `own`: the logarithms and deltas of the thread's own queries."""
        self.copy_side(self.other, first)
        if not self.by_queries:
            self.copy_numbers(first)
        self.arrived()
        scores, arriving = (self.scores(n) for n in range(2))
        weights, changes = self.changed(first, scores, arriving, own)
        result, at = [], 0
        for name, count in self.summed.items():
            rows = weights if name == "g" else changes
            part = sums[at : at + 4 * count]
            at += 4 * count
            result += self.tiles_times(
                self.in_registers(rows),
                OTHER // DEEP,
                self.turned[name],
                OTHER,
                False,
                part,
            )
        self.threads.barrier()  # all have read what the next ones replace
        return result

    def in_registers(self, rows: list[list[Value]]) -> Callable[[int], list[list[Value]]]:
        """The left operands of 16 terms of what the thread has of its two rows."""
        return lambda step: [self.fragment(rows, 0, step)]

    def scores(self, n: int) -> list[Value]:
        """The product of the two sides' operands number `n`, four sums of each tile of 8 columns."""
        own, other = self.own[n], self.other[n]
        steps = (self.kernel.columns if own in "gv" else self.kernel.width) // DEEP
        lefts = self.from_memory(self.lines[own], OWN, 1)
        return self.tiles_times(lefts, steps, self.lines[other], OTHER, True, [self.zero] * (OTHER // 2))

    def changed(
        self, first: Value, scores: list[Value], arriving: list[Value], own: list[list[Value]]
    ) -> tuple[list[list[Value]], list[list[Value]]]:
        """Weights and what reaches the scores, before the factor: of each of the thread's two rows its columns."""
        f = self.f
        weights: list[list[Value]] = [[], []]
        changes: list[list[Value]] = [[], []]
        rows = [f.add(self.row0, self.row_of(r)) for r in range(2)]
        column = f.add(first, self.column)
        seen = [
            self.seen(row, column, OTHER) if self.by_queries else self.unseen(row, column) for row in rows
        ]
        for j in range(OTHER // WIDE):
            numbers = [] if self.by_queries else self.numbers_of(j)
            for r in range(2):
                for n in range(2):
                    further = WIDE * j + n
                    (lse, delta), how = (own[r], "sgt") if self.by_queries else (numbers[n], "sle")
                    visible = f.op("i1", f"icmp {how} {seen[r]}, {further}")
                    at = 4 * j + 2 * r + n
                    # a query that sees nothing has no weights, and its logarithm is -inf
                    visible = self.both(visible, f.op("i1", f"fcmp une {lse}, {self.nothing.name}"))
                    power = f.call("float", "llvm.fma.f32", scores[at], self.k, f.op("float", f"fneg {lse}"))
                    weight = self.low.select(visible, self.power(power), self.zero)
                    change = self.times_float(weight, f.binary("fsub", arriving[at], delta))
                    weights[r].append(weight)
                    changes[r].append(self.low.select(visible, change, self.zero))
        return weights, changes

    def unseen(self, key: Value, first: Value) -> Value:
        """How many queries from `first` on do not see a key: at most OTHER, in 32 bits."""
        f, given = self.f, self.given
        count = f.binary("sub", f.binary("sub", key, given["reach"]), first)
        count = self.low.select(self.test("sgt", count, i64(0)), count, i64(0))
        exists = self.test("slt", key, given["keys"])
        count = self.low.select(exists, self.least(count, i64(OTHER)), i64(OTHER))
        return f.op("i32", f"trunc {count} to i32")

    # --- results ---
    def store(self, sums: list[Value]) -> None:
        """The gradients, dense."""
        f, given = self.f, self.given
        at = 0
        for name, count in self.summed.items():
            result = {"k": "q", "q": "k", "g": "v"}[name]
            size, width = given[SIZE[result]], given[WIDTH[result]]
            heads, head = given["heads"], self.head
            if result == "q":
                heads, head = f.mul(heads, given["groups"]), self.query_head
            line = f.mul(f.add(f.mul(self.batch, heads), head), size)
            even = self.test("eq", f.binary("and", width, i64(1)), i64(0))
            own = sums[at : at + 4 * count]
            at += 4 * count
            if result != "v":
                own = [self.times_float(s, self.factor) for s in own]
            for r in range(2):
                row = f.add(self.row0, self.row_of(r))
                start = f.add(f.mul(f.add(line, row), width), self.column)
                to = f.gep(self.kind, given[f"to_{result}"], start)

                def put(own=own, to=to, r=r, count=count, width=width, even=even) -> list[Value]:
                    for j in range(count):
                        column = f.add(self.column, i64(WIDE * j))
                        first, second = own[4 * j + 2 * r : 4 * j + 2 * r + 2]
                        here = f.gep(self.kind, to, i64(WIDE * j))
                        self.store_pair(here, column, width, first, second, even)
                    return []

                f.when(self.test("slt", row, size), put)
