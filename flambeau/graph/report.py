"""What a plan does and why: which calls each step computes, what stays apart for which reason, and how much memory a run takes.

A `Report` belongs to each plan (`Runner.report`); it keeps the plan's program and steps, and finds the rest when it is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ..core.loops.plans import LoopPlan
from .device_products import EndedProduct
from .expressions import loop_of
from .groups import Group, per_row
from .program import Call, Program, Value


class Step(NamedTuple):
    """A step of a plan: "kernel", "product" or "call", and the calls of the program that it computes, in order."""

    number: int
    kind: str
    calls: tuple[Call, ...]
    why: str  # a kernel could not be generated; empty for any other step

    @property
    def name(self) -> str:
        """The names of its operations, as profiles and logs show it."""
        return f"{self.kind}: {' '.join(c.name for c in self.calls)}" if self.calls else self.kind

    def __repr__(self) -> str:
        return f"{self.kind} {self.number}"


class Report:
    """The steps of a plan over the calls of its program.

    >>> import flambeau as torch
    >>> from flambeau.graph.explain import report
    >>> seen = report(lambda x: ((x * 2).tanh() + 1).sort().values, torch.zeros(4))
    >>> [(step.kind, len(step.calls)) for step in seen.steps]
    [('kernel', 3), ('call', 1)]
    >>> seen.apart()
    ['call 1: sort() is no loop over elements or rows']
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.steps: list[Step] = []
        self.reasons: dict[Call, str] = {}  # why the group of a call has no kernel
        self.lines: list[tuple[str, int]] = []  # of calls, where they were noted
        self.memory: Any = None  # a `memory.Use`

    def enter(self, calls: Sequence[Call], steps: Sequence[tuple[Any, Sequence[Value]]]) -> None:
        """The plan's next steps, each with the values that it touches, which compute these calls."""
        for step, values in steps:
            if isinstance(step, Call) and not isinstance(step.operation, EndedProduct):
                kind, own = "call", [step]
            else:
                kind = "kernel" if isinstance(step, LoopPlan) else "product"
                own = list(calls)
                if len(steps) > 1:
                    results = set(values[: step.outputs] if isinstance(step, LoopPlan) else values[:1])
                    own = [c for c in calls if not results.isdisjoint(c.results)]
            why = "; ".join(dict.fromkeys(self.reasons[c] for c in own if c in self.reasons))
            self.steps.append(Step(len(self.steps), kind, tuple(own), why))

    @cached_property
    def home(self) -> dict[Call, Step]:
        """The step that computes a call; calls that need none (views) have none."""
        return {call: step for step in self.steps for call in step.calls}

    def edges(self) -> Iterator[tuple[Step, Step, Value]]:
        """A step, one that reads what it makes, and the value; each pair of steps once."""
        met: set[tuple[int, int]] = set()
        for step in self.steps:
            for call in step.calls:
                for v in call.values():
                    maker = self.home.get(v.root.call) if v.root.call is not None else None
                    if maker is None or maker is step or (maker.number, step.number) in met:
                        continue
                    met.add((maker.number, step.number))
                    yield maker, step, v

    def apart(self) -> list[str]:
        """Why steps are apart: of each call why no kernel computes it, of neighbouring kernels why they are two."""
        result = []
        for step in self.steps:
            if not step.calls:
                continue
            if step.kind == "call" or step.why:
                result.append(f"{step!r}: {step.why or why_called(step.calls[0])}")
        for maker, reader, value in self.edges():
            if maker.kind == reader.kind == "kernel" and not maker.why and not reader.why:
                result.append(
                    f"{reader!r} and {maker!r}, which makes %{value.root.number}: {why_two(maker, reader)}"
                )
        return result

    def line(self, call: Call) -> str:
        """`file:line` of a call, where it is known."""
        if call.recorded is None or call.recorded >= len(self.lines):
            return ""
        name, line = self.lines[call.recorded]
        return f"{Path(name).name}:{line}" if line else ""

    def text(self) -> str:
        """The plan as lines of text."""
        lines = [f"{v!r}  input" for v in self.program.inputs]
        lines += [f"{v!r}  constant" for v in self.program.constants()]
        shown = {*self.program.inputs, *self.program.constants()}
        for step in self.steps:
            lines.append(f"{step!r}{' over ' + _loops(step) if step.kind == 'kernel' else ''}")
            for call in step.calls:
                views = [v for v in call.values() if v not in shown and v.root is not v]
                lines += [f"    {v!r} = view of %{v.root.number}" for v in dict.fromkeys(views)]
                shown.update((*call.values(), *call.results))
                where = self.line(call)
                lines.append(f"    {call!r}{'  # ' + where if where else ''}")
        returned = ", ".join(f"%{v.number}" for v in self.program.results())
        lines.append(f"return {returned}" if returned else "return")
        lines.append(f"{len(self.home)} calls in {len(self.steps)} steps")
        if self.memory is not None:
            use = self.memory
            lines.append(
                f"a run takes {use.peak} bytes at most: {use.arena} of the arena, {use.own} that come and go, {use.results} of results, "
                f"{use.calls} of calls"
            )
        return "\n".join([*lines, *(f"apart: {why}" for why in self.apart())])

    __repr__ = text


def why_called(call: Call) -> str:
    """Why a call is not part of a generated kernel."""
    if call.written:
        return f"{call.name}() writes to memory that is there before"
    if any(v.dtype.is_complex for v in (*call.values(), *call.results)):
        return f"{call.name}() is of complex numbers"
    if len({v.device for v in (*call.values(), *call.results)}) > 1:
        return f"{call.name}() has tensors on several devices"
    if loop_of(call) is None:
        return f"{call.name}() is no loop over elements or rows"
    return f"{call.name}() is planned alone"


def why_two(maker: Step, reader: Step) -> str:
    """Why two kernels, of which one reads what the other makes, are not one."""
    a, b = _loop(maker), _loop(reader)
    if a is None or b is None:
        return "one is no loop"
    if a.device is not b.device:
        return "they run on two devices"
    if a.dims is not None and b.dims is not None and a.dims != b.dims:
        return f"rows of dimensions {sorted(a.dims)} and of {sorted(b.dims)}"
    dims = a.dims or b.dims or frozenset()
    if a.shape != b.shape and b.shape != per_row(a.shape, dims) and a.shape != per_row(b.shape, dims):
        return f"loops over {list(a.shape)} and over {list(b.shape)}"
    made = {v for c in maker.calls for v in c.results}
    roots = {v.root for v in made}
    for call in reader.calls:
        for v in call.values():
            if v.root in roots and v not in made:
                return f"%{v.number} is a view that is read elsewhere than where it is made"
    return "what stands between them runs in between"


def _loop(step: Step) -> Any:
    """The loops of all calls of a kernel."""
    loops = [loop for c in step.calls if (loop := loop_of(c)) is not None]
    if not loops:
        return None
    group = Group(max(loops, key=lambda loop: (len(loop.shape), loop.dims is not None)))
    for loop in loops:
        assert group.loop is not None
        if loop.dims is not None and loop.shape == group.loop.shape:
            group.loop = loop
    return group.loop


def _loops(step: Step) -> str:
    loop = _loop(step)
    if loop is None:
        return "elements"
    rows = "" if loop.dims is None else f", rows along {sorted(loop.dims)}"
    return f"{list(loop.shape)}{rows}{'' if loop.device is None else f' on {loop.device.place}'}"
