"""What follows from literals alone, computed once, when a program is planned: masks, positions, factors of means.

Such a call has no operands but results of such calls; one that makes a tensor like another reads its geometry, which is a literal, too.
Nothing else is constant: a tensor that the program had before may be written to.  What is written to, or is a random number, is none.

Where all elements are one number, the call becomes a fill, which its readers compute (`recompute.py`).  Elsewhere its result is kept
with the plan, unless that costs more than it saves: one of more than `MOST` bytes, and an elementwise one of more than `SMALL` that is
larger than what it is computed of, since its readers compute it in less time than they load it.  (Kept / computed at each run, on an Intel
Xeon core with AVX-512, `python benchmarks/graph_passes.py --cases literal`: a mask of 128 × 128 that `triu` makes 0.25, of 2048 × 2048
0.37; exponentials of an outer product of 128 × 128 0.33, of 2048 × 2048 2.06.)  A result that the program returns is new at each run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from ...autograd.grad_mode import no_grad
from ...core.base.dtypes import device, dtype
from ...core.base.formats import layout, memory_format
from ...core.base.tensor import TensorBase
from ...operations.declare.registry import REGISTRY
from ..expressions import element_of, loop_of, pointwise_of
from ..products import example
from ..program import Call, Program, Value, draws
from ..record import Recording, place
from ..trace import mapped
from .common import COMPUTE

MOST = 16 << 20  # bytes of a constant, which lives as long as the plan
SMALL = 64 << 10  # bytes that stay in the nearest caches


def fold(program: Program, is_dead: Callable[[Call], bool]) -> None:
    """Compute now what follows from literals; calls that nobody reads then are left out, also as `is_dead` says (`drop_dead`).

    >>> import flambeau as torch
    >>> from flambeau.graph.passes.constants import fold
    >>> from flambeau.graph.program import Program
    >>> from flambeau.graph.trace import record
    >>> def function(x):
    ...     mask = torch.ones(3, 3).tril()
    ...     return x * mask / torch.ones(()).mul(3)
    >>> program = Program(record(function, torch.zeros(3, 3))[0])
    >>> fold(program, lambda call: False)
    >>> program
    %0: float32[3, 3]
    %2: float32[3, 3] = constant
    %3: float32[3, 3] = mul(%0, %2)
    %5: float32[] = full((), 3.0, dtype=flambeau.float32)
    %6: float32[3, 3] = div(%3, %5)
    return %6
    """
    result = _Constants(program)
    if not result.literal:
        return
    with no_grad(), Recording():  # what is called here is no part of what somebody records
        for call in reversed(result.literal):
            result.enter(call)
    if result.changed:
        program.calls = [call for call in program.calls if call not in result.kept]
        program.order()
        program.drop_dead(lambda call: call in result.literal or is_dead(call))


class _Constants:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.literal: dict[Call, None] = {}
        self.returned = {v.root for v in program.results()}
        self.read: set[Value] = set()  # of literal calls, by others
        self.numbers: dict[Value, float | None] = {}  # the one number that all elements are
        self.tensors: dict[Value, TensorBase] = {}
        self.changed = False
        self.kept: set[Call] = set()  # whose results are tensors of the program now
        for call in program.calls:
            if self.is_literal(call):
                self.literal[call] = None
        for call in program.calls:
            if call not in self.literal:
                self.read.update(v.root for v in call.values())

    def is_literal(self, call: Call) -> bool:
        operation: Any = call.operation
        entry = getattr(operation, "entry", None)
        makes = entry is not None and entry.kind == "creation" and "element" in entry.details
        computes = loop_of(call) is not None or (entry is not None and entry.kind in COMPUTE)
        if not (makes or computes) or draws(operation) or call.written or not call.results:
            return False
        if any(v.root is not v or self.program.is_written(v) for v in call.results):
            return False
        like = bool(getattr(operation, "like", False))
        if not like and any(
            v.root.call not in self.literal or v.dtype != v.root.dtype for v in call.values()
        ):
            return False
        return (like or makes or bool(call.values())) and all(
            map(_is_literal, _atoms((call.args, call.kwargs)))
        )

    def enter(self, call: Call) -> None:
        """Let a literal call be a fill, or a constant, where that saves work."""
        results = [v for v in call.results if v in self.read or v in self.returned]
        if not results or isinstance(element_of(call), (int, float)):
            return
        if len(call.results) == 1 and (number := self.number(call.results[0])) is not None:
            self.fill(call, number)
        elif all(v in self.read and v not in self.returned and self.pays(v) for v in results):
            self.keep(call, results)
        else:  # its readers compute it, from constants where those pay
            for v in call.values():
                self.read.add(v.root)

    # --- one number ---
    def number(self, value: Value) -> float | None:
        """The number that all elements of a literal call's result are, by elementwise calls alone; None where that is not so."""
        if value not in self.numbers:
            self.numbers[value] = self._number(value)
        return self.numbers[value]

    def _number(self, value: Value) -> float | None:
        call = value.call
        if call is None or not value.contiguous or len(call.results) != 1 or 0 in value.shape:
            return None
        element = element_of(call)
        if isinstance(element, (int, float)):
            return element
        entry = getattr(call.operation, "entry", None)
        if entry is not None and entry.kind == "creation":
            said = entry.details["element"]
            element = None if said is None else said(*call.args, **call.kwargs)
            if not isinstance(element, (int, float)):
                return None
            return REGISTRY["full"].function((), element, dtype=value.dtype).item()
        if pointwise_of(call) is None and not (entry is not None and entry.kind == "conversion"):
            return None
        if not call.values() or any(
            v.root.call is None or self.number(v.root) is None for v in call.values()
        ):
            return None
        try:
            made = call.operation(*mapped(call.args, Value, self.one), **mapped(call.kwargs, Value, self.one))
        except (RuntimeError, TypeError, ValueError):
            return None
        return made.item() if made.dtype == value.dtype and made.numel() == 1 else None

    def one(self, value: Value) -> TensorBase:
        """A tensor of one element for a value of which all elements are one."""
        shape, number = (1,) * len(value.shape), self.number(value.root)
        return REGISTRY["full"].function(shape, number, dtype=value.dtype, device=_where(value))

    def fill(self, call: Call, number: float) -> None:
        (result,) = call.results
        call.operation = REGISTRY["full"].function
        options = {"dtype": result.dtype}
        if result.device is not None:
            options["device"] = _where(result)
        call.set_arguments((result.shape, number), options)
        self.changed = True

    # --- tensors ---
    def pays(self, value: Value) -> bool:
        """Whether reading a constant costs less than computing it at each run."""
        call, nbytes = value.call, value.span * value.dtype.itemsize
        assert call is not None
        if nbytes > MOST:
            return False
        loop = loop_of(call)
        if loop is None or loop.dims is not None or nbytes <= SMALL:
            return True
        return any(math.prod(v.shape) >= math.prod(value.shape) for v in self.sources(value))

    def sources(self, value: Value) -> set[Value]:
        """What readers would compute a literal call's result from: what no elementwise call makes."""
        call = value.call
        if call not in self.literal or value.root is not value:
            return {value}
        loop = loop_of(call)
        if loop is None or loop.dims is not None or isinstance(element_of(call), (int, float)):
            return {value}
        return set().union(*map(self.sources, call.values()))

    def keep(self, call: Call, results: list[Value]) -> None:
        """Make results of a call tensors that the program had before."""
        made = [self.tensor(v) for v in results]
        for t, v in zip(made, results, strict=True):
            at, p = place(t), v.place
            if (at.shape, at.stride, at.dtype) != (p.shape, p.stride, p.dtype):
                return
        for t, root in zip(made, results, strict=True):
            root.tensor = t.detach()
            for v in self.program.values:
                if v.root is root:
                    v.call = None
        self.kept.add(call)
        self.changed = True

    def tensor(self, value: Value) -> TensorBase:
        """The elements of a value that a literal call makes, or of a view of one."""
        root = value.root
        if root not in self.tensors:
            call = root.call
            if call is None:  # it is kept, or its geometry is all that is read
                assert root.tensor is not None
                self.tensors[root] = root.tensor
            else:
                of = example if getattr(call.operation, "like", False) else self.tensor
                result: list[TensorBase] = []
                made = call.operation(*mapped(call.args, Value, of), **mapped(call.kwargs, Value, of))
                mapped(made, TensorBase, result.append)
                self.tensors.update(zip(call.results, result, strict=True))
        made = self.tensors[root]
        if value is root:
            return made
        return REGISTRY["as_strided"].function(
            made, value.shape, value.place.stride, made.storage_offset() + value.offset
        )


def _where(value: Value) -> Any:
    """The device of a value, as calls are given it."""
    return "cpu" if value.device is None else value.device.place


def _atoms(x: Any) -> Iterator[Any]:
    """What stands in nested arguments."""
    if isinstance(x, (tuple, list)):
        for y in x:
            yield from _atoms(y)
    elif isinstance(x, dict):
        yield from _atoms(list(x.values()))
    elif isinstance(x, slice):
        yield from (x.start, x.stop, x.step)
    else:
        yield x


def _is_literal(x: Any) -> bool:
    """Whether an argument never changes: a number, a word, a dtype, a value whose own call is looked at."""
    return isinstance(x, (int, float, complex, str, type(None), dtype, device, layout, memory_format, Value))
