"""Workers that are threads of this process: nothing travels, and whatever releases the GIL runs beside the program."""

from __future__ import annotations

import os
import queue
import threading
import time
import warnings
import weakref
from typing import Any

from .serve import GRACE, PULSE, Answer, Begin, Job, Task, Worker, WorkerTimeout


class Threads:
    """`job.num_workers` threads that answer tasks.  They end when nobody holds this object and when `close` is called; one
    that never comes back out of the program's code is left alone, with a warning, and does not keep the process.
    """

    def __init__(self, job: Job) -> None:
        self._answers: queue.SimpleQueue[tuple[int, Answer]] = queue.SimpleQueue()
        self._tasks: list[queue.SimpleQueue[Any]] = [queue.SimpleQueue() for _ in range(job.num_workers)]
        self._closed = threading.Event()
        self._finishing = False
        self._owner = os.getpid()
        self.epoch = 0
        self.base_seed, self.streams = job.base_seed, dict(job.streams)
        self.workers = [
            threading.Thread(
                target=_main,
                args=(number, job, tasks, self._answers, self._closed),
                daemon=True,
                name=f"flambeau-data-{number}",
            )
            for number, tasks in enumerate(self._tasks)
        ]
        _pools.add(self)
        for worker in self.workers:
            worker.start()

    def put(self, number: int, task: Task) -> None:
        self._check_owner()
        self._tasks[number].put(task)

    def begin(self) -> int:
        """Begins a pass; returns its number, which ends the one before."""
        self._check_owner()
        self.epoch += 1
        for tasks in self._tasks:
            tasks.put(Begin(self.epoch))
        return self.epoch

    def finish(self) -> None:
        """No task will follow."""
        self._finishing = True
        for tasks in self._tasks:
            tasks.put(None)

    def get(self, timeout: float) -> tuple[int, Answer]:
        """The next answer of any worker, with the worker's number.

        WorkerTimeout when there is none for so many seconds (0: no limit).
        """
        self._check_owner()
        end = time.monotonic() + timeout if timeout else None
        while True:
            wait = PULSE if end is None else max(0.0, min(PULSE, end - time.monotonic()))
            try:
                return self._answers.get(timeout=wait)
            except queue.Empty:
                if end is not None and time.monotonic() >= end:
                    raise WorkerTimeout from None
            for number, worker in enumerate(self.workers):
                if not worker.is_alive() and not self._finishing and self._answers.empty():
                    self.close()
                    raise RuntimeError(f"DataLoader: {self.describe(number)} exited unexpectedly")

    @property
    def has_more(self) -> bool:
        """Whether `get` has an answer without waiting."""
        return not self._answers.empty()

    @property
    def usable(self) -> bool:
        """Whether another pass can begin."""
        return self._owner == os.getpid() and not self._closed.is_set()

    def describe(self, number: int) -> str:
        return f"worker {number} (thread {self.workers[number].name})"

    def close(self) -> None:
        """Ends the workers: each may finish the sample that it is at, for some seconds."""
        if self._closed.is_set() or self._owner != os.getpid():
            return
        self._closed.set()
        self.finish()
        limit = time.monotonic() + GRACE
        for number, worker in enumerate(self.workers):
            if (
                worker is not threading.current_thread()
            ):  # where the last reference was dropped in a sample's code
                worker.join(max(0.0, limit - time.monotonic()))
                if worker.is_alive():
                    warnings.warn(
                        f"DataLoader: {self.describe(number)} is still in the dataset's code after {GRACE:.0f} s and is "
                        "left alone",
                        stacklevel=2,
                    )
        _pools.discard(self)

    def __del__(self) -> None:
        self.close()

    def _check_owner(self) -> None:
        if self._closed.is_set():
            raise RuntimeError("DataLoader: the workers of this iterator have ended")
        if self._owner != os.getpid():
            raise RuntimeError(
                f"DataLoader: the workers of this iterator are threads of process {self._owner}, of which this is a fork: "
                "make another iterator"
            )


def _main(
    number: int,
    job: Job,
    tasks: queue.SimpleQueue[Any],
    answers: queue.SimpleQueue[Any],
    closed: threading.Event,
) -> None:
    """A worker's life."""
    worker = Worker(job, number, "thread")
    while (task := tasks.get()) is not None and not closed.is_set():
        if isinstance(task, Begin):
            worker.begin()
        else:
            answers.put((number, worker.answer(task)))
        del task


_pools: weakref.WeakSet[Threads] = weakref.WeakSet()


def _close_all() -> None:
    for pool in list(_pools):
        pool.close()


threading._register_atexit(_close_all)  # type: ignore[attr-defined]  # while threads can still be joined
