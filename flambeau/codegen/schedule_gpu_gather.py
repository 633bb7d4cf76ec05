"""Operands of convolutions by tensor cores, brought to shared memory in the layout of `schedule_gpu_copies.py`.

An image that windows move over is gathered element by element. A chunk is 8 windows of one tap: they are terms of a line of a weight's
gradient, whose lines are taps, and else columns of a line, whose lines are terms. A thread has the same 8 windows in all lines that it
fills, so that their places are computed once a stage.

The other operand is a weight or a gradient, whose terms have two digits. A chunk of it that lies side by side, from a multiple of 16
bytes on, is an asynchronous copy; another one is gathered, too.
"""

from __future__ import annotations

from .irtext import Value, i64
from .schedule_gpu_copies import CHUNK, ELEMENTS, LINE, Copies, Operand
from .schedule_gpu_tile import Places

NOWHERE = Value("i32", str(-(1 << 31)))  # a window there is outside of every image, whatever the tap adds
FILLED = 8  # lines that a thread fills of a stage of the image


class Gathers(Copies, Places):
    """Writes what fills a stage of a kernel with `taps`."""

    thread: Value

    def gather_left(self, o: Operand, stage: int, term0: Value, terms: Value) -> None:
        """The terms from `term0` on, zero from `terms` on and where there are no more rows."""
        f = self.f
        thread = self.again(self.thread)
        line, chunk = f.binary("lshr", thread, i64(3)), f.binary("and", thread, i64(7))
        target = self.bytes(self.target_of(line, chunk), stage + o.place)
        begin = f.add(term0, self.times(chunk, ELEMENTS))
        outer, inner = self.digits(begin, self.term_sizes)
        offset = self.offset([outer, inner], self.a_steps)
        in_line = self.both(
            self.test("sle", f.add(begin, i64(ELEMENTS)), terms),
            self.test("sle", f.add(inner, i64(ELEMENTS)), self.given["a_length"]),
            self.test("eq", o.term_step, i64(1)),
        )

        def one(turn: Value, _: list[Value]) -> list[Value]:
            row = f.add(f.add(line, o.first), self.times(turn, o.at_once))
            exists = self.test("slt", row, o.size)
            begin_of_row = self.low.select(exists, f.mul(row, o.step), i64(0))
            source = f.gep(self.kind, o.start, f.add(begin_of_row, offset))
            address = f.op("i64", f"ptrtoint {source} to i64")
            aligned = self.test("eq", f.binary("and", address, i64(CHUNK - 1)), i64(0))
            to = f.gep("i8", target, self.times(turn, o.at_once * LINE))
            quick, askew, after = (f.fresh(label) for label in ("quick", "askew", "one"))
            f.branch_if(self.both(in_line, exists, aligned), quick, askew)
            f.start(quick)
            f.call("void", "llvm.nvvm.cp.async.cg.shared.global.16", to, source)
            f.branch(after)
            f.start(askew)

            def element(e: int) -> tuple[Value, Value]:
                term = f.add(begin, i64(e))
                further = f.add(begin_of_row, self.offset(self.digits(term, self.term_sizes), self.a_steps))
                return self.both(exists, self.test("slt", term, terms)), further

            self.copy_elements(to, o.start, element)
            f.branch(after)
            f.start(after)
            return []

        self.in_turn(o.passes, one)

    def gather_right(self, o: Operand, stage: int, term0: Value, terms: Value) -> None:
        """The same of the image: its windows at the taps."""
        f, summed = self.f, self.kernel.summed
        # A warp fills lines of one tap, or 4 lines beside each other.
        shift, mask = (3, 7) if summed else (5, 31)
        thread = self.again(self.thread)
        chunk, line = f.binary("and", thread, i64(mask)), f.binary("lshr", thread, i64(shift))
        segment, inside = f.binary("lshr", chunk, i64(3)), f.binary("and", chunk, i64(7))
        target = self.bytes(self.target_of(line, inside), stage + o.place)
        target = f.gep("i8", target, self.times(segment, o.lines * LINE))
        at_once = o.lines // FILLED
        (window0, windows), (tap0, taps) = (term0, terms), (o.first, o.size)
        if not summed:
            (window0, windows), (tap0, taps) = (tap0, taps), (window0, windows)
        parts = self.windows(f.add(window0, self.times(chunk, ELEMENTS)), windows)
        sizes = [self.short(self.given[f"size{d}"]) for d in self.dimensions]

        def one(turn: Value, _: list[Value]) -> list[Value]:
            number = f.add(f.add(tap0, line), self.times(turn, at_once))
            channel, *places = self.digits(number, self.tap_sizes)
            offset, spots = self.tap(channel, places)
            further = [self.short(spot) for spot in spots]
            exists = self.test("slt", number, taps)

            def element(e: int) -> tuple[Value, Value]:
                begin, first = parts[e]
                spots = [f.binary("add", p, q) for p, q in zip(first, further)]
                within = [self.test("ult", spot, size) for spot, size in zip(spots, sizes)]
                return self.both(exists, *within), f.add(begin, offset)

            self.copy_elements(f.gep("i8", target, self.times(turn, at_once * LINE)), o.start, element)
            return []

        self.in_turn(FILLED, one)

    def windows(self, first: Value, count: Value) -> list[tuple[Value, list[Value]]]:
        """The offset and the place in the image of 8 windows, those from `count` on nowhere."""
        f, result = self.f, []
        first = self.again(first)
        for e in range(ELEMENTS):
            number = f.add(first, i64(e))
            image, *place = self.digits(number, self.place_sizes)
            offset, spots = self.window(image, place)
            nearest, *others = [self.short(spot) for spot in spots]
            exists = self.test("slt", number, count)
            result.append((offset, [self.low.select(exists, nearest, NOWHERE), *others]))
        return result

    def again(self, v: Value) -> Value:
        """The same value, of which LLVM does not see that it is the same in all stages: what follows from it would stay in registers, of
        which sums leave too few.
        """
        return self.f.op("i64", f'call i64 asm sideeffect "mov.b64 $0, $1;", "=l,l"({v})')

    def short(self, number: Value) -> Value:
        return self.f.op("i32", f"trunc {number} to i32")
