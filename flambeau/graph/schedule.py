"""The order of a plan's steps: that of the program, changed where a step that holds much memory can do with less.

What is alive where a plan holds most is looked at: what was made too early there is made later, and what is read once more after it is read
before, where nothing that stands between has to wait.  So the product that makes a weight's gradient runs before the next large gradient
is made, and its operands are gone then.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple

from ..core.loops.plans import LoopPlan, RowLoopPlan
from .groups import Group
from .products import Product
from .program import Program, Value

MOVES = 256  # changes of an order, at most
TRIED = 32  # of one place
FROM = 1 << 20  # bytes of a peak below which no order is looked for


class Part(NamedTuple):
    """The steps that compute a group's calls, each with the values that it touches."""

    group: Group
    steps: Sequence[tuple[Any, list[Value]]]


def scheduled(program: Program, parts: Sequence[Part], donated: Iterable[int] = ()) -> list[Part]:
    """The parts in an order in which they may run, at whose worst step no more is alive than in the given one.

    Inputs whose numbers are `donated` are alive until they are read for the last time.
    """
    order = _Order(program, parts, donated)
    for _ in range(MOVES):
        if order.peak < FROM or not order.improve():
            break
    return [parts[k] for k in order.parts]


class _Order:
    """Parts by number, and the bytes that are alive while each runs."""

    def __init__(self, program: Program, parts: Sequence[Part], donated: Iterable[int]) -> None:
        self.lasting = {v.root for v in program.results()}
        self.given = {program.inputs[k] for k in donated}
        self.touched = [_touched(part, self.given) for part in parts]
        self.beside = [_beside(part) for part in parts]
        self.dying = [_replaced(part, self.given) for part in parts]
        number = {part.group: k for k, part in enumerate(parts)}
        self.before = [{number[g] for g in part.group.before if g in number} for part in parts]
        self.parts = list(range(len(parts)))
        self._measure()

    def _measure(self) -> None:
        self.lives, self.held = self._held(self.parts)
        self.peak = max(self.held, default=0)

    def _held(self, parts: list[int]) -> tuple[dict[Value, tuple[int, int]], list[int]]:
        """The first and the last position that touches each memory, and what is alive at each position."""
        lives: dict[Value, tuple[int, int]] = dict.fromkeys(self.given, (0, 0))
        for at, k in enumerate(parts):
            for root in self.touched[k]:
                lives[root] = (lives[root][0] if root in lives else at, at)
        change = [0] * (len(parts) + 1)
        for root, (first, last) in lives.items():
            nbytes = root.span * root.dtype.itemsize
            change[first] += nbytes
            change[len(parts) if root in self.lasting else last + 1] -= nbytes
        held, now = [], 0
        for at, k in enumerate(parts):
            now += change[at]
            held.append(now + self.beside[k] - self._saved(lives, at, k))
        return lives, held

    def _saved(self, lives: dict[Value, tuple[int, int]], at: int, k: int) -> int:
        """Bytes of a result that takes the place of what dies as it is made."""
        for made, read in self.dying[k]:
            if lives[read][1] == at and lives[made][0] == at and read not in self.lasting:
                return made.span * made.dtype.itemsize
        return 0

    def improve(self) -> bool:
        """Whether a move has lowered what is held where most is."""
        at = self.held.index(self.peak)
        now = (self.peak, self.held.count(self.peak))
        best, result = now, None
        for parts in self._moves(at):
            _, held = self._held(parts)
            most = max(held)
            cost = (most, held.count(most))
            if cost < best:
                best, result = cost, parts
        if result is None:
            return False
        self.parts = result
        self._measure()
        return True

    def _moves(self, at: int) -> Iterable[list[int]]:
        """Orders in which something that only waits at a position is made after it, or read for the last time before."""
        here = self.touched[self.parts[at]]
        waiting = [r for r, (first, last) in self.lives.items() if first < at <= last and r not in here]
        waiting.sort(key=lambda r: (-r.span * r.dtype.itemsize, self.lives[r]))
        for root in waiting[:TRIED]:
            first, last = self.lives[root]
            later = self._later(first, at)
            if root.call is not None and later is not None:
                yield later
            if last > at and root not in self.lasting:
                sooner = self._sooner(last, at)
                if sooner is not None:
                    yield sooner
        for root in here:
            first, last = self.lives[root]
            if last > at and root not in self.lasting:  # read here and once more: there first
                sooner = self._sooner(last, at)
                if sooner is not None:
                    yield sooner

    def _later(self, of: int, at: int) -> list[int] | None:
        """The order in which what stands at one position stands behind another; None where that has to wait for it."""
        k = self.parts[of]
        if any(k in self.before[other] for other in self.parts[of + 1 : at + 1]):
            return None
        return [*self.parts[:of], *self.parts[of + 1 : at + 1], k, *self.parts[at + 1 :]]

    def _sooner(self, of: int, at: int) -> list[int] | None:
        """The order in which what stands at one position stands before another; None where it has to wait for that."""
        k = self.parts[of]
        if not self.before[k].isdisjoint(self.parts[at:of]):
            return None
        return [*self.parts[:at], k, *self.parts[at:of], *self.parts[of + 1 :]]


def _touched(part: Part, given: Container[Value]) -> dict[Value, None]:
    """The memories that the program makes, or is given for good, of those that a part touches."""
    roots = (v.root for _, values in part.steps for v in values)
    return dict.fromkeys(r for r in roots if r.call is not None or r in given)


def _beside(part: Part) -> int:
    """The bytes that a part needs for itself."""
    return max((step.plan.workspace for step, _ in part.steps if isinstance(step, Product)), default=0)


def _replaced(part: Part, given: Container[Value]) -> list[tuple[Value, Value]]:
    """What may be made in place of what: results of loops, of operands that are as large."""
    result = []
    for step, values in part.steps:
        if isinstance(step, LoopPlan) and not isinstance(step, RowLoopPlan):
            made = [v for v in values[: step.outputs] if v is v.root and v.call is not None]
            read = [v.root for v in values[step.outputs :] if v.root.call is not None or v.root in given]
            result += [
                (m, r)
                for m in made
                for r in read
                if m.span == r.span and m.dtype.itemsize == r.dtype.itemsize and m.device is r.device
            ]
    return result
