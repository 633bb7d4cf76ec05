"""Gradients of attention as threads, without all scores: two kernels, of queries, and of keys and values.

With the weights P = exp(S - lse), which are computed again from scores and the logarithms of sums, and what arrives at them, dP = dO Vᵀ,

    dS = P · (dP - delta)    delta = Σ dO · O, less what arrives at lse, a number a query
    dQ = factor · dS K       dK = factor · dSᵀ Q       dV = Pᵀ dO

(Dao et al., FlashAttention, 2022, eq. 4).  A block of threads takes some rows of its *side*, queries or keys, and goes over those of the
other side, some at a time, in order: of queries, those of all heads that share the keys.  Each result is added up by one thread, so
there are no atomics, and the bits are the same on every run.  Both products of a tile of scores, and those with it, go as in
`schedule_gpu_attention.py`; all four operands lie in shared memory turned, a line a column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from . import expr as ex
from .expr import Expr
from .irtext import Module, Value, i64
from .lower import ITEMSIZE, MEMORY
from .schedule_gpu_attention import SIDE, Tiles
from .schedule_gpu_scores import KernelOfScores, number_names, texts, working
from .schedule_gpu_threads import BLOCK, MOST_BLOCKS, POINTER, Blocks

if TYPE_CHECKING:
    from .schedule_gpu_attention_backward_mma import TensorCoreBackward

MOST_SHARED = 48 << 10  # bytes that a block has on every device
ROWS = ((32, 32), (32, 16), (16, 16))  # of the block's side, and of the other at a time
SIZE = {"q": "queries", "g": "queries", "k": "keys", "v": "keys"}
WIDTH = {"q": "width", "k": "width", "g": "columns", "v": "columns"}


class Shape(NamedTuple):
    """Rows of the block's side, rows of the other at a time; and the widths of queries and of values that it has room for."""

    own: int
    other: int
    width: int
    columns: int


def shape_for(dtype: str, side: str, width: int, columns: int) -> Shape | None:
    """None where the operands do not fit into shared memory."""
    wide, across = (max(-(-n // SIDE), 1) * SIDE for n in (width, columns))
    for own, other in ROWS:
        held = (wide + across) * (own + other + 2) + (1 + (side == "keys")) * other * (own + 1)
        if held * ITEMSIZE[working(dtype)] <= MOST_SHARED:
            return Shape(own, other, wide, across)
    return None


class _Fields(NamedTuple):
    dtype: str
    side: str
    shape: Shape
    score: Expr | None = None
    change: Expr | None = None
    mask: Expr | None = None
    captures: tuple[tuple[str, int], ...] = ()


class AttentionBackward(_Fields, KernelOfScores):
    """The kernel of a `side`, "queries" or "keys".  `change`: what reaches a score through the function of scores, of what arrives there
    ("grad"), the score and its place; None where that is the same.
    """

    __slots__ = ()
    name = "scaled_dot_product_attention_backward"

    def text(self) -> str:
        kind = f"attention backward {self.dtype} {self.side} {tuple(self.shape)} {self.captures}"
        return "\n".join((kind, *texts(self.score, self.change, self.mask)))

    def fitted(self, vector: int, processor: str = "") -> AttentionBackward | TensorCoreBackward:
        """The same by the tensor cores of a processor, where they take it."""
        from .schedule_gpu_attention_backward_mma import chosen

        return chosen(self, processor) or self

    def blocks(self, target: str, numbers: Sequence[int]) -> Blocks:
        batches, heads, groups, queries, keys, *_ = numbers
        rows = queries if self.side == "queries" else keys
        count = batches * heads * -(-rows // self.shape.own) * (groups if self.side == "queries" else 1)
        return Blocks((min(count, MOST_BLOCKS), 1, 1), (BLOCK, 1, 1))

    def module(self, target: str) -> Module:
        writer = _Writer(self, target)
        writer.write()
        return writer.module


def parameters(kernel: AttentionBackward | TensorCoreBackward) -> list[tuple[str, str]]:
    """Results, dense; query, key, value, what arrives at the output, and a pair of numbers a query, the logarithm of its sum and its
    delta, all of the first ones first; captures; numbers; the factor of scores.
    """
    results = ("to_q",) if kernel.side == "queries" else ("to_k", "to_v")
    tensors = (*results, "q", "k", "v", "g", "rows", *(f"c{n}" for n in range(len(kernel.captures))))
    numbers = ((name, "i64") for name in number_names("qkvg", kernel.captures))
    return [*((name, POINTER) for name in tensors), *numbers, ("factor", "double")]


class _Writer(Tiles):
    kernel: AttentionBackward

    def __init__(self, kernel: AttentionBackward, target: str) -> None:
        super().__init__(kernel, target, parameters(kernel))
        self.shape = shape = kernel.shape
        self.by_queries = kernel.side == "queries"
        self.own, self.other = ("qg", "kv") if self.by_queries else ("kv", "qg")
        # lines of one column; those that neighbouring threads write to begin in different banks
        self.lines = {name: (shape.own if name in self.own else shape.other) + 1 for name in "qkvg"}
        wide = {name: getattr(shape, WIDTH[name]) for name in "qkvg"}
        self.memory = {name: self.shared(f"tile_{name}", wide[name] * self.lines[name]) for name in "qkvg"}
        # of each row of the other side the block's own ones: what reaches their scores, and their weights
        self.changes = self.shared("changes", shape.other * (shape.own + 1))
        if not self.by_queries:
            self.weights = self.shared("weights", shape.other * (shape.own + 1))
        self.zero = self.low.constant(0.0, self.dtype)

    def write(self) -> None:
        heads = ("heads", "groups") if self.by_queries else ("heads",)
        self.walk(
            self.kernel.side, self.shape.own, heads, self.of_queries if self.by_queries else self.of_keys
        )

    def read_tile(self, names: str, head: Value, first: Value) -> None:
        """The rows from `first` on of a side's two operands."""
        shape = self.shape
        for name in names:
            lines = shape.own if name in self.own else shape.other
            wide = getattr(shape, WIDTH[name])
            corner = self.corner(name, self.batch, head)
            self.copy(
                self.memory[name], name, corner, first, SIZE[name], lines, WIDTH[name], wide, self.lines[name]
            )

    # --- a block's rows ---
    def of_queries(self, batch: Value, head: Value, group: Value, tile: Value) -> None:
        f, given, shape = self.f, self.given, self.shape
        self.batch, self.query_head = batch, f.add(f.mul(head, given["groups"]), group)
        row0 = f.mul(tile, i64(shape.own))
        self.read_tile("qg", self.query_head, row0)
        rows = [self.row(f.add(row0, f.add(self.y, i64(SIDE * i)))) for i in range(shape.own // SIDE)]

        def some(first: Value, sums: list[Value]) -> list[Value]:
            self.read_tile("kv", head, first)
            self.threads.barrier()
            self.tile(row0, first, rows)
            self.threads.barrier()
            sums = self.add("k", self.changes, sums)
            self.threads.barrier()
            return sums

        last = self.last(f.add(row0, i64(shape.own - 1)))  # the keys that any of the queries sees
        sums = f.loop(i64(0), last, i64(shape.other), self.start("k"), some)
        factor = self.low.cast(given["factor"], "float64", self.dtype)
        self.store("q", self.query_head, row0, [f.binary("fmul", s, factor) for s in sums])
        self.threads.barrier()  # all have read what the next ones replace

    def of_keys(self, batch: Value, head: Value, tile: Value) -> None:
        f, given, shape = self.f, self.given, self.shape
        self.batch = batch
        row0 = f.mul(tile, i64(shape.own))
        self.read_tile("kv", head, row0)
        count = len(self.start("q"))
        # the first query that sees the block's first key
        begin = f.binary("sub", row0, given["reach"])
        begin = self.low.select(f.op("i1", f"icmp sgt {begin}, 0"), begin, i64(0))
        begin = f.binary("and", begin, i64(-shape.other))

        def of_head(group: Value, sums: list[Value]) -> list[Value]:
            self.query_head = query_head = f.add(f.mul(head, given["groups"]), group)

            def some(first: Value, sums: list[Value]) -> list[Value]:
                self.read_tile("qg", query_head, first)
                rows = [
                    self.row(f.add(first, f.add(self.x, i64(SIDE * j)))) for j in range(shape.other // SIDE)
                ]
                self.threads.barrier()
                self.tile(row0, first, rows)
                self.threads.barrier()
                to_k, to_v = sums[:count], sums[count:]
                result = [*self.add("q", self.changes, to_k), *self.add("g", self.weights, to_v)]
                self.threads.barrier()
                return result

            return f.loop(begin, given["queries"], i64(shape.other), sums, some)

        sums = f.loop(i64(0), given["groups"], i64(1), [*self.start("q"), *self.start("g")], of_head)
        self.store("k", head, row0, sums[:count])
        self.store("v", head, row0, sums[count:])
        self.threads.barrier()

    def row(self, query: Value) -> tuple[Value, Value]:
        """A query's logarithm and delta; -inf for one that does not exist, which so has no weights."""
        f, given = self.f, self.given
        heads = f.mul(given["heads"], given["groups"])
        line = f.mul(f.add(f.mul(self.batch, heads), self.query_head), given["queries"])
        all = f.mul(f.mul(given["batches"], heads), given["queries"])

        def load() -> list[Value]:
            place = f.add(line, query)
            both = (f.gep(self.kind, given["rows"], at) for at in (place, f.add(all, place)))
            return [f.load(self.kind, here, self.bytes) for here in both]

        nothing = self.low.constant(-float("inf"), self.dtype)
        lse, delta = f.when(self.below(query, given["queries"]), load, [nothing, self.zero])
        return lse, delta

    # --- a tile of scores ---
    def tile(self, row0: Value, first: Value, rows: list[tuple[Value, Value]]) -> None:
        """Write what reaches the scores of the rows of both sides, and on the side of keys the weights."""
        f, shape, by_queries = self.f, self.shape, self.by_queries
        own, other = shape.own // SIDE, shape.other // SIDE
        products = []
        for a, b in zip(self.own, self.other):
            terms, start = self.given[WIDTH[a]], [self.zero] * (own * other)
            products.append(
                self.product(self.memory[a], self.lines[a], self.memory[b], self.lines[b], terms, start, own)
            )
        for n, (score, arriving) in enumerate(zip(*products)):
            i, j = divmod(n, other)
            mine, its = f.add(self.y, i64(SIDE * i)), f.add(self.x, i64(SIDE * j))
            places = f.add(row0, mine), f.add(first, its)
            query, key = places if by_queries else reversed(places)
            visible = self.below(key, self.last(query))
            lse, delta = rows[i if by_queries else j]
            weight, change = self.changed(score, arriving, query, key, visible, lse, delta)
            self.put(self.changes, its, shape.own + 1, mine, change)
            if not by_queries:
                self.put(self.weights, its, shape.own + 1, mine, weight)

    def changed(
        self,
        value: Value,
        arriving: Value,
        query: Value,
        key: Value,
        visible: Value,
        lse: Value,
        delta: Value,
    ) -> tuple[Value, Value]:
        """A score's weight, and what reaches it before the function of scores; both 0 where the query does not see the key."""
        f = self.f
        score, allowed = self.score(value, query, key)
        nothing = self.constant(-float("inf"))
        sees = self.low.values(
            [ex.compare("ne", ex.input(0, self.dtype), nothing)], {ex.input(0, self.dtype): lse}
        )
        visible = f.binary("and", visible, sees[0])
        visible = visible if allowed is None else f.binary("and", visible, allowed)
        weight = self.valued(lambda s, l: ex.call("exp", s - l), score, lse)
        weight = self.low.select(visible, weight, self.zero)
        grad = self.valued(lambda w, a, d: w * (a - d), weight, arriving, delta)
        grad = self.low.select(visible, grad, self.zero)
        (change,) = self.functions([self.kernel.change], query, key, score=value, grad=grad)
        return weight, grad if change is None else self.low.select(visible, change, self.zero)

    # --- sums ---
    def start(self, name: str) -> list[Value]:
        """Of the block's own rows, and the columns of an operand."""
        return [self.zero] * (self.shape.own // SIDE * getattr(self.shape, WIDTH[name]) // SIDE)

    def add(self, name: str, left: Value, sums: list[Value]) -> list[Value]:
        """The sums with those of the rows of an operand more."""
        shape = self.shape
        own = shape.own // SIDE
        return self.product(
            left, shape.own + 1, self.memory[name], self.lines[name], i64(shape.other), sums, own, turned=True
        )

    def store(self, name: str, head: Value, row0: Value, sums: list[Value]) -> None:
        """The gradient of an operand."""
        f, given, dtype = self.f, self.given, self.kernel.dtype
        heads = given["heads"]
        if name == "q":
            heads = f.mul(heads, given["groups"])
        size, width = given[SIZE[name]], given[WIDTH[name]]
        line = f.mul(f.add(f.mul(self.batch, heads), head), size)
        columns = getattr(self.shape, WIDTH[name]) // SIDE
        for n, value in enumerate(sums):
            i, j = divmod(n, columns)
            row, column = f.add(row0, f.add(self.y, i64(SIDE * i))), f.add(self.x, i64(SIDE * j))

            def put(value: Value = value, row: Value = row, column: Value = column) -> list[Value]:
                place = f.add(f.mul(f.add(line, row), width), column)
                value = self.low.cast(value, self.dtype, dtype)
                f.store(value, f.gep(MEMORY[dtype], given[f"to_{name}"], place), ITEMSIZE[dtype])
                return []

            f.when(f.binary("and", self.below(row, size), self.below(column, width)), put)
