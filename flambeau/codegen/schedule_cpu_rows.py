"""Row kernels for a CPU core: folds pass by pass, scans, and what varies along the row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from . import expr as ex
from .expr import Expr
from .irtext import Value, i64
from .kernels import CONTIGUOUS, STRIDED, Row, folds_by_depth, operands, prefixes
from .lower import ITEMSIZE, MEMORY, REGISTER, Lowering, expanded, settled, walk_until
from .passes import Together, combined, rounds
from .schedule_cpu_frame import VECTOR_BYTES, Frame, lanes_for
from .stages import BLOCK_BYTES, Kept, Stage, Stages, stages_of

SHORT_BODY = 2  # instructions an element up to which a fold does nothing but wait for memory
CALL = 10  # instructions that a math function counts for
COSTLY = CALL  # instructions below which computing again costs no more than a store and a load
UNCACHED_BYTES = 1 << 24  # of all rows, from which they may not lie in any cache, and are prefetched
STACK_ELEMENTS = 4096  # elements of a row that may be stashed on the stack
CASCADE = 16  # terms that a sum adds up one after another before it starts anew
ROW_HEAD = 6  # rows, r1, r0, elements folded in all, index of the first element, index step from row to row


def lanes_of(kernel: Row) -> int:
    """Elements a step; where lanes run along the row, with its length the order in which folds take their elements."""
    scans = prefixes(kernel.outputs)
    if scans and kernel.lanes_along == "r":  # one register: each doubling of the lanes is another step
        return max(VECTOR_BYTES // max(ITEMSIZE[e.dtype] for group in scans for e in group), 8)
    return kernel.lanes or lanes_for(kernel.outputs, [o.access for o in operands(kernel)])


class Line(NamedTuple):
    """One turn of a row's outer loop: the number of its first element, and where it begins in each operand."""

    first: Value
    starts: list[Value]


class RowSchedule:
    """One row after another; folds first, pass by pass, then the outputs that vary along the row.

    With lanes along the row, a fold keeps a state a lane and combines the lanes at the end.  With lanes
    across rows, each lane is a row of its own and the loop over the row goes element by element.
    """

    def __init__(self, frame: Frame):
        self.frame, self.f, self.kernel = frame, frame.f, frame.kernel
        self.along = self.kernel.lanes_along == "r"
        self.rows, self.r1, self.r0, self.total, self.first, self.step = (
            frame.geometry(k) for k in range(ROW_HEAD)
        )
        strides = [
            [frame.geometry(ROW_HEAD + 3 * k + d) for d in range(3)] for k in range(len(frame.operands))
        ]
        lane_axis = 2 if self.along else 0
        for k, operand in enumerate(frame.operands):
            if operand.access != STRIDED:
                strides[k][lane_axis] = i64(1 if operand.access == CONTIGUOUS else 0)
        self.strides = strides
        self.uncached = self.reads_more_than(UNCACHED_BYTES)
        self.varying = self.kernel.varying()
        self.lanes = lanes_of(self.kernel)
        self.levels = folds_by_depth(self.kernel.outputs)
        self.scans = prefixes(self.kernel.outputs)
        self.stashed = self.stash()
        self.buffer: Value | None = None  # where a stashed row stands, if not in an output
        self.kept_buffer: Value | None = None  # for what is kept between stages
        self.kept_blocks: Stages | None = None

    def reads_more_than(self, limit: int) -> Value:
        """Whether the rows of this call have more than so many bytes."""
        widths = (ITEMSIZE[o.dtype] for o in self.frame.operands[self.frame.outputs :])
        elements = self.f.mul(self.rows, self.f.mul(self.r1, self.r0))
        return self.f.op("i1", f"icmp sgt {elements}, {limit // max(widths, default=1)}")

    def stash(self) -> tuple[int, int, Expr] | None:
        """(pass, output, expression): what the pass of a fold computes and later passes need again is left in that output's memory
        and read back, so that softmax computes each exponential, and a norm each activation, once: of all such parts the
        one that saves the most.  Where it is the output, that is all there is to do.  An output of a narrower dtype has no
        room for it: rows of up to `STACK_ELEMENTS` elements are then left on the stack.
        """
        passes = [list(ex.walk(Together(folds).elements)) for folds in self.levels]
        best, result = COSTLY - 1, None
        for k, out in enumerate(self.kernel.outputs):
            if not self.varying[id(out)]:  # it has no room for a row
                continue
            last = {id(e) for e in ex.walk([out])}
            for level in reversed(range(len(passes))):
                later = [{id(e) for e in own} for own in passes[level + 1 :]] + [last]
                for e in reversed(passes[level]):
                    fits = e.dtype == out.dtype or (self.along and e.dtype != "bool")
                    if e.args and fits and self.varying[id(e)]:
                        saved = self.work(e) * sum(id(e) in own for own in later)
                        if saved > best:
                            best, result = saved, (level, k, e)
        return result

    def work(self, root: Expr) -> int:
        """Instructions for one element of what varies along the row, folds apart; a math function counts for several."""
        count, seen, stack = 0, set(), [root]
        while stack:
            e = stack.pop()
            if id(e) not in seen and self.varying[id(e)] and e.args:
                seen.add(id(e))
                count += CALL if e.op.startswith("call:") else 1
                stack.extend(e.args)
        return count

    def emit(self) -> None:
        stashed = self.stashed
        if stages_of(self.kernel.outputs):
            self.kept_buffer = self.f.op("ptr", f"alloca [{BLOCK_BYTES} x i8], align {VECTOR_BYTES}")
        if self.along and stashed and stashed[2].dtype != self.kernel.outputs[stashed[1]].dtype:
            self.rows_with_buffer(stashed)
        elif self.along:
            self.all_rows()
        else:
            self.frame.vectors(self.rows, self.lanes, [], lambda low, k, mask, _: self.row(low, k, mask))

    def all_rows(self) -> list[Value]:
        return self.f.loop(i64(0), self.rows, i64(1), [], lambda k, _: self.row(None, k, None))

    def rows_with_buffer(self, stashed: tuple[int, int, Expr]) -> None:
        """With what is stashed on the stack where a row fits there, computed twice where it does not."""
        f, scalar = self.f, REGISTER[stashed[2].dtype]
        self.buffer = f.op("ptr", f"alloca [{STACK_ELEMENTS + self.lanes} x {scalar}], align {VECTOR_BYTES}")
        length = f.mul(self.r0, self.r1)
        f.when(f.op("i1", f"icmp sle {length}, {STACK_ELEMENTS}"), self.all_rows)
        self.stashed = self.buffer = None
        f.when(f.op("i1", f"icmp sgt {length}, {STACK_ELEMENTS}"), self.all_rows)

    def leave(self, stashed, low: Lowering, at: list[Value], mask: Value | None, value: Value) -> None:
        """Leave a vector of what is stashed for the last pass."""
        _, k, e = stashed
        if self.buffer is None:
            self.frame.store(low, k, value, at[k], self.strides[k][2 if self.along else 0], mask)
        else:
            self.f.store(value, at[-1], ITEMSIZE[e.dtype])

    def left(self, stashed, low: Lowering, at: list[Value], mask: Value | None) -> Value:
        _, k, e = stashed
        if self.buffer is None:
            return self.frame.load(low, k, at[k], self.strides[k][2 if self.along else 0], mask)
        return self.f.load(low.type(e.dtype), at[-1], ITEMSIZE[e.dtype])

    def row(self, low: Lowering | None, k: Value, mask: Value | None):
        """One row, or one vector of rows; `low` and `mask` belong to the lanes across rows."""
        f, frame = self.f, self.frame
        self.starts = [
            f.gep(MEMORY[o.dtype], b, f.mul(k, s[0]))
            for o, b, s in zip(frame.operands, frame.base, self.strides)
        ]
        self.row_mask, self.across = mask, low
        first = f.add(self.first, f.mul(k, self.step))
        scalar = low or Lowering(f, None)
        self.first_index = low.splat(first) if low else first
        if low:
            lane = f.binary("mul", low.iota(64), low.splat(self.step))
            self.first_index = f.binary("add", self.first_index, lane)
        known: dict[Expr, Value] = {}
        for e in ex.walk(self.kernel.outputs):
            if e.op == "param":
                known[e] = scalar.splat(frame.params[e.value])
            elif e.op == "length":
                known[e] = scalar.splat(self.total)
            elif e.op == "input" and not self.varying[id(e)]:
                known[e] = frame.load(
                    scalar, frame.outputs + e.value, self.starts[frame.outputs + e.value], i64(0), None
                )
        for folds in self.levels:
            self.fold_pass(folds, known, scalar)
        full = [e for k, e in enumerate(self.kernel.outputs) if self.varying[id(e)] and not self.is_stored(k)]
        for number, e in enumerate(self.kernel.outputs):
            if not self.varying[id(e)]:
                self.store_row_value(number, scalar.values([e], known)[0], scalar)
        if full and self.scans:
            self.scan_pass(full, known, scalar)
        elif full:
            self.each(
                scalar,
                [],
                lambda low, at, mask, leaves, _: self.store_pass(low, at, mask, leaves),
                full,
                known,
                self.stashed,
            )
        return []

    def store_row_value(self, k: int, value: Value, scalar: Lowering) -> None:
        if self.across:
            self.frame.store(scalar, k, value, self.starts[k], self.strides[k][0], self.row_mask)
        else:
            dtype = self.frame.operands[k].dtype
            self.f.store(scalar.to_memory(value, dtype), self.starts[k], ITEMSIZE[dtype])

    def is_stored(self, k: int) -> bool:
        """Whether the pass of a fold has written this output."""
        return self.stashed is not None and self.stashed[1] == k and self.stashed[2] is self.kernel.outputs[k]

    def store_pass(self, low: Lowering, at: list[Value], mask: Value | None, leaves: dict) -> list[Value]:
        for k, e in enumerate(self.kernel.outputs):
            if self.varying[id(e)] and not self.is_stored(k):
                self.frame.store(
                    low, k, low.values([e], leaves)[0], at[k], self.strides[k][2 if self.along else 0], mask
                )
        return []

    def fold_pass(self, folds: list[list[Expr]], known: dict[Expr, Value], scalar: Lowering) -> None:
        """All folds of one depth in one walk over the row; adds their results to `known`."""
        together = Together(folds)
        low = Lowering(self.f, self.lanes) if self.along else scalar
        number = next(n for n, own in enumerate(self.levels) if own is folds)
        stashed = self.stashed if self.stashed and number == self.stashed[0] else None
        back = self.stashed if self.stashed and number > self.stashed[0] else None

        def turn(low: Lowering, at, mask, leaves, carried):
            if stashed:
                e = stashed[2]
                leaves[e] = low.values([e], leaves)[0]
                self.leave(stashed, low, at, mask, leaves[e])
            new = together.combined(low, carried, low.values(together.elements, leaves))
            if mask is not None and self.along:
                new = [low.select(mask, a, b) for a, b in zip(new, carried)]
            return new

        combining = [c for rule in together.rules for c in rule.combine]
        work = [e.op for e in ex.walk([*together.elements, *combining]) if e.args]
        busy = sum(3 if op in ("max", "min") else 1 for op in work)  # those also compare with NaN
        ahead = self.along and busy <= SHORT_BODY
        cascade = partial(together.combined, low) if any(map(rounds, together.rules)) else None
        # what is left for later is read in the last stage, whatever that computes itself
        roots = [*together.elements, stashed[2]] if stashed else together.elements
        states = self.each(scalar, together.start(low), turn, roots, known, back, ahead=ahead, joined=cascade)
        if self.along:
            states = [v for rule, own in together.parts(states) for v in self.across_lanes(rule, own)]
        known.update(together.values(states))

    def scan_pass(self, full: list[Expr], known: dict[Expr, Value], scalar: Lowering) -> None:
        """Prefixes, and the outputs that read them, in one walk that carries the states so far."""
        together = Together(self.scans)
        low = Lowering(self.f, self.lanes) if self.along else scalar

        def turn(low: Lowering, at, mask, leaves, carried):
            states = low.values(together.elements, leaves)
            if self.along:
                parts = together.parts(states)
                states = [v for rule, own in parts for v in self.running(low, rule, own, mask)]
            states = together.combined(low, carried, states)
            leaves.update(together.values(states))
            self.store_pass(low, at, mask, leaves)
            return [self.last_lane(low, s) for s in states] if self.along else states

        self.each(scalar, together.start(low), turn, [*together.elements, *full], known)

    def running(self, low: Lowering, rule, states: list[Value], mask: Value | None) -> list[Value]:
        """Each lane combined with those before it (Hillis and Steele, Data parallel algorithms, 1986)."""
        none = [low.constant(v.value, v.dtype) for v in rule.init]
        if mask is not None:
            states = [low.select(mask, s, n) for s, n in zip(states, none)]
        distance, lanes = 1, low.lanes or 1
        while distance < lanes:
            picks = ", ".join(
                f"i32 {k - distance if k >= distance else lanes + k}" for k in range(lanes)
            )  # from the second vector, the identity, where there is no lane so far before
            moved = [
                self.f.op(s.type, f"shufflevector {s}, {n}, <{lanes} x i32> <{picks}>")
                for s, n in zip(states, none)
            ]
            states = combined(low, rule, moved, states)
            distance *= 2
        return states

    def last_lane(self, low: Lowering, v: Value) -> Value:
        picks = ", ".join([f"i32 {(low.lanes or 1) - 1}"] * (low.lanes or 1))
        return self.f.op(v.type, f"shufflevector {v}, {v.type} poison, <{low.lanes} x i32> <{picks}>")

    def across_lanes(self, rule, states: list[Value]) -> list[Value]:
        """Combine the lanes by halves: a fixed tree."""
        lanes, f = self.lanes, self.f
        while lanes > 1:
            half = lanes // 2
            low = Lowering(f, half if half > 1 else None)
            if half > 1:
                picks = [
                    ", ".join(f"i32 {k}" for k in range(part * half, (part + 1) * half)) for part in range(2)
                ]
                parts = [
                    [
                        f.op(
                            low.vector(_scalar(s.type)),
                            f"shufflevector {s}, {s.type} poison, <{half} x i32> <{pick}>",
                        )
                        for s in states
                    ]
                    for pick in picks
                ]
            else:
                parts = [
                    [f.op(_scalar(s.type), f"extractelement {s}, i32 {part}") for s in states]
                    for part in range(2)
                ]
            states = combined(low, rule, parts[0], parts[1])
            lanes = half
        return states

    def each(
        self,
        scalar: Lowering,
        carried,
        body,
        roots: list[Expr],
        known: dict[Expr, Value],
        stashed=None,
        ahead: bool = False,
        joined=None,
    ):
        """Walk over the row: `body(low, pointers, mask, leaves, carried)` at every step; `stashed` is read
        back, `ahead` prefetches, `joined` combines two states where their rounding asks for a cascade.
        """
        f, frame = self.f, self.frame
        everything = list(ex.walk(roots))
        lanes = self.lanes if self.along else 1
        low = Lowering(f, self.lanes) if self.along else scalar
        # what is the same for the whole row is computed once, before the loops
        early = settled(expanded(roots, {*known, stashed[2]} if stashed else known), known)
        given = {**known, **dict(zip(early, scalar.values(early, dict(known))))}
        fixed = {e: low.splat(v) for e, v in given.items()} if self.along else given

        def line_of(r: Value) -> Line:
            pairs = zip(frame.operands, self.starts, self.strides)
            return Line(f.mul(r, self.r0), [f.gep(MEMORY[o.dtype], p, f.mul(r, s[1])) for o, p, s in pairs])

        def standing(line: Line, i: Value) -> list[Value]:
            return [
                f.gep(MEMORY[o.dtype], p, f.mul(i, s[2]))
                for o, p, s in zip(frame.operands, line.starts, self.strides)
            ]

        def load(
            low: Lowering, line: Line, i: Value, at: list[Value], mask: Value | None, needed, leaves
        ) -> None:
            row, lane = line.first, 2 if self.along else 0
            for e in needed:
                if e.op == "input" and e not in leaves:
                    k = frame.outputs + e.value
                    if ahead and mask is None and frame.operands[k].access == CONTIGUOUS:
                        f.when(self.uncached, partial(frame.prefetch, low, k, at[k]))
                    leaves[e] = frame.load(low, k, at[k], self.strides[k][lane], mask)
                elif e.op == "index" and e.value == 1:
                    place = f.add(row, i)
                    if self.along:
                        place = f.binary("add", low.splat(f.add(place, self.first_index)), low.iota(64))
                    else:
                        place = f.binary("add", low.splat(place), self.first_index)
                    leaves[e] = place

        def in_block(i: Value, begin: Value) -> Value:
            place = f.binary("sub", i, begin)
            return place if self.along else f.mul(place, i64(self.lanes))

        def one_turn(low: Lowering, line: Line, i: Value, mask: Value | None, carried, reads=(), begin=None):
            row, at, leaves, needed = line.first, standing(line, i), dict(fixed), everything
            if reads:
                self.read_kept(low, reads, in_block(i, begin), leaves)
                needed = list(walk_until(roots, leaves))
            if self.buffer is not None and self.stashed is not None:
                at.append(f.gep(REGISTER[self.stashed[2].dtype], self.buffer, f.add(row, i)))
            if stashed is not None:
                leaves[stashed[2]] = self.left(stashed, low, at, mask)
                needed = list(walk_until(roots, leaves))
            load(low, line, i, at, mask, needed, leaves)
            return body(low, at, mask, leaves, carried)

        whole = f.binary("and", self.r0, i64(-lanes))
        staged = None
        if self.kept_buffer and stashed is None and not self.scans:  # what follows upon a prefix waits for it
            staged = stages_of(roots, known)
            if staged and staged.elements * sum(ITEMSIZE[d] for d in staged.blocks) > BLOCK_BYTES:
                staged = None
            self.kept_blocks = staged

        def steps(r: Value, begin: Value, end: Value, carried) -> list[Value]:
            line = line_of(r)
            mask = None if self.along else self.row_mask
            turn = lambda i, c: one_turn(low, line, i, mask, c)
            if not staged:
                return f.loop(begin, end, i64(lanes), carried, turn)

            steps_of_block = staged.elements // (1 if self.along else self.lanes)

            def block(b: Value, c) -> list[Value]:
                stop = frame.smaller(f.add(b, i64(steps_of_block)), end)
                for stage in staged.stages[:-1]:
                    f.loop(b, stop, i64(lanes), [], partial(keep, stage, line, b))
                last = staged.stages[-1].reads
                return f.loop(b, stop, i64(lanes), c, lambda i, c: one_turn(low, line, i, mask, c, last, b))

            return f.loop(begin, end, i64(steps_of_block), carried, block)

        def keep(stage: Stage, line: Line, begin: Value, i: Value, _) -> list[Value]:
            leaves, at, place = dict(fixed), standing(line, i), in_block(i, begin)
            self.read_kept(low, stage.reads, place, leaves)
            values = [k.value for k in stage.keeps]
            mask = None if self.along else self.row_mask
            load(low, line, i, at, mask, list(walk_until(values, leaves)), leaves)
            for (e, k), value in zip(stage.keeps, low.values(values, leaves)):
                spot = f.gep(MEMORY[e.dtype], self.block(k), place)
                f.store(low.to_memory(value, e.dtype), spot, ITEMSIZE[e.dtype])
            return []

        def rest(r: Value, carried) -> list[Value]:
            if not self.along:
                return carried
            more = f.op("i1", f"icmp slt {whole}, {self.r0.name}")
            mask = frame.mask(low, whole, self.r0)
            return f.when(more, lambda: one_turn(low, line_of(r), whole, mask, carried), carried)

        def plain() -> list[Value]:
            return f.loop(i64(0), self.r1, i64(1), carried, lambda r, c: rest(r, steps(r, i64(0), whole, c)))

        return self.cascade(steps, rest, whole, lanes, carried, joined) if joined else plain()

    def block(self, k: int) -> Value:
        """Where a block of values that are kept between stages begins."""
        result = self.kept_blocks
        assert result is not None and self.kept_buffer is not None
        before = sum(ITEMSIZE[d] for d in result.blocks[:k]) * result.elements
        return self.f.gep("i8", self.kept_buffer, i64(before))

    def read_kept(
        self, low: Lowering, reads: Sequence[Kept], place: Value, leaves: dict[Expr, Value]
    ) -> None:
        for value, k in reads:
            scalar = MEMORY[value.dtype]
            result = self.f.load(
                low.vector(scalar), self.f.gep(scalar, self.block(k), place), ITEMSIZE[value.dtype]
            )
            leaves[value] = low.from_memory(result, value.dtype)

    def cascade(self, steps, rest, whole: Value, lanes: int, start, joined) -> list[Value]:
        """A fold in groups of terms, and groups of groups, each from nothing: the error of a sum then grows with the
        roots of its length (Castaldo, Whaley and Chronopoulos, SIAM J. Sci. Comput. 31, 2008).
        """
        f = self.f

        def several(begin: Value, end: Value, unit: int, inner) -> list[Value]:
            """The groups of `unit` from begin to end."""

            def group(i: Value, c) -> list[Value]:
                return joined(c, inner(i, self.frame.smaller(f.add(i, i64(unit)), end)))

            return f.loop(begin, end, i64(unit), start, group)

        def line(r: Value) -> list[Value]:
            terms = lambda i, end: steps(r, i, end, start)
            group = lambda i, end: several(i, end, lanes * CASCADE, terms)
            return rest(r, several(i64(0), whole, lanes * CASCADE**2, group))

        def lines(begin: Value, end: Value) -> list[Value]:
            return f.loop(begin, end, i64(1), start, lambda r, c: joined(c, line(r)))

        few = f.op("i1", f"icmp sle {f.mul(self.r0, self.r1)}, {lanes * CASCADE}")
        alone = f.binary("and", few, f.op("i1", f"icmp eq {self.r1}, 1"))
        short = f.when(alone, lambda: rest(i64(0), steps(i64(0), i64(0), whole, start)), start)
        many = f.op("i1", f"xor {alone}, true")
        return f.when(many, lambda: several(i64(0), self.r1, CASCADE, lines), short)


def _scalar(vector_type: str) -> str:
    return vector_type[vector_type.index(" x ") + 3 : -1]
