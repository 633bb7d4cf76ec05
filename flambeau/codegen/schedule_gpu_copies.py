"""Asynchronous copies (`cp.async`) of halves into shared memory, in the layout that matrix instructions read.

An operand lies in shared memory as it lies in global memory, in lines of 128 bytes: where its terms lie side by side, a line is 64 terms
of one row (or column), and operands of more terms are several segments of such lines; else it is 64 rows of one term, and lines of the
same 64 rows follow each other.  Of the 8 chunks of 16 bytes of a line, chunk c stands at c xor (line mod 8), so that the 8 lines of an
8 × 8 matrix, which are read at once, lie in different banks.  This is the "128-byte swizzle" of the PTX ISA.

A whole operand whose chunks lie side by side and begin at multiples of 16 bytes takes the short way: a copy is one instruction.  All
others take a longer one, which fills with zeros what does not exist and loads element by element what lies askew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .irtext import Function, Value, i64
from .lower import Lowering
from .schedule_gpu_threads import SHARED

LINE = 128  # bytes
CHUNK = 16  # bytes that one copy moves
ELEMENTS = CHUNK // 2  # of a chunk
PATTERN = 1024  # bytes after which the swizzle repeats; where an operand has to begin
SHARED_SPACE = f"ptr addrspace({SHARED})"


class Operand(NamedTuple):
    """One operand of a block: its matrix, what of it the block needs, and where that goes.

    `along_terms`: its terms lie side by side, so that a line is one row (or column).
    `size`, `first`: how many rows (or columns) the matrix has, and the block's first.
    `step`, `term_step`: from one to the next, in elements.
    `side`, `terms`: how many rows and terms the block takes.  `place`: where they begin in a stage, in bytes.
    `at_once`: how many lines the block copies at once, a chunk a thread.
    """

    start: Value
    along_terms: bool
    size: Value
    first: Value
    step: Value
    term_step: Value
    side: int
    terms: int
    place: int
    at_once: int

    @property
    def lines(self) -> int:
        """How many lines a segment has."""
        return self.side if self.along_terms else self.terms

    @property
    def segments(self) -> int:
        return 2 * (self.terms if self.along_terms else self.side) // LINE

    @property
    def passes(self) -> int:
        """How many lines of each segment a thread copies a chunk of."""
        return self.lines // self.at_once

    @property
    def across(self) -> tuple[Value, Value]:
        """The steps in elements from line to line, and within a line."""
        return (self.step, self.term_step) if self.along_terms else (self.term_step, self.step)

    def copies(self) -> list[tuple[int, int]]:
        """For each copy of a thread, the number of the pass and of the segment."""
        return [(p, j) for p in range(self.passes) for j in range(self.segments)]


class Copies:
    """Writes copies.  The writer of a kernel has `kind`, the LLVM type of an element, and calls `place_lines` first."""

    f: Function
    low: Lowering
    kind: str

    def place_lines(self, thread: Value, begin: Value) -> None:
        """Which line and which chunk a thread copies first; `begin` of shared memory is rounded up to where the swizzle begins."""
        f = self.f
        address = f.op("i64", f"ptrtoint {begin} to i64")
        address = f.binary("and", f.add(address, i64(PATTERN - 1)), i64(-PATTERN))
        self.memory = f.op(SHARED_SPACE, f"inttoptr {address} to {SHARED_SPACE}")
        self.line, self.chunk = f.binary("lshr", thread, i64(3)), f.binary("and", thread, i64(7))
        self.target = self.target_of(self.line, self.chunk)

    def target_of(self, line: Value, chunk: Value) -> Value:
        """Where a chunk of a line goes, of an operand at the beginning of shared memory."""
        placed = self.f.binary("xor", chunk, self.f.binary("and", line, i64(7)))
        return self.bytes(self.memory, self.f.add(self.times(line, LINE), self.times(placed, CHUNK)))

    # --- short forms ---
    def times(self, a: Value, factor: int) -> Value:
        return self.f.mul(a, i64(factor))

    def bytes(self, pointer: Value, offset: Value | int) -> Value:
        return self.f.gep("i8", pointer, i64(offset) if isinstance(offset, int) else offset)

    def hidden(self, v: Value) -> Value:
        """The same value, of which LLVM does not see where it comes from."""
        return self.f.op(v.type, f'call {v.type} asm "mov.b64 $0, $1;", "=l,l"({v})')

    def test(self, how: str, a: Value, b: Value) -> Value:
        return self.f.op("i1", f"icmp {how} {a}, {b.name}")

    def both(self, *conditions: Value) -> Value:
        result = conditions[0]
        for other in conditions[1:]:
            result = self.f.binary("and", result, other)
        return result

    # --- copies ---
    def straight(self, o: Operand) -> Value:
        """Whether chunks can be copied: elements of a line lie side by side, and all lines begin at 16 bytes."""
        f = self.f
        line_step, step = o.across
        address = f.op("i64", f"ptrtoint {o.start} to i64")
        bits = f.binary("or", address, self.times(line_step, 2))
        return self.both(
            self.test("eq", step, i64(1)), self.test("eq", f.binary("and", bits, i64(CHUNK - 1)), i64(0))
        )

    def has_all_rows(self, o: Operand) -> Value:
        """Whether the matrix has all rows that the block takes."""
        return self.test("sle", self.f.add(o.first, i64(o.side)), o.size)

    def sources(self, o: Operand) -> list[Value]:
        """Where the thread's chunks of the first terms begin, for each pass; those of further segments follow at multiples of LINE."""
        f = self.f
        line_step, _ = o.across
        line = f.add(self.line, o.first) if o.along_terms else self.line
        begin = f.add(f.mul(line, line_step), self.times(self.chunk, ELEMENTS))
        begin = begin if o.along_terms else f.add(begin, o.first)
        here = f.gep(self.kind, o.start, begin)
        # LLVM is not to see how they follow from each other: it would compute them so in every turn.
        return [
            self.hidden(f.gep(self.kind, here, self.times(line_step, p * o.at_once))) for p in range(o.passes)
        ]

    def copy_whole(self, o: Operand, stage: int, sources: list[Value]) -> None:
        """The operand from `sources` on, to the stage that begins at that byte."""
        for number, segment in o.copies():
            place = stage + o.place + number * o.at_once * LINE + segment * o.lines * LINE
            source = self.bytes(sources[number], segment * LINE)
            self.f.call(
                "void", "llvm.nvvm.cp.async.cg.shared.global.16", self.bytes(self.target, place), source
            )

    def copy_some(self, o: Operand, stage: int, term0: Value, terms: Value, straight: Value) -> None:
        """The terms from `term0` on, zero from `terms` on and where there are no more rows."""
        f = self.f
        line_step, step = o.across

        def one(turn: Value, _: list[Value]) -> list[Value]:
            at, segment = f.coordinates(turn, [i64(o.segments)])
            line, begin = f.add(self.line, self.times(at, o.at_once)), self.times(self.chunk, ELEMENTS)
            begin = f.add(begin, self.times(segment, LINE // 2))
            if o.along_terms:
                line, begin = f.add(line, o.first), f.add(begin, term0)
                lines, length = o.size, terms
            else:
                line, begin = f.add(line, term0), f.add(begin, o.first)
                lines, length = terms, o.size
            valid = f.binary("sub", length, begin)
            valid = self.low.select(self.test("slt", valid, i64(ELEMENTS)), valid, i64(ELEMENTS))
            exists = self.both(self.test("slt", line, lines), self.test("sgt", valid, i64(0)))
            valid = self.low.select(exists, valid, i64(0))
            offset = f.add(f.mul(line, line_step), f.mul(begin, step))
            source = f.gep(self.kind, o.start, self.low.select(exists, offset, i64(0)))
            offset = f.add(self.times(at, o.at_once * LINE), self.times(segment, o.lines * LINE))
            to = f.gep("i8", self.bytes(self.target, stage + o.place), offset)
            quick, askew, after = (f.fresh(label) for label in ("quick", "askew", "one"))
            f.branch_if(straight, quick, askew)
            f.start(quick)
            size = f.op("i32", f"trunc {self.times(valid, 2)} to i32")
            f.call("void", "llvm.nvvm.cp.async.cg.shared.global.16.s", to, source, size)
            f.branch(after)
            f.start(askew)
            self.copy_elements(to, source, lambda e: (self.test("sgt", valid, i64(e)), self.times(step, e)))
            f.branch(after)
            f.start(after)
            return []

        self.in_turn(o.passes * o.segments, one)

    def in_turn(self, count: int, one: Callable[[Value, list[Value]], list[Value]]) -> None:
        """A loop that LLVM leaves one: written out, these would be most of a kernel."""
        self.f.loop(i64(0), i64(count), i64(1), [], one)
        self.f.blocks[-2][1][-1] += ", !llvm.loop !0"  # the branch back

    def copy_elements(self, to: Value, source: Value, element: Callable[[int], tuple[Value, Value]]) -> None:
        """A chunk from its elements, each of which is at an offset or, where it does not exist, zero; all loads are under way before the
        first is waited for.
        """
        f = self.f
        packed = Value(f"<{ELEMENTS} x i16>", "zeroinitializer")
        for e in range(ELEMENTS):
            exists, offset = element(e)
            offset = self.low.select(exists, offset, i64(0))
            value = self.low.select(exists, f.load("i16", f.gep("i16", source, offset), 2), Value("i16", "0"))
            packed = f.op(packed.type, f"insertelement {packed}, {value}, i32 {e}")
        f.store(packed, to, CHUNK)


NOT_UNROLLED = [
    "!0 = distinct !{!0, !1}",
    '!1 = !{!"llvm.loop.unroll.disable"}',
]  # the metadata of such loops
