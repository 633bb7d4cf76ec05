"""Launches of kernels over elements and along rows, as instructions: the walks of `core/call/layout.pyx` and `core/loops/rows.pyx`,
whose sizes and strides are known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...codegen.irtext import Function, Value, i64
from ...codegen.lower import ITEMSIZE
from ...codegen.schedule_cpu_pointwise import POINTWISE_HEAD
from ...core.loops.plans import LoopPlan, RowLoopPlan
from .parts import Parts, at, nest, put, stack_buffer

NOTHING = Value("ptr", "null")  # kernels of plans have no scalars: numbers stand in their code
ALIGN = 64


class Rows(NamedTuple):
    """A launch along rows: how often the outer loops turn (the outermost first), then sizes as a kernel has them; for each operand its
    bytes an element, and its strides along all of these.
    """

    outer: tuple[int, ...]
    k: int
    r1: int
    r0: int
    total: int
    index_step: int
    widths: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]


def launch_elements(parts: Parts, f: Function, plan: LoopPlan, kernel: Any, data: Sequence[Value]) -> None:
    """A kernel over elements."""
    sizes, strides = plan.loop_sizes(), plan.loop_strides()
    if 0 in sizes:
        return
    sizes, strides = (
        (1, *sizes),
        tuple((0, *s) for s in strides),
    )  # two loops at least, which are the kernel's
    widths = [o.dtype.itemsize for o in plan.operands]
    outer, (second, first) = sizes[:-2], sizes[-2:]
    count = len(data)
    places, geometry = stack_buffer(f, "ptr", count), stack_buffer(f, "i64", POINTWISE_HEAD + 2 * count)
    numbers = [first, second, 0, math.prod(sizes), *(s[-1] for s in strides), *(s[-2] for s in strides)]
    for k, n in enumerate(numbers):
        put(f, geometry, k, i64(n))
    symbol = parts.kernel(kernel)

    def launch(pointers: list[Value], number: Value) -> None:
        for k, pointer in enumerate(pointers):
            put(f, places, k, pointer)
        put(f, geometry, 2, f.mul(number, i64(first * second)))
        f.call("void", symbol, places, geometry, NOTHING)

    nest(f, outer, data, [[s * w for s in own[:-2]] for own, w in zip(strides, widths)], launch)


def launch_rows(
    parts: Parts,
    f: Function,
    symbol: str,
    rows: Rows,
    data: Sequence[Value],
    index_first: Value | None = None,
) -> None:
    """A kernel along rows."""
    if 0 in rows.outer or rows.k == 0:
        return
    count, index = len(data), i64(0) if index_first is None else index_first
    places, geometry = stack_buffer(f, "ptr", count), stack_buffer(f, "i64", 6 + 3 * count)
    head = [i64(rows.k), i64(rows.r1), i64(rows.r0), i64(rows.total), index, i64(rows.index_step)]
    for k, n in enumerate([*head, *(i64(s) for own in rows.strides for s in own[-3:])]):
        put(f, geometry, k, n)

    def launch(pointers: list[Value], _: Value) -> None:
        for k, pointer in enumerate(pointers):
            put(f, places, k, pointer)
        f.call("void", symbol, places, geometry, NOTHING)

    steps = [[s * w for s in own[:-3]] for own, w in zip(rows.strides, rows.widths)]
    nest(f, rows.outer, data, steps, launch)


def rows_of(plan: RowLoopPlan) -> Rows:
    """The loops of a plan."""
    *outer, k, r1, r0 = plan.loop_sizes()
    widths = tuple(o.dtype.itemsize for o in plan.operands)
    return Rows(tuple(outer), k, r1, r0, r0 * r1, 0, widths, plan.loop_strides())


def states_sizes(plan: LoopPlan, kernels: Sequence[Any]) -> list[int]:
    """Bytes that the states of a row in blocks take, one after another; none where rows are whole."""
    if len(kernels) < 2 or not isinstance(plan, RowLoopPlan):
        return []
    rows = rows_of(plan)
    count = -(-rows.r0 // plan.block) * rows.k * math.prod(rows.outer)
    return [-(-count * ITEMSIZE[e.dtype] // ALIGN) * ALIGN for e in kernels[0].outputs]


def launch_in_stages(
    parts: Parts, f: Function, plan: RowLoopPlan, kernels: Sequence[Any], data: Sequence[Value], memory: Value
) -> None:
    """A reduction of rows in blocks: a kernel that leaves the states of each block, then one that combines them."""
    rows, block, m = rows_of(plan), plan.block, plan.outputs
    whole, tail = divmod(rows.r0, block)
    blocks = whole + (tail > 0)
    states, used = [], 0
    for nbytes in states_sizes(plan, kernels):
        states.append(at(f, memory, used))
        used += nbytes
    widths = tuple(ITEMSIZE[e.dtype] for e in kernels[0].outputs)
    part, last = parts.kernel(kernels[0]), parts.kernel(kernels[1])
    steps = _state_steps(rows.outer, blocks * rows.k)
    given, inputs = rows.strides[m:], list(data[m:])
    in_turn = kernels[0].ordered() and not plan.along
    loop = (rows.k,) if plan.along else () if in_turn else (whole,)

    def first_stage(turns: tuple[int, ...], k: int, r0: int) -> Rows:
        if plan.along:  # the blocks are the rows
            own = [(*steps, blocks, 1, 0, 0) for _ in states]
            own += [(*s[:-3], s[-3], s[-1] * block, 0, s[-1]) for s in given]
        else:
            own = [(*steps, *[rows.k] * len(turns), 1, 0, 0) for _ in states]
            own += [(*s[:-3], *[s[-1] * block] * len(turns), s[-3], 0, s[-1]) for s in given]
        step = block if plan.along else 0
        return Rows(
            (*rows.outer, *turns), k, 1, r0, rows.total, step, (*widths, *rows.widths[m:]), tuple(own)
        )

    blocks_along = whole if plan.along else rows.k
    moves = [(1 if plan.along else rows.k) * w for w in widths] + [
        s[-1] * block * w for s, w in zip(given, rows.widths[m:])
    ]
    places = [*states, *inputs]
    if in_turn:

        def one(pointers: list[Value], number: Value) -> None:
            launch_rows(parts, f, part, first_stage((), rows.k, block), pointers, f.mul(number, i64(block)))

        nest(f, (whole,), places, [[step] for step in moves], one)
    else:
        launch_rows(parts, f, part, first_stage(loop, blocks_along, block), places)
    if tail:
        rest = [at(f, p, whole * step) for p, step in zip(places, moves)]
        turns = loop if plan.along else tuple(1 for _ in loop)
        k = 1 if plan.along else rows.k
        launch_rows(parts, f, part, first_stage(turns, k, tail), rest, i64(whole * block))
    ends = [(*s[:-3], s[-3], 0, 0) for s in rows.strides[:m]]
    ends += [(*steps, *((blocks, 0, 1) if plan.along else (1, 0, rows.k))) for _ in states]
    combined = Rows(rows.outer, rows.k, 1, blocks, rows.total, 0, (*rows.widths[:m], *widths), tuple(ends))
    launch_rows(parts, f, last, combined, [*data[:m], *states])


def _state_steps(outer: Sequence[int], step: int) -> tuple[int, ...]:
    """Elements of a state between two turns of each outer loop, the innermost of which is next to `step`."""
    return tuple(step * math.prod(outer[d + 1 :]) for d in range(len(outer)))


def copy_elements(
    f: Function,
    size: int,
    shape: Sequence[int],
    to: Value,
    to_strides: Sequence[int],
    source: Value,
    strides: Sequence[int],
) -> None:
    """Elements of so many bytes, from place to place; strides are bytes."""
    if 0 in shape:
        return
    kind = f"i{8 * size}"

    def one(pointers: list[Value], _: Value) -> None:
        f.store(f.load(kind, pointers[1], size if size < 16 else 8), pointers[0], size if size < 16 else 8)

    nest(f, tuple(shape), [to, source], [tuple(to_strides), tuple(strides)], one)
