"""Attention forward as threads: softmax(score(Q Kᵀ)) V, without all scores.

A block of threads takes some queries of one head.  It goes over the keys, some at a time, and keeps for each query the largest score so
far, the sum of exponentials and the sum of values; where the maximum grows, both sums shrink as the exponentials do (Milakov and
Gimelshein, Online normalizer calculation for softmax, 2018; Dao et al., FlashAttention, 2022).  Both products go as in
`schedule_gpu_products.py`: a thread has the queries `y + 16·i`, and of them the keys, or the columns of the values, `x + 16·j`.

Functions of scores and masks: `schedule_gpu_scores.py`; halves by tensor cores: `schedule_gpu_attention_mma.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import expr as ex
from . import target as tg
from .expr import Expr
from .irtext import Function, Module, Value, i64
from .lower import ITEMSIZE, MEMORY, Lowering
from .schedule_gpu_scores import KernelOfScores, Scores, parameters, texts, working
from .schedule_gpu_threads import BLOCK, MOST_BLOCKS, SHARED, Blocks, Threads

if TYPE_CHECKING:
    from .schedule_gpu_attention_mma import TensorCoreAttention

SIDE = 16  # threads of a block along queries, and along keys


class Shape(NamedTuple):
    """Queries of a block, keys at a time; and the widths of queries and of values that a block has room for."""

    queries: int
    keys: int
    width: int
    columns: int


def shape_for(dtype: str, width: int, columns: int) -> Shape | None:
    """None where the operands do not fit into 48 KB of shared memory."""
    wide, high = (max(-(-n // SIDE), 1) * SIDE for n in (width, columns))
    for most, queries, keys in ((256, 64, 32), (512, 32, 32), (1024, 16, 16)):
        if max(wide, high) * ITEMSIZE[working(dtype)] <= most:
            return Shape(queries, keys, wide, high)
    return None


class _Fields(NamedTuple):
    dtype: str
    shape: Shape
    score: Expr | None = None
    mask: Expr | None = None
    captures: tuple[tuple[str, int], ...] = ()


class Attention(_Fields, KernelOfScores):
    """Of operands in `dtype`; `captures`: the dtype and the rank of each tensor that `score` and `mask` read."""

    __slots__ = ()

    def text(self) -> str:
        functions = texts(self.score, self.mask)
        return "\n".join((f"attention {self.dtype} {tuple(self.shape)} {self.captures}", *functions))

    def fitted(self, vector: int, processor: str = "") -> Attention | TensorCoreAttention:
        """The same by the tensor cores of a processor, where they take it."""
        from .schedule_gpu_attention_mma import chosen

        return chosen(self, processor) or self

    def blocks(self, target: str, numbers: Sequence[int]) -> Blocks:
        batches, heads, groups, queries, *_ = numbers
        count = batches * heads * groups * -(-queries // self.shape.queries)
        return Blocks((min(count, MOST_BLOCKS), 1, 1), (BLOCK, 1, 1))

    def module(self, target: str) -> Module:
        writer = _Writer(self, target)
        writer.write()
        return writer.module


class Tiles(Scores):
    """Reads tiles of operands into shared memory, multiplies and stores them; `x` and `y` are the thread's place in a block."""

    def __init__(self, kernel: Any, target: str, parameters: Sequence[tuple[str, str]]) -> None:
        self.kernel, self.dtype = kernel, working(kernel.dtype)
        self.module = Module(tg.TARGETS[target].triple, str(tg.machine(target).target_data))
        self.f = f = Function(self.module, "")
        self.low, self.threads = Lowering(f, None), Threads(f, target)
        f.signature = self.threads.signature(parameters)
        self.given = {name: Value(type, f"%{name}") for name, type in parameters}
        self.kind, self.bytes = MEMORY[self.dtype], ITEMSIZE[self.dtype]

    def shared(self, name: str, count: int) -> Value:
        self.module.globals.append(
            f"@{name} = internal addrspace({SHARED}) global [{count} x {self.kind}] undef, align 16"
        )
        return Value(f"ptr addrspace({SHARED})", f"@{name}")

    def walk(self, across: str, side: int, heads: Sequence[str], one: Callable[..., None]) -> None:
        """`one(batch, *heads, tile)` for all tiles of `side` rows, of the size `across`, of all heads."""
        f, given = self.f, self.given
        self.thread = self.threads.thread()
        self.x = f.binary("and", self.thread, i64(SIDE - 1))
        self.y = f.binary("lshr", self.thread, i64(SIDE.bit_length() - 1))
        down = f.binary("sdiv", f.add(given[across], i64(side - 1)), i64(side))
        sizes = [*(given[name] for name in heads), down]
        total = given["batches"]
        for size in sizes:
            total = f.mul(total, size)

        def each(number: Value, _: list[Value]) -> list[Value]:
            one(*f.coordinates(number, sizes))
            return []

        f.loop(self.threads.block(), total, self.threads.blocks(), [], each)
        f.do("ret void")

    # --- expressions ---
    def constant(self, number: float) -> Expr:
        return ex.const(number, self.dtype)

    def valued(self, body: Callable[..., Expr], *values: Value) -> Value:
        """A function of numbers in `dtype`."""
        inputs = [ex.input(k, self.dtype) for k in range(len(values))]
        return self.low.values([body(*inputs)], dict(zip(inputs, values)))[0]

    # --- memory ---
    def copy(
        self,
        to: Value,
        name: str,
        corner: Value,
        first: Value,
        size: str,
        lines: int,
        width: str,
        wide: int,
        line: int,
    ) -> None:
        """`lines` rows of queries or keys, turned: column e of row r is to lie at e · line + r.  What is outside is zero."""
        f = self.f
        for number in range(-(-lines * wide // BLOCK)):
            at = f.add(self.thread, i64(number * BLOCK))
            row, column = f.binary("udiv", at, i64(wide)), f.binary("urem", at, i64(wide))
            value = self.read(name, corner, f.add(first, row), size, column, width)
            if name == "q":
                value = f.binary("fmul", value, self.low.cast(self.given["factor"], "float64", self.dtype))
            self.put_within(to, column, line, row, value, at, lines * wide)

    def read(self, name: str, corner: Value, row: Value, size: str, column: Value, width: str) -> Value:
        f, given, dtype = self.f, self.given, self.kernel.dtype
        inside = f.binary("and", self.below(row, given[size]), self.below(column, given[width]))
        offset = f.add(f.mul(row, given[f"{name}_q"]), f.mul(column, given[f"{name}_e"]))
        place = f.gep(MEMORY[dtype], corner, self.low.select(inside, offset, i64(0)))
        load = lambda: [self.low.cast(f.load(MEMORY[dtype], place, ITEMSIZE[dtype]), dtype, self.dtype)]
        return f.when(inside, load, [self.low.constant(0.0, self.dtype)])[0]

    def put(self, memory: Value, line: Value, length: int, at: Value, value: Value) -> None:
        place = self.f.add(self.f.mul(line, i64(length)), at)
        self.f.store(value, self.f.gep(self.kind, memory, place), self.bytes)

    def put_within(
        self, memory: Value, line: Value, length: int, at: Value, value: Value, number: Value, count: int
    ) -> None:
        """`put` of element `number` of `count`, which not all threads have."""

        def store() -> list[Value]:
            self.put(memory, line, length, at, value)
            return []

        if count % BLOCK == 0:
            store()
        else:
            self.f.when(self.below(number, i64(count)), store)

    # --- products ---
    def product(
        self,
        left: Value,
        left_line: int,
        right: Value,
        right_line: int,
        terms: Value,
        sums: list[Value],
        rows: int,
        turned: bool = False,
    ) -> list[Value]:
        """The sums, of `rows` rows and some columns, with the products of so many terms more.  A line has one term; of the right operand,
        if `turned`, one column.
        """
        f, columns = self.f, len(sums) // rows

        def term(k: Value, sums: list[Value]) -> list[Value]:
            a = self.line(left, f.add(f.mul(k, i64(left_line)), self.y), SIDE, rows)
            if turned:
                b = self.line(right, f.add(f.mul(self.x, i64(right_line)), k), SIDE * right_line, columns)
            else:
                b = self.line(right, f.add(f.mul(k, i64(right_line)), self.x), SIDE, columns)
            fma = f"llvm.fma.{self.low.suffix(self.dtype)}"
            return [f.call(self.kind, fma, a[n // columns], b[n % columns], s) for n, s in enumerate(sums)]

        return f.loop(i64(0), terms, i64(1), sums, term)

    def line(self, memory: Value, at: Value, step: int, count: int) -> list[Value]:
        """`count` elements from `at` on, so many apart."""
        f = self.f
        own = f.gep(self.kind, memory, at)
        return [f.load(self.kind, f.gep(self.kind, own, i64(step * n)), self.bytes) for n in range(count)]


class _Writer(Tiles):
    kernel: Attention

    def __init__(self, kernel: Attention, target: str) -> None:
        super().__init__(kernel, target, parameters(kernel.captures))
        self.shape = shape = kernel.shape
        # Lines of one column or key; those that neighbouring threads write to begin in different banks.
        self.query_line, self.key_line = shape.queries + 1, shape.keys + 1
        self.q = self.shared("queries", shape.width * self.query_line)
        self.kv = self.shared("keys", max(shape.width * self.key_line, shape.keys * shape.columns))
        self.p = self.shared("weights", shape.keys * self.query_line)
        self.partial = self.shared("partial", shape.queries * (SIDE + 1))

    def write(self) -> None:
        self.walk("queries", self.shape.queries, ("heads", "groups"), self.rectangle)

    def safe(self, top: Expr) -> Expr:
        """A maximum, or 0 where there is none, so that differences from it are numbers."""
        nothing = self.constant(-float("inf"))
        return ex.where(ex.compare("eq", top, nothing), self.constant(0.0), top)

    # --- a block's queries ---
    def rectangle(self, batch: Value, head: Value, own: Value, tile: Value) -> None:
        f, given, shape = self.f, self.given, self.shape
        self.batch, self.query_head = batch, f.add(f.mul(head, given["groups"]), own)
        self.row0 = f.mul(tile, i64(shape.queries))
        corner = {name: self.corner(name, batch, self.query_head if name == "q" else head) for name in "qkv"}
        self.copy(
            self.q,
            "q",
            corner["q"],
            self.row0,
            "queries",
            shape.queries,
            "width",
            shape.width,
            self.query_line,
        )
        rows, columns = shape.queries // SIDE, shape.columns // SIDE
        zero, nothing = (self.low.constant(n, self.dtype) for n in (0.0, -float("inf")))
        last = f.add(f.add(self.row0, i64(shape.queries)), given["reach"])
        seen = self.least(given["keys"], last)

        def some(first: Value, carried: list[Value]) -> list[Value]:
            tops, totals, sums = carried[:rows], carried[rows : 2 * rows], carried[2 * rows :]
            self.copy(
                self.kv, "k", corner["k"], first, "keys", shape.keys, "width", shape.width, self.key_line
            )
            self.threads.barrier()
            scores = self.scores(first)
            own = [self.largest(scores[i]) for i in range(rows)]
            self.exchange(own)
            self.threads.barrier()
            self.copy_values(corner["v"], first)
            new = [self.valued(ex.maximum, top, self.across(i, ex.maximum)) for i, top in enumerate(tops)]
            shrunk = [
                self.valued(
                    lambda old, now: ex.call("exp", self.safe(old) - self.safe(now)) * self.seen_one(old),
                    old,
                    now,
                )
                for old, now in zip(tops, new)
            ]
            for i in range(rows):
                totals[i] = f.binary("fmul", totals[i], shrunk[i])
                for j, score in enumerate(scores[i]):
                    weight = self.valued(lambda s, top: ex.call("exp", s - self.safe(top)), score, new[i])
                    totals[i] = f.binary("fadd", totals[i], weight)
                    key = f.add(self.x, i64(SIDE * j))
                    self.put(self.p, key, self.query_line, f.add(self.y, i64(SIDE * i)), weight)
            self.threads.barrier()
            sums = [f.binary("fmul", s, shrunk[n // columns]) for n, s in enumerate(sums)]
            sums = self.product(self.p, self.query_line, self.kv, shape.columns, i64(shape.keys), sums, rows)
            self.threads.barrier()
            return [*new, *totals, *sums]

        start = [nothing] * rows + [zero] * (rows + rows * columns)
        carried = f.loop(i64(0), seen, i64(shape.keys), start, some)
        self.finish(carried[:rows], carried[rows : 2 * rows], carried[2 * rows :])

    def seen_one(self, top: Expr) -> Expr:
        """1, but 0 where there was no score, which a maximum of NaN is not."""
        return ex.where(
            ex.compare("eq", top, self.constant(-float("inf"))), self.constant(0.0), self.constant(1.0)
        )

    def copy_values(self, corner: Value, first: Value) -> None:
        """The values of some keys as they lie."""
        f, shape = self.f, self.shape
        for number in range(-(-shape.keys * shape.columns // BLOCK)):
            at = f.add(self.thread, i64(number * BLOCK))
            row, column = f.binary("udiv", at, i64(shape.columns)), f.binary("urem", at, i64(shape.columns))
            value = self.read("v", corner, f.add(first, row), "keys", column, "columns")
            self.put_within(self.kv, row, shape.columns, column, value, at, shape.keys * shape.columns)

    # --- scores ---
    def scores(self, first: Value) -> list[list[Value]]:
        """The thread's scores: lists of keys for each of its queries."""
        f, shape = self.f, self.shape
        rows, keys = shape.queries // SIDE, shape.keys // SIDE
        zero = self.low.constant(0.0, self.dtype)
        flat = self.product(
            self.q, self.query_line, self.kv, self.key_line, self.given["width"], [zero] * (rows * keys), rows
        )
        result = []
        for i in range(rows):
            query = f.add(self.row0, f.add(self.y, i64(SIDE * i)))
            seen = self.seen(query, f.add(first, self.x), shape.keys)
            line = []
            for j in range(keys):
                key = f.add(first, f.add(self.x, i64(SIDE * j)))
                score, allowed = self.score(flat[i * keys + j], query, key)
                line.append(self.masked(score, self.sees(seen, SIDE * j), allowed))
            result.append(line)
        return result

    # --- what the threads of a query tell each other ---
    def largest(self, scores: Sequence[Value]) -> Value:
        result = scores[0]
        for score in scores[1:]:
            result = self.valued(ex.maximum, result, score)
        return result

    def exchange(self, own: Sequence[Value]) -> None:
        for i, value in enumerate(own):
            self.put(self.partial, self.f.add(self.y, i64(SIDE * i)), SIDE + 1, self.x, value)

    def across(self, i: int, combined: Callable[[Expr, Expr], Expr]) -> Value:
        """What all threads of the thread's query `i` have left there, combined in the threads' order."""
        f = self.f
        own = f.gep(self.kind, self.partial, f.mul(f.add(self.y, i64(SIDE * i)), i64(SIDE + 1)))
        found = [f.load(self.kind, f.gep(self.kind, own, i64(n)), self.bytes) for n in range(SIDE)]
        result = found[0]
        for value in found[1:]:
            result = self.valued(combined, result, value)
        return result

    # --- results ---
    def finish(self, tops: list[Value], totals: list[Value], sums: list[Value]) -> None:
        f, given, shape, dtype = self.f, self.given, self.shape, self.kernel.dtype
        self.exchange(totals)
        self.threads.barrier()
        totals = [self.across(i, ex.add) for i in range(len(totals))]
        self.threads.barrier()
        columns = shape.columns // SIDE
        heads = f.mul(given["heads"], given["groups"])
        line = f.mul(f.add(f.mul(self.batch, heads), self.query_head), given["queries"])
        for i, (top, total) in enumerate(zip(tops, totals)):
            row = f.add(self.row0, f.add(self.y, i64(SIDE * i)))
            inside, place = self.below(row, given["queries"]), f.add(line, row)
            one = self.constant(1.0)
            inverse = self.valued(
                lambda t: one / ex.where(ex.compare("eq", t, self.constant(0.0)), one, t),  # noqa: B023
                total,
            )
            for j in range(columns):
                column = f.add(self.x, i64(SIDE * j))

                def store(value=sums[i * columns + j], column=column, place=place, inverse=inverse):
                    value = self.low.cast(f.binary("fmul", value, inverse), self.dtype, dtype)
                    at = f.add(f.mul(place, given["columns"]), column)
                    f.store(value, f.gep(MEMORY[dtype], given["out"], at), ITEMSIZE[dtype])
                    return []

                f.when(f.binary("and", inside, self.below(column, given["columns"])), store)

            def note(top=top, total=total, place=place):
                log = self.valued(lambda m, t: self.safe(m) + ex.call("log", t), top, total)
                for name, value in (("lse", log), ("top", top)):
                    f.store(value, f.gep(self.kind, given[name], place), self.bytes)
                return []

            leads = f.op("i1", f"icmp eq {self.x}, 0")
            f.when(f.binary("and", inside, leads), note)
