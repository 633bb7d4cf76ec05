"""Attention forward in float16 and bfloat16 by tensor cores: softmax(score(Q Kᵀ)) V with `mma.sync`, for NVIDIA's sm_80 on.

A block of 4 warps takes 64 or 128 queries of one head, each warp 16 or 32 of them, and goes over the keys, KEYS at a time (Dao,
FlashAttention-2, 2023).  Q, K and V lie in shared memory as `schedule_gpu_copies.py` says.  While Q Kᵀ is computed the values are on their
way, and while the weights are multiplied with these, the next keys are.

**Registers.** The sums of an m16n8k16 lie in a warp as the left operand of another does (PTX ISA, "Matrix fragments for mma.m16n8k16 with
floating point type"): weights, rounded to the operands' dtype, go from the first product into the second without leaving their thread.
Four threads, a *quad*, hold a row of scores: its maximum and its sum go between them by shuffles.

**Exponentials** are powers of 2: exp(factor · (s - top)) = ex2(k · s - k · top) with k = factor · log₂ e, one `fma` and one `ex2.approx` a
score.  Without a function of scores, s are the sums themselves, and the largest sum is the largest score as factor > 0.

**Masks.** Keys that all queries of a block see, and that exist, are passed over without a comparison for each score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from . import target as tg
from .expr import Expr
from .irtext import Function, Module, Value, float_literal, i32, i64
from .lower import MEMORY, Lowering
from .schedule_gpu_copies import CHUNK, LINE, NOT_UNROLLED, PATTERN, Operand
from .schedule_gpu_mma import DEEP, HIGH, WIDE, Fragments
from .schedule_gpu_scores import Scores, parameters, texts
from .schedule_gpu_stages import STAGES
from .schedule_gpu_threads import MOST_BLOCKS, Blocks, Threads

if TYPE_CHECKING:
    from .schedule_gpu_attention import Attention

WARPS = 4
THREADS = 32 * WARPS
AT_ONCE = THREADS * CHUNK // LINE  # lines that the block copies at once
KEYS = 64  # of a turn
SEGMENT = LINE // 2  # elements of a line
IN_LINE = LINE // (2 * DEEP)  # of 16 terms in a line
MOST_WIDTH = 128  # of queries and of values: sums and operands of more are no longer in registers
MOST_REGISTERS = 255  # of a thread


class TensorCoreAttention(NamedTuple):
    """As `schedule_gpu_attention.Attention`, of halves and factors above 0; `width`, `columns`: of queries and values, up to which it has
    room.
    """

    dtype: str
    processor: str
    width: int
    columns: int
    score: Expr | None = None
    mask: Expr | None = None
    captures: tuple[tuple[str, int], ...] = ()

    @property
    def name(self) -> str:
        return "scaled_dot_product_attention"

    @property
    def params(self) -> tuple[str, ...]:
        return ("float64",)

    @property
    def instruction(self) -> str:
        return "mma"

    @property
    def high(self) -> int:
        """Tiles of 16 queries that a warp has: two share what is loaded of keys and values, where registers suffice."""
        plain = self.score is None and self.mask is None
        return 2 if plain and max(self.width, self.columns) <= SEGMENT else 1

    @property
    def queries(self) -> int:
        """Queries of a block."""
        return WARPS * HIGH * self.high

    @property
    def segments(self) -> tuple[int, int]:
        """Lines of shared memory for a row of queries or keys, and for one of values."""
        return -(-self.width // SEGMENT), -(-self.columns // SEGMENT)

    @property
    def shared(self) -> int:
        wide, across = self.segments
        return LINE * ((self.queries + KEYS) * wide + KEYS * across) + PATTERN

    def text(self) -> str:
        return "\n".join((f"tensor core attention {tuple(self[:4])} {self.captures}", *texts(*self[4:6])))

    def fitted(self, vector: int, processor: str = "") -> TensorCoreAttention:
        return self

    def blocks(self, target: str, numbers: Sequence[int]) -> Blocks:
        batches, heads, groups, queries, *_ = numbers
        count = batches * heads * groups * -(-queries // self.queries)
        return Blocks((min(count, MOST_BLOCKS), 1, 1), (THREADS, 1, 1), self.shared)

    def module(self, target: str) -> Module:
        return _Writer(self).module


def chosen(kernel: Attention, processor: str) -> TensorCoreAttention | None:
    """The kernel by tensor cores, where the processor has those that take its dtype, and its widths fit into registers."""
    wide, across = (-(-n // DEEP) * DEEP for n in kernel.shape[2:])
    if kernel.dtype not in ("float16", "bfloat16") or processor not in STAGES:
        return None
    if max(wide, across) > MOST_WIDTH:
        return None
    return TensorCoreAttention(kernel.dtype, processor, wide, across, *kernel[2:])


class _Writer(Fragments, Scores):
    def __init__(self, kernel: TensorCoreAttention) -> None:
        self.kernel, self.dtype = kernel, "float32"
        self.module = Module(
            tg.TARGETS["nvptx"].triple, str(tg.machine("nvptx", kernel.processor).target_data)
        )
        self.module.globals += NOT_UNROLLED
        self.f = f = Function(self.module, "")
        self.low = Lowering(f, None)
        self.threads = Threads(f, "nvptx", (THREADS, 1, 1), shared=True)
        given = parameters(kernel.captures)
        # without a bound the assembler holds some to fewer registers than it needs, for one block more
        f.signature = self.threads.signature(given) + f' "nvvm.maxnreg"="{MOST_REGISTERS}"'
        self.given = {name: Value(type, f"%{name}") for name, type in given}
        self.kind = MEMORY[kernel.dtype]
        self.high, self.steps, self.across = kernel.high, kernel.width // DEEP, kernel.columns // WIDE
        self.zero, self.nothing = self.number(0.0), self.number(-math.inf)
        self.write()

    # --- numbers ---
    def number(self, value: float) -> Value:
        return Value("float", float_literal(value, "float"))

    def times_float(self, a: Value, b: Value) -> Value:
        return self.f.binary("fmul", a, b)

    def power(self, x: Value) -> Value:
        """2 ** x to 22 bits."""
        return self.f.call("float", "llvm.nvvm.ex2.approx.ftz.f", x)

    def larger(self, a: Value, b: Value) -> Value:
        """The larger one, NaN where either is."""
        return self.f.call("float", "llvm.maximum.f32", a, b)

    def of_quad(self, x: Value, combined: Callable[[Value, Value], Value]) -> Value:
        """What the four threads of a row have, combined; the same in all of them."""
        for distance in (1, 2):
            x = combined(x, self.threads.from_lane(x, keep=31, flip=distance))
        return x

    def is_nothing(self, x: Value) -> Value:
        return self.f.op("i1", f"fcmp oeq {x}, {self.nothing.name}")

    # --- the walk ---
    def write(self) -> None:
        f = self.f
        # What follows from sizes and the thread's number is computed where it is needed, so that no register holds it.
        f.repeat([self.threads.block()], lambda n: self.test("slt", n[0], self.count()), self.block)
        f.do("ret void")

    def anew(self, v: Value) -> Value:
        """The same value, of which LLVM does not see that it has been there before."""
        return self.f.op(v.type, f'call {v.type} asm sideeffect "mov.b64 $0, $1;", "=l,l"({v})')

    def prepare(self) -> None:
        """Where the thread's elements lie."""
        f, kernel = self.f, self.kernel
        self.thread = self.anew(self.threads.thread())
        self.lane = f.binary("and", self.thread, i64(31))
        self.place_lines(self.thread, self.threads.shared_memory())
        wide, _ = kernel.segments
        self.k_place = LINE * kernel.queries * wide
        self.v_place = self.k_place + LINE * KEYS * wide
        row = self.times(f.binary("lshr", self.thread, i64(5)), HIGH * self.high)
        self.q_lines = self.places(True, True, row, 0)[0]
        self.k_lines = self.places(False, True, 0, self.k_place)[0]
        self.v_lines = self.places(False, False, 0, self.v_place)[0]
        # the thread's first row and column of a tile of sums
        self.row = f.add(row, f.binary("lshr", self.lane, i64(2)))
        self.column = self.times(f.binary("and", self.lane, i64(3)), 2)
        factor = self.low.cast(self.given["factor"], "float64", "float32")
        self.unit = factor if kernel.score is None else self.number(1.0)  # of scores
        self.factor, self.k = factor, self.times_float(self.unit, self.number(math.log2(math.e)))

    def down(self) -> Value:
        """How many blocks the queries of a head are."""
        f, most = self.f, self.kernel.queries
        return f.binary(
            "lshr", f.add(self.anew(self.given["queries"]), i64(most - 1)), i64(most.bit_length() - 1)
        )

    def count(self) -> Value:
        """How many blocks there are."""
        f, result = self.f, self.down()
        for name in ("batches", "heads", "groups"):
            result = f.mul(result, self.given[name])
        return result

    def locate(self, number: Value) -> None:
        """Which queries a block takes, and what of them the thread does."""
        self.prepare()
        f, down = self.f, self.down()
        sizes = [self.given["heads"], self.given["groups"], down]
        self.batch, self.head, own, tile = f.coordinates(self.anew(number), sizes)
        self.query_head = f.add(f.mul(self.head, self.given["groups"]), own)
        # the last queries first: under a causal mask they see most
        self.row0 = self.times(f.binary("sub", f.binary("sub", down, i64(1)), tile), self.kernel.queries)

    def operand(self, name: str, first: Value) -> Operand:
        given, kernel = self.given, self.kernel
        wide, across = kernel.segments
        side, place = {"q": (kernel.queries, 0), "k": (KEYS, self.k_place), "v": (KEYS, self.v_place)}[name]
        terms = SEGMENT * (across if name == "v" else wide)
        size = given["queries" if name == "q" else "keys"]
        steps = given[f"{name}_q"], given[f"{name}_e"]
        head = self.query_head if name == "q" else self.head
        start = self.corner(name, self.batch, head)
        return Operand(start, True, size, first, *steps, side, terms, place, AT_ONCE)

    def smooth(self, o: Operand, width: str) -> Value:
        """Whether whole lines can be copied."""
        return self.both(self.straight(o), self.test("sge", self.given[width], i64(o.terms)))

    def copy(self, o: Operand, width: str) -> None:
        """Copy an operand, whatever of it exists."""
        f = self.f
        whole = self.both(self.smooth(o, width), self.within(o))
        fast, slow, after = (f.fresh(label) for label in ("fast", "slow", "copied"))
        f.branch_if(whole, fast, slow)
        f.start(fast)
        self.copy_whole(o, 0, self.sources(o))
        f.branch(after)
        f.start(slow)
        line, chunk, target = self.line, self.chunk, self.target
        self.place_lines(self.anew(self.threads.thread()), self.threads.shared_memory())
        self.copy_some(o, 0, i64(0), self.given[width], self.straight(o))
        self.line, self.chunk, self.target = line, chunk, target
        f.branch(after)
        f.start(after)
        self.closed()

    def copy_surely(self, o: Operand, source: Value) -> Value:
        """Copy a whole operand, whose lines follow each other in equal steps; where the next KEYS begin."""
        step = self.times(o.step, 2 * o.at_once)
        sources = [source]
        for _ in range(o.passes):
            sources.append(self.bytes(sources[-1], step))
        self.copy_whole(o, 0, sources[:-1])
        self.closed()
        return sources[-1]

    def closed(self) -> None:
        """The copies so far are a group."""
        self.f.call("void", "llvm.nvvm.cp.async.commit.group")

    def arrived(self) -> None:
        """All copies are there, for all threads, which have read what the next ones replace."""
        self.f.call("void", "llvm.nvvm.cp.async.wait.group", i32(0))
        self.threads.barrier()

    # --- a block's queries ---
    def block(self, carried: list[Value]) -> list[Value]:
        f, given, kernel, number = self.f, self.given, self.kernel, carried[0]
        self.locate(number)
        self.threads.barrier()  # all have read what was there
        queries, keys, values = (self.operand(name, self.row0 if name == "q" else i64(0)) for name in "qkv")
        self.copy(queries, "width")
        self.copy(keys, "width")
        rows, turns = 2 * self.high, i64(0)
        state = [*[self.nothing] * rows, *[self.zero] * (rows + 4 * self.high * self.across)]

        def sure(first: Value, state: list[Value]) -> list[Value]:
            """These keys are whole and seen by all queries, and the next ones are whole."""
            to_k, to_v, state = state[0], state[1], state[2:]
            self.arrived()
            to_v = self.copy_surely(values, to_v)
            scores = self.products()
            self.arrived()
            to_k = self.copy_surely(keys, to_k)
            return [to_k, to_v, *self.step(first, scores, state, False)]

        def other(first: Value, state: list[Value]) -> list[Value]:
            keys, values = (self.operand(name, f.add(first, i64(n))) for name, n in (("k", KEYS), ("v", 0)))
            self.arrived()
            self.copy(values, "columns")
            scores = self.products()
            self.arrived()
            self.copy(keys, "width")  # of those that do not exist nothing is read: they are zero
            return self.step(first, scores, state, True)

        if kernel.score is None and kernel.mask is None:
            smooth = [self.smooth(keys, "width"), self.smooth(values, "columns")]
            whole = self.least(self.last(self.row0), f.binary("sub", given["keys"], i64(KEYS)))
            whole = self.low.select(self.test("sgt", whole, i64(0)), whole, i64(0))
            turns = self.low.select(self.both(*smooth), f.binary("and", whole, i64(-KEYS)), i64(0))
            begin = self.sources(keys._replace(first=i64(KEYS)))[0], self.sources(values)[0]
            state = f.loop(i64(0), turns, i64(KEYS), [*begin, *state], sure)[2:]
            self.locate(number)
        some = self.last(f.add(self.row0, i64(kernel.queries - 1)))  # the keys that any query sees
        state = f.loop(turns, some, i64(KEYS), state, other)
        f.call("void", "llvm.nvvm.cp.async.wait.group", i32(0))  # the keys behind the last
        self.locate(number)
        self.finish(state)
        return [f.add(number, self.threads.blocks())]

    def chunk_of(self, lines: Value, part: int) -> Value:
        """The lines' chunks of 16 terms (or columns) number `part`, found when they are read, so that no register holds them."""
        if not part:
            return lines
        text = f"xor.b64 $0, $1, {2 * CHUNK * part};"
        return self.f.op(lines.type, f'call {lines.type} asm sideeffect "{text}", "=l,l"({lines})')

    def products(self) -> list[list[list[Value]]]:
        """Q Kᵀ: for each tile of 16 queries and 8 keys its four sums."""
        dtype = self.kernel.dtype
        sums = [[[self.zero] * 4 for _ in range(KEYS // WIDE)] for _ in range(self.high)]
        for step in range(self.steps):
            segment, part = divmod(step, IN_LINE)
            lines = self.chunk_of(self.q_lines, part), self.chunk_of(self.k_lines, part)
            begin = segment * self.kernel.queries * LINE
            left = [self.four(lines[0], begin + i * HIGH * LINE, True) for i in range(self.high)]
            for j in range(0, KEYS // WIDE, 2):
                right = self.four(lines[1], (segment * KEYS + j * WIDE) * LINE, True)
                for i in range(self.high):
                    for n in range(2):
                        two = right[2 * n : 2 * n + 2]
                        sums[i][j + n] = self.instruction(dtype, left[i], two, sums[i][j + n])
        return sums

    def step(
        self, first: Value, scores: list[list[list[Value]]], state: list[Value], bounded: bool
    ) -> list[Value]:
        """The largest scores, the sums of weights and those of values, with the scores of some keys more."""
        f, rows = self.f, 2 * self.high
        tops, totals, sums = state[:rows], state[rows : 2 * rows], state[2 * rows :]
        weights: list[list[Value]] = []
        for r in range(rows):
            i, below = divmod(r, 2)
            own = [tile[2 * below + n] for tile in scores[i] for n in range(2)]
            if bounded:
                own = self.seen_of(first, r, own)
            top = own[0]
            for s in own[1:]:
                top = self.larger(top, s)
            top = self.larger(tops[r], self.of_quad(top, self.larger))
            # where there was no score yet all differences are -inf, and weights 0
            base = self.low.select(self.is_nothing(top), self.zero, top)
            base = f.op("float", f"fneg {self.times_float(base, self.k)}")
            weigh = lambda s: self.power(f.call("float", "llvm.fma.f32", s, self.k, base))  # noqa: B023
            shrunk = weigh(tops[r])
            own = [weigh(s) for s in own]
            total = own[0]
            for w in own[1:]:
                total = f.binary("fadd", total, w)
            totals[r] = f.call("float", "llvm.fma.f32", totals[r], shrunk, total)
            tops[r] = top
            weights.append(own)
            for at in range(4 * self.across * i, 4 * self.across * (i + 1)):
                if at % 4 // 2 == below:
                    sums[at] = self.times_float(sums[at], shrunk)
        return [*tops, *totals, *self.add_values(weights, sums)]

    def seen_of(self, first: Value, r: int, own: list[Value]) -> list[Value]:
        """A row's scores after their function; -inf where the query does not see the key."""
        f, kernel, result = self.f, self.kernel, []
        query, begin = f.add(self.row0, self.row_of(r)), f.add(first, self.column)
        seen = self.seen(query, begin, KEYS)
        for n, s in enumerate(own):
            further = WIDE * (n // 2) + n % 2
            s = s if kernel.score is None else self.times_float(s, self.factor)
            s, allowed = self.score(s, query, f.add(begin, i64(further)))
            result.append(self.masked(s, self.sees(seen, further), allowed))
        return result

    def row_of(self, r: int) -> Value:
        """Which of the block's queries is the thread's row `r`."""
        return self.f.add(self.row, i64(HIGH * (r // 2) + 8 * (r % 2)))

    def add_values(self, weights: list[list[Value]], sums: list[Value]) -> list[Value]:
        """The sums of values with those of some keys more."""
        dtype = self.kernel.dtype
        for step in range(KEYS // DEEP):
            left = [
                [
                    self.packed(*weights[2 * i + below][at : at + 2])
                    for at in (4 * step, 4 * step + 2)
                    for below in range(2)
                ]
                for i in range(self.high)
            ]
            for j in range(0, self.across, 2):
                segment, part = divmod(j // 2, IN_LINE)
                right = self.four(
                    self.chunk_of(self.v_lines, part), (segment * KEYS + step * DEEP) * LINE, False
                )
                for i in range(self.high):
                    for n in range(2):
                        at = 4 * (i * self.across + j + n)
                        two = right[2 * n : 2 * n + 2]
                        sums[at : at + 4] = self.instruction(dtype, left[i], two, sums[at : at + 4])
        return sums

    def packed(self, low: Value, high: Value) -> Value:
        """Two halves in a register."""
        kind, short = (
            ("<2 x half>", "f16x2") if self.kernel.dtype == "float16" else ("<2 x bfloat>", "bf16x2")
        )
        return self.f.op("i32", f"bitcast {self.f.call(kind, f'llvm.nvvm.ff2{short}.rn', high, low)} to i32")

    # --- results ---
    def finish(self, state: list[Value]) -> None:
        f, given, rows = self.f, self.given, 2 * self.high
        tops, totals, sums = state[:rows], state[rows : 2 * rows], state[2 * rows :]
        heads = f.mul(given["heads"], given["groups"])
        line = f.mul(f.add(f.mul(self.batch, heads), self.query_head), given["queries"])
        leads = self.test("eq", self.column, i64(0))
        even = self.test("eq", f.binary("and", given["columns"], i64(1)), i64(0))
        for r in range(rows):
            total = self.of_quad(totals[r], lambda a, b: f.binary("fadd", a, b))
            some = self.low.select(f.op("i1", f"fcmp oeq {total}, {self.zero.name}"), self.number(1.0), total)
            inverse = f.binary("fdiv", self.number(1.0), some)
            row = f.add(self.row0, self.row_of(r))
            place = f.add(line, row)
            inside = self.test("slt", row, given["queries"])
            i, below = divmod(r, 2)
            own = sums[4 * self.across * i : 4 * self.across * (i + 1)]
            pairs = [
                [self.times_float(s, inverse) for s in own[4 * j + 2 * below : 4 * j + 2 * below + 2]]
                for j in range(self.across)
            ]
            to = f.gep(self.kind, given["out"], f.add(f.mul(place, given["columns"]), self.column))

            def store(pairs=pairs, to=to) -> list[Value]:
                for j, pair in enumerate(pairs):
                    self.store_pair(f.gep(self.kind, to, i64(WIDE * j)), j, pair[0], pair[1], even)
                return []

            def note(top=tops[r], total=total, place=place) -> list[Value]:
                log = f.call("float", "llvm.nvvm.lg2.approx.ftz.f", total)
                top = self.times_float(top, self.unit)
                safe = self.low.select(self.is_nothing(top), self.zero, top)
                log = f.call("float", "llvm.fma.f32", log, self.number(math.log(2.0)), safe)
                for name, value in (("lse", log), ("top", top)):
                    f.store(value, f.gep("float", given[name], place), 4)
                return []

            f.when(inside, store)
            f.when(self.both(inside, leads), note)

    def store_pair(self, to: Value, j: int, first: Value, second: Value, even: Value) -> None:
        """Two neighbours of a row of the result, as one word where rows begin at words."""
        f, width, dtype = self.f, self.given["columns"], self.kernel.dtype
        column = f.add(self.column, i64(WIDE * j))
        inside, further = (self.test("slt", f.add(column, i64(n)), width) for n in range(2))

        def word() -> list[Value]:
            f.store(self.packed(first, second), to, 4)
            return []

        def one(value: Value, n: int):
            def put() -> list[Value]:
                f.store(self.low.cast(value, "float32", dtype), f.gep(self.kind, to, i64(n)), 2)
                return []

            return put

        f.when(self.both(even, inside), word)
        odd = f.op("i1", f"xor {even}, true")
        f.when(self.both(odd, inside), one(first, 0))
        f.when(self.both(odd, further), one(second, 1))
