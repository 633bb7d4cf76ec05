"""Backward passes over several processes: PyTorch's FAST algorithm, and an answer where it would wait for ever.

Each process's part of the graph waits for the gradients of what it has sent in the context (`Context.sends`), as if all of that counted.
The process of the roots begins; a node of received tensors sends their gradients to where they came from, where the pass goes on as far
as nothing else has to arrive.  Whoever gets gradients answers when all that it caused is done, so the end is known without counting.

What was sent and is not used (a result that nobody reads) gets no gradient.  The answers tell how many of a process's sent tensors still
wait; where some do, the processes mark what the roots depend on, and what is not marked goes without.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from ..._tensor import Tensor
from ...autograd.graph import get_gradient_edge
from ...core.base.tensor import TensorBase
from ...core.tape import Node, StagedPass
from ...futures import Future, collect_all
from ._current import current
from ._graphs import Context, here
from .functions import Later

Key = tuple[int, int]  # of a pass: the rank of who began it, and a count
Counts = dict[int, int]  # by rank: sent tensors that wait for their gradients
_keys = itertools.count()
_ROOTS = -1  # where a pass has its roots among its sends


class _Pass:
    """One process's part of a backward pass."""

    def __init__(self, context: Context, key: Key, retain: bool, roots: Sequence[Tensor] = ()) -> None:
        with context.lock:
            sends: dict[int, Sequence[Any]] = dict(context.sends)
        if roots:
            sends[_ROOTS] = [get_gradient_edge(root) for root in roots]
        self.context, self.key, self.retain, self.edges = context, key, retain, sends
        self.places = {number: place for place, number in enumerate(sends)}
        self.staged = StagedPass(list(sends.values()), retain, context.collect)
        self.arrived: set[int] = set()
        self.marked: set[int] = set()  # what the roots depend on
        self.seen: set[int] = set()  # nodes, while that is worked out

    def deliver(self, number: int, grads: Sequence[Tensor | None] | None) -> Future:
        """Gradients of what was sent under this number (None where nothing reaches it, which may be said twice); a future of Counts, when
        all that follows is done.
        """
        if number not in self.places:
            if grads is None:  # sent since the pass began, by a call that nobody has waited for
                return _joined([], {current().rank: self.staged.waiting})
            raise RuntimeError(f"nothing was sent under number {number} in context {self.context.id}")
        with self.context.lock:
            again = number in self.arrived
            self.arrived.add(number)
        running = _Running(self)
        if not (again and grads is None):
            before, here.running = here.running, running
            try:
                self.staged.deliver(
                    self.places[number], [None] * len(self.edges[number]) if grads is None else list(grads)
                )
            finally:
                here.running = before
        return _joined(running.futures, {current().rank: self.staged.waiting})


class _Running:
    """A delivery that is at work in this thread, and what it sends to others."""

    def __init__(self, part: _Pass) -> None:
        self.context, self.part = part.context, part
        self.futures: list[Future] = []

    def send(self, node: Any, grads: Sequence[Tensor | None] | None) -> None:
        """The gradients of received tensors, to where they come from; None where none reaches them."""
        peer, number = self.context.receives[node]
        sent = None if grads is None else [None if g is None else g.detach() for g in grads]
        args = (self.context.id, self.part.key, self.part.retain, number, sent)
        self.futures.append(current().call(peer, _gradients, args))


def _joined(futures: list[Future], mine: Counts) -> Future:
    """What several answers say together: each process's smallest count is its newest."""

    def merged(done: Future[list[Future]]) -> Counts:
        counts = dict(mine)
        for future in done.value():
            for rank, count in future.value().items():
                counts[rank] = min(count, counts.get(rank, count))
        return counts

    return collect_all(futures).then(merged)


def _part(context_id: int, key: Key, retain: bool) -> _Pass:
    """This process's part of a pass, which begins with the first gradients."""
    context = current().contexts.retrieve(context_id)
    with _beginning:
        part = context.passes.get(key)
        if part is None:
            part = context.passes[key] = _Pass(context, key, retain)
        return part


_beginning = threading.Lock()  # of passes, and of marks


def _gradients(
    context_id: int, key: Key, retain: bool, number: int, grads: Sequence[Tensor | None] | None
) -> Later:
    return Later(_part(context_id, key, retain).deliver(number, grads))


# what the roots do not depend on -------------------------------------------------------------------------------------------------
def _mark(context_id: int, key: Key, retain: bool, numbers: Sequence[int]) -> Later:
    """Mark what was sent under these numbers, and what that depends on in all processes."""
    part = _part(context_id, key, retain)
    context = part.context
    with _beginning:
        fresh = [number for number in numbers if number not in part.marked]
        part.marked.update(fresh)
        received = list(
            _received(part, [edge.node for number in fresh for edge in part.edges.get(number, ())])
        )
    by_peer: dict[int, list[int]] = {}
    for peer, number in received:
        by_peer.setdefault(peer, []).append(number)
    futures = [current().call(peer, _mark, (context.id, key, retain, sent)) for peer, sent in by_peer.items()]
    return Later(collect_all(futures).then(lambda done: [future.value() for future in done.value()] and None))


def _received(part: _Pass, nodes: list[Node]) -> Iterable[tuple[int, int]]:
    """From whom, and under which numbers, comes what these nodes depend on."""
    while nodes:
        node = nodes.pop()
        if id(node) in part.seen:
            continue
        part.seen.add(id(node))
        if node in part.context.receives:
            yield part.context.receives[node]
        nodes.extend(following for following, _ in node.next_functions if following is not None)


def _settle(context_id: int, key: Key, retain: bool) -> Later:
    """Go on without gradients for what is not marked."""
    part = _part(context_id, key, retain)
    unused = [number for number in part.places if number not in part.arrived and number not in part.marked]
    futures = [part.deliver(number, None) for number in unused]
    return Later(_joined(futures, {current().rank: part.staged.waiting}))


# as users call it ----------------------------------------------------------------------------------------------------------------
def backward(context_id: int, roots: Sequence[Tensor], retain_graph: bool = False) -> None:
    """Compute the gradients of the sum of `roots` for all leaves in all processes that take part in a context.

    They are added up in the context, where each process finds its own by `get_gradients`; `.grad` stays as it is.  Tensors that
    went from process to process within the context connect the parts of the graph.

    Shape:
        roots: tensors of one element that require a gradient

    Raises:
        RuntimeError: there is no such context; a root has several elements, or requires no gradient; something fails on the way, in any
            process; the graph was freed by an earlier pass without `retain_graph`

    >>> from flambeau.distributed import autograd
    >>> autograd.backward(0, [])
    Traceback (most recent call last):
        ...
    RuntimeError: RPC has not been initialized. Call flambeau.distributed.rpc.init_rpc first.
    """
    agent = current()
    context = agent.contexts.retrieve(context_id)
    roots = [roots] if isinstance(roots, TensorBase) else list(roots)  # type: ignore[list-item]
    if not roots:
        raise RuntimeError("No tensors provided for gradient computation.")
    for root in roots:
        if not isinstance(root, TensorBase):
            raise TypeError(f"backward(): roots must be tensors, got {type(root).__name__}")
        if not root.requires_grad:
            raise RuntimeError("requires_grad not set on root")
        if root.numel() != 1:
            raise RuntimeError(
                f"backward(): a root of shape {list(root.shape)} is not a scalar, all roots need to be scalar"
            )
    key = (agent.rank, next(_keys))
    part = _Pass(context, key, bool(retain_graph), roots)
    with _beginning:
        context.passes[key] = part
    try:
        counts = agent.wait(part.deliver(_ROOTS, [root.new_ones(root.shape) for root in roots]))
        if any(counts.values()):
            _finish(part, counts)
    finally:
        with _beginning:
            context.passes.pop(key, None)


def _finish(part: _Pass, counts: Counts) -> None:
    """Bring a pass to its end in which some of what was sent is not used."""
    agent = current()
    args = (part.context.id, part.key, part.retain)
    agent.call(agent.rank, _mark, (*args, [_ROOTS])).wait()
    while waiting := [rank for rank, count in counts.items() if count]:
        answers = [agent.call(rank, _settle, args) for rank in waiting]
        after = agent.wait(_joined(answers, {}))
        if all(after.get(rank) == counts[rank] for rank in waiting):
            raise RuntimeError(f"backward(): gradients of {counts} tensors did not arrive")
        counts = {**counts, **after}
