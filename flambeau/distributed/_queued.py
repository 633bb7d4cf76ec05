"""Calls that run on a device: `QueuedWork`, and the thread that sees when they are done, late or failed.

A call is a piece of work in a stream of its group's.  To wait for it lets the current stream wait, not the host.  The thread looks at
what is not done yet: a call whose process is gone, that is late, or that NCCL has an error of is aborted with its whole group.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from .._tensor import Tensor
from ..devices.cuda import Cuda
from ..devices.cuda_events import Mark
from ._flight import explain, write_on_fault
from ._work import Work
from ._world import DistBackendError

_NAP = 1e-4  # seconds between looks of a host that waits
_LOOKS = 0.01  # seconds between those of the thread


def _is_set(name: str) -> bool:
    return os.environ.get(name, "0").lower() in ("1", "true", "y", "yes")


class Lane:
    """A communicator on a device, and the stream that its calls go to."""

    def __init__(self, on: Cuda, stream: int, communicator: int) -> None:
        self.on, self.stream, self.communicator = on, stream, communicator

    def order(self) -> None:
        """Let the stream wait for what the current one holds.  From here on the device is the calling thread's."""
        mark = Mark()
        mark.record(self.on, self.on.current_stream())
        mark.wait(self.on, self.stream)


class Queued:
    """What a call does on a device.

    run: calls NCCL. finish: copies results to where they belong, in the same stream. memory: tensors that the work uses.
    """

    def __init__(
        self,
        lane: Lane,
        run: Callable[[], None] | None,
        finish: Callable[[], None] | None,
        memory: Sequence[Tensor],
        is_barrier: bool = False,
    ) -> None:
        self.lane, self.run, self.finish, self.memory = lane, run, finish, memory
        self.is_barrier = is_barrier
        self.done: Mark | None = None  # None until it is posted


class QueuedWork(Work):
    """A call that runs on a device."""

    def __init__(self, group: Any, call: Any, queued: Queued, result: list[Any], seconds: float) -> None:
        super().__init__(group, call, [], None, result, seconds)
        self._queued = queued
        self._blocks = queued.is_barrier or _is_set("TORCH_NCCL_BLOCKING_WAIT")
        self._looking = threading.Lock()

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Let the current stream of the device wait until it is done: True.

        The host waits for a barrier, where `timeout` is given, and with TORCH_NCCL_BLOCKING_WAIT=1.

        Raises:
            DistBackendError: it has failed; or the host waits, and it takes longer than `timeout`
        """
        if self._error is None:
            done, on = self._mark(), self._queued.lane.on
            done.wait(on, on.current_stream())
            if self._blocks or timeout is not None:
                self._wait_on_host(timeout)
        if self._error is not None:
            raise self._error
        return True

    def _mark(self) -> Mark:
        if self._queued.done is None:
            raise RuntimeError(
                f"{self._name}: a call in a _coalescing_manager is posted at the manager's end"
            )
        return self._queued.done

    def _wait_on_host(self, timeout: timedelta | None) -> None:
        began = time.monotonic_ns()
        end = float("inf") if timeout is None else time.monotonic() + timeout.total_seconds()
        while not self._step():
            if time.monotonic() > end:
                raise DistBackendError(f"{self._name}: not done after {timeout} (Work.wait())")
            time.sleep(_NAP)
        self._call.waited += time.monotonic_ns() - began

    def is_completed(self) -> bool:
        """Whether it is done on the device, or has failed."""
        return self._completed or (self._queued.done is not None and self._step())

    def is_success(self) -> bool:
        """Whether it is done on the device and has not failed."""
        return self.is_completed() and self._error is None

    def source_rank(self) -> int:
        """The process that a message comes from, by its rank among all."""
        if self._name not in ("recv", "irecv"):
            return super().source_rank()
        return self._call.peer  # type: ignore[return-value]  # NCCL receives from nobody unnamed

    def _run(self) -> None:
        self.wait()

    def _step(self) -> bool:
        """Look at the device; whether it is over."""
        with self._looking:
            if not self._completed:
                try:
                    self._look()
                except Exception as error:  # of the device, or of NCCL
                    self._fail(f"{type(error).__name__}: {error}")
            return self._completed

    def _look(self) -> None:
        if self._queued.done is None:
            return
        is_done = self._queued.done.done()
        group = self._group
        why = group._broken or group._error_of(self._queued.lane)
        if is_done and why is None:
            self._complete(None)
            return
        if why is None:
            why = group._world.lost(group._ranks)
        if why is None and time.monotonic() - self._begun > self._seconds:
            why = f"timed out after {1000 * self._seconds:.0f}ms: {explain(group, self._call)}"
        if why is not None:
            self._fail(why)

    def _fail(self, why: str) -> None:
        group = self._group
        text = f"{self._name} on rank {group._world.rank}: {why}"
        try:
            if group._broken is None:  # the first to see it; the program may wait for the device alone
                write_on_fault(group._world.rank)
                print(f"{text}; NCCL's communicators of the group are aborted", file=sys.stderr, flush=True)
                group._abort(why)
        finally:
            self._complete(DistBackendError(text, group._world.lost_ranks()))

    def _complete(self, error: BaseException | None) -> None:
        self._queued.memory = ()
        super()._complete(error)


class Watcher:
    """The thread that looks at calls until they are over; it begins with the first of them."""

    def __init__(self) -> None:
        self._works: list[QueuedWork] = []
        self._more = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, work: QueuedWork) -> None:
        """See to a call."""
        with self._more:
            self._works.append(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True, name="watch of NCCL's calls")
                self._thread.start()
            self._more.notify()

    def look_at(self, group: Any) -> None:
        """See what is over of a group's calls."""
        for work in [work for work in self._works if work._group is group]:
            work._step()

    def _run(self) -> None:
        while True:
            with self._more:
                self._more.wait_for(lambda: bool(self._works))
                works = list(self._works)
            over = {id(work) for work in works if work._step()}
            with self._more:
                self._works = [work for work in self._works if id(work) not in over]
            works.clear()
            time.sleep(_LOOKS)


watcher = Watcher()


def _forget() -> None:
    global watcher
    watcher = Watcher()


os.register_at_fork(after_in_child=_forget)
