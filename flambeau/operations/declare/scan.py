"""The declaration of scans: what every element becomes from those up to it along a dimension.

    @scan()
    def cumsum(x):
        return kn.running_sum(x)

A body sees one element and reads `kernels.prefix` (`running_sum` …), which is the fold of the elements so far.
`core/loops/scan.pyx` cuts long rows into blocks; the kernels for that come from the same body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...codegen import expr as ex
from ...codegen import kernels as kn
from ...core.base.dtypes import dtype
from ...core.base.tensor import TensorBase
from ...core.call.function import FunctionOp
from ...core.loops import scan as core_scan
from . import machine
from .pointwise import ALL, CODE_NAMES, CODES, compute_dtype
from .registry import register

# BEFORE is JOINED of the states before each block; its inputs begin one before the first, whatever stands there.
WHOLE, TOTALS, JOINED, CONTINUED, BEFORE = range(5)


class Scan:
    """A declared body; calling it scans a tensor along a dimension, in a dtype if one is given.  Not recorded."""

    def __init__(self, body: Callable, dtypes: frozenset[str]):
        self.name, self.body, self.dtypes = body.__name__, body, dtypes
        self.__doc__ = body.__doc__
        self.kernels: dict = {}  # filled and read by core/loops/scan.pyx
        self.operation = FunctionOp(self.scanned, self.name, owns=False)

    def __call__(self, input: TensorBase, dim: int, given: dtype | None = None, to: TensorBase | None = None):
        return self.operation(input, dim, given) if to is None else self.operation(input, dim, given, to)

    def scanned(self, input: TensorBase, dim: int, given: dtype | None, to: TensorBase | None = None):
        """What the operation computes: a new tensor, or one that is given, of the result's shape."""
        return core_scan.scan(self, input, dim, given or input.dtype, to)

    def program(self, memory: str, working: str) -> tuple[list[ex.Expr], list[str]]:
        """The traced results, and the dtype each has in memory."""
        if working not in self.dtypes:
            raise NotImplementedError(f"{self.name}(): \"{self.name}\" not implemented for '{working}'")
        compute = compute_dtype(working)
        result = self.body(ex.cast(ex.input(0, memory), compute))
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        return results, [working if r.dtype == compute else r.dtype for r in results]

    def states(self, memory: str, working: str) -> tuple[str, ...]:
        """The dtypes of what a block leaves for the next."""
        return tuple(e.dtype for e in kn.scan_stages(self.program(memory, working)[0], 1).totals)

    def kernel(self, stage: int, along: bool, memory: int, working: int) -> kn.Row:
        """The kernel of a stage for elements of those dtypes (codes); its operands are contiguous."""
        results: Sequence[ex.Expr]
        dtypes: Sequence[str]
        results, dtypes = self.program(CODE_NAMES[memory], CODE_NAMES[working])
        states = self.states(CODE_NAMES[memory], CODE_NAMES[working])
        inputs, access = [kn.Operand(CODE_NAMES[memory], kn.CONTIGUOUS)], kn.CONTIGUOUS
        stages = kn.scan_stages(results, 1)
        beside = kn.BROADCAST if along else kn.CONTIGUOUS  # one value a row
        if stage == TOTALS:
            results, dtypes, access = stages.totals, states, beside
        elif stage in (JOINED, BEFORE):
            dtypes, inputs = states, [kn.Operand(d, kn.CONTIGUOUS) for d in states]
            nothing = [v for members in kn.prefixes(results) for v in members[0].value.init]
            given = [ex.input(k, d) for k, d in enumerate(states)]
            shifted = {x: ex.where(ex.index(1) > 0, x, v) for x, v in zip(given, nothing)}
            results = stages.joined if stage == JOINED else ex.substitute(list(stages.joined), shifted)
        elif stage == CONTINUED:
            results, inputs = stages.continued, inputs + [kn.Operand(d, beside) for d in states]
        stored = tuple(ex.cast(r, m) for r, m in zip(results, dtypes))
        return kn.Row(self.name, stored, (access,) * len(stored), tuple(inputs), (), "r" if along else "k")

    def address(self, stage: int, along: bool, memory: int, working: int) -> tuple[int, tuple[int, ...]]:
        """The kernel's machine code, and the dtypes (codes) of its results."""
        kernel = self.kernel(stage, along, memory, working)
        return machine.address(kernel), self.result_codes(kernel)

    def result_codes(self, kernel: kn.Row) -> tuple[int, ...]:
        return tuple(CODES[e.dtype] for e in kernel.outputs)


def scan(*, dtypes: frozenset[str] = ALL) -> Callable[[Callable], Scan]:
    """Declare a scan from a function of one element: an operation that is public nowhere."""

    def declare(body: Callable) -> Scan:
        made = Scan(body, dtypes)
        register(made.name, "scan", made.operation, places=(), differentiable=False)
        return made

    return declare
