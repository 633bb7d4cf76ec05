"""From steps to a Runner: what lies where, who may lie in whose place, and which tensors die after which step.

The host, and each device that steps run on, has an arena of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ..core.loops.plans import LoopPlan, RowLoopPlan
from .convolution_step import ConvolutionStep
from .convolutions import Convolution
from .memory import NEVER, Arena, Spot, Use
from .products import Product
from .program import Call, Number, Program, Value
from .runner import CallStep, LoopStep, PreparedStep, ProductStep, Reference, Runner
from .trace import mapped

LARGE = (
    1 << 15
)  # bytes from which taking a value's memory when it is made costs little beside the step that makes it
GAIN = 16  # a plan does so where its peak is lower by one part of so many

Step = tuple[
    Any, list[Value]
]  # a Call, a Product, a Convolution or a LoopPlan, and the values that it touches, results first


def assemble(program: Program, steps: Sequence[Step], donated: Collection[int] = ()) -> Runner:
    """What runs these steps of a program; inputs whose numbers are `donated` are given up.

    ValueError where a donated input shares memory with another, or is returned.
    """
    return _Assembly(program, steps, donated).runner()


class _Assembly:
    def __init__(self, program: Program, steps: Sequence[Step], donated: Collection[int]) -> None:
        self.program, self.steps = program, steps
        self.returned = {v.root for v in program.results()}
        self.last: dict[Value, int] = {}  # the step that touches a root last
        for index, (_, values) in enumerate(steps):
            self.last.update((v.root, index) for v in values)
        calls = [step for step, _ in steps if isinstance(step, Call)]
        self.by_calls = {v for call in calls for v in call.results if v.root is v and v.call is call}
        self.donated = [program.inputs[k] for k in sorted(donated)]
        for v in self.donated:
            if not program.may_be_donated(v):
                raise ValueError(
                    f"plan(): input {program.inputs.index(v)} is donated, and returned or part of another"
                )
        roots = list(dict.fromkeys([*program.inputs, *(v.root for v in program.values)]))
        self.number = {r: k for k, r in enumerate(roots)}
        self.made = [r for r in roots if r in self.returned and r.call is not None and r not in self.by_calls]
        self.launches = [_launch(step, values, self.number) for step, values in steps]
        devices = dict.fromkeys(r.device for r in roots)
        self.arenas = {device: Arena[Value]() for device in (None, *devices)}
        self._live()
        self._replace()
        once, late = self._use(NEVER), self._use(LARGE)
        self.use, self.large = late, LARGE
        if late.peak >= once.peak - once.peak // GAIN:
            self.use, self.large = self._use(NEVER), NEVER

    def _use(self, large: int) -> Use:
        """What a run takes where values and workspaces from so many bytes on have memory of their own."""
        self.spots: dict[Value, Spot[Value]] = {}
        for arena in self.arenas.values():
            self.spots.update(arena.solve(large))
        needed = [s.workspace if isinstance(s, PreparedStep) else 0 for s in self.launches]
        behind = max((n for n in needed if n < large), default=0)
        workspaces = [n if n >= large else 0 for n in needed]
        uses = []
        for device, arena in self.arenas.items():
            made = {r: _nbytes(r) for r in self.made if r.device is device}
            given = {v: self._end(v) for v in self.donated if v.device is device}
            on_host = device is None  # as what uses workspaces is
            uses.append(arena.use(made, given, workspaces if on_host else (), behind if on_host else 0))
        return Use(*map(sum, zip(*uses)))

    def _hosted(self, given: Value) -> list[Value]:
        """What lies in the memory of an argument that is given up."""
        return [r for r, spot in self.spots.items() if spot.home is given and not spot.own]

    def _end(self, given: Value) -> int:
        """The step that is the last to touch the memory of an argument that is given up."""
        return max([0, *(self.last.get(r, 0) for r in (given, *self._hosted(given)))])

    def _live(self) -> None:
        """From when to when values live, and whose memory is free when."""
        for index, (_, values) in enumerate(self.steps):
            for v in values:
                if v.root.call is not None:
                    self.arenas[v.device].touch(v.root, _nbytes(v.root), index)
        for arena in self.arenas.values():
            for root, (nbytes, first, _) in arena.lives.items():
                if root in self.by_calls:
                    arena.keep_apart(root, root in self.returned)
                elif root in self.returned:
                    arena.lend(root, nbytes, before=first)
        for v in self.donated:
            self.arenas[v.device].lend(v.root, _nbytes(v.root), after=self.last.get(v.root, -1))

    def _replace(self) -> None:
        """Results of loops take the place of operands that die there, where each element is read before it is written."""
        for index, (step, values) in enumerate(self.steps):
            if not isinstance(step, LoopPlan) or isinstance(step, RowLoopPlan):
                continue
            strides = step.loop_strides()
            values = values[: len(strides)]  # without numbers that are passed by value
            free = values[step.outputs :]
            for k, made in enumerate(values[: step.outputs]):
                arena = self.arenas[made.device]
                if made is not made.root or made.root.call is None or arena.lives[made][1] != index:
                    continue
                for v in free:
                    if self._dies_in_place(v.root, index, step, values, strides, k) and arena.replace(
                        made, v.root
                    ):
                        free = [other for other in free if other.root is not v.root]
                        break

    def _dies_in_place(
        self, root: Value, index: int, step: LoopPlan, values: list[Value], strides: Any, k: int
    ) -> bool:
        """Whether a root is read here for the last time, and by each element of result k just where that is written."""
        if (root.call is None and root not in self.donated) or self.last[root] != index:
            return False
        if root in self.returned or root in self.by_calls:
            return False
        width = values[k].dtype.itemsize
        return all(
            j >= step.outputs
            and v.offset == 0
            and v.dtype.itemsize == width
            and strides[j] == strides[k]
            and not step.operands[j].offset
            for j, v in enumerate(values)
            if v.root is root
        )

    def runner(self) -> Runner:
        """The steps with places."""
        program, number = self.program, self.number
        runner = Runner(
            len(number), self.arenas[None].size, self.use, 0 if self.large == NEVER else self.large
        )
        for v in program.inputs:
            over = -1 if v is v.root else program.inputs.index(v.root)
            others = any(w is not v and w.root is v.root for w in program.inputs)
            unused = not others and v.root not in self.last and v.root not in self.returned
            runner.add_input(number[v], v.place, over, v.at, v in self.donated, unused)
        for v in program.constants():
            runner.add_constant(number[v.root], v.tensor, v.place)
        takes: dict[int, list[int]] = {}
        frees: dict[int, list[int]] = {}
        memories: dict[Value, int] = {}
        common: dict[Any, int] = {None: 0}  # the arena of each device
        for device, arena in self.arenas.items():
            if device is not None and arena.size:
                common[device] = runner.add_memory(arena.size, device)
                takes.setdefault(0, []).append(common[device])
            for r, (nbytes, first, last) in arena.stays().items():
                memories[r] = runner.add_memory(nbytes, device)
                takes.setdefault(first, []).append(memories[r])
                frees.setdefault(last, []).append(memories[r])
        for r, spot in self.spots.items():
            if spot.home is None:
                runner.add_place(number[r], spot.at, r.place, -1, common[r.device])
            elif spot.own:
                runner.add_place(number[r], spot.at, r.place, -1, memories[spot.home])
            else:
                runner.add_place(number[r], spot.at, r.place, number[spot.home])
        for r in self.made:
            first = self.arenas[r.device].made_at(r)
            result = runner.add_result(number[r], r.place, first > 0)
            if first > 0:
                takes.setdefault(first, []).append(-1 - result)
        drops = self._drops()
        large = {number[r] for r in number if _nbytes(r) >= self.large}
        for index, launch in enumerate(self.launches):
            dropped = drops.get(index, [])
            ends = not large.isdisjoint(dropped)
            runner.add_step(launch, dropped, takes.get(index, ()), frees.get(index, ()), ends)
        for k in self._written():
            runner.add_written(k)
        runner.set_outputs(mapped(program.outputs, Value, _References(number)))
        return runner

    def _drops(self) -> dict[int, list[int]]:
        """The roots whose tensors nobody reads any more after a step: so their memory is free."""
        result: dict[int, list[int]] = {}
        for r in self.by_calls - self.returned:
            result.setdefault(self.last[r], []).append(self.number[r])
        for v in self.donated:
            result.setdefault(self._end(v), []).extend(self.number[r] for r in (v, *self._hosted(v)))
        read = {v.root for step, values in self.steps if isinstance(step, Call) for v in values}
        for r, spot in self.spots.items():
            if spot.own and r in read:  # a call was given a tensor over it
                result.setdefault(self.last[r], []).append(self.number[r])
        return result

    def _written(self) -> list[int]:
        """Inputs and constants that launches write to, as roots."""
        hosts = {spot.home for spot in self.spots.values()}
        result = {v.root for v in self.donated if v in hosts}
        for step, values in self.steps:
            if not isinstance(step, Call):
                results = values[: step.outputs if isinstance(step, LoopPlan) else 1]
                result.update(v.root for v in results if v.root.call is None)
        return sorted(map(self.number.__getitem__, result))


def _launch(step: Any, values: list[Value], number: dict[Value, int]) -> PreparedStep | CallStep:
    """A step as the runner has it."""
    at = [(number[v.root], v.at) for v in values]
    if isinstance(step, Call):
        return _call_step(step, number)
    if isinstance(step, Product):
        return ProductStep(step.plan, at)
    if isinstance(step, Convolution):
        return ConvolutionStep(step, at)
    scalars = values[len(step.operands) :]
    return LoopStep(step, at, [v.dtype for v in scalars])


def _nbytes(root: Value) -> int:
    return root.span * root.dtype.itemsize


class _References(dict[Value, Reference]):
    """A reference for each value, made once: what a program returns twice is one object."""

    def __init__(self, number: dict[Value, int]) -> None:
        self.number = number

    def __missing__(self, value: Value) -> Reference:
        if isinstance(value, Number):
            result = Reference(self.number[value.root], value.place, 0, True, True)
        elif value in self.number:  # a root, or an input
            result = Reference(self.number[value], value.place, 0, True)
        else:
            result = Reference(self.number[value.root], value.place, value.offset, False)
        self[value] = result
        return result

    __call__ = dict.__getitem__


def _call_step(call: Call, number: dict[Value, int]) -> CallStep:
    args, kwargs = mapped((call.args, call.kwargs), Value, _References(number))
    results = [(number[v] if v is v.root else -1, v.place) for v in call.results]
    return CallStep(call.operation, args, kwargs, results)
