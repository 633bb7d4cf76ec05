"""Gradients through calls of other processes.

In a `context` the tape goes on where a tensor travels to another process, and `backward` walks it in all of them:

    with distributed.autograd.context() as context_id:
        loss = rpc.rpc_sync("worker1", torch.mul, args=(x, 3)).sum()
        distributed.autograd.backward(context_id, [loss])
        gradients = distributed.autograd.get_gradients(context_id)  # {x: ...}

>>> from flambeau.distributed import autograd
>>> autograd.is_available()
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._compat.absent import refusing
from ...core.base import display
from ..rpc._backward import backward
from ..rpc._current import current, is_set
from ..rpc._graphs import Context as DistAutogradContext
from ..rpc._graphs import here as _here

if TYPE_CHECKING:
    from types import TracebackType

    from ..._tensor import Tensor

__all__ = ["backward", "context", "get_gradients", "is_available"]


def is_available() -> bool:
    """Whether gradients pass through calls of other processes: True.

    >>> from flambeau.distributed import autograd
    >>> autograd.is_available()
    True
    """
    return True


class context:
    """A forward and its backward pass over several processes; `with` gives its id, by which all of them know it.

    Each process keeps what it has sent, and its gradients, until the block ends.

    Raises:
        RuntimeError: this process is no worker of a world (`rpc.init_rpc`); the thread is in a context already

    >>> from flambeau.distributed import autograd
    >>> with autograd.context():
    ...     print("not reached")
    Traceback (most recent call last):
        ...
    RuntimeError: Need to initialize distributed autograd by flambeau.distributed.rpc.init_rpc first
    """

    def __enter__(self) -> int:
        self.autograd_context = _new_context()
        return self.autograd_context._context_id()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if is_set():  # a shutdown ends contexts
            _release_context(self.autograd_context._context_id())


def get_gradients(context_id: int) -> dict[Tensor, Tensor]:
    """The gradients of this process's leaves that `backward` has computed in a context.

    Shape:
        each gradient: that of its leaf

    Raises:
        RuntimeError: there is no such context here

    >>> from flambeau.distributed import autograd
    >>> autograd.get_gradients(0)
    Traceback (most recent call last):
        ...
    RuntimeError: RPC has not been initialized. Call flambeau.distributed.rpc.init_rpc first.
    """
    part = _retrieve_context(context_id)
    with part.lock:
        return dict(part.gradients)


def _new_context() -> DistAutogradContext:
    if not is_set():
        raise RuntimeError(
            f"Need to initialize distributed autograd by {display.public('distributed.rpc.init_rpc')} first"
        )
    return current().contexts.new()


def _retrieve_context(context_id: int) -> DistAutogradContext:
    return current().contexts.retrieve(context_id)


def _is_valid_context(context_id: int) -> None:
    """RuntimeError where there is no such context here."""
    _retrieve_context(context_id)


def _current_context() -> DistAutogradContext:
    if _here.context is None:
        raise RuntimeError("Current thread doesn't have a valid autograd context.")
    return _here.context


def _release_context(context_id: int) -> None:
    """End a context here and, in their own time, in the other processes."""
    agent = current()
    for rank in agent.contexts.release(context_id):
        if rank not in agent.dead:
            try:
                agent.call(rank, _release_context, (context_id,))
            except RuntimeError:
                continue  # it is gone, and its part with it


DistAutogradContext.__module__ = context.__module__ = display.public("distributed.autograd")
backward.__module__ = get_gradients.__module__ = display.public("distributed.autograd")
__getattr__ = refusing("distributed.autograd")
