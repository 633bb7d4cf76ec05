"""Small producers computed where they are read: fills, and short pointwise calls of what is broadcast there.

A fill that a kernel reads is a constant, and keeps nothing waiting.  `~mask` of a mask that all rows of a batch share would be a
kernel of its own, for its loops are over fewer elements than its readers'; computing it at each of their elements takes an
instruction.  Its result is rounded to its dtype all the same.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ...codegen import expr as ex
from ..expressions import Leaves, Reader, Unfused, element_of, expressions, loop_of
from ..program import Call, Program, Value
from ..trace import mapped

MOST_WORK = 4  # operations of an element, conversions apart
MOST_READ = 2  # tensors
SLOW = ("div", "rem", "sqrt")


def recompute(program: Program) -> None:
    """Let calls that kernels compute their small producers compute themselves.

    >>> import flambeau as torch
    >>> from flambeau.graph.passes.recompute import recompute
    >>> from flambeau.graph.program import Program
    >>> from flambeau.graph.trace import record
    >>> graph, _ = record(lambda x, mask: x * ~mask + torch.ones(3), torch.zeros(2, 3), torch.zeros(3) > 0)
    >>> program = Program(graph)
    >>> recompute(program)
    >>> [call.name for call in program.calls]
    ['mul', 'add']
    """
    small: dict[Call, Small] = {}
    changed = False
    for call in program.calls:
        loop = loop_of(call)
        if loop is None:
            continue
        if any(v.call in small for v in call.values()):
            reading = _Reading(program, small, call, math.prod(loop.shape))
            arguments = mapped((call.args, call.kwargs), Value, reading)
            if arguments != (call.args, call.kwargs):
                call.set_arguments(*arguments)
                changed = True
        result = _small(program, call, small)
        if result is not None:
            small[call] = result
    if changed:
        program.order()
        program.drop_dead(lambda call: call in small)


class Small(NamedTuple):
    """A producer as its readers compute it, with its own small producers in it, and the values that it reads then."""

    call: Call
    reads: tuple[Value, ...]


class _Reading:
    """How a call, whose loops go over so many elements, reads a value."""

    def __init__(self, program: Program, small: dict[Call, Small], call: Call, elements: float) -> None:
        self.program, self.small, self.call, self.elements = program, small, call, elements

    def __call__(self, value: Value) -> Value:
        result = None if value.call is None else self.small.get(value.call)
        if result is None or value.reads is not None or value.root in self.call.written:
            return value
        if result.reads and (value.root is not value or math.prod(value.shape) >= self.elements):
            return value  # the producer joins its reader's kernel
        if not all(self.program.is_current(v, self.call) for v in (value, *result.reads)):
            return value
        return value.computed_by(result.call, result.reads)


def _small(program: Program, call: Call, small: dict[Call, Small]) -> Small | None:
    """What stands for a small producer; None for another call."""
    if call.written or len(call.results) != 1:
        return None
    if isinstance(element_of(call), (int, float)):
        return Small(call, ())
    loop = loop_of(call)
    if loop is None or loop.dims is not None:
        return None
    arguments = mapped((call.args, call.kwargs), Value, _Reading(program, small, call, math.inf))
    alone = Call(call.number, call.operation, *arguments)
    alone.results = call.results
    leaves = Leaves()
    try:
        result = expressions(alone, Reader({}, leaves, loop), leaves, loop)
    except Unfused:
        return None
    work = [e.op for e in ex.walk(result) if e.args and e.op != "cast"]
    if len(work) > MOST_WORK or len(leaves.read) > MOST_READ:
        return None
    if any(op in SLOW or op.startswith("call:") for op in work):
        return None
    return Small(alone, tuple(dict.fromkeys(v for v, _ in leaves.read)))
