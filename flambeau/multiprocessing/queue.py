"""Queues whose tensors travel as shared memory."""

from __future__ import annotations

import multiprocessing.queues
from typing import Any

from ._channels import Channel, Parcel, Pipe

__all__ = ["JoinableQueue", "Queue", "SimpleQueue"]


class _Carrying:
    """What these queues have over Python's: channels instead of pipes, and objects that are pickled when they are put."""

    _reader: Any
    _writer: Any

    def _use_channels(self) -> None:
        self._reader.close()
        self._writer.close()
        self._reader, self._writer = Pipe(duplex=False)


class _Limited(_Carrying):
    """The same for the queues that a thread sends from, whose `put` may have to wait."""

    def __init__(self, maxsize: int = 0, *, ctx: Any) -> None:
        super().__init__(maxsize, ctx=ctx)  # type: ignore[call-arg]
        self._use_channels()
        self._reset()

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """Put an object, waiting for room; queue.Full where there is none in time."""
        super().put(Parcel(obj), block, timeout)  # type: ignore[misc]


class Queue(_Limited, multiprocessing.queues.Queue):
    """`multiprocessing.Queue` for tensors.

    `put` pickles at once: what cannot be sent is an error there, and not one of a thread that nobody hears.  What was put arrives
    though the process that put it ends before, once it has been flushed.

    Raises:
        TypeError: `ctx` is not given, or `maxsize` is no int

    >>> import flambeau
    >>> from flambeau import multiprocessing as mp
    >>> queue = mp.Queue(maxsize=2)
    >>> x = flambeau.zeros(2)
    >>> queue.put({"epoch": 1, "weight": x})
    >>> _ = queue.get()["weight"].fill_(3)
    >>> x
    tensor([3., 3.])
    """


class JoinableQueue(_Limited, multiprocessing.queues.JoinableQueue):
    """`multiprocessing.JoinableQueue` for tensors; `put` pickles at once, as that of `Queue`.

    Raises:
        TypeError: `ctx` is not given, or `maxsize` is no int

    >>> import flambeau
    >>> from flambeau import multiprocessing as mp
    >>> queue = mp.JoinableQueue()
    >>> queue.put(flambeau.ones(2))
    >>> queue.get()
    tensor([1., 1.])
    >>> queue.task_done()
    >>> queue.join()  # waits until `task_done` was called for each that was put
    """


class SimpleQueue(_Carrying, multiprocessing.queues.SimpleQueue):
    """`multiprocessing.SimpleQueue` for tensors: no thread, and no limit but that of the socket.

    Raises:
        TypeError: what is put cannot be pickled

    >>> import flambeau
    >>> from flambeau import multiprocessing as mp
    >>> queue = mp.SimpleQueue()
    >>> x = flambeau.zeros(2, 2)
    >>> queue.put((x, x[0]))
    >>> whole, row = queue.get()
    >>> _ = row.fill_(3)  # a view as it was
    >>> whole
    tensor([[3., 3.],
            [0., 0.]])
    """

    def __init__(self, *, ctx: Any = None) -> None:
        super().__init__(ctx=multiprocessing.get_context() if ctx is None else ctx)
        self._use_channels()
        self._poll = self._reader.poll

    def put(self, obj: Any) -> None:
        """Put an object; it waits while the socket is full."""
        super().put(Parcel(obj))


ConnectionWrapper = Channel  # PyTorch's name
