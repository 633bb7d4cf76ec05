"""Plans whose work on a CUDA device is captured in a graph of the driver, and launched again as one (`mode="reduce-overhead"`).

The first call runs the plan, which loads its kernels.  The second is captured: inputs that lie where they did before (parameters,
state) are read and written there, others are copied into memory of the graph's first.  Results lie in memory of the graph's, too.
What a program still holds of them when the next call comes is moved to other memory before it is written over.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from ..core.base.callbacks import callbacks, callbacks_in
from ..core.base.device import find_device
from ..core.base.tensor import TensorBase
from ..core.make.create import empty_strided
from .logs import log
from .program import Program
from .runner import Runner, is_exposed, is_held, moved_out, note_writes, results_of

callbacks_in(f"{__name__.partition('.')[0]}.cuda.graphs", "device.captured")

CAPTURES = 4  # of one plan, after which it runs step by step


def obstacle(program: Program) -> str | None:
    """Why the runs of a plan of this program cannot be a graph; None where they can."""
    values = [v for call in program.calls for v in (*call.values(), *call.results)]
    devices = {v.device for v in (*values, *program.results())}
    if None in devices:
        return "some of its tensors are on the CPU, and a graph would keep their numbers"
    if len(devices) > 1:
        return "its tensors are on several devices"
    if any(device.type != "cuda" for device in devices):
        return "the device has no graphs"
    if any(v.root is not v for v in program.inputs):
        return "inputs share memory"
    roots = [v.root for v in program.results()]
    if len(set(roots)) < len(roots):
        return "results share memory"
    if not any(v.root in program.inputs for v in values):
        return "it reads no argument"
    return None


class Replayed:
    """A plan that is captured at its second call; `why` it is not, where it is not."""

    def __init__(self, plan: Runner, program: Program, why: str | None) -> None:
        written = {root for call in program.calls for root in call.written}
        self.written = [k for k, v in enumerate(program.inputs) if v.root in written]
        self.plan, self.unused, self.report = plan, plan.unused, plan.report
        self.read = [k for k in range(plan.input_count) if k not in self.unused]
        self.seen: list[int] | None = None  # where the inputs of the call before lay
        self.moving = set[int]()  # inputs that have been met at several places
        self.captured: _Captured | None = None
        self.captures, self.why = 0, why
        self.lock = threading.Lock()

    def __call__(self, *inputs: TensorBase) -> tuple[TensorBase, ...]:
        if self.why is not None or not self.lock.acquire(
            blocking=False
        ):  # another thread has the graph's memory
            return self.plan(*inputs)
        try:
            captured = self._captured(inputs)
            return self.plan(*inputs) if captured is None else captured.replay(inputs)
        finally:
            self.lock.release()

    def _captured(self, inputs: Sequence[TensorBase]) -> _Captured | None:
        """The graph for these inputs; None where the plan runs step by step."""
        place = inputs[self.read[0]].device
        on: Any = find_device(place.type, place.index)
        if on.capturing():  # by the program
            return None
        seen, self.seen = self.seen, [inputs[k]._address() for k in self.read]
        if seen is None:
            return None
        captured = self.captured
        if captured is None or not captured.fits(inputs):
            self.moving.update(k for k, a, b in zip(self.read, seen, self.seen, strict=True) if a != b)
            captured = self.captured = self._capture(inputs)
        if captured is not None and any(map(is_exposed, captured.made)):
            self._refuse("the address of a result was given away")
            return None
        if captured is not None and captured.stream != on.current_stream():
            return None  # what another stream does with the graph's memory is not known to have ended
        return captured

    def _capture(self, inputs: Sequence[TensorBase]) -> _Captured | None:
        self.captures += 1
        moving = sorted(self.moving)
        written = [k for k in self.written if k in self.moving]
        if written:
            self._refuse(f"it writes to argument {written[0]}, which lies elsewhere at another call")
        elif self.captures > CAPTURES:
            self._refuse(f"its arguments lay at other places {CAPTURES} times")
        if self.why is not None:
            return None
        self.captured = None
        try:
            return _Captured(self.plan, inputs, self.read, moving, self.written)
        except RuntimeError as error:  # a call that the host waits for
            self._refuse(str(error))
            return None

    def _refuse(self, why: str) -> None:
        self.why, self.captured = why, None
        log.info("not replayed as a graph of the device: %s", why)

    def __repr__(self) -> str:
        if self.captured is not None:
            return f"Replayed({self.plan!r}, {self.captured.nodes} nodes)"
        return f"Replayed({self.plan!r}, {self.why or 'not yet captured'})"


class _Captured:
    """The graph of a plan's run on inputs at their places, with copies of those that move."""

    def __init__(
        self,
        plan: Runner,
        inputs: Sequence[TensorBase],
        read: Sequence[int],
        moving: Sequence[int],
        written: Sequence[int],
    ) -> None:
        given = list(inputs)
        for k in moving:
            t = inputs[k]
            given[k] = empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device)
        self.copies = [(k, given[k]) for k in moving]
        self.places = [(k, inputs[k]._address()) for k in read if k not in moving]
        self.written = written
        place = inputs[read[0]].device
        on: Any = find_device(place.type, place.index)
        self.stream = on.current_stream()
        self.graph, self.nodes, made = callbacks["device.captured"](place, lambda: plan(*given))
        self.made = list(made)

    def fits(self, inputs: Sequence[TensorBase]) -> bool:
        """Whether those that are read where they were captured lie there."""
        return all(inputs[k]._address() == at for k, at in self.places)

    def replay(self, inputs: Sequence[TensorBase]) -> tuple[TensorBase, ...]:
        for k, copy in self.copies:
            copy.copy_(inputs[k].detach())
        for k, t in enumerate(self.made):
            if is_held(t):
                self.made[k] = moved_out(t)
        for k in self.written:
            note_writes(inputs[k])
        self.graph.replay()
        return results_of(self.made)
