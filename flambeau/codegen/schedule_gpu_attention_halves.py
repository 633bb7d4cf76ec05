"""What attention by tensor cores shares, forward and backward, in float16 and bfloat16: operands of a head in shared memory, numbers, and
products of 16 × 16 tiles by `mma.sync`.

A block has some rows of one head, and goes over the rows of the other side, some at a time.  Operands lie in shared memory as
`schedule_gpu_copies.py` says, a line a row: more than 64 columns are several segments.

**Registers.** What follows from sizes and the thread's number is computed where it is needed, so that no register holds it: `anew` hides
from LLVM that it has been there before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from . import target as tg
from .irtext import Function, Module, Value, float_literal, i32, i64
from .lower import MEMORY, Lowering
from .schedule_gpu_copies import CHUNK, LINE, NOT_UNROLLED, Operand
from .schedule_gpu_mma import DEEP, Fragments
from .schedule_gpu_scores import Scores
from .schedule_gpu_threads import Threads

SEGMENT = LINE // 2  # elements of a line
IN_LINE = LINE // (2 * DEEP)  # of 16 terms in a line
MOST_WIDTH = 128  # of queries and of values: sums and operands of more are no longer in registers
MOST_REGISTERS = 255  # of a thread


class Halves(Fragments, Scores):
    """Writes the kernel's walk; `block` is the subclass's."""

    kernel: Any  # with `processor` and `threads`, and what `Scores` wants
    size: dict[str, str]  # the rows of each operand
    width: dict[str, str]  # its columns

    def __init__(self, kernel: Any, parameters: Sequence[tuple[str, str]]) -> None:
        self.kernel, self.dtype = kernel, "float32"
        layout = str(tg.machine("nvptx", kernel.processor).target_data)
        self.module = Module(tg.TARGETS["nvptx"].triple, layout)
        self.module.globals += NOT_UNROLLED
        self.f = f = Function(self.module, "")
        self.low = Lowering(f, None)
        self.threads = Threads(f, "nvptx", (kernel.threads, 1, 1), shared=True)
        # without a bound the assembler holds some to fewer registers than it needs, for one block more
        f.signature = self.threads.signature(parameters) + f' "nvvm.maxnreg"="{MOST_REGISTERS}"'
        self.given = {name: Value(type, f"%{name}") for name, type in parameters}
        self.kind = MEMORY[kernel.dtype]
        self.at_once = kernel.threads * CHUNK // LINE  # lines that the block copies at once
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

    def is_nothing(self, x: Value) -> Value:
        return self.f.op("i1", f"fcmp oeq {x}, {self.nothing.name}")

    def packed(self, low: Value, high: Value) -> Value:
        """Two halves in a register."""
        kind, short = (
            ("<2 x half>", "f16x2") if self.kernel.dtype == "float16" else ("<2 x bfloat>", "bf16x2")
        )
        return self.f.op("i32", f"bitcast {self.f.call(kind, f'llvm.nvvm.ff2{short}.rn', high, low)} to i32")

    # --- the walk ---
    def write(self) -> None:
        f = self.f
        f.repeat([self.threads.block()], lambda n: self.test("slt", n[0], self.count()), self.block)
        f.do("ret void")

    def count(self) -> Value:
        """How many blocks there are."""
        raise NotImplementedError

    def block(self, carried: list[Value]) -> list[Value]:
        """A block's rows; the number of the next block."""
        raise NotImplementedError

    def anew(self, v: Value) -> Value:
        """The same value, of which LLVM does not see that it has been there before."""
        return self.f.op(v.type, f'call {v.type} asm sideeffect "mov.b64 $0, $1;", "=l,l"({v})')

    def place_thread(self) -> None:
        """Where the thread is, and what it copies."""
        self.thread = self.anew(self.threads.thread())
        self.lane = self.f.binary("and", self.thread, i64(31))
        self.place_lines(self.thread, self.threads.shared_memory())

    def tiles_of(self, size: str, most: int) -> Value:
        """How many times `most` rows, a power of two, the rows of a side take."""
        f = self.f
        return f.binary("lshr", f.add(self.anew(self.given[size]), i64(most - 1)), i64(most.bit_length() - 1))

    def product_of(self, first: Value, *names: str) -> Value:
        for name in names:
            first = self.f.mul(first, self.given[name])
        return first

    # --- copies ---
    def operand_at(
        self, name: str, head: Value, first: Value, side: int, segments: int, place: int
    ) -> Operand:
        """`side` rows from `first` on, of so many segments, which go to that place in shared memory."""
        given = self.given
        start = self.corner(name, self.batch, head)
        steps = given[f"{name}_q"], given[f"{name}_e"]
        size = given[self.size[name]]
        return Operand(start, True, size, first, *steps, side, SEGMENT * segments, place, self.at_once)

    def smooth(self, o: Operand, width: str) -> Value:
        """Whether whole lines can be copied."""
        return self.both(self.straight(o), self.test("sge", self.given[width], i64(o.terms)))

    def copy(self, o: Operand, width: str) -> None:
        """Copy an operand, whatever of it exists; of what does not, zeros."""
        f = self.f
        whole = self.both(self.smooth(o, width), self.has_all_rows(o))
        fast, slow, after = (f.fresh(label) for label in ("fast", "slow", "copied"))
        f.branch_if(whole, fast, slow)
        f.start(fast)
        self.copy_whole(o, 0, self.sources(o))
        f.branch(after)
        f.start(slow)
        known = self.line, self.chunk, self.target, self.memory
        self.place_lines_anew()
        self.copy_some(o, 0, i64(0), self.given[width], self.straight(o))
        self.line, self.chunk, self.target, self.memory = known
        f.branch(after)
        f.start(after)
        self.closed()

    def place_lines_anew(self) -> None:
        """`place_lines`, of which no register holds the results meanwhile."""
        self.place_lines(self.anew(self.threads.thread()), self.threads.shared_memory())

    def copy_surely(self, o: Operand, source: Value) -> Value:
        """Copy a whole operand, whose lines follow each other in equal steps; where the next rows begin."""
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

    def all_copied(self) -> None:
        """The thread's own copies are there."""
        self.f.call("void", "llvm.nvvm.cp.async.wait.group", i32(0))

    def arrived(self) -> None:
        """All copies are there, for all threads, which have read what the next ones replace."""
        self.all_copied()
        self.threads.barrier()

    # --- products ---
    def chunk_of(self, lines: Value, part: int) -> Value:
        """The lines' chunks of 16 terms (or columns) number `part`, found when they are read, so that no register holds them."""
        if not part:
            return lines
        text = f"xor.b64 $0, $1, {2 * CHUNK * part};"
        return self.f.op(lines.type, f'call {lines.type} asm sideeffect "{text}", "=l,l"({lines})')

    def fragment(self, rows: list[list[Value]], i: int, step: int) -> list[Value]:
        """16 rows and 16 terms of sums as a left operand: those of `rows`, two lists of a thread's for each tile `i` of 16 rows."""
        return [
            self.packed(*rows[2 * i + below][at : at + 2])
            for at in (4 * step, 4 * step + 2)
            for below in range(2)
        ]

    def tiles_times(
        self,
        lefts: Callable[[int], list[list[Value]]],
        steps: int,
        lines: Value,
        length: int,
        along_terms: bool,
        sums: list[Value],
    ) -> list[Value]:
        """The sums of tiles of 16 rows with those of a product more: `lefts(step)` are the tiles' left operands of 16 terms.

        The right operand lies from `lines` on in segments of `length` rows: its terms are its columns (`along_terms`), or its rows.  Sums:
        four of each tile of 16 rows and 8 columns, row by row.
        """
        sums, dtype = list(sums), self.kernel.dtype
        for step in range(steps):
            left = lefts(step)
            across = len(sums) // (4 * len(left))
            segment, part = divmod(step, IN_LINE)
            place = self.chunk_of(lines, part) if along_terms else lines
            for j in range(0, across, 2):
                if along_terms:
                    row = 8 * j
                else:
                    segment, part = divmod(j // 2, IN_LINE)
                    place, row = self.chunk_of(lines, part), step * DEEP
                right = self.four(place, (segment * length + row) * LINE, along_terms)
                for i in range(len(left)):
                    for n in range(2):
                        at = 4 * (i * across + j + n)
                        two = right[2 * n : 2 * n + 2]
                        sums[at : at + 4] = self.instruction(dtype, left[i], two, sums[at : at + 4])
        return sums

    def from_memory(self, lines: Value, length: int, high: int) -> Callable[[int], list[list[Value]]]:
        """The left operands of `high` tiles below each other, which lie from `lines` on in segments of `length` rows."""

        def lefts(step: int) -> list[list[Value]]:
            segment, part = divmod(step, IN_LINE)
            place = self.chunk_of(lines, part)
            return [self.four(place, (segment * length + 16 * i) * LINE, True) for i in range(high)]

        return lefts

    # --- results ---
    def store_pair(
        self, to: Value, column: Value, width: Value, first: Value, second: Value, even: Value
    ) -> None:
        """Two neighbours of a row of a dense result from `column`, as one word where rows begin at words (`even`)."""
        f, dtype = self.f, self.kernel.dtype
        inside, further = (self.test("slt", f.add(column, i64(n)), width) for n in range(2))

        def word() -> list[Value]:
            f.store(self.packed(first, second), to, 4)
            return []

        def one(value: Value, n: int) -> Callable[[], list[Value]]:
            def put() -> list[Value]:
                f.store(self.low.cast(value, "float32", dtype), f.gep(self.kind, to, i64(n)), 2)
                return []

            return put

        f.when(self.both(even, inside), word)
        odd = f.op("i1", f"xor {even}, true")
        f.when(self.both(odd, inside), one(first, 0))
        f.when(self.both(odd, further), one(second, 1))
