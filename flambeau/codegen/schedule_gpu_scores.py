"""What the kernels of attention share: their arguments, and what becomes of a score.

A function of scores and a mask are expressions of the score ("score") and its place ("b", "h", "q", "k"), which may read captured tensors
there (`operations/neural/attention/programs.py`).  Query q sees the keys before `keys` and up to q + `reach` that the mask allows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from . import expr as ex
from .expr import Expr
from .irtext import Function, Value, i64
from .lower import ITEMSIZE, MEMORY, Lowering
from .schedule_gpu_threads import POINTER, OfBlocks

SIZES = "batches heads groups queries keys width columns reach".split()


class KernelOfScores(OfBlocks):
    """What the kernels of attention have in common: their name, and that the factor of scores is their one scalar."""

    __slots__ = ()
    name = "scaled_dot_product_attention"
    params = ("float64",)


def working(dtype: str) -> str:
    """What scores and sums are computed in."""
    return "float64" if dtype == "float64" else "float32"


def number_names(operands: Sequence[str], captures: Sequence[tuple[str, int]]) -> list[str]:
    """Sizes, and steps in elements of operands (batch, head, row, column) and of captures."""
    return [
        *SIZES,
        *(f"{name}_{d}" for name in operands for d in "bhqe"),
        *(f"c{n}_{d}" for n, (_, rank) in enumerate(captures) for d in range(rank)),
    ]


def parameters(captures: Sequence[tuple[str, int]]) -> list[tuple[str, str]]:
    """Of a kernel forward: result, logarithms of sums and largest scores, all dense; query, key, value and captures; numbers; the factor of
    scores.
    """
    tensors = ("out", "lse", "top", "q", "k", "v", *(f"c{n}" for n in range(len(captures))))
    numbers = ((name, "i64") for name in number_names("qkv", captures))
    return [*((name, POINTER) for name in tensors), *numbers, ("factor", "double")]


def texts(*functions: Expr | None) -> list[str]:
    """What tells functions apart."""
    return ["-" if e is None else ex.text([e]) for e in functions]


class Scores:
    """Writes the function of scores and the mask.  The writer of a kernel sets `batch` and `query_head` for each block."""

    kernel: Any  # with `score`, `mask` and `captures`
    f: Function
    low: Lowering
    given: dict[str, Value]
    dtype: str  # of scores
    batch: Value
    query_head: Value

    def below(self, a: Value, b: Value) -> Value:
        return self.f.op("i1", f"icmp slt {a}, {b.name}")

    def least(self, a: Value, b: Value) -> Value:
        return self.low.select(self.below(a, b), a, b)

    def last(self, query: Value) -> Value:
        """The first key that a query does not see, whatever the mask."""
        f, given = self.f, self.given
        return self.least(given["keys"], f.add(f.add(query, given["reach"]), i64(1)))

    def corner(self, name: str, batch: Value, head: Value) -> Value:
        """Where a head of an operand begins."""
        f, given = self.f, self.given
        offset = f.add(f.mul(batch, given[f"{name}_b"]), f.mul(head, given[f"{name}_h"]))
        return f.gep(MEMORY[self.kernel.dtype], given[name], offset)

    def seen(self, query: Value, first: Value, most: int) -> Value:
        """How many keys from `first` on a query sees, whatever the mask: at most `most`, in 32 bits."""
        f = self.f
        count = f.binary("sub", self.last(query), first)
        count = self.low.select(f.op("i1", f"icmp sgt {count}, 0"), count, i64(0))
        return f.op("i32", f"trunc {self.least(count, i64(most))} to i32")

    def sees(self, seen: Value, number: int) -> Value:
        """Whether key `number` from the first on is among them."""
        return self.f.op("i1", f"icmp sgt {seen}, {number}")

    def score(self, value: Value, query: Value, key: Value) -> tuple[Value, Value | None]:
        """A score after the function of scores, and whether the mask allows it, None without one."""
        changed, allowed = self.functions((self.kernel.score, self.kernel.mask), query, key, score=value)
        return (value if changed is None else changed), allowed

    def functions(
        self, functions: Sequence[Expr | None], query: Value, key: Value, **symbols: Value
    ) -> list[Value | None]:
        """Functions of `symbols` and of the place; None for None."""
        f, given, kernel = self.f, self.given, self.kernel
        roots = [e for e in functions if e is not None]
        if not roots:
            return [None] * len(functions)
        if kernel.captures:  # which have no element for what does not exist
            last = (f.binary("sub", given[n], i64(1)) for n in ("queries", "keys"))
            query, key = (self.least(n, most) for n, most in zip((query, key), last))
        places = {"b": self.batch, "h": self.query_head, "q": query, "k": key, **symbols}
        leaves: dict[Expr, Value] = {}
        for e in ex.walk(roots):
            if e.op == "symbol":
                leaves[e] = places[e.value]
            elif e.op == "capture":
                leaves[e] = self.captured(e, places)
        found = iter(self.low.values(roots, leaves))
        return [None if e is None else next(found) for e in functions]

    def masked(self, score: Value, seen: Value, allowed: Value | None) -> Value:
        """-inf for a score that is not seen."""
        visible = seen if allowed is None else self.f.binary("and", seen, allowed)
        return self.low.select(visible, score, self.low.constant(-math.inf, self.dtype))

    def captured(self, e: Expr, places: dict[str, Value]) -> Value:
        f, number = self.f, e.value
        dtype, offset = self.kernel.captures[number][0], i64(0)
        for d, place in enumerate(e.args):
            at = i64(place.value) if place.op == "const" else places[place.value]
            offset = f.add(offset, f.mul(at, self.given[f"c{number}_{d}"]))
        value = f.load(MEMORY[dtype], f.gep(MEMORY[dtype], self.given[f"c{number}"], offset), ITEMSIZE[dtype])
        return self.low.cast(self.low.from_memory(value, dtype), dtype, e.dtype)
