"""Attention forward in float16 and bfloat16 by tensor cores: softmax(score(Q Kᵀ)) V with `mma.sync`, for NVIDIA's sm_80 on.

A block of 4 warps takes 64 or 128 queries of one head, each warp 16 or 32 of them, and goes over the keys, KEYS at a time (Dao,
FlashAttention-2, 2023).  Q, K and V lie in shared memory as `schedule_gpu_attention_halves.py` says.  sm_90a's warpgroups have a kernel
of their own, of which this module is the base: `schedule_gpu_attention_wgmma.py`.

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

from .expr import Expr
from .irtext import Module, Value, i64
from .schedule_gpu_attention_halves import MOST_WIDTH, SEGMENT, Halves
from .schedule_gpu_copies import LINE, PATTERN, Operand
from .schedule_gpu_mma import DEEP, HIGH, WIDE
from .schedule_gpu_scores import KernelOfScores, parameters, texts
from .schedule_gpu_stages import STAGES
from .schedule_gpu_threads import MOST_BLOCKS, WARP, Blocks

if TYPE_CHECKING:
    from .schedule_gpu_attention import Attention

WARPS = 4
KEYS = 64  # of a turn


class _Fields(NamedTuple):
    dtype: str
    processor: str
    width: int
    columns: int
    score: Expr | None = None
    mask: Expr | None = None
    captures: tuple[tuple[str, int], ...] = ()


class TensorCoreAttention(_Fields, KernelOfScores):
    """As `schedule_gpu_attention.Attention`, of halves and factors above 0; `width`, `columns`: of queries and values, up to which it has
    room.
    """

    __slots__ = ()
    instruction = "mma"  # what multiplies
    warps = WARPS  # of a block
    keys = KEYS  # of a turn; a power of two

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return WARP * self.warps

    @property
    def high(self) -> int:
        """Tiles of 16 queries that a warp has: two share what is loaded of keys and values, where registers suffice."""
        plain = self.score is None and self.mask is None
        return 2 if plain and max(self.width, self.columns) <= SEGMENT else 1

    @property
    def queries(self) -> int:
        """Queries of a block."""
        return self.warps * HIGH * self.high

    @property
    def segments(self) -> tuple[int, int]:
        """Lines of shared memory for a row of queries or keys, and for one of values."""
        return -(-self.width // SEGMENT), -(-self.columns // SEGMENT)

    @property
    def shared(self) -> int:
        """Bytes of shared memory."""
        wide, across = self.segments
        return LINE * ((self.queries + self.keys) * wide + self.keys * across) + PATTERN

    def text(self) -> str:
        return "\n".join((f"tensor core attention {tuple(self[:4])} {self.captures}", *texts(*self[4:6])))

    def blocks(self, target: str, numbers: Sequence[int]) -> Blocks:
        batches, heads, groups, queries, *_ = numbers
        count = batches * heads * groups * -(-queries // self.queries)
        return Blocks((min(count, MOST_BLOCKS), 1, 1), (self.threads, 1, 1), self.shared)

    def module(self, target: str) -> Module:
        return Writer(self).module


def chosen(kernel: Attention, processor: str) -> TensorCoreAttention | None:
    """The kernel by tensor cores, where the processor has those that take its dtype, and its widths fit into registers."""
    wide, across = (-(-n // DEEP) * DEEP for n in kernel.shape[2:])
    if kernel.dtype not in ("float16", "bfloat16") or processor not in STAGES:
        return None
    if max(wide, across) > MOST_WIDTH:
        return None
    if processor == "sm_90a":
        from .schedule_gpu_attention_wgmma import WarpgroupAttention

        across = -(-across // SEGMENT) * SEGMENT
        return WarpgroupAttention(kernel.dtype, processor, wide, across, *kernel[2:])
    return TensorCoreAttention(kernel.dtype, processor, wide, across, *kernel[2:])


class Writer(Halves):
    """Writes the kernel; what multiplies, and when copies are under way, is for subclasses to change."""

    kernel: TensorCoreAttention
    size = {"q": "queries", "k": "keys", "v": "keys"}
    width = {"q": "width", "k": "width", "v": "columns"}
    ahead = KEYS, 0  # how many keys after those of a turn it copies: of keys, of values

    def __init__(self, kernel: TensorCoreAttention) -> None:
        self.high, self.steps, self.across = kernel.high, kernel.width // DEEP, kernel.columns // WIDE
        self.keys = kernel.keys
        super().__init__(kernel, parameters(kernel.captures))

    # --- numbers ---
    def larger(self, a: Value, b: Value) -> Value:
        """The larger one, NaN where either is."""
        return self.f.call("float", "llvm.maximum.f32", a, b)

    def of_quad(self, x: Value, combined: Callable[[Value, Value], Value]) -> Value:
        """What the four threads of a row have, combined; the same in all of them."""
        for distance in (1, 2):
            x = combined(x, self.threads.from_lane(x, keep=31, flip=distance))
        return x

    # --- the walk ---
    def prepare(self) -> None:
        """Where the thread's elements lie."""
        f, kernel = self.f, self.kernel
        self.place_thread()
        wide, _ = kernel.segments
        self.k_place = LINE * kernel.queries * wide
        self.v_place = self.k_place + LINE * self.keys * wide
        row = self.times(f.binary("lshr", self.thread, i64(5)), HIGH * self.high)
        self.place_operands(row)
        # the thread's first row and column of a tile of sums
        self.row = f.add(row, f.binary("lshr", self.lane, i64(2)))
        self.column = self.times(f.binary("and", self.lane, i64(3)), 2)
        factor = self.low.cast(self.given["factor"], "float64", "float32")
        self.unit = factor if kernel.score is None else self.number(1.0)  # of scores
        self.factor, self.k = factor, self.times_float(self.unit, self.number(math.log2(math.e)))

    def place_operands(self, row: Value) -> None:
        """Where the products read; `row`: the warp's first query in the block."""
        self.q_lines = self.places(True, True, row, 0)[0]
        self.k_lines = self.places(False, True, 0, self.k_place)[0]
        self.v_lines = self.places(False, False, 0, self.v_place)[0]

    def down(self) -> Value:
        """How many blocks the queries of a head are."""
        return self.tiles_of("queries", self.kernel.queries)

    def count(self) -> Value:
        return self.product_of(self.down(), "batches", "heads", "groups")

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
        kernel, (wide, across) = self.kernel, self.kernel.segments
        if name == "q":
            return self.operand_at(name, self.query_head, first, kernel.queries, wide, 0)
        segments, place = (wide, self.k_place) if name == "k" else (across, self.v_place)
        return self.operand_at(name, self.head, first, self.keys, segments, place)

    # --- a block's queries ---
    def block(self, carried: list[Value]) -> list[Value]:
        f, given, kernel, number = self.f, self.given, self.kernel, carried[0]
        self.locate(number)
        self.threads.barrier()  # all have read what was there
        queries, keys, values = (self.operand(name, self.row0 if name == "q" else i64(0)) for name in "qkv")
        self.copy(queries, "width")
        self.copy_first(keys, values)
        rows, turns = 2 * self.high, i64(0)
        state = [*[self.nothing] * rows, *[self.zero] * (rows + 4 * self.high * self.across)]
        state = [*self.places_of_copies(), *state]
        if kernel.score is None and kernel.mask is None:
            smooth = [self.smooth(keys, "width"), self.smooth(values, "columns")]
            whole = self.least(self.last(self.row0), f.binary("sub", given["keys"], i64(self.keys)))
            whole = self.low.select(self.test("sgt", whole, i64(0)), whole, i64(0))
            turns = self.low.select(self.both(*smooth), f.binary("and", whole, i64(-self.keys)), i64(0))
            begin = [self.sources(o._replace(first=i64(n)))[0] for o, n in zip((keys, values), self.ahead)]

            def sure(first: Value, carried: list[Value]) -> list[Value]:
                """These keys are whole and seen by all queries, and the next ones are whole."""

                def copy(n: int) -> Value:
                    return self.copy_surely((keys, values)[n], carried[n])

                sources, state = self.turn(first, carried[2:], False, copy)
                return [*sources, *state]

            state = f.loop(i64(0), turns, i64(self.keys), [*begin, *state], sure)[2:]
            self.locate(number)

        def other(first: Value, state: list[Value]) -> list[Value]:
            def copy(n: int) -> Value:  # of those that do not exist nothing is read: they are zero
                self.copy(self.operand("kv"[n], f.add(first, i64(self.ahead[n]))), ("width", "columns")[n])
                return first

            return self.turn(first, state, True, copy)[1]

        some = self.last(f.add(self.row0, i64(kernel.queries - 1)))  # the keys that any query sees
        state = self.settled(f.loop(turns, some, i64(self.keys), state, other))
        self.all_copied()  # the keys behind the last
        self.locate(number)
        self.finish(state[len(self.places_of_copies()) :])
        return [f.add(number, self.threads.blocks())]

    def copy_first(self, keys: Operand, values: Operand) -> None:
        """Start the copies that the first turn waits for."""
        self.copy(keys, "width")

    def places_of_copies(self) -> list[Value]:
        """What goes from turn to turn, before the sums, of where copies go to."""
        return []

    def settled(self, state: list[Value]) -> list[Value]:
        """What went from turn to turn when the sums are there."""
        return state

    def turn(
        self, first: Value, state: list[Value], bounded: bool, copy: Callable[[int], Value]
    ) -> tuple[list[Value], list[Value]]:
        """Some keys more: `copy(0)` starts the copies of later keys, and `copy(1)` those of values, and say where the next ones begin.

        While Q Kᵀ is computed the values are on their way, and while the weights are multiplied with these, the next keys are.
        """
        self.arrived()
        to_v = copy(1)
        scores = self.products()
        self.arrived()
        to_k = copy(0)
        return [to_k, to_v], self.step(first, scores, state, bounded)

    def products(self) -> list[list[list[Value]]]:
        """Q Kᵀ: for each tile of 16 queries and 8 keys its four sums."""
        count = self.keys // WIDE
        lefts = self.from_memory(self.q_lines, self.kernel.queries, self.high)
        sums = [self.zero] * (4 * self.high * count)
        sums = self.tiles_times(lefts, self.steps, self.k_lines, self.keys, True, sums)
        tiles = [sums[n : n + 4] for n in range(0, len(sums), 4)]
        return [tiles[i * count : (i + 1) * count] for i in range(self.high)]

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
        seen = self.seen(query, begin, self.keys)
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

        def lefts(step: int) -> list[list[Value]]:
            return [self.fragment(weights, i, step) for i in range(self.high)]

        return self.tiles_times(lefts, self.keys // DEEP, self.v_lines, self.keys, False, sums)

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
                for j, (a, b) in enumerate(pairs):
                    column = f.add(self.column, i64(WIDE * j))
                    self.store_pair(f.gep(self.kind, to, i64(WIDE * j)), column, given["columns"], a, b, even)
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
