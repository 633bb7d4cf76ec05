"""Calls that compute the same twice, computed once: one operation on the same numbers in memory, with equal arguments.

Two calls are one where nothing is written to what they read between them, and nothing at all to their results.  What a program returns as
two tensors stays two, since who has them may write to one.  Random calls stay.

Arguments are equal where they are of one class and have the same bits: True, 1 and 1.0 make other dtypes, 0.0 and -0.0 other results.

Elementwise calls without functions stay two, unless one is in memory anyway: in one kernel they are one expression, and in two kernels
computing again costs less than writing a value to memory and reading it back.  (Sums over rows and over columns of f(x), f computed once /
twice, on an Intel Xeon core with AVX-512, for 64 × 1024 numbers and for 2048 × 4096, `python benchmarks/graph_passes.py --cases twice`: x·2
1.71, 3.00; √(x² + 1) 1.07, 1.41; exp 0.60, 1.05; tanh 0.56, 0.75; sin(log1p(exp)) 0.53, 0.64.)

The pass comes before `rematerialize`, which computes twice what had better not wait.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

from ...codegen import expr as ex
from ..expressions import Leaves, Reader, Unfused, expressions, loop_of
from ..groups import turns
from ..program import Call, Number, Program, Value, draws
from .standing import Standing

# Kinds whose operations give the same for the same operands, and do nothing else.
COMPUTE = frozenset(
    "pointwise reduction row scan sort search shape library lapack spectral indexing masked join copy conversion window fallback".split()
)


def share(program: Program, is_dead: Callable[[Call], bool]) -> None:
    """Let one call stand for those that compute the same; calls that nobody reads then are left out as `is_dead` says (`drop_dead`).

    >>> import flambeau as torch
    >>> from flambeau.graph.passes.common import share
    >>> from flambeau.graph.program import Program
    >>> from flambeau.graph.trace import record
    >>> program = Program(record(lambda x: (x @ x).exp() + (x @ x).sin(), torch.zeros(2, 2))[0])
    >>> share(program, lambda call: False)
    >>> [call.name for call in program.calls]
    ['matmul', 'exp', 'sin', 'add']
    """
    result = _Common(program)
    for call in program.calls:
        result.meet(call)
    if result.standing.others:
        result.standing.enter()
        gone = result.gone
        program.drop_dead(lambda call: call in gone or is_dead(call))


class _Common:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.standing = Standing(program)
        self.first: dict[Hashable, Call] = {}
        self.same: dict[Value, Value] = {}  # a memory, and the first that holds the same as long as both live
        self.written = Counter[Value]()  # how often a memory has been written to
        self.gone: set[Call] = set()
        self.kept = {v.root for v in program.results()}  # what is in memory, whoever else reads it
        for call in program.calls:
            if loop_of(call) is None or turns(call):
                self.kept.update(v.root for v in call.values())

    def meet(self, call: Call) -> None:
        """The next call of the program."""
        if call.written:
            self.written.update(call.written)
        elif _computes(call):
            key = (id(call.operation), self.key(call.args), self.key(call.kwargs))
            first = self.first.setdefault(key, call)
            if first is not call:
                self.unite(first, call)

    def unite(self, first: Call, call: Call) -> None:
        pairs = list(zip(first.results, call.results, strict=True))
        if any(self.program.is_written(v) for pair in pairs for v in pair):
            return
        in_memory = any(v in self.kept for pair in pairs for v in pair)
        self.same.update((b, self.same.get(a, a)) for a, b in pairs)
        if (in_memory or _is_long(call)) and all(self.standing.may(a, b) for a, b in pairs):
            for a, b in pairs:
                self.standing.put(a, b)
            self.gone.add(call)

    def key(self, x: Any) -> Hashable:
        """What is equal for equal arguments, and for them alone."""
        if isinstance(x, Value):
            root = self.same.get(x.root, x.root)
            place = x.dtype, x.place.shape, x.place.stride, x.at
            return isinstance(x, Number), root, self.written[root], place
        if isinstance(x, float):
            return "float", struct.pack("d", x)
        if isinstance(x, complex):
            return "complex", struct.pack("dd", x.real, x.imag)
        if isinstance(x, (tuple, list)):
            return type(x), tuple(map(self.key, x))
        if isinstance(x, dict):
            return "dict", tuple((name, self.key(y)) for name, y in sorted(x.items()))
        if isinstance(x, slice):
            return "slice", self.key((x.start, x.stop, x.step))
        return (type(x), x) if x is None or isinstance(x, (int, str)) else (type(x), id(x))


def _computes(call: Call) -> bool:
    """Whether a call gives the same for the same operands, in new memory, and does nothing else."""
    entry = getattr(call.operation, "entry", None)
    known = loop_of(call) is not None or (entry is not None and entry.kind in COMPUTE)
    return (
        known and not draws(call.operation) and bool(call.values()) and all(v.root is v for v in call.results)
    )


def _is_long(call: Call) -> bool:
    """Whether writing results to memory and reading them there costs less than computing them twice."""
    loop = loop_of(call)
    if loop is None or loop.dims is not None or turns(call):
        return True
    leaves = Leaves()
    try:
        result = expressions(call, Reader({}, leaves, loop), leaves, loop)
    except Unfused:
        return True
    return any(e.op.startswith("call:") for e in ex.walk(result))
