"""What attention does to a tile of scores between its two products, and how squares are turned for them.

A tile holds the scores of some queries (rows) and some keys (columns) in a buffer whose rows have room for whole vectors.
`soften` turns scores into exponentials relative to the largest score so far, and brings what was summed with an earlier one
down to it (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018).  `revert` makes the same weights from
the logarithms of the sums, and the gradients of the scores (Dao et al., FlashAttention, 2022).  `core/lib/layers/attention.pyx` walks
over the tiles; the products are those of `register.py`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...core.base.callbacks import set_callback
from .. import expr as ex
from .. import philox, target
from .._math_base import poly
from .._math_explog import near_power_of_two, reduce_by_ln2
from ..irtext import Function, Module, Value, i64
from ..lower import ITEMSIZE, MEMORY, REGISTER, Lowering
from .objects import compiled
from .register import lanes

# Places in the struct of arguments, in words of eight bytes.
_SCORES, _PITCH, _ROWS, _COLUMNS, _LIMIT, _MASK, _MASK_ROW = range(7)
_TOP, _SUM, _OUT, _OUT_PITCH, _OUT_COLUMNS, _FIRST = range(7, 13)
_ARRIVING, _SHIFT, _DELTA, _KEPT = range(13, 17)
_WEIGHTS, _CHANGES, _WEIGHTS_PITCH, _SCALE = range(17, 21)

REGISTERS = 2  # side by side in a register tile, and of a vector that a pass takes at a time
SPELLED = {"half": "f16", "float": "f32", "double": "f64"}  # in names of intrinsics
LEAST = {"float32": -87.0, "float64": -708.0}  # below: 0; the smallest normal numbers begin just below


def weight(x: ex.Expr) -> ex.Expr:
    """exp(x) for x <= 0; 0 where it would be subnormal."""
    shifted, r, _ = reduce_by_ln2(x)
    power = near_power_of_two(shifted)
    return ex.where(x < LEAST[x.dtype], 0.0, ex.fma(power, ex.fma(r * r, poly(r, "exp"), r), power))


class Pass(NamedTuple):
    """One of the functions: `what` is soften, revert, draw, turn, or for a half type widen or narrow; `mask` nothing, bool or the
    dtype of what is added; where weights are `dropped`, a tile of factors stands beside the scores.  For products of `halves` scores
    are multiplied by a factor, and weights and gradients of scores are written in bfloat16, in tiles of their own.
    """

    what: str
    dtype: str
    mask: str = ""
    dropped: bool = False
    halves: bool = False

    def text(self, symbol: str) -> str:
        module = Module(target.llvm().get_default_triple())
        if self.what == "turn":
            signature = "ptr noalias %from, i64 %from_row, ptr noalias %to, i64 %to_row, i64 %count"
            _turn(Function(module, f"define void @{symbol}({signature})"), self.dtype)
        elif self.what == "draw":
            signature = (
                "ptr noalias %to, i64 %pitch, i64 %rows, i64 %columns, i64 %key, i64 %counter, i64 %step, "
                "i64 %limit, double %factor"
            )
            _draw(Function(module, f"define void @{symbol}({signature})"), self.dtype)
        elif self.what in ("widen", "narrow"):
            signature = "ptr noalias %from, ptr noalias %to, i64 %count, float %factor"
            f = Function(module, f"define void @{symbol}({signature})")
            _convert(f, *(("float32", self.dtype) if self.what == "narrow" else (self.dtype, "float32")))
        else:
            _Writer(Function(module, f"define void @{symbol}(ptr noalias %t)"), self).write()
        return str(module)


class _Writer:
    """The instructions of `soften` or `revert`."""

    def __init__(self, f: Function, kind: Pass):
        self.f, self.kind, self.dtype = f, kind, kind.dtype
        self.count = lanes(kind.dtype) * REGISTERS
        self.low, self.one = Lowering(f, self.count), Lowering(f, None)
        self.scalar, self.size = REGISTER[kind.dtype], ITEMSIZE[kind.dtype]
        self.vector = self.low.type(kind.dtype)

    # --- arguments and memory ---
    def word(self, k: int, kind: str = "i64") -> Value:
        return self.f.load(kind, self.f.gep("i64", Value("ptr", "%t"), i64(k)), 8)

    def at(self, pointer: Value, offset: Value) -> Value:
        return self.f.gep("i8", pointer, offset)

    def element(self, pointer: Value, i: Value) -> Value:
        return self.f.gep(self.scalar, pointer, i)

    def load(self, row: Value, j: Value) -> Value:
        return self.f.load(self.vector, self.element(row, j), self.size)

    def store(self, value: Value, row: Value, j: Value) -> None:
        self.f.store(value, self.element(row, j), self.size)

    def put(self, value: Value, row: Value, j: Value) -> None:
        """Store what a product reads."""
        if self.kind.halves:
            kind = self.low.vector("bfloat")
            value = self.f.op(kind, f"fptrunc {value} to {kind}")
            self.f.store(value, self.f.gep("bfloat", row, j), 2)
        else:
            self.store(value, row, j)

    def operand(self, i: Value, row: Value, k: int) -> Value:
        """Where a row of a product's operand is written: over the row that was read, or in a tile of its own."""
        if not self.kind.halves:
            return row
        return self.at(self.word(k, "ptr"), self.f.mul(i, self.word(_WEIGHTS_PITCH)))

    def scaled(self, value: Value) -> Value:
        if not self.kind.halves:
            return value
        factor = self.f.op("float", f"fptrunc {self.word(_SCALE, 'double')} to float")
        return self.f.binary("fmul", value, self.low.splat(factor))

    def number(self, value: float) -> Value:
        return self.low.constant(value, self.dtype)

    def computed(self, low: Lowering, function: Callable[..., ex.Expr], *args: Value) -> Value:
        names = [ex.make("arg", (), self.dtype, k) for k in range(len(args))]
        return low.values([function(*names)], dict(zip(names, args)))[0]

    def exists(self, j: Value, n: Value) -> Value:
        """Which lanes from column j on are before column n."""
        left = self.f.op("i32", f"trunc {self.f.binary('sub', n, j)} to i32")
        return self.f.op(self.low.vector("i1"), f"icmp ugt {self.low.splat(left)}, {self.low.iota(32).name}")

    def folded(self, v: Value, combine: Callable[[Value, Value], Value]) -> Value:
        """The lanes of a vector combined by halves."""
        n = self.count
        while n > 1:
            n //= 2
            halves = []
            for part in range(2):
                picks = ", ".join(f"i32 {part * n + k}" for k in range(n))
                kind = f"<{n} x {self.scalar}>"
                halves.append(self.f.op(kind, f"shufflevector {v}, {v.type} poison, <{n} x i32> <{picks}>"))
            v = combine(*halves)
        return self.f.op(self.scalar, f"extractelement {v}, i32 0")

    def larger(self, a: Value, b: Value) -> Value:
        """The larger of two, the second where one is NaN: a NaN reaches the sum by itself."""
        kind = "i1" if a.type == self.scalar else f"<{a.type[1:].split(' ')[0]} x i1>"
        return self.f.op(a.type, f"select {self.f.op(kind, f'fcmp ogt {a}, {b.name}')}, {a}, {b}")

    def between(self, x: Value, least: Value, most: Value) -> Value:
        f = self.f
        x = f.op("i64", f"select {f.op('i1', f'icmp slt {x}, {most.name}')}, {x}, {most}")
        return f.op("i64", f"select {f.op('i1', f'icmp sgt {x}, {least.name}')}, {x}, {least}")

    # --- the walk ---
    def write(self) -> None:
        f = self.f
        self.columns, limit = self.word(_COLUMNS), self.word(_LIMIT)
        body = self.soften if self.kind.what == "soften" else self.revert

        def row(i: Value, _: Sequence[Value]) -> list[Value]:
            seen = self.between(f.add(limit, i), i64(0), self.columns)
            body(i, self.at(self.word(_SCORES, "ptr"), f.mul(i, self.word(_PITCH))), seen)
            return []

        f.loop(i64(0), self.word(_ROWS), i64(1), [], row)
        f.do("ret void")

    def vectors(self, n: Value, carried: Sequence[Value], body) -> list[Value]:
        """`body(j, exists, carried)` over the columns before n; `exists` is None where all lanes do."""
        whole = self.f.binary("and", n, i64(-self.count))
        carried = self.f.loop(i64(0), whole, i64(self.count), carried, lambda j, c: body(j, None, c))
        more = self.f.op("i1", f"icmp slt {whole}, {n.name}")
        return self.f.when(more, lambda: body(whole, self.exists(whole, n), carried), carried)

    def clear(self, n: Value, *rows: Value) -> None:
        """Zeros from the first whole vector that begins at or behind column n."""
        begin = self.f.binary("and", self.f.add(n, i64(self.count - 1)), i64(-self.count))

        def zeros(j: Value, _: Sequence[Value]) -> list[Value]:
            for row in rows:
                self.put(Value(self.vector, "zeroinitializer"), row, j)
            return []

        self.f.loop(begin, self.columns, i64(self.count), [], zeros)

    def scores(self, i: Value, row: Value, j: Value, exists: Value | None) -> Value:
        """The scores from column j on, with the mask; -inf in lanes that do not exist."""
        result = self.scaled(self.load(row, j))
        if self.kind.mask:
            boolean = self.kind.mask == "bool"
            scalar, size = MEMORY[self.kind.mask], ITEMSIZE[self.kind.mask]
            type = self.low.vector(scalar)
            place = self.at(self.word(_MASK, "ptr"), self.f.mul(i, self.word(_MASK_ROW)))
            place = self.f.gep(scalar, place, j)
            if exists is None:
                given = self.f.load(type, place, size)
            else:
                name = SPELLED.get(scalar, scalar)
                given = self.f.call(
                    type,
                    f"llvm.masked.load.v{self.count}{name}.p0",
                    Value(f"ptr align {size}", place.name),
                    exists,
                    Value(type, "zeroinitializer"),
                )
            if boolean:
                allowed = self.low.from_memory(given, "bool")
                result = self.low.select(allowed, result, self.number(-math.inf))
            else:
                result = self.f.binary("fadd", result, self.low.cast(given, self.kind.mask, self.dtype))
        return result if exists is None else self.low.select(exists, result, self.number(-math.inf))

    def kept(self, i: Value, j: Value, value: Value) -> Value:
        """The value times its factor, where weights are dropped."""
        if not self.kind.dropped:
            return value
        row = self.at(self.word(_KEPT, "ptr"), self.f.mul(i, self.word(_PITCH)))
        return self.f.binary("fmul", value, self.load(row, j))

    # --- forward ---
    def soften(self, i: Value, row: Value, seen: Value) -> None:
        f = self.f
        top_at, sum_at = (self.element(self.word(k, "ptr"), i) for k in (_TOP, _SUM))
        before = f.load(self.scalar, top_at, self.size)

        def largest(j: Value, exists: Value | None, carried: Sequence[Value]) -> list[Value]:
            result = self.scores(i, row, j, exists)
            if self.kind.mask:
                self.store(result, row, j)
            return [self.larger(result, carried[0])]

        tops = self.vectors(seen, [self.number(-math.inf)], largest)[0]
        top = self.larger(self.folded(tops, self.larger), before)
        nothing = Value(self.scalar, self.one.constant(-math.inf, self.dtype).name)
        none = f.op("i1", f"fcmp oeq {top}, {nothing.name}")
        base = self.one.select(none, self.one.constant(0.0, self.dtype), top)
        wide, to = self.low.splat(base), self.operand(i, row, _WEIGHTS)

        def exponentials(j: Value, exists: Value | None, carried: Sequence[Value]) -> list[Value]:
            result = self.load(row, j)
            if not self.kind.mask:
                result = self.scaled(result)
            if exists is not None and not self.kind.mask:
                result = self.low.select(exists, result, self.number(-math.inf))
            result = self.computed(self.low, weight, f.binary("fsub", result, wide))
            self.put(self.kept(i, j, result), to, j)
            return [f.binary("fadd", carried[0], result)]

        sums = self.vectors(seen, [self.number(0.0)], exponentials)[0]
        self.clear(seen, to)
        total = self.folded(sums, lambda a, b: f.binary("fadd", a, b))
        f.store(top, top_at, self.size)
        later = f.op("i1", f"icmp eq {self.word(_FIRST)}, 0")

        def joined() -> list[Value]:
            shrink = self.computed(self.one, weight, f.binary("fsub", before, base))
            self.shrink_out(i, shrink)
            old = f.load(self.scalar, sum_at, self.size)
            return [f.call(self.scalar, f"llvm.fma.f{8 * self.size}", old, shrink, total)]

        f.store(f.when(later, joined, [total])[0], sum_at, self.size)

    def shrink_out(self, i: Value, shrink: Value) -> None:
        """Bring what this row has summed so far down to its new largest score, where that has changed."""
        f = self.f
        changed = f.op("i1", f"fcmp une {shrink}, {self.one.constant(1.0, self.dtype).name}")

        def times() -> list[Value]:
            row = self.at(self.word(_OUT, "ptr"), f.mul(i, self.word(_OUT_PITCH)))
            wide = self.low.splat(shrink)

            def step(j: Value, _: Sequence[Value]) -> list[Value]:
                self.store(f.binary("fmul", self.load(row, j), wide), row, j)
                return []

            f.loop(i64(0), self.word(_OUT_COLUMNS), i64(self.count), [], step)
            return []

        f.when(changed, times)

    # --- backward ---
    def revert(self, i: Value, row: Value, seen: Value) -> None:
        f = self.f
        other = self.at(self.word(_ARRIVING, "ptr"), f.mul(i, self.word(_PITCH)))
        shift, delta = (
            self.low.splat(f.load(self.scalar, self.element(self.word(k, "ptr"), i), self.size))
            for k in (_SHIFT, _DELTA)
        )
        to, to_other = self.operand(i, row, _WEIGHTS), self.operand(i, other, _CHANGES)

        def step(j: Value, exists: Value | None, _: Sequence[Value]) -> list[Value]:
            result = f.binary("fsub", self.scores(i, row, j, exists), shift)
            result = self.computed(self.low, weight, result)
            arriving = self.kept(i, j, self.load(other, j))
            change = f.binary("fmul", result, f.binary("fsub", arriving, delta))
            if exists is not None:  # what no product has written there may be anything
                change = self.low.select(exists, change, self.number(0.0))
            self.put(self.kept(i, j, result), to, j)
            self.put(change, to_other, j)
            return []

        self.vectors(seen, [], step)
        self.clear(seen, to, to_other)


# --- dropping ------------------------------
DRAWN = 16  # counters of 64 columns: each gives four words, which are 16 columns apart


def _draw(f: Function, dtype: str) -> None:
    """Rows of `factor` or 0: the first where a word of the counter for that place is below `limit` (2^32: always)."""
    size, scalar, low = ITEMSIZE[dtype], REGISTER[dtype], Lowering(f, DRAWN)
    vector = low.type(dtype)
    number = lambda name: Value("i64", "%" + name)
    factor = Value("double", "%factor")
    if scalar != "double":
        factor = f.op(scalar, f"fptrunc {factor} to {scalar}")
    yes, no, limit = low.splat(factor), Value(vector, "zeroinitializer"), low.splat(number("limit"))
    key, counter = (ex.make("arg", (), "uint64", k) for k in range(2))
    words = [w & philox.LOW for w in philox.words(key, counter)]

    def row(i: Value, _: Sequence[Value]) -> list[Value]:
        to = f.gep("i8", Value("ptr", "%to"), f.mul(i, number("pitch")))
        first = f.add(number("counter"), f.mul(i, number("step")))

        def block(j: Value, _: Sequence[Value]) -> list[Value]:
            own = f.add(first, f.binary("lshr", j, i64(2)))
            leaves = {key: low.splat(number("key")), counter: f.binary("add", low.splat(own), low.iota(64))}
            for k, drawn in enumerate(low.values(words, leaves)):
                below = f.op(low.vector("i1"), f"icmp ult {drawn}, {limit.name}")
                place = f.gep(scalar, to, f.add(j, i64(k * DRAWN)))
                f.store(low.select(below, yes, no), place, size)
            return []

        f.loop(i64(0), number("columns"), i64(4 * DRAWN), [], block)
        return []

    f.loop(i64(0), number("rows"), i64(1), [], row)
    f.do("ret void")


# --- halves ------------------------------
def _convert(f: Function, source: str, dtype: str) -> None:
    """`count` elements side by side in another dtype, multiplied by `factor` in float32; halves are rounded once."""
    count, factor = Value("i64", "%count"), Value("float", "%factor")
    many = lanes("float32")
    whole = f.binary("and", count, i64(-many))

    def step(low: Lowering) -> Callable[[Value, Sequence[Value]], list[Value]]:
        def body(i: Value, _: Sequence[Value]) -> list[Value]:
            place = f.gep(REGISTER[source], Value("ptr", "%from"), i)
            x = low.cast(f.load(low.type(source), place, ITEMSIZE[source]), source, "float32")
            x = f.binary("fmul", x, low.splat(factor) if low.lanes else factor)
            to = f.gep(REGISTER[dtype], Value("ptr", "%to"), i)
            f.store(low.cast(x, "float32", dtype), to, ITEMSIZE[dtype])
            return []

        return body

    f.loop(i64(0), whole, i64(many), [], step(Lowering(f, many)))
    f.loop(whole, count, i64(1), [], step(Lowering(f, None)))
    f.do("ret void")


# --- turning ------------------------------
def _turn(f: Function, dtype: str) -> None:
    """`count` squares side by side in `from`, one below the other in `to`, each turned.  Rows are bytes apart."""
    n, size, scalar = lanes(dtype), ITEMSIZE[dtype], REGISTER[dtype]
    vector = f"<{n} x {scalar}>"
    from_row, to_row = Value("i64", "%from_row"), Value("i64", "%to_row")

    def square(k: Value, _: Sequence[Value]) -> list[Value]:
        at = f.gep("i8", Value("ptr", "%from"), f.mul(k, i64(n * size)))
        to = f.gep("i8", Value("ptr", "%to"), f.mul(f.mul(k, i64(n)), to_row))
        block = []
        for _line in range(n):
            block.append(f.load(vector, at, size))
            at = f.gep("i8", at, from_row)
        distance = 1
        while distance < n:
            new = list(block)
            for r in range(n):
                if r & distance:
                    continue
                a, b = block[r], block[r + distance]
                upper = [c if not c & distance else n + c - distance for c in range(n)]
                lower = [c + distance if not c & distance else n + c for c in range(n)]
                for place, picks in ((r, upper), (r + distance, lower)):
                    picked = ", ".join(f"i32 {p}" for p in picks)
                    new[place] = f.op(vector, f"shufflevector {a}, {b}, <{n} x i32> <{picked}>")
            block, distance = new, distance * 2
        for value in block:
            f.store(value, to, size)
            to = f.gep("i8", to, to_row)
        return []

    f.loop(i64(0), Value("i64", "%count"), i64(1), [], square)
    f.do("ret void")


@functools.cache
def address(kind: Pass) -> int:
    """Where the function stands in this process; compiled when it is new to this processor."""
    return compiled(kind.text)


def shape() -> tuple[int, int]:
    """Rows and vectors of the register tile: as many sums as hide the latency of one, and registers for what they are made of."""
    features = target.processor()[1].split(",")
    return (8 if "+avx512f" in features or "+neon" in features else 4, REGISTERS)


def functions(dtype: str, mask: str, dropped: bool) -> dict[str, int]:
    """Everything that a call of attention needs: addresses by name, and the sizes of its tiles.  Halves are converted as they are laid
    out, and results as they are written.
    """
    from .epilogues import added
    from .register import Register
    from .register import address as tile

    rows, vectors = shape()
    stored, dtype = dtype, "float32" if dtype in ("float16", "bfloat16") else dtype
    return {
        "size": ITEMSIZE[dtype],
        "widen": 0 if stored == dtype else address(Pass("widen", stored)),
        "narrow": 0 if stored == dtype else address(Pass("narrow", stored)),
        "rows": rows,
        "panel": vectors * lanes(dtype),
        "lanes": lanes(dtype),
        "set": tile(Register(dtype, rows, vectors)),
        "add": tile(Register(dtype, rows, vectors, epilogue=added(dtype))),
        "soften": address(Pass("soften", dtype, mask, dropped)),
        "revert": address(Pass("revert", dtype, mask, dropped)),
        "draw": address(Pass("draw", dtype)),
        "turn": address(Pass("turn", dtype)),
    }


def half_functions(mask: str, dropped: bool) -> dict[str, int]:
    """The same for bfloat16 that the processor multiplies: a tile's columns are two groups, and what is turned is turned there."""
    from .epilogues import added
    from .register import Register
    from .register import address as tile

    result = functions("float32", mask, dropped)
    rows, vectors = shape()
    return {
        **result,
        "widen": address(Pass("widen", "float32")),
        "narrow": address(Pass("narrow", "bfloat16")),
        "set": tile(Register("float32", rows, vectors, paired=True)),
        "add": tile(Register("float32", rows, vectors, epilogue=added("float32"), paired=True)),
        "soften": address(Pass("soften", "float32", mask, dropped, True)),
        "revert": address(Pass("revert", "float32", mask, dropped, True)),
    }


set_callback("attention.functions", functools.cache(functions))
set_callback("attention.half_functions", functools.cache(half_functions))
