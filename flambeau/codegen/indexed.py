"""Kernels whose elements are read, and may be written, at computed places.

An `Indexed` kernel runs over the places of `axes` dimensions.  At each place it evaluates expressions of the place's
coordinates, of elements loaded at computed coordinates, of sizes and of parameters, and stores the results: at the
place itself, or (a scatter) at computed coordinates, where they replace or are combined with what is there.  The
last `serial` axes are walked in order by one lane or thread; all other places are independent of each other, so the
results are the same bits for any number of threads.

    at = coordinates(2, "int32")
    x = Array(1, "float32", 2, "int32")
    ex.add(x[at], x[at[0], 0])            # each element plus the first of its row

Sums and maxima over a window are loops: `fold_over((3, 3), …)`.  A loop whose turns depend on what it has computed, such as
a search, a recurrence or a rejection, is a `repeat`; devices alone have those.  Indices are 32 bits wide where all offsets fit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from . import expr as ex
from .expr import Expr

UNROLLED = 16  # turns of a loop of known length that are written out


class Memory(NamedTuple):
    """An operand: its dtype, its rank, and whether the last dimension's stride is known to be 1."""

    dtype: str
    rank: int
    unit: bool


class Store(NamedTuple):
    """A result and where it goes.  `how`: "set", or what combines it with what is there ("add", "mul", "min", "max")."""

    value: Expr
    at: tuple[Expr, ...]
    how: str = "set"


class Indexed(NamedTuple):
    """Operand k of `memory` is an output for k < len(stores), else an input that `load` leaves name by k."""

    name: str
    axes: int
    serial: int
    stores: tuple[Store, ...]
    memory: tuple[Memory, ...]
    params: tuple[str, ...]
    integer: str  # of coordinates and offsets: int32 or int64
    vector: bool  # lanes along the last axis that is not serial

    def roots(self) -> list[Expr]:
        return [e for s in self.stores for e in (s.value, *s.at)]

    def checks(self) -> bool:
        """Whether an index may turn out to be out of bounds."""
        return any(e.op == "checked" for e in under(self.roots()))

    def text(self) -> str:
        head = f"indexed {self.axes} {self.serial} {[s.how for s in self.stores]} {self.memory} {self.params}"
        return f"{head} {self.integer} {self.vector}\n{ex.text(self.roots())}"


# --- leaves ------------------------------
def coordinates(axes: int, integer: str) -> tuple[Expr, ...]:
    """Where the place is in each dimension."""
    return tuple(ex.make("coordinate", (), integer, d) for d in range(axes))


class Array:
    """An operand as a body sees it: `x[i, j]` is an element, `x.size(d)` a dimension's length."""

    def __init__(self, number: int, dtype: str, rank: int, integer: str):
        self.number, self.dtype, self.rank, self.integer = number, dtype, rank, integer

    def size(self, d: int) -> Expr:
        return ex.make("size", (), self.integer, (self.number, d % self.rank))

    def __getitem__(self, at) -> Expr:
        return self.load(at)

    def load(self, at, valid: Expr | None = None) -> Expr:
        """The element there; zero, and no access, where `valid` does not hold."""
        at = tuple(at) if isinstance(at, (tuple, list)) else (at,)
        if len(at) != self.rank:
            raise TypeError(f"load: {len(at)} coordinates for an operand of rank {self.rank}")
        places = [ex.cast(i, self.integer) if isinstance(i, Expr) else ex.const(i, self.integer) for i in at]
        return ex.make(
            "load", (*places, ex.const(True, "bool") if valid is None else valid), self.dtype, self.number
        )

    def get(self, at: Sequence[Expr], outside) -> Expr:
        """The element there, or `outside` where a coordinate is not within the bounds."""
        valid = None
        for d, i in enumerate(at):
            if i.op != "coordinate":
                fits = inside(i, self.size(d))
                valid = fits if valid is None else valid & fits
        result = self.load(at, valid)
        return result if valid is None else ex.where(valid, result, outside)


def inside(i: Expr, size: Expr) -> Expr:
    """0 <= i < size, in one comparison."""
    unsigned = "u" + i.dtype
    return ex.bitcast(i, unsigned) < ex.bitcast(ex.like(i, size), unsigned)


def checked(i: Expr, size: Expr, integer: str, negative: bool = False) -> Expr:
    """An index read from memory as a coordinate; the launch fails where it is out of bounds.

    The size stands for the index there, so nothing is read: a load at it must not happen, which `Evaluation` sees to.
    `negative`: -1 is the last element.
    """
    bound = ex.cast(size, i.dtype)
    if negative:
        i = ex.where(i < 0, i + bound, i)
    return ex.cast(ex.make("checked", (i, bound), i.dtype), integer)


# --- loops ------------------------------
class LoopRule(NamedTuple):
    """How a loop combines its elements, in order; `turns` are the numbers of its loop variables."""

    turns: tuple[int, ...]
    init: tuple[Expr, ...]
    combine: tuple[Expr, ...]
    which: int

    def __repr__(self) -> str:
        return f"loop({self.turns}; {', '.join(map(repr, self.init))}; {ex.text(self.combine)}; {self.which})"


_turns = itertools.count()


def begin_trace() -> None:
    """Number loop variables from 0 on, so that a kernel's text is the same in every process."""
    global _turns
    _turns = itertools.count()


def fold_over(
    extents: Sequence, integer: str, element: Callable, combine: Callable, init: Sequence[Expr]
) -> tuple[Expr, ...]:
    """`for i in range(e0): for j in range(e1): …: state = combine(state, element(i, j, …))`, from `init` on.

    `element` returns a tuple of as many values as `init`; extents are numbers or expressions that are the same in
    every lane.  Short loops of known length are written out.
    """
    count = 1
    for e in extents:
        count = count * e if isinstance(e, int) and count else 0
    if all(isinstance(e, int) for e in extents) and count <= UNROLLED:
        state = tuple(init)
        for place in itertools.product(*(range(e) for e in extents)):
            state = tuple(combine(state, element(*(ex.const(i, integer) for i in place))))
        return state
    numbers = tuple(next(_turns) for _ in extents)
    values = tuple(element(*(ex.make("turn", (), integer, n) for n in numbers)))
    left = tuple(ex.make("state", (), v.dtype, k) for k, v in enumerate(values))
    right = tuple(ex.make("state", (), v.dtype, k + len(values)) for k, v in enumerate(values))
    combined = tuple(combine(left, right))
    bounds = tuple(e if isinstance(e, Expr) else ex.const(e, integer) for e in extents)
    return tuple(
        ex.make("loop", (*bounds, *values), v.dtype, LoopRule(numbers, tuple(init), combined, k))
        for k, v in enumerate(values)
    )


def sum_over(extents: Sequence, integer: str, element: Callable) -> Expr:
    """The sum of `element(i, j, …)` over the loops, in order."""
    zero = ex.like(element(*(ex.const(0, integer) for _ in extents)), 0)
    return fold_over(extents, integer, lambda *i: (element(*i),), lambda a, b: (a[0] + b[0],), (zero,))[0]


class RepeatRule(NamedTuple):
    """`while condition: state = new`; the state's values are `carried` leaves with the number of the loop."""

    number: int
    condition: Expr
    new: tuple[Expr, ...]
    which: int

    def __repr__(self) -> str:
        return f"repeat({self.number}; {ex.text((self.condition, *self.new))}; {self.which})"


def repeat(state: Sequence[Expr], holds: Callable, step: Callable) -> tuple[Expr, ...]:
    """`while holds(*state): state = step(*state)`, at each place by itself; the state after the last turn.

    The body may load elements at places that the state names.  Kernels of devices have such loops, those of the CPU do not.
    """
    number = next(_turns)
    own = tuple(ex.make("carried", (), v.dtype, (number, k)) for k, v in enumerate(state))
    condition, new = holds(*own), tuple(ex.like(v, n) for v, n in zip(own, step(*own), strict=True))
    wrong = [(v.dtype, n.dtype) for v, n in zip(own, new) if v.dtype != n.dtype]
    if wrong:
        raise TypeError(f"repeat: a value of the state changes its dtype: {wrong}")
    return tuple(
        ex.make("repeat", tuple(state), v.dtype, RepeatRule(number, condition, new, k))
        for k, v in enumerate(own)
    )


def under(roots: Sequence[Expr]) -> Iterator[Expr]:
    """Every expression under the roots, those inside of `repeat` included."""
    seen: set[int] = set()
    for e in ex.walk(roots):
        yield e
        if e.op == "repeat" and e.value.number not in seen:
            seen.add(e.value.number)
            yield from under((e.value.condition, *e.value.new))
