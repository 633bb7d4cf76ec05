"""What autograd remembers of tensors that travel: contexts.

Within a context, tensors that require a gradient leave their edges behind under a number when they are sent (`Context.sends`), and where
they arrive a node, `RecvRpcBackward`, holds that number.  A backward pass sends the node's gradients back to those edges.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from ..._tensor import Tensor
from ...autograd import Function
from ...autograd.graph import GradientEdge, get_gradient_edge
from ...core.base.tensor import TensorBase
from ...core.make.create import empty

RANK_SHIFT = 48  # ids: the rank of who made it, and a count
_REMEMBERED = 1000  # contexts that have ended, so that a late call does not begin them anew


class _Here(threading.local):
    context: Context | None = None  # in which this thread computes
    running: Any = None  # the pass that this thread runs


here = _Here()


class RecvRpc(Function):
    """Tensors that have arrived: their gradients go to the process that has sent them."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, context_id: int, tensors: Sequence[Tensor]) -> tuple:  # type: ignore[override]
        ctx.context_id = context_id
        ctx.set_materialize_grads(False)
        return tuple(tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple:  # type: ignore[override]
        running = here.running
        if running is None or running.context.id != ctx.context_id:
            raise RuntimeError(
                "the graph goes on in another process: call distributed.autograd.backward(context_id, roots), not backward()"
            )
        running.send(ctx._node, grads)
        return None, None, None


class Context:
    """One process's part of the graph of a context."""

    def __init__(self, context_id: int) -> None:
        self.id = context_id
        self.lock = threading.Lock()
        self.workers: set[int] = set()  # workers that have parts, too
        self.sends: dict[int, list[GradientEdge]] = {}
        self.receives: dict[Any, tuple[int, int]] = {}  # by their nodes: from whom, under which number
        self.passes: dict[tuple[int, int], Any] = {}
        self.gradients: dict[Tensor, Tensor] = {}

    def _context_id(self) -> int:
        return self.id

    def _known_worker_ids(self) -> set[int]:
        return set(self.workers)

    def _send_functions(self) -> dict[int, list[GradientEdge]]:
        return dict(self.sends)

    def _recv_functions(self) -> dict[int, Any]:
        return {number: node for node, (_, number) in self.receives.items()}

    def collect(self, target: Any, grad: Tensor | None) -> None:
        """A pass brings the gradient of a leaf, or tells of a node that none reaches: where that has come from elsewhere, so does this."""
        if isinstance(target, TensorBase):
            with self.lock:
                before = self.gradients.get(target)  # type: ignore[call-overload]
                self.gradients[target] = grad.detach().clone() if before is None else before + grad  # type: ignore[index, union-attr, operator]
        elif target in self.receives:
            here.running.send(target, None)

    def end(self) -> None:
        with self.lock:
            for one in (self.sends, self.receives, self.passes, self.gradients):
                one.clear()  # type: ignore[attr-defined]


class Contexts:
    """The contexts in which this process takes part."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self._lock = threading.Lock()
        self._all: dict[int, Context] = {}
        self._ended: deque[int] = deque(maxlen=_REMEMBERED)
        self._ids, self._numbers = itertools.count(), itertools.count()

    def new(self) -> Context:
        """Begin a context in this thread.  RuntimeError inside of another one."""
        if here.context is not None:
            raise RuntimeError("Already have an autograd context id for this thread.")
        made = here.context = Context(self.rank << RANK_SHIFT | next(self._ids))
        with self._lock:
            self._all[made.id] = made
        return made

    def retrieve(self, context_id: int) -> Context:
        """RuntimeError where there is none with this id."""
        context = self._all.get(context_id)
        if context is None:
            raise RuntimeError(f"Could not find autograd context with id: {context_id}")
        return context

    def joined(self, context_id: int, peer: int) -> Context | None:
        """A context that a message of `peer` belongs to; None where it has ended."""
        with self._lock:
            if context_id in self._ended:
                return None
            context = self._all.get(context_id)
            if context is None:
                context = self._all[context_id] = Context(context_id)
            context.workers.add(peer)
            return context

    def release(self, context_id: int) -> set[int]:
        """End a context here; the workers that have to hear of it."""
        with self._lock:
            context = self._all.pop(context_id, None)
            if context is None:
                return set()
            self._ended.append(context_id)
        if here.context is context:
            here.context = None
        context.end()
        return context.workers - {self.rank}

    def release_of(self, rank: int) -> None:
        """End the contexts of a worker that has died."""
        for context_id in list(self._all):
            if context_id >> RANK_SHIFT == rank:
                self.release(context_id)

    def release_all(self) -> None:
        for context_id in list(self._all):
            self.release(context_id)

    def __len__(self) -> int:
        return len(self._all)

    # tensors on their way
    def sent(
        self, context: Context | None, tensors: list[Tensor], peer: int
    ) -> tuple[int, int | None] | None:
        """What a message says of the context, whose tensors that require a gradient are these."""
        if context is None:
            return None
        context.workers.add(peer)
        if not tensors:
            return context.id, None
        number = self.rank << RANK_SHIFT | next(self._numbers)
        edges = [get_gradient_edge(tensor) for tensor in tensors]
        with context.lock:
            context.sends[number] = edges
        return context.id, number

    def received(
        self, context: Context | None, graph: tuple | None, tensors: list[Tensor], peer: int
    ) -> list[Tensor]:
        """The tensors of a message that require a gradient, with their history."""
        if context is None or graph is None or graph[1] is None or not tensors:
            return [tensor.requires_grad_() for tensor in tensors]
        anchor = empty(0).requires_grad_()
        outputs = RecvRpc.apply(anchor, context.id, tensors)
        with context.lock:
            context.receives[outputs[0].grad_fn] = peer, graph[1]
        return list(outputs)


@contextlib.contextmanager
def within(context: Context | None) -> Iterator[None]:
    """Inside, this thread computes in a context that came with a call."""
    before, here.context = here.context, context
    try:
        yield
    finally:
        here.context = before
