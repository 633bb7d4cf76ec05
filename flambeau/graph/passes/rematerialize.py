"""What forward makes and backward reads, computed again in backward where that costs less than keeping it.

A compiled function on the tape is cut in two (`partition.py`); a step that has its backward pass within is one program, in which a value
that waits for backward takes memory as long.  The least cut says here, too, which values wait and which are computed again: by calls of
backward's own, which no kernel of forward takes in (`Call.again`).
"""

from __future__ import annotations

import math

from ..costs import flops_of, within_budget, work
from ..drawing import drawn_again, may_draw_again, new_state, state_before
from ..mincut import ALWAYS, Network
from ..program import Call, Program, Value, draws
from ..trace import mapped

# Bytes that wait for backward from which it pays.  Less stays in the caches, and a step would only be slower.
WORTH = 2 << 20


def rematerialize(program: Program) -> None:
    """Let backward's calls compute again what is cheap, where much waits for them.

    >>> import flambeau as torch
    >>> from flambeau.graph.passes.rematerialize import rematerialize
    >>> from flambeau.graph.program import Program
    >>> from flambeau.graph.trace import record
    >>> x = torch.zeros(1 << 20)
    >>> graph, _ = record(lambda x: (x.exp().sin().cumsum(0), x.exp())[0].sum() + x.exp().cos().sum(), x)
    >>> rematerialize(Program(graph))          # which has no backward pass
    """
    result = _Backward(program)
    if sum(map(result.keep, result.waiting())) >= WORTH:
        total = sum(map(_flops, program.calls))
        result.rebuild(
            within_budget(
                total,
                result.cheapest,
                lambda again: sum(_flops(r.call) for r in again if not result.inside(r)),
            )
        )


class _Backward:
    """The backward pass of a program, up to the first write to what was there before: an optimiser's."""

    def __init__(self, program: Program) -> None:
        self.program = program
        updates = [k for k, c in enumerate(program.calls) if c.backward and _writes_outside(c)]
        self.end = min(updates, default=len(program.calls))
        self.calls = [c for c in program.calls[: self.end] if c.backward]
        self.kept = {v.root for v in program.results()}
        for call in program.calls[self.end :]:
            self.kept.update(v.root for v in call.values())

        self.across: set[Value] = set()  # memories of a checkpointed region that other calls of forward read
        for call in program.calls:
            if not call.backward:
                region = program.region(call)
                self.across.update(v.root for v in call.values() if program.region(v.root.call) != region)

    def inside(self, root: Value) -> bool:
        """Whether a memory is known in its checkpointed region alone, all of which is computed again."""
        return self.program.region(root.call) is not None and root not in self.across

    def waiting(self) -> list[Value]:
        """The memories of forward that backward reads."""
        read = dict.fromkeys(v.root for c in self.calls for v in c.values())
        return [r for r in read if r.call is not None and not r.call.backward]

    def keep(self, root: Value) -> int:
        """What it costs to keep a memory for backward: nothing where it lives anyway."""
        return 0 if root.call is None or root in self.kept else root.span * root.dtype.itemsize

    def again(self, root: Value, rate: int) -> int:
        """What it costs to compute a memory again, at so many operations of products a byte."""
        call, program = root.call, self.program
        if call is None or call.written or program.is_written(root):
            return ALWAYS
        if self.calls and not all(program.is_unwritten(v, call, self.calls[-1]) for v in call.values()):
            return ALWAYS
        if program.region(call) is not None and self.inside(root):
            return 1 if not draws(call.operation) or _may_draw_again(call) else ALWAYS
        if program.region(call) is not None:
            return ALWAYS
        elements = max(math.prod(v.shape) for v in (*call.results, *call.values()))
        return work(call.operation, (call.args, call.kwargs), elements, Value, lambda v: v.shape, rate)

    def cheapest(self, rate: int) -> set[Value]:
        """The memories that are computed again at that rate."""
        network = Network[tuple[Value, str] | str]()
        front = self.waiting()
        for root in front:
            network.add((root, "out"), "backward", ALWAYS)
        met = set(front)
        for root in front:
            network.add((root, "in"), (root, "out"), self.keep(root))
            cost = self.again(root, rate)
            network.add("forward", (root, "in"), cost)
            if cost >= ALWAYS:
                continue
            assert root.call is not None
            for v in root.call.values():
                network.add((v.root, "out"), (root, "in"), ALWAYS)
                if v.root not in met:
                    met.add(v.root)
                    front.append(v.root)
        side = network.side("forward", "backward")
        return {root for root in met if (root, "in") not in side}

    def state(self, call: Call) -> Call:
        """What notes where the generator stands before a call draws."""
        result = Call(call.number, state_before, (), {})
        result.recorded = call.recorded
        result.results = (Value(len(self.program.values), new_state(), result),)
        self.program.values.extend(result.results)
        return result

    def rebuild(self, again: set[Value]) -> None:
        """Enter the calls of backward's own, each before the first that reads it."""
        made: dict[Value, Value] = {}
        calls: list[Call] = []
        drawing = {root.call for root in again if root.call is not None and draws(root.call.operation)}
        states = {call: self.state(call) for call in self.program.calls if call in drawing}

        def copied(value: Value) -> Value:
            if value.root not in again:
                return value
            if value.root not in made:
                enter(value.root)
            root = made[value.root]
            if value.place == root.place:
                return root
            view = Value(value.number, value.place, root.call, root)
            self.program.values.append(view)
            return view

        def enter(root: Value) -> None:
            call = root.call
            assert call is not None
            args, kwargs = mapped((call.args, call.kwargs), Value, copied)
            copy = Call(call.number, call.operation, args, kwargs)
            if call in states:
                copy.operation, copy.args = drawn_again, (*states[call].results, call.operation, *args)
            copy.recorded, copy.backward, copy.again = call.recorded, True, True
            copy.results = tuple(Value(v.number, v.place, copy) for v in call.results)
            made.update(zip(call.results, copy.results, strict=True))
            self.program.values.extend(copy.results)
            calls.append(copy)

        for k, call in enumerate(self.program.calls):
            if call.backward and k < self.end:
                arguments = mapped((call.args, call.kwargs), Value, copied)
                if arguments != (call.args, call.kwargs):
                    call.set_arguments(*arguments)
            if call in states:
                calls.append(states[call])
            calls.append(call)
        self.program.calls = calls
        for number, call in enumerate(calls):
            call.number = number
        self.program.order()


def _may_draw_again(call: Call) -> bool:
    places = (v.place for v in (*call.results, *call.values()))
    return may_draw_again(call.operation, places, (*call.args, *call.kwargs.values()))


def _flops(call: Call | None) -> int:
    """The operations of a product."""
    if call is None:
        return 0
    return flops_of(call.operation, (call.args, call.kwargs), Value, lambda v: v.shape) or 0


def _writes_outside(call: Call) -> bool:
    return any(root.call is None for root in call.written)
