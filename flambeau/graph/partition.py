"""A captured function and its derivative: one graph, cut into what runs forward and what runs backward.

The backward pass is recorded behind the forward one, with cotangents that are inputs.  What backward needs of forward is either saved
or computed again, whichever costs less: the least cut between what is there and what backward reads.  Saving a value costs its bytes,
nothing where it is an input or a result, which live anyway; computing again costs a part of them (`_work`), and needs memory that
nothing has written to since.  Views are free.  So a norm, a softmax or an activation is computed again in backward's own kernels, where
an eager tape would have saved it.

>>> import flambeau as torch
>>> from flambeau.graph.partition import region_of
>>> from flambeau.graph.record import Recording
>>> x = torch.ones(3, requires_grad=True)
>>> with Recording() as recording:
...     y = (x * 2).exp().sum()
>>> region = region_of(recording, [x], [y])
>>> (z,) = region(torch.zeros(3, requires_grad=True))
>>> z
tensor(3., grad_fn=<CompiledFunctionBackward>)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.base.formats import strided
from ..core.base.tensor import TensorBase
from ..core.tape import run_backward
from ..fx import GraphModule, Node
from ..operations.declare.registry import REGISTRY
from .costs import flops_of, within_budget, work
from .drawing import drawn_again, may_draw_again, new_state, state_before
from .lower import plan
from .mincut import ALWAYS, Network
from .options import DEFAULT, Options
from .program import Program, draws, written_by
from .record import Place, Recording, place
from .region import Region, WithoutHooks, obstacle
from .runner import Runner
from .sources import Refusal
from .subgraph import Subgraph
from .trace import graph_of, mapped
from .undefined import without

INPUT, RESULT, EXTRA = range(3)  # what a saved value is, as `region.pyx` counts


def region_of(
    recording: Recording,
    inputs: Sequence[TensorBase],
    outputs: Sequence[TensorBase],
    numbers: Sequence[tuple[float, int]] = (),
    options: Options = DEFAULT,
    again: Mapping[int, int] | None = None,
) -> Region | Runner | Refusal:
    """What computes `outputs` from tensors like `inputs`, as a tuple: a `Region` where they have gradients, else a `Runner`.

    `recording` holds the leaves that made `outputs` (tensors, each once) when they were called, in grad mode, on `inputs` (each
    memory once), whose histories are still there.  The backward pass is run once, and recorded in `recording` too.  `again` has the calls
    of checkpointed regions, each with the number of its region.

    A `Refusal` says why no region can be made: Python has a part in the derivative, results overlap, …
    """
    wanted = [k for k, t in enumerate(inputs) if t.requires_grad]
    why = obstacle(outputs, inputs, recording.inputs)
    if why is None and not wanted and any(t.requires_grad for t in outputs):
        why = "gradients go to tensors alone that it makes itself"
    if why is not None:
        return Refusal(why, derivative=True)
    why = _unlike_eager(recording, inputs, outputs)
    if why is not None:
        return Refusal(why)
    differentiable = [k for k, t in enumerate(outputs) if t.requires_grad and not _is_among(t, inputs)]
    if not differentiable and not any(t.requires_grad for t in outputs):
        return plan(Program(graph_of(recording, inputs, tuple(outputs), numbers)), options=options)
    joint = Joint(recording, inputs, outputs, wanted, differentiable, numbers, again)
    if joint.why is not None:
        return Refusal(joint.why)
    return joint.region(options=options)


def _is_among(t: TensorBase, inputs: Sequence[TensorBase]) -> bool:
    """Whether it lies in the memory of an input."""
    return place(t).storage in {place(x).storage for x in inputs}


def _unlike_eager(
    recording: Recording, inputs: Sequence[TensorBase], outputs: Sequence[TensorBase]
) -> str | None:
    """Why results would not be what eager calls return; None where they are."""
    lies: dict[int, TensorBase] = {}
    for t in inputs:
        other = lies.setdefault(place(t).storage, t)
        if other is not t and (t.requires_grad or other.requires_grad):
            return "inputs share memory, and a gradient goes to one of them"
    before = {place(t).storage for t in recording.inputs} - set(lies)
    for call in recording.calls():
        for at in written_by(call.operation, call.args, call.kwargs, Place):
            if at.storage in lies and lies[at.storage].requires_grad:
                return f"{call.operation.__name__} writes to an argument that requires a gradient"
    made: dict[int, list[tuple[Place, bool]]] = {}
    for t in outputs:
        at = place(t)
        if at.storage in before:
            return "a result is a tensor that was there before the call, and is no input"
        if at.storage in lies:
            source = lies[at.storage]
            if t is not source and (t.dtype != source.dtype or t.requires_grad != source.requires_grad):
                return "a result is a view of an input, in another dtype or with another history"
            continue
        for other, has_gradient in made.setdefault(at.storage, []):
            if other == at and not (has_gradient and t.requires_grad):
                continue
            if not _apart(at, other):
                return "results overlap in memory"
        made[at.storage].append((at, t.requires_grad))
    return None


def _apart(a: Place, b: Place) -> bool:
    """Whether two views of one memory share no element: pieces along one dimension."""
    if a.stride != b.stride or a.dtype != b.dtype:
        return False
    a, b = sorted((a, b), key=lambda p: p.offset)
    distance = b.offset - a.offset
    for n, m, s in zip(a.shape, b.shape, a.stride):
        beyond = min((t for k, t in zip(a.shape, a.stride) if t > s and k > 1), default=math.inf)
        if s and distance % s == 0 and distance >= n * s and distance + m * s <= beyond:
            return True
    return False


@dataclass(frozen=True)
class Saved:
    """A value that backward reads: which (INPUT, RESULT or EXTRA, number), and its node in the joint graph."""

    what: int
    number: int
    node: Node


class Joint:
    """Forward and backward in one graph."""

    def __init__(
        self,
        recording: Recording,
        inputs: Sequence[TensorBase],
        outputs: Sequence[TensorBase],
        wanted: list[int],
        differentiable: list[int],
        numbers: Sequence[tuple[float, int]] = (),
        again: Mapping[int, int] | None = None,
    ) -> None:
        self.inputs, self.outputs, self.wanted, self.differentiable = inputs, outputs, wanted, differentiable
        self.why: str | None = None
        self.lies = {place(t).storage: k for k, t in enumerate(inputs)}
        self.made = [t for t in outputs if place(t).storage not in self.lies]
        ahead, known = len(recording), len(recording.inputs)
        self.cotangents = [_ones_like(outputs[k]) for k in differentiable]
        wanted_inputs = [inputs[k] for k in wanted]
        roots = [outputs[k] for k in differentiable]
        try:
            with WithoutHooks(wanted_inputs), recording:
                self.gradients = run_backward(roots, list(self.cotangents), True, False, wanted_inputs, False)
        except Exception as error:  # as a plain call's would
            self.why = f"its backward raises {type(error).__name__}: {error}"
            return
        if any(g is not None and (g._is_wrapper or g.layout is not strided) for g in self.gradients):
            self.why = "a gradient is no tensor of elements in one memory: sparse, masked or nested"
            return
        given = {place(t).storage for t in (*self.cotangents, *inputs)}
        if any(place(t).storage not in given for t in recording.inputs[known:]):
            self.why = "the derivative reads a tensor that no recorded call made"
            return
        results = tuple(self.made), tuple(self.gradients)
        graph = graph_of(recording, [*inputs, *self.cotangents], results, numbers)
        self.root = graph
        self.nodes = list(graph.graph.nodes)
        self.order = {n: k for k, n in enumerate(self.nodes)}
        self._divide(ahead)
        self._enter_regions(again or {})

    # --- what belongs to which half ---
    def _divide(self, ahead: int) -> None:
        """Which nodes are forward's; `ahead` calls are."""
        self.placeholders = [n for n in self.nodes if n.op == "placeholder"]
        behind = set(self.placeholders[len(self.inputs) :])  # what depends on backward's calls
        self.roots: dict[int, Node] = {}  # what lies in a memory first
        self.writers: dict[int, list[Node]] = {}  # of forward
        for n in self.nodes[:-1]:
            for storage in _storages(n):
                if isinstance(n.meta.get("places"), Place):
                    self.roots.setdefault(storage, n)
            if n.meta.get("call", -1) >= ahead or any(m in behind for m in n.all_input_nodes):
                behind.add(n)
            for m in written_by(n.target, n.args, n.kwargs, Node) if n.op == "call_function" else ():
                for storage in _storages(m):
                    if n not in behind:
                        self.writers.setdefault(storage, []).append(n)
                    elif self.roots[storage] not in behind:
                        self.why = f"the derivative writes to a value of forward ({n.name})"
        self.behind = behind
        self.results, self.grads = self.nodes[-1].args[0]
        if any(n.op == "get_attr" for n in (*self.results, *self.grads) if n is not None):
            self.why = "a result or a gradient is a tensor that no recorded call made"
        types = {
            (p.storage, p.dtype) for n in self.nodes[:-1] for p in _places(n) if p.storage in self.writers
        }
        if len(types) > len({storage for storage, _ in types}):
            self.why = "memory that it writes to is read in two dtypes"

    def _enter_regions(self, again: Mapping[int, int]) -> None:
        """Which nodes of forward are of checkpointed regions, and whose values are read beyond them."""
        self.regions: dict[int, int] = {}  # by what lies in a memory
        self.across: set[int] = set()
        if not again:
            return
        for n in self.nodes[:-1]:
            number = again.get(n.meta.get("call", -1))
            made = _storages(n) - {s for m in n.all_input_nodes for s in _storages(m)}
            if n not in self.behind and n.op == "call_function":
                if number is not None:
                    self.regions.update(dict.fromkeys(made, number))
                elif not made:  # a view or a part of a result, which is read where its readers are
                    continue
                read = {s for m in n.all_input_nodes for s in _storages(m)}
                self.across.update(s for s in read if self.regions.get(s) not in (None, number))
        self.across.update(s for n in self.results if n is not None for s in _storages(n))

    def _inside(self, n: Node) -> bool:
        """Whether a node's value is known in its checkpointed region alone, all of which is computed again."""
        storages = _storages(n)
        return bool(storages) and all(s in self.regions and s not in self.across for s in storages)

    def _reads(self) -> list[Node]:
        """The nodes of forward that backward reads."""
        result: dict[Node, None] = {}
        for n in self.nodes[:-1]:
            if n in self.behind:
                result.update((m, None) for m in n.all_input_nodes if m not in self.behind)
        result.update((n, None) for n in self.grads if n is not None and n not in self.behind)
        return list(result)

    # --- saved, or computed again ---
    def _vertex(self, n: Node) -> Node:
        """What stands for a node: itself, or the memory it lies in, where forward writes to that."""
        at = n.meta.get("places")
        if isinstance(at, Place) and at.storage in self.writers:
            return self.roots[at.storage]
        return n

    def _again(self, n: Node, rate: int) -> int:
        """What it costs to compute a node again in backward, at so many operations of products a byte."""
        if n.op != "call_function" or any(s in self.writers for s in _storages(n)):
            return ALWAYS
        if _storages(n) <= {s for m in n.all_input_nodes for s in _storages(m)}:  # a view
            return 0
        for m in n.all_input_nodes:
            for s in _storages(m):
                if any(self.order[w] > self.order[n] for w in self.writers.get(s, ())):
                    return ALWAYS
        if any(s in self.regions for s in _storages(n)):
            again = self._inside(n) and (not draws(n.target) or _may_draw_again(n))
            return 1 if again else ALWAYS
        return _work(n, rate)

    def _keep(self, n: Node, results: set[int]) -> int:
        """What it costs to save a node's value."""
        at = n.meta.get("places")
        if n.op == "get_attr":
            return 0
        if not isinstance(at, Place):
            return ALWAYS
        if n.op == "placeholder":
            return 0
        if at.storage in results:
            return 0 if self.roots[at.storage] is n else ALWAYS
        return _nbytes(at) if self.roots[at.storage] is n else ALWAYS

    def choose(self, recompute: bool = True) -> tuple[list[Node], set[Node]]:
        """The nodes that are saved, and those that are computed again."""
        total = sum(map(_flops, self.nodes))
        return within_budget(
            total,
            lambda rate: self._cut(recompute, rate),
            lambda result: sum(_flops(n) for n in result[1] if not self._inside(n)),
        )

    def _cut(self, recompute: bool, rate: int) -> tuple[list[Node], set[Node]]:
        """The same at a rate."""
        network = Network[Any]()
        results = {n.meta["places"].storage for n in self.results}
        front = [self._vertex(n) for n in self._reads()]
        for n in front:
            network.add((n, "out"), "backward", ALWAYS)
        met = set(front)
        for n in front:
            network.add((n, "in"), (n, "out"), self._keep(n, results))
            cost = self._again(n, rate)
            if cost and not recompute:
                cost = ALWAYS
            if cost:
                network.add("forward", (n, "in"), cost)
            if cost >= ALWAYS:
                continue
            for m in map(self._vertex, n.all_input_nodes):
                network.add((m, "out"), (n, "in"), ALWAYS)
                if m not in met:
                    met.add(m)
                    front.append(m)
        side = network.side("forward", "backward")
        saved = [n for n in met if (n, "in") in side and (n, "out") not in side]
        again = {n for n in met if (n, "in") not in side}
        return sorted(saved, key=self.order.__getitem__), again

    # --- the halves ---
    def halves(self, recompute: bool = True) -> tuple[GraphModule, GraphModule, list[Saved]]:
        """The forward graph (of the inputs: results, then what is saved beside), the backward graph (of cotangents and saved values:
        gradients of the inputs that have one), and what is saved.
        """
        nodes, again = self.choose(recompute)
        self.states = {n: self._state(n) for n in again if draws(n.target)}
        results: dict[Place, int] = {}
        for k, n in enumerate(self.results):
            results.setdefault(n.meta["places"], k)
        saved: list[Saved] = []
        extras: list[Node] = []
        for n in nodes:
            if n.op == "get_attr":
                continue
            at = n.meta["places"]
            if n.op == "placeholder":
                saved.append(Saved(INPUT, self.placeholders.index(n), n))
            elif at in results:
                saved.append(Saved(RESULT, results[at], n))
            else:
                saved.append(Saved(EXTRA, len(extras), n))
                extras.append(n)
        for n in self.states.values():
            saved.append(Saved(EXTRA, len(extras), n))
            extras.append(n)
        forward = Subgraph(self.root)
        for n in self.placeholders[: len(self.inputs)]:
            forward.take(n)
        for n in self.nodes[:-1]:
            if n not in self.behind and n.op != "placeholder":
                if n in self.states:
                    forward.take(self.states[n])
                forward.take(n)
        backward = Subgraph(self.root)
        for n in self.placeholders[len(self.inputs) :]:
            backward.take(n)
        for s in saved:
            backward.enter(s.node, backward.graph.placeholder(s.node.name), s.node.meta)
        for n in self.nodes[:-1]:
            if n in self.behind and n.op != "placeholder":
                self._compute(backward, n.all_input_nodes, again)
                backward.take(n)
        given = [n for n in self.grads if n is not None]
        self._compute(backward, given, again)
        return forward.finish([*self.results, *extras]), backward.finish(given), saved

    def _state(self, n: Node) -> Node:
        """What notes where the generator stands before a node draws."""
        with self.root.graph.inserting_before(n):
            result = self.root.graph.call_function(state_before, ())
        result.meta["places"] = new_state()
        return result

    def _compute(self, backward: Subgraph, wanted: Iterable[Node], again: set[Node]) -> None:
        """Let backward have these nodes of forward, in the order in which they were made."""
        front = [n for n in wanted if n not in backward.made]
        missing: set[Node] = set()
        while front:
            n = front.pop()
            if n in missing or n in backward.made:
                continue
            missing.add(n)
            root = self._vertex(n)
            front.extend(n.all_input_nodes if root is n else [root])
        for n in sorted(missing, key=self.order.__getitem__):
            root = self._vertex(n)
            if root is n:
                if n.op == "call_function" and n not in again:
                    raise RuntimeError(f"partition: {n.name} is neither saved nor computed again")
                if n in self.states:
                    backward.call(n, drawn_again, (self.states[n], n.target, *n.args), n.kwargs)
                else:
                    backward.take(n)
                backward.made[n].meta["again"] = True
            elif root.meta["places"] == n.meta["places"]:
                backward.made[n] = backward.made[root]
            else:
                backward.view(n, root)

    def region(self, recompute: bool = True, options: Options = DEFAULT) -> Region:
        """The plans, and what puts them on the tape."""
        forward, backward, saved = self.halves(recompute)
        numbers: dict[int, int] = {}  # what lies at one place the plan returns once
        for k, t in enumerate(self.made):
            numbers[id(t)] = next((j for j, s in enumerate(self.made[:k]) if place(s) == place(t)), k)
        results: list[int] = []
        views: list[tuple | None] = []
        position: dict[int, int] = {}
        for k, t in enumerate(self.outputs):
            at = place(t)
            source = self.lies.get(at.storage)
            results.append(numbers[id(t)] if source is None else -1 - source)
            views.append(None)
            if source is None:
                position.setdefault(numbers[id(t)], k)
            elif t is not self.inputs[source]:
                of = place(self.inputs[source])
                views[-1] = (at.shape, at.stride, at.offset - of.offset)
        shown = {n.meta["places"].storage for n in self.results}
        saves = []
        for s in saved:
            number = position[s.number] if s.what == RESULT else s.number + len(self.made) * (s.what == EXTRA)
            saves.append((s.what, number, s.what == EXTRA and s.node.meta["places"].storage not in shown))
        given = [len(self.cotangents) + k for k, (_, _, donated) in enumerate(saves) if donated]
        count = iter(range(len(self.inputs)))
        gradients = [-1 if g is None else next(count) for g in self.grads]
        graph, why = self._differentiable_again()

        def undefined(missing: tuple[int, ...]) -> tuple[Runner, tuple[int, ...]] | None:
            """The plan of a backward pass in which these results have no gradient, and which of its results are whose."""
            result = without(backward, len(self.cotangents), missing)
            if result is None:
                return None
            return plan(Program(result[0], 0), options=options), tuple(
                -1 if k < 0 else result[1][k] for k in gradients
            )

        return Region(
            plan(Program(forward), options=options),
            plan(Program(backward, 0), donated=given, options=options),
            lambda: plan(Program(backward, 0), options=options),
            undefined,
            graph,
            why,
            tuple(self.wanted),
            tuple(results),
            tuple(views),
            tuple(self.differentiable),
            saves,
            tuple(gradients),
            [place(t) for t in self.cotangents],
            len(self.inputs),
        )

    def _differentiable_again(self) -> tuple[GraphModule | None, str]:
        """The captured operations of forward, which give `outputs`; or why they cannot be called again."""
        for n in self.nodes:
            if n in self.behind or n.op != "call_function":
                continue
            if draws(n.target):
                return None, f"{n.name} draws random numbers"
            written = written_by(n.target, n.args, n.kwargs, Node)
            if any(s in self.lies or self.roots[s].op == "get_attr" for m in written for s in _storages(m)):
                return None, f"{n.name} writes to a tensor that was there before the call"
        part = Subgraph(self.root)
        for n in self.nodes[:-1]:
            if n not in self.behind:
                part.take(n)
        of = iter(self.results)
        return part.finish(
            [next(of) if place(t).storage not in self.lies else self.placeholders[0] for t in self.outputs]
        ), ""


def _may_draw_again(n: Node) -> bool:
    if any(m.op == "get_attr" and "places" not in m.meta for m in n.all_input_nodes):  # a generator
        return False
    return may_draw_again(n.target, (p for m in (n, *n.all_input_nodes) for p in _places(m)), ())


def _places(n: Node) -> list[Place]:
    result: list[Place] = []
    mapped(n.meta.get("places"), Place, result.append)
    return result


def _storages(n: Node) -> set[int]:
    return {p.storage for p in _places(n)}


def _nbytes(at: Place) -> int:
    """What the memory holds that begins with a value."""
    return (
        0
        if 0 in at.shape
        else (1 + sum((n - 1) * s for n, s in zip(at.shape, at.stride))) * at.dtype.itemsize
    )


def _work(n: Node, rate: int) -> int:
    """What it costs to compute a call again."""
    elements = max(math.prod(p.shape) for m in (n, *n.all_input_nodes) for p in _places(m))
    return work(n.target, (n.args, n.kwargs), elements, Node, _shape, rate)


def _flops(n: Node) -> int:
    """The operations of a product."""
    return 0 if n.op != "call_function" else flops_of(n.target, (n.args, n.kwargs), Node, _shape) or 0


def _shape(n: Node) -> tuple[int, ...]:
    return n.meta["places"].shape


def _ones_like(t: TensorBase) -> Any:
    return REGISTRY["ones_like"].function(t.detach())
