"""Calls that are under way: `Work`, and the thread that completes those nobody waits for.

A collective is a few requests of MPI, which are posted by the thread that calls it, in the order of the program, and what remains to be
done when they are complete.  A synchronous call tests its requests itself; those of the others are tested by one thread of the process.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from ..core.base import display
from ..futures import Future
from ._flight import Call, explain, write_on_fault
from ._world import DistBackendError, World

_WINDOW = 2  # pieces of a call that are under way at once
_NAP = 5e-5  # seconds
_SLICE = 0.02  # seconds between looks at signals, deadlines and who has died


class Work:
    """A collective, or a message, that is under way.

    What asynchronous calls return; `wait` raises its error, DistBackendError where processes are gone or late.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> work = dist.all_reduce(flambeau.ones(2), async_op=True)
    >>> work.wait(), work.is_completed()
    (True, True)
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        group: Any,
        call: Call,
        requests: list[Any] | Iterator[Any],
        finish: Callable[[], None] | None,
        result: list[Any],
        seconds: float,
        status: Any = None,
    ) -> None:
        self._group, self._call, self._name, self._result = group, call, call.name, result
        is_list = isinstance(requests, list)
        self._requests: list[Any] = list(requests) if is_list else []
        self._rest: Iterator[Any] | None = (
            None if is_list else iter(requests)
        )  # of a call in pieces, which posts one after the other
        self._held = False  # the next piece waits for those before it
        self._finish = finish
        self._done, self._code = bytearray(len(self._requests)), 0
        self._status = status
        self._begun, self._seconds = time.monotonic(), seconds
        self._error: BaseException | None = None
        self._event: threading.Event | None = None
        self._future: Future | None = None
        self._lock = threading.Lock()
        self._completed = False
        if self._requests:
            self._note_requests()

    # What users call ---------------------------------------------------------------------------------------------------------
    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it is done: True.

        Raises:
            DistBackendError: it takes longer than `timeout` (or the group's), or a process that it needs is gone
        """
        if not self._completed:
            event, poller = self._event, self._group._world.mpi.poller
            assert event is not None, "a synchronous call is complete when it returns"
            poller.expect(1)
            began = time.monotonic_ns()
            try:
                came = event.wait(None if timeout is None else timeout.total_seconds())
            finally:
                poller.expect(-1)
                self._call.waited += max(0, (self._call.completed or time.monotonic_ns()) - began)
            if not came:
                raise DistBackendError(f"{self._name}: not done after {timeout} (Work.wait())")
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        """The same as `wait()`."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether it is done, or has failed."""
        return self._completed

    def is_success(self) -> bool:
        """Whether it is done and has not failed."""
        return self._completed and self._error is None

    def exception(self) -> BaseException | None:
        """The error that it has failed with."""
        return self._error

    def result(self) -> list[Any]:
        """The tensors that it writes."""
        return self._result

    def source_rank(self) -> int:
        """The process that a message has come from, by its rank among all."""
        if self._status is None:
            raise RuntimeError(f"{self._name}: only a message that was received has a source")
        return self._group._ranks[self._status.Get_source()]

    def get_future(self) -> Future:
        """A future of `result()`."""
        with self._lock:
            if self._future is None:
                self._future = Future()
                if self._completed:
                    self._set_future()
            return self._future

    def _note_requests(self) -> None:
        address = self._group._world.mpi.api._addressof
        status_address = 0 if self._status is None else address(self._status)
        self._addresses = tuple(map(address, self._requests))
        self._statuses = (status_address,) + (0,) * (len(self._requests) - 1) if self._requests else ()

    # How it is run -----------------------------------------------------------------------------------------------------------
    def _run(self) -> None:
        """Complete it on this thread; raises its error."""
        poller = self._group._world.mpi.poller if self._requests or self._rest is not None else None
        while True:
            if self._requests and poller is not None:
                every = self._rest is None
                self._code = poller.poll(self._addresses, self._statuses, self._done, _SLICE, every, True)
            elif self._rest is not None:
                time.sleep(_NAP)  # another call in pieces comes before this one
            if self._step():
                break
        self._call.waited = self._call.completed - self._call.created
        if self._error is not None:
            raise self._error

    def _end_at_once(self) -> None:
        """Complete a call that has no requests; `wait` gives its error."""
        self._event = threading.Event()
        self._step()

    def _step(self) -> bool:
        """Look at what the tests have found; whether it is over."""
        try:
            more = self._rest is not None and self._code == 0 and self._advance()
        except Exception as raised:  # a piece could not be made
            self._abandon(
                f"{self._name} on rank {self._group._world.rank}: {type(raised).__name__}: {raised}"
            )
            return True
        if self._code == 0 and not more and all(self._done):
            error: BaseException | None = None
            try:
                if self._finish is not None:
                    self._finish()
            except BaseException as raised:
                error = raised
            self._complete(error)
            return True
        if self._code != 0:
            text = self._group._world.mpi.api.Get_error_string(self._code)
            why = self._group._world.lost(self._group._ranks) or text
        else:
            why = self._group._world.lost(self._group._ranks)
            if more and why is None and self._group._in_pieces[0] is not self:
                why = self._group._broken
            if why is None and time.monotonic() - self._begun > self._seconds:
                why = f"timed out after {1000 * self._seconds:.0f}ms: {explain(self._group, self._call)}"
        if why is None:
            return False
        self._abandon(f"{self._name} on rank {self._group._world.rank}: {why}")
        return True

    def _advance(self) -> bool:
        """Post pieces in the place of those that are complete; whether some are left, or this call's turn has not come."""
        group = self._group
        if group._in_pieces[0] is not self:
            return True
        waiting = [request for request, done in zip(self._requests, self._done) if not done]
        if waiting and (self._held or len(waiting) == len(self._requests)):
            return True
        self._held = False
        assert self._rest is not None
        if not self._call.started:
            self._call.start()
        for request in self._rest:
            if request is None:  # what comes next needs all that is under way
                self._held = bool(waiting)
                if self._held:
                    break
                continue
            waiting.append(request)
            if len(waiting) == _WINDOW:
                break
        self._requests, self._done = waiting, bytearray(len(waiting))
        self._note_requests()
        if waiting:
            return True
        group._in_pieces.popleft()
        return False

    def _abandon(self, why: str) -> None:
        """Fail; MPI may still write, so requests and their memory stay for the life of the process."""
        _ABANDONED.append(self)
        write_on_fault(self._group._world.rank)
        self._group._break(why)
        self._complete(DistBackendError(why, self._group._world.lost_ranks()))

    def _complete(self, error: BaseException | None) -> None:
        with self._lock:
            self._call.end(error is not None)
            self._error, self._completed = error, True
            if error is None:
                self._requests, self._finish = [], None
            if self._event is not None:
                self._event.set()
            if self._future is None:
                return
        self._set_future()

    def _set_future(self) -> None:
        assert self._future is not None
        if self._error is None:
            self._future.set_result(self._result)
        else:
            self._future.set_exception(self._error)


_ABANDONED: list[Work] = []


class Progress:
    """The thread that tests requests of asynchronous calls; it begins with the first of them."""

    def __init__(self, world: World) -> None:
        self._poller = world.mpi.poller
        self._works: list[Work] = []
        self._more = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, work: Work) -> None:
        """See to a call."""
        work._event = threading.Event()
        with self._more:
            self._works.append(work)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, daemon=True, name="progress of distributed calls"
                )
                self._thread.start()
            self._more.notify()
        self._poller.interrupt()

    def _run(self) -> None:
        while True:
            with self._more:
                self._more.wait_for(lambda: bool(self._works))
                works = list(self._works)
            self._test(works)
            over = [work for work in works if work._step()]
            with self._more:
                self._works = [work for work in self._works if work not in over]

    def _test(self, works: list[Work]) -> None:
        """Test the requests of all calls until one of them is done."""
        done = bytearray(b"".join(work._done for work in works))
        if not done:
            time.sleep(_NAP)  # all wait for a call in pieces of another thread
            return
        addresses = sum((work._addresses for work in works if work._requests), ())
        statuses = sum((work._statuses for work in works if work._requests), ())
        code, place = self._poller.poll(addresses, statuses, done, _SLICE, False, False), 0
        for work in works:
            work._done[:] = done[place : place + len(work._done)]
            place += len(work._done)
            if 2 in work._done:
                work._code = code


_progress: Progress | None = None


def progress(world: World) -> Progress:
    """The thread's work list."""
    global _progress
    if _progress is None:
        _progress = Progress(world)
    return _progress


def _forget() -> None:
    global _progress
    _progress = None


os.register_at_fork(after_in_child=_forget)
Work.__module__ = display.public("distributed")
