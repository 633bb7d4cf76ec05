"""Workers that are processes: started, spoken to, watched, ended."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pickle
import select
import signal
import socket
import threading
import time
import weakref
from collections import deque
from typing import Any

from ....core.base.parallel import set_num_threads
from .errors import ExceptionWrapper, Unreadable
from .serve import GRACE, PULSE, Answer, Begin, Job, Task, Worker, WorkerTimeout
from .transport import Disconnected, LoaderEnd, WorkerEnd

_pools: weakref.WeakSet[Processes] = weakref.WeakSet()


class Processes:
    """`job.num_workers` processes that answer tasks.  They end when nobody holds this object, when `close` is called, when
    this process ends in whichever way, and when `finish` was called and all tasks are answered.
    """

    _owner: int | None = None  # the process whose workers they are, until they have ended

    def __init__(self, job: Job, context: Any) -> None:
        self._context = multiprocessing.get_context() if context is None else context
        self.workers: list[Any] = []
        self._ends: list[LoaderEnd] = []
        self._tasks = [0] * job.num_workers  # that are not answered
        self._open = [True] * job.num_workers
        self._arrived: deque[tuple[int, Answer]] = deque()
        self._poll = select.poll()
        self._by_fd: dict[int, int] = {}
        self._finishing = False
        self._owner = os.getpid()
        self.epoch = 0
        self.base_seed, self.streams = job.base_seed, dict(job.streams)
        if self._context.get_start_method(allow_none=True) in (None, "fork"):
            import numpy.random  # noqa: F401  once here, not in each worker of each pass
        _pools.add(self)
        try:
            for number in range(job.num_workers):
                self._start(number, job)
        except BaseException:
            self.close()
            raise

    def _start(self, number: int, job: Job) -> None:
        ours, theirs = socket.socketpair()
        end = LoaderEnd(ours)
        self._ends.append(end)  # before the fork, so that the child closes it
        process = self._context.Process(
            target=_main, args=(theirs, number, job), daemon=True, name=f"flambeau-data-{number}"
        )
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until the worker has its handler
        try:
            process.start()
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            raise _unpicklable(job, self._context.get_start_method(), error) from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        self.workers.append(process)
        self._by_fd[end.fileno()] = number
        self._poll.register(end.fileno(), select.POLLIN)

    # --- tasks and answers ---

    def put(self, number: int, task: Task) -> None:
        self._check_owner()
        self._tasks[number] += 1
        self._send(number, task)

    def begin(self) -> int:
        """Begins a pass; returns its number, which ends the one before."""
        self._check_owner()
        self.epoch += 1
        for number in range(len(self._ends)):
            self._send(number, Begin(self.epoch))
        return self.epoch

    def finish(self) -> None:
        """No task will follow."""
        self._finishing = True
        for number in range(len(self._ends)):
            self._finish_sending(number)

    def get(self, timeout: float) -> tuple[int, Answer]:
        """The next answer of any worker, with the worker's number.

        WorkerTimeout when there is none for so many seconds (0: no limit); RuntimeError when a worker has died.
        """
        self._check_owner()
        end = time.monotonic() + timeout if timeout else None
        while not self._arrived:
            wait = PULSE if end is None else max(0.0, min(PULSE, end - time.monotonic()))
            ready = self._poll.poll(wait * 1000)
            for fd, event in ready:
                number = self._by_fd[fd]
                if event & select.POLLOUT:
                    self._ends[number].flush()
                    self._watch(number)
                if event & ~select.POLLOUT:
                    self._read(number)
            if not ready:
                self._look_for_the_dead()
                if end is not None and time.monotonic() >= end:
                    raise WorkerTimeout
        return self._arrived.popleft()

    def _send(self, number: int, message: Any) -> None:
        end = self._ends[number]
        was = end.waiting
        end.send(message)
        if end.waiting != was:
            self._watch(number)

    def _watch(self, number: int) -> None:
        end = self._ends[number]
        if end.fileno() in self._by_fd:
            self._poll.modify(end.fileno(), select.POLLIN | (select.POLLOUT if end.waiting else 0))
        if self._finishing:
            self._finish_sending(number)

    def _finish_sending(self, number: int) -> None:
        if self._open[number] and not self._ends[number].waiting:
            self._ends[number].finish()

    def _read(self, number: int) -> None:
        try:
            messages, more = self._ends[number].receive()
        except BaseException:  # a message may be lost
            self.close()
            raise
        for (epoch, task, streams), make in messages:
            self._tasks[number] -= 1
            try:
                data = make()
            except Exception as error:
                text = f"DataLoader: a batch of worker {number} (pid {self.workers[number].pid}) cannot be unpickled here"
                data = Unreadable(RuntimeError(f"{text}: {type(error).__name__}: {error}"), error)
            self._arrived.append((number, Answer(epoch, task, data, streams)))
        if not more:
            self._gone(number)

    def _look_for_the_dead(self) -> None:
        """A socket tells of a death at once, unless a child of the dead one holds the other end."""
        for number, process in enumerate(self.workers):
            if self._open[number] and process.exitcode is not None:
                self._read(number)
                if self._open[number]:
                    self._gone(number)

    def _gone(self, number: int) -> None:
        """A worker has closed its end: that is its death, unless it has done all its tasks and knows that none follow."""
        fd = self._ends[number].fileno()
        self._poll.unregister(fd)
        del self._by_fd[fd]
        self._open[number] = False
        if self._finishing and self._tasks[number] == 0:
            return
        process = self.workers[number]
        process.join(GRACE)
        self.close()
        raise RuntimeError(
            f"DataLoader worker (pid {process.pid}, id {number}) exited unexpectedly: {_cause(process.exitcode)}"
        )

    @property
    def has_more(self) -> bool:
        """Whether `get` has an answer without waiting."""
        return bool(self._arrived)

    @property
    def usable(self) -> bool:
        """Whether another pass can begin."""
        return self._owner == os.getpid()

    def describe(self, number: int) -> str:
        return f"worker {number} (pid {self.workers[number].pid})"

    # --- the end ---

    def close(self) -> None:
        """Ends the workers: each may finish the sample that it is at, for some seconds."""
        if self._owner is None or self._owner != os.getpid():
            return
        self._owner = None
        for end in self._ends:
            end.close()
        limit = time.monotonic() + GRACE
        for process in self.workers:
            process.join(max(0.0, limit - time.monotonic()))
        late = [process for process in self.workers if process.exitcode is None]
        for process in late:
            process.kill()
        for process in late:
            process.join()
        _pools.discard(self)

    def __del__(self) -> None:
        self.close()

    def _check_owner(self) -> None:
        if self._owner is None:
            raise RuntimeError("DataLoader: the workers of this iterator have ended")
        if self._owner != os.getpid():
            raise RuntimeError(
                f"DataLoader: the workers of this iterator belong to process {self._owner}, of which this is a fork: make "
                "another iterator"
            )

    def before_fork(self) -> None:
        for end in self._ends:
            end.fork()

    def after_fork_in_child(self) -> None:
        """The workers are the parent's: this process holds nothing of them."""
        for end in self._ends:
            end.close()
        for process in self.workers:
            multiprocessing.process._children.discard(process)  # type: ignore[attr-defined]  # it would end them at its exit


def _cause(code: int | None) -> str:
    if code is None:
        return "it closed its connection"
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    hint = " (memory may have run out)" if name == "SIGKILL" else ""
    return f"killed by signal {-code}, {name}{hint}"


def _unpicklable(job: Job, method: str, error: Exception) -> Exception:
    """The same error, saying which of the things that the workers need is at fault."""
    culprit = "dataset"  # if it is neither of the others; it may be too large to try
    for name in ("collate_fn", "worker_init_fn"):
        try:
            pickle.dumps(getattr(job, name))
        except Exception:
            culprit = name
    return type(error)(
        f"DataLoader: workers started by {method!r} get their {culprit} by pickle, and it cannot be pickled: {error}"
    )


def _close_all() -> None:
    for pool in list(_pools):
        pool.close()


def _each(method: str) -> Any:
    return lambda: [getattr(pool, method)() for pool in list(_pools)]


atexit.register(_close_all)  # before multiprocessing's own, which would not ask the workers first
os.register_at_fork(before=_each("before_fork"), after_in_child=_each("after_fork_in_child"))


# --- in the worker ---------------------------------------------------------------


def _main(connection: socket.socket, number: int, job: Job) -> None:
    """A worker's life."""
    # Ctrl-C reaches all processes of a terminal: the loader's decides.  Not SIG_IGN, which programs started here would inherit.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    end = WorkerEnd(connection)
    closing = threading.Event()
    threading.Thread(target=_watch_loader, args=(connection.fileno(), closing), daemon=True).start()
    set_num_threads(1)
    worker = Worker(job, number, "multiprocessing", end.arena.allocate)
    try:
        while (message := end.receive()) is not None and not closing.is_set():
            task, returned = message
            end.arena.returned(returned)
            if isinstance(task, Begin):
                worker.begin()
            else:
                _answer(end, worker, task)
    except Disconnected:
        return


def _answer(end: WorkerEnd, worker: Worker, task: Task) -> None:
    answer = worker.answer(task)
    label = (answer.epoch, answer.number, answer.streams)
    try:
        end.send(label, answer.data)
    except Disconnected:
        raise
    except Exception:  # it cannot be pickled, or there is no memory for it
        failed = answer.data if isinstance(answer.data, ExceptionWrapper) else worker.wrapped()
        end.send(label, failed.without_class() if failed is answer.data else failed)


def _watch_loader(fd: int, closing: threading.Event) -> None:
    """Ends this process some seconds after the loader's has closed the connection or died, whatever the program's code does."""
    poll = select.poll()
    poll.register(fd, 0)  # only the end of it
    poll.poll()
    closing.set()
    time.sleep(GRACE)
    os._exit(1)
