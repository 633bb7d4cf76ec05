"""Contexts: Python's three ways of starting a process, with queues, pipes and pools for tensors."""

from __future__ import annotations

import multiprocessing
from multiprocessing import context
from typing import Any

from . import _channels
from .queue import JoinableQueue as _JoinableQueue
from .queue import Queue as _Queue
from .queue import SimpleQueue as _SimpleQueue
from .reductions import init_reductions  # noqa: F401  so that tensors travel as shared memory


class _Carrying:
    """What a context has over Python's."""

    def get_context(self, method: str | None = None) -> Any:
        return get_context(method) if method is not None else self

    def Queue(self, maxsize: int = 0) -> _Queue:
        """A queue between processes, of at most `maxsize` objects."""
        return _Queue(maxsize, ctx=self)

    def JoinableQueue(self, maxsize: int = 0) -> _JoinableQueue:
        """A queue with `task_done` and `join`."""
        return _JoinableQueue(maxsize, ctx=self)

    def SimpleQueue(self) -> _SimpleQueue:
        """A queue without a thread."""
        return _SimpleQueue(ctx=self)

    def Pipe(self, duplex: bool = True) -> tuple[_channels.Channel, _channels.Channel]:
        """Two connected ends."""
        return _channels.Pipe(duplex)


class _Fork(_Carrying, context.ForkContext):
    pass


class _Spawn(_Carrying, context.SpawnContext):
    pass


class _ForkServer(_Carrying, context.ForkServerContext):
    pass


_contexts: dict[str, Any] = {"fork": _Fork(), "spawn": _Spawn(), "forkserver": _ForkServer()}


def get_context(method: str | None = None) -> Any:
    """The context of a start method, by default of that which `set_start_method` has chosen; ValueError for another.

    >>> from flambeau import multiprocessing
    >>> multiprocessing.get_context("spawn").get_start_method()
    'spawn'
    """
    name = multiprocessing.get_context(method).get_start_method()
    return _contexts[str(name)]


def Queue(maxsize: int = 0) -> _Queue:
    """A queue between processes, of at most `maxsize` objects; see `multiprocessing.Queue`.

    Raises:
        TypeError: `maxsize` is no int

    >>> import flambeau
    >>> from flambeau import multiprocessing
    >>> queue = multiprocessing.Queue(2)
    >>> queue.put(flambeau.tensor([1, 2]))
    >>> queue.get()
    tensor([1, 2])
    """
    return get_context().Queue(maxsize)


def JoinableQueue(maxsize: int = 0) -> _JoinableQueue:
    """A queue with `task_done` and `join`; see `multiprocessing.JoinableQueue`.

    Raises:
        TypeError: `maxsize` is no int

    >>> import flambeau
    >>> from flambeau import multiprocessing
    >>> queue = multiprocessing.JoinableQueue()
    >>> queue.put(flambeau.tensor([1, 2]))
    >>> queue.get()
    tensor([1, 2])
    >>> queue.task_done()
    >>> queue.join()
    """
    return get_context().JoinableQueue(maxsize)


def SimpleQueue() -> _SimpleQueue:
    """A queue without a thread; see `multiprocessing.SimpleQueue`.

    >>> import flambeau
    >>> from flambeau import multiprocessing
    >>> queue = multiprocessing.SimpleQueue()
    >>> queue.put(flambeau.tensor([1, 2]))
    >>> queue.get()
    tensor([1, 2])
    """
    return get_context().SimpleQueue()


def Pipe(duplex: bool = True) -> tuple[_channels.Channel, _channels.Channel]:
    """Two connected ends, the first for receiving and the second for sending unless `duplex`; see `multiprocessing.Pipe`.

    Raises:
        EOFError: one end receives, and the other is closed

    >>> import flambeau
    >>> from flambeau import multiprocessing
    >>> one, other = multiprocessing.Pipe()
    >>> one.send(flambeau.tensor([1, 2]))
    >>> other.recv()
    tensor([1, 2])
    """
    return get_context().Pipe(duplex)
