"""From a capture to an entry of a compiled function: the launch that makes the new tensors, and how the result is built of them."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from ..core.base.tensor import TensorBase
from ..fx import GraphModule
from .compiled import Build, Entry, Write, is_silent
from .guards import Guards
from .lower import plan
from .options import Options
from .program import Program
from .record import place
from .sources import Attribute, Capture, Contents, End, Item, Made, Number, Refusal, Source
from .trace import graph_of

log = logging.getLogger("flambeau.graph")

Launch = Callable[..., tuple[TensorBase, ...]]
"""Takes the inputs of a capture and returns the tensors that the call makes and returns."""


class Unplanned(Exception):
    """A capture that is right, and of which no launch is made, with the reason; `derivative` as of `Refusal`."""

    def __init__(self, why: str, derivative: bool = False) -> None:
        super().__init__(why)
        self.derivative = derivative


def entry_of(capture: Capture, launch_of: Callable[[Capture, list[TensorBase]], Launch]) -> Entry:
    """The entry of a capture; one without a launch where it was refused or no launch is made of it.

    `launch_of` is given the capture and the tensors that a launch has to make, each once.
    """
    guards = Guards(capture.guards)
    if capture.refusal is not None:
        return Entry(guards, None, None, why=capture.refusal)
    try:
        result = _Result(capture, guards)
        build = result.build(capture.output)
        writes = tuple(result.write(place, value) for place, value in capture.writes)
        looks = tuple((result.build(look.tensor), look.value, look.refusal) for look in capture.looks)
        launch = launch_of(capture, result.made)
    except Unplanned as error:
        return Entry(guards, None, None, why=Refusal(str(error), derivative=error.derivative))
    early = () if looks else result.early(launch)  # a call that may be made again finds everything as it was
    return Entry(guards, launch, build, writes=writes, early=early, looks=looks)


def graph_of_capture(capture: Capture, made: list[TensorBase]) -> GraphModule:
    """The graph of the capture's inputs that returns a tuple of these tensors.

    Unplanned where it would write to a tensor that no input leads to.
    """
    inputs = [t for _, t in capture.inputs]
    try:
        return graph_of(capture.recording, inputs, tuple(made), capture.numbers)
    except ValueError as error:  # inputs that share memory
        raise Unplanned(str(error)) from error


def refuse_blank(capture: Capture) -> None:
    """Unplanned where the capture takes tensors without elements."""
    if any(t.is_meta for _, t in capture.inputs):
        raise Unplanned("inputs on 'meta', which have no elements")


def planned(capture: Capture, made: list[TensorBase], options: Options) -> Launch:
    """The launch of a capture whose results need no gradients."""
    refuse_blank(capture)
    program = Program(graph_of_capture(capture, made), capture.ahead, capture.again)
    constants = {v.root for v in program.constants()}
    for call in program.calls:
        if any(v.root in constants for v in call.written):
            raise Unplanned(
                f"{call.operation.__name__}() writes to a tensor that no argument or module leads to"
            )
    runner = plan(program, options=options)
    if not options.cudagraphs:
        return runner
    from .replayed import Replayed, obstacle

    why = obstacle(program)
    if why is not None:
        log.info("not replayed as a graph of the device: %s", why)
    return Replayed(runner, program, why)


class _Result:
    """How a result is made anew, and of which tensors."""

    def __init__(self, capture: Capture, guards: Guards) -> None:
        self.guards = guards
        self.made: list[TensorBase] = []
        self.inputs = {place(t).storage: k for k, (_, t) in reversed(list(enumerate(capture.inputs)))}
        self.given = [t for _, t in capture.inputs]
        self.before = {place(t).storage for t in capture.recording.inputs}
        self.builds: dict[int, Build] = {}  # of the objects that the call made
        self.capture = capture
        self.found: set[Source] = set()  # places, and numbers of inputs, that results are made of
        self.viewed: set[int] = set()

    def write(self, where: Source, value: Any) -> Write:
        """What a call leaves at a place that was there before it."""
        build = self.build(value)
        if isinstance(where, Item):
            return Write("item", self.guards.slot(where.of), where.key, build)
        if isinstance(where, End):
            return Write("append", self.guards.slot(where.of), None, build)
        if isinstance(where, Contents):
            return Write("contents", self.guards.slot(where.of), None, build)
        assert isinstance(where, Attribute), where
        return Write("attribute", self.guards.slot(where.of), where.name, build)

    def early(self, launch: Launch) -> tuple[tuple[int, int], ...]:
        """Gradients that the call clears first, and whose tensors no plan reads: which of the writes, and which input, -1 for none."""
        unused = getattr(launch, "unused", ())
        inputs = {source: k for k, (source, _) in enumerate(self.capture.inputs)}
        result = []
        for number, (where, _) in enumerate(self.capture.writes):
            k = inputs.get(where, -1)
            if isinstance(where, Attribute) and where.name == "grad" and where in self.capture.cleared:
                if k < 0 or (k in unused and k not in self.viewed and where not in self.found):
                    result.append((number, k))
        return tuple(result)

    def build(self, x: Any) -> Build:
        if isinstance(x, Source):
            self.found.add(x)
            return Build("found", self.guards.slot(x))
        if isinstance(x, TensorBase):
            return self.tensor(x)
        if isinstance(x, Number):
            return Build("number", self.tensor(x.tensor).number)
        if not isinstance(x, Made):
            return Build("constant", value=x)
        if id(x) in self.builds:
            build = self.builds[id(x)]
            if build.again < 0:
                build.again = len(self.builds)
            return build
        kind = next((name for base, name in _KINDS if issubclass(x.cls, base)), "instance")
        hidden = kind == "set" and x.cls not in (set, frozenset) or issubclass(x.cls, defaultdict)
        if hidden or (kind == "instance" and x.items):
            raise Unplanned(f"a result of class {x.cls.__qualname__}")
        items = [y for pair in x.items for y in pair] if kind == "dict" else x.items
        state = None if x.state is None else {name: self.build(y) for name, y in x.state.items()}
        build = Build(kind, value=x.cls, items=[self.build(y) for y in items], state=state)
        self.builds[id(x)] = build
        return build

    def tensor(self, t: TensorBase) -> Build:
        at = place(t)
        number = self.inputs.get(at.storage, -1)
        if number >= 0 and not (t.requires_grad or self.given[number].requires_grad):
            given = self.given[number]
            if t.dtype != given.dtype or is_silent(t):
                raise Unplanned("a result in the memory of an input, of another dtype or made by .data")
            self.viewed.add(number)
            return Build("view", number, (at.shape, at.stride, at.offset - place(given).offset))
        if at.storage in self.before and number < 0:
            raise Unplanned("a result in the memory of a tensor that was there before")
        for k, other in enumerate(self.made):
            if other is t:
                return Build("output", k)
        self.made.append(t)
        return Build("output", len(self.made) - 1)


_KINDS = ((tuple, "tuple"), (list, "list"), (dict, "dict"), (set, "set"), (frozenset, "set"))
