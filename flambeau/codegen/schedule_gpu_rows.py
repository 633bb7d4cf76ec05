"""Row kernels as threads: `width` threads share a row, folds first, pass by pass, then what varies along the row.

Where a row fits, a thread holds its elements in registers: a row that is folded more than once, as those of softmax and norms are, is
then read from memory once.  Longer rows are read once a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from . import expr as ex
from . import target as tg
from .expr import Expr
from .irtext import Value, i64
from .kernels import Row, folds_by_depth, prefixes
from .lower import ITEMSIZE, walk_until
from .passes import Together
from .schedule_gpu_threads import BLOCK
from .schedule_gpu_warps import Exchange

if TYPE_CHECKING:
    from .schedule_gpu import Frame

HELD = 32  # elements of a row that a thread holds at most, a power of two
SCANNED_BYTES = 16 << 10  # of shared memory, for the states of the elements that a block scans at a time


def most_held(kernel: Row, target: str) -> int:
    """How many elements of a row a thread may have in registers, a power of two up to HELD; 0 where no element is read twice.  Of a
    scan: how many of them a thread takes at a time.
    """
    scans = prefixes(kernel.outputs)
    if scans and not tg.TARGETS[target].shuffles:
        return 1  # more would exchange places in shared memory, where a driver's vectors read neighbours best
    if scans:
        bytes_each = sum(ITEMSIZE[d] for d in Together(scans).dtypes)
        return min(_power_up_to(SCANNED_BYTES // (BLOCK * bytes_each)), 16)
    varying, levels = kernel.varying(), folds_by_depth(kernel.outputs)
    folds = {e for level in levels for members in level for e in members}
    passes = [Together(level).elements for level in levels]
    passes.append([e for e in kernel.outputs if varying[id(e)]])
    read = [{e for e in _below(roots, folds) if e.op == "input" and varying[id(e)]} for roots in passes]
    again = {e for k, inputs in enumerate(read) for e in inputs if any(e in later for later in read[k + 1 :])}
    if not again:
        return 0
    words = sum(max(ITEMSIZE[e.dtype] // 4, 1) for e in again)
    return _power_up_to(tg.TARGETS[target].registers // (4 * words))


def _power_up_to(most: int) -> int:
    return min(1 << max(most, 1).bit_length() - 1, HELD)


def _below(roots: Sequence[Expr], folds: set[Expr]) -> Iterable[Expr]:
    """The expressions under the roots, but not under the folds whose values are known to them."""
    return walk_until(list(roots), folds, unlikely=True)


class Element(NamedTuple):
    """An element of the row that the thread holds: which one, whether there is such a one, where it is read, and what is known of it."""

    number: Value
    inside: Value
    places: list[Value]
    leaves: dict[Expr, Value]


class RowSchedule:
    """A block takes BLOCK / width rows at a time.

    Where operands are contiguous along the row, neighbouring threads are on one row, else on neighbouring
    rows: either way they read neighbouring elements.
    """

    def __init__(self, frame: Frame, kernel: Row):
        self.frame, self.f, self.kernel = frame, frame.f, kernel
        self.row_axes = range(frame.form.dims)
        self.fold_axes = range(frame.form.dims, frame.axes)
        self.width = frame.form.width
        self.rows_a_block = BLOCK // self.width
        self.along = kernel.lanes_along == "r"
        self.varying = kernel.varying()
        self.scans = prefixes(kernel.outputs)
        self.held = max(frame.form.held, 1) if self.scans else frame.form.held
        self.exchange = Exchange(frame.threads, frame.low)
        if self.scans and self.width not in (1, BLOCK if self.along else 1):
            raise ValueError(
                f"module_for: form.width is {self.width}; a scan takes 1 thread a row, or {BLOCK} along it"
            )

    def emit(self) -> None:
        f, width, rows_a_block = self.f, i64(self.width), i64(self.rows_a_block)
        self.thread = self.exchange.thread
        if self.along:
            self.lane = f.binary("urem", self.thread, width)
            row_in_block = f.binary("udiv", self.thread, width)
        else:
            self.lane = f.binary("udiv", self.thread, rows_a_block)
            row_in_block = f.binary("urem", self.thread, rows_a_block)
        self.rows = self.frame.product(self.row_axes)
        self.row_length = self.frame.product(self.fold_axes)
        begin = f.mul(self.frame.threads.block(), rows_a_block)
        step = f.mul(self.frame.threads.blocks(), rows_a_block)
        if self.width == 1:
            begin = f.add(begin, row_in_block)  # no thread waits for another: each has its own rows
        f.loop(begin, self.rows, step, [], lambda row, _: self.row(row, row_in_block))

    def row(self, row: Value, row_in_block: Value) -> list[Value]:
        """The thread's part of one row; where there are barriers, a block's threads come here together."""
        f, frame = self.f, self.frame
        self.active = None  # certainly a row, where a block takes one at a time, or each thread its own
        if 1 < self.width < BLOCK:
            row = f.add(row, row_in_block)
            self.active = f.op("i1", f"icmp slt {row}, {self.rows.name}")
            row = frame.low.select(self.active, row, f.add(self.rows, i64(-1)))

        where = frame.coordinates(row, self.row_axes)
        self.starts = frame.places(frame.base, where, self.row_axes)
        steps = [frame.narrow(frame.given[f"step{d}"]) for d in self.row_axes]
        self.first_index = f.add(frame.given["first"], frame.widen(frame.distance(where, steps)))
        left = f.binary("sub", frame.given["total"], self.first_index)
        shorter = f.op("i1", f"icmp slt {left}, {self.row_length.name}")
        length = frame.low.select(shorter, left, self.row_length)
        self.count = frame.low.select(self.active, length, i64(0)) if self.active else length

        known: dict[Expr, Value] = {}
        for e in ex.walk(self.kernel.outputs):
            if e.op == "param":
                known[e] = frame.params[e.value]
            elif e.op == "length":
                known[e] = frame.given["total"]
            elif e.op == "input" and not self.varying[id(e)]:
                known[e] = frame.load(e.value, self.starts)
        elements = self.elements_of(length) if self.held and not self.scans else []
        for folds in folds_by_depth(self.kernel.outputs):
            together = Together(folds)
            states = (
                self.fold_held(together, elements, known) if elements else self.fold_pass(together, known)
            )
            if self.width > 1:
                join = self.exchange.combined if self.along else self.exchange.across
                states = join(together, states, self.width)
            known.update(together.values(states))
        self.store_row_values(known)
        if elements:
            self.store_held(elements, known)
        else:
            self.store_pass(known)
        return []

    def fill(
        self, leaves: dict[Expr, Value], places: Sequence[Value], number: Value, roots: list[Expr]
    ) -> None:
        """Add what the roots read of element `number` of the row."""
        for e in walk_until(roots, dict(leaves), unlikely=True):
            if e.op == "input":
                leaves[e] = self.frame.load(e.value, places)
            elif e.op == "index" and e.value == 1:
                leaves[e] = self.f.add(self.first_index, number)

    def element(
        self, number: Value, roots: list[Expr], known: dict[Expr, Value]
    ) -> tuple[dict[Expr, Value], list[Value]]:
        """The leaves for one element of the row, and where it stands in each operand."""
        places, leaves = self.places(number), dict(known)
        self.fill(leaves, places, number, roots)
        return leaves, places

    def places(self, number: Value) -> list[Value]:
        frame = self.frame
        return frame.places(self.starts, frame.coordinates(number, self.fold_axes), self.fold_axes)

    def inside(self, number: Value) -> Value:
        return self.f.op("i1", f"icmp slt {number}, {self.count.name}")

    # --- pass by pass ------------------------------
    def each(
        self, carried: Sequence[Value], roots: list[Expr], known: dict[Expr, Value], body: Callable
    ) -> list[Value]:
        """The thread's elements of the row: `body(leaves and places of some elements, carried)`."""

        def turn(numbers: list[Value], carried: list[Value]) -> Sequence[Value]:
            return body([self.element(n, roots, known) for n in numbers], carried)

        return self.frame.every(self.lane, self.count, i64(self.width), carried, turn)

    def fold_pass(self, together: Together, known: dict[Expr, Value]) -> list[Value]:
        """The thread's states of all folds of one depth, from one walk over the row."""
        low = self.frame.low

        def turn(some: list, states: list[Value]) -> list[Value]:
            result = [low.values(together.elements, leaves) for leaves, _ in some]
            return together.combined(low, states, self.in_pairs(together, result))

        return self.each(together.start(low), together.elements, known, turn)

    def in_pairs(self, together: Together, states: list[list[Value]]) -> list[Value]:
        """The states of as many elements as a power of two: shorter chains, and smaller errors of sums, than one after another."""
        while len(states) > 1:
            pairs = zip(states[::2], states[1::2], strict=True)
            states = [together.combined(self.frame.low, a, b) for a, b in pairs]
        return states[0]

    def store_row_values(self, known: dict[Expr, Value]) -> None:
        """The outputs of one value a row, by the row's first thread."""
        single = [(k, e) for k, e in enumerate(self.kernel.outputs) if not self.varying[id(e)]]
        if not single:
            return
        values = self.frame.low.values([e for _, e in single], known)

        def write() -> list[Value]:
            for (k, _), value in zip(single, values):
                self.frame.store(k, value, self.starts)
            return []

        if self.width == 1:
            write()
            return
        leads = self.f.op("i1", f"icmp eq {self.lane}, 0")
        self.f.when(self.f.binary("and", leads, self.active) if self.active else leads, write)

    def full(self) -> list[tuple[int, Expr]]:
        """The outputs that vary along the row."""
        return [(k, e) for k, e in enumerate(self.kernel.outputs) if self.varying[id(e)]]

    def store(self, values: Sequence[Value], places: Sequence[Value]) -> list[Value]:
        for (k, _), value in zip(self.full(), values, strict=True):
            self.frame.store(k, value, places)
        return []

    def store_pass(self, known: dict[Expr, Value]) -> None:
        roots = [e for _, e in self.full()]

        def turn(some: list, _) -> list[Value]:
            computed = [(self.frame.low.values(roots, leaves), places) for leaves, places in some]
            for values, places in computed:
                self.store(values, places)
            return []

        if roots and self.scans:
            self.scan_pass(roots, known)
        elif roots:
            self.each([], roots, known, turn)

    # --- a row that is held ------------------------------
    def elements_of(self, length: Value) -> list[Element]:
        """The elements of a row of at least one, each thread's `width` apart.  What a thread has beyond the end is read at the end, where
        there is something to read.
        """
        f, low = self.f, self.frame.low
        some = f.op("i1", f"icmp sgt {length}, 0")
        last = low.select(some, f.add(length, i64(-1)), i64(0))
        indices = [e for e in ex.walk(self.kernel.outputs) if e.op == "index" and e.value == 1]
        result = []
        for k in range(self.held):
            number = f.add(self.lane, i64(k * self.width))
            beyond = f.op("i1", f"icmp sgt {number}, {last.name}")
            places = self.places(low.select(beyond, last, number))
            leaves = {e: f.add(self.first_index, number) for e in indices}
            result.append(Element(number, self.inside(number), places, leaves))
        return result

    def computed(
        self, elements: list[Element], roots: list[Expr], known: dict[Expr, Value]
    ) -> list[list[Value]]:
        """The roots of some elements; what was read and computed before is at hand."""
        for e in elements:
            e.leaves.update(known)
            self.fill(e.leaves, e.places, e.number, roots)
        return [self.frame.low.values(roots, e.leaves) for e in elements]

    def fold_held(self, together: Together, elements: list[Element], known: dict[Expr, Value]) -> list[Value]:
        low, result = self.frame.low, []
        start = together.start(low)
        for e, values in zip(elements, self.computed(elements, together.elements, known)):
            result.append([low.select(e.inside, v, s) for v, s in zip(values, start)])
        return self.in_pairs(together, result)

    def store_held(self, elements: list[Element], known: dict[Expr, Value]) -> None:
        """The outputs along the row, some elements at a time: what is read for them alone waits until then."""
        roots = [e for _, e in self.full()]
        if not roots:
            return
        for k in range(0, len(elements), self.frame.at_once):
            some = elements[k : k + self.frame.at_once]
            for e, values in zip(some, self.computed(some, roots, known)):
                self.f.when(e.inside, lambda: self.store(values, self.places(e.number)))  # noqa: B023

    # --- scans ------------------------------
    def scan_pass(self, roots: list[Expr], known: dict[Expr, Value]) -> None:
        """Prefixes, and the outputs that read them: a thread walks over its row, or a block goes over one row, some elements of each
        thread at a time.
        """
        f, low = self.f, self.frame.low
        together = Together(self.scans)
        start = together.start(low)
        needed = [*together.elements, *roots]

        def finish(states: list[Value], leaves: dict[Expr, Value]) -> list[Value]:
            leaves.update(together.values(states))
            return low.values(roots, leaves)

        def alone(number: Value, carried: list[Value]) -> list[Value]:
            leaves, places = self.element(number, needed, known)
            states = together.combined(low, carried, low.values(together.elements, leaves))
            self.store(finish(states, leaves), places)
            return states

        def one_each(first: Value, carried: list[Value]) -> list[Value]:
            number = f.add(first, self.thread)
            inside = self.inside(number)
            leaves, places = self.element(low.select(inside, number, first), needed, known)
            own = [low.select(inside, v, s) for v, s in zip(low.values(together.elements, leaves), start)]
            _, own, total = self.exchange.prefixes(together, own)
            values = finish(together.combined(low, carried, own), leaves)
            f.when(inside, lambda: self.store(values, places))
            return together.combined(low, carried, total)

        if self.width == 1:
            f.loop(i64(0), self.count, i64(1), start, alone)
            return
        if self.held == 1:
            f.loop(i64(0), self.count, i64(BLOCK), start, one_each)
            return

        each = self.held
        arrays = self.exchange.arrays("scanned", together.dtypes, _apart(BLOCK * each))

        def place(number: Value) -> Value:
            """Where a state stands: runs of `each` begin in different banks."""
            return f.add(number, f.binary("lshr", number, i64(5)))

        def by_blocks(first: Value, carried: list[Value]) -> list[Value]:
            # Neighbouring threads read neighbouring elements;
            some = []
            for k in range(each):
                here = f.add(self.thread, i64(k * BLOCK))
                number = f.add(first, here)
                inside = self.inside(number)
                leaves, places = self.element(low.select(inside, number, first), needed, known)
                some.append((here, inside, leaves, places))
            for here, inside, leaves, _ in some:
                values = low.values(together.elements, leaves)
                self.exchange.write(
                    arrays, place(here), [low.select(inside, v, s) for v, s in zip(values, start)]
                )
            self.frame.threads.barrier()
            # each thread scans a run of them, from what the threads before it have,
            own = [place(f.add(f.mul(self.thread, i64(each)), i64(k))) for k in range(each)]
            run: list[list[Value]] = []
            for at in own:
                state = self.exchange.read(arrays, at)
                run.append(together.combined(low, run[-1], state) if run else state)
            before, _, total = self.exchange.prefixes(together, run[-1])
            before = together.combined(low, carried, before)
            for at, state in zip(own, run):
                self.exchange.write(arrays, at, together.combined(low, before, state))
            self.frame.threads.barrier()
            # and neighbouring threads write neighbouring results.
            for here, inside, leaves, places in some:
                values = finish(self.exchange.read(arrays, place(here)), leaves)
                f.when(inside, lambda: self.store(values, places))  # noqa: B023
            self.frame.threads.barrier()
            return together.combined(low, carried, total)

        f.loop(i64(0), self.count, i64(BLOCK * each), start, by_blocks)


def _apart(count: int) -> int:
    return count + (count >> 5)
