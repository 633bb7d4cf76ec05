"""Chains of math functions cut into stages.

A function of a function waits for it.  A processor hides such waits behind other elements, as many as its schedulers hold
instructions of, which for a chain are few.  A kernel therefore computes a chain function by function, each over a block of elements that
stays in the nearest cache.  (Measured on Zen 5, 64 Ki elements, time of the functions one by one / time of one kernel: ten times `tanh`
0.41 in one loop and 1.06 in stages, `exp` 0.40 and 1.04; GELU written out in bfloat16 0.68 and
1.41; `chain_of_ten_functions` and `chain_of_half_types` of benchmarks/graphs.py go on measuring it.)
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

from .expr import Expr
from .lower import ITEMSIZE, walk_until

HALVES = ("float16", "bfloat16")
BLOCK_BYTES = 16 << 10  # of all values that are kept between stages
MOST_ELEMENTS, FEWEST_ELEMENTS = 512, 64


class Kept(NamedTuple):
    """A value that later stages read, and the block in memory that holds it."""

    value: Expr
    block: int


class Stage(NamedTuple):
    """What one loop over a block computes: numbers of outputs, and values that are kept; what it reads of those before."""

    outputs: list[int]
    keeps: list[Kept]
    reads: list[Kept]


class Stages(NamedTuple):
    """All stages, the dtype of each block in memory, and the elements of a block."""

    stages: list[Stage]
    blocks: list[str]
    elements: int


def stages_of(outputs: Sequence[Expr], known: Container[Expr] = ()) -> Stages | None:
    """The stages of a kernel's outputs, above what is known; None where no function waits for another.

    All outputs leave in the last stage: earlier ones would write over inputs that later stages read, where a kernel works in place.
    """
    depth = _depths(outputs, known)
    last = max(depth.values(), default=0)
    if last < 2:
        return None
    readers = dict.fromkeys(outputs, last)  # the last stage that reads a value
    for e in depth:
        for a in e.args:
            readers[a] = max(readers.get(a, 0), max(depth[e], 1))
    blocks: list[str] = []
    free: list[Kept] = []
    kept: dict[Expr, Kept] = {}
    stages: list[Stage] = []
    for number in range(1, last + 1):
        own = list(range(len(outputs))) if number == last else []
        keeps: list[Kept] = []
        for e in depth:
            if depth[e] == number < readers.get(e, 0):  # what has no function in it is as well computed again
                block = next((k for k in free if k.value.dtype == e.dtype), None)
                if block is None:
                    blocks.append(e.dtype)
                    keeps.append(Kept(e, len(blocks) - 1))
                else:
                    free.remove(block)
                    keeps.append(Kept(e, block.block))
        reads = _reached([outputs[k] for k in own] + [k.value for k in keeps], kept)
        stages.append(Stage(own, keeps, reads))
        kept.update((k.value, k) for k in keeps)
        free += [k for e, k in kept.items() if readers[e] == number]
    width = sum(ITEMSIZE[d] for d in blocks)
    elements = max(FEWEST_ELEMENTS, min(MOST_ELEMENTS, 1 << (BLOCK_BYTES // width).bit_length() - 1))
    return Stages([s for s in stages if s.outputs or s.keeps], blocks, elements)


def _depths(outputs: Sequence[Expr], known: Container[Expr]) -> dict[Expr, int]:
    """How many functions of elements follow one another up to each expression.  A rounding to a half type that more follows upon is ten
    instructions that wait for each other, and counts as one.
    """
    depth: dict[Expr, int] = {}
    moves: dict[Expr, bool] = {}
    order = list(walk_until(list(outputs), known))
    read = {a for e in order for a in e.args}
    for e in order:
        moves[e] = e.op in ("input", "index") or any(moves.get(a, False) for a in e.args)
        rounds = e.op == "cast" and e.dtype in HALVES and e in read
        own = moves[e] and (rounds or e.op.startswith("call:"))
        depth[e] = own + max((depth.get(a, 0) for a in e.args), default=0)
    return depth


def _reached(roots: list[Expr], kept: dict[Expr, Kept]) -> list[Kept]:
    """What is kept of that which the roots are computed of."""
    result: dict[Expr, Kept] = {}
    seen: set[Expr] = set()
    todo = list(roots)
    while todo:
        e = todo.pop()
        if e in kept:
            result[e] = kept[e]
        elif e not in seen:
            seen.add(e)
            todo.extend(e.args)
    return list(result.values())
