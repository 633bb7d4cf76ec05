"""What a worker does with its tasks, in a process and in a thread alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ....core.make.random import set_stream
from .errors import ExceptionWrapper
from .fetch import _BaseDatasetFetcher, _IterableDatasetFetcher, _MapDatasetFetcher
from .worker import ProcessStreams, ThreadStreams, WorkerInfo, become

GRACE = 5.0  # seconds that a worker has to finish a sample when nobody wants it any more

PULSE = 1.0  # seconds of silence after which the loader looks whether its workers live


class WorkerTimeout(RuntimeError):
    """No worker has answered in time."""


class Task(NamedTuple):
    """One batch that is requested: the pass over the data, its number there, the samples, and whether to go past it."""

    epoch: int
    number: int
    index: Any
    skip: bool = False


class Begin(NamedTuple):
    """Another pass over the data begins."""

    epoch: int


class Answer(NamedTuple):
    """What became of a task: a batch, an ExceptionWrapper, or `Ended`; and the worker's random numbers afterwards, where
    they have changed.
    """

    epoch: int
    number: int
    data: Any
    streams: Any = None


class Ended(NamedTuple):
    """An IterableDataset has no more samples in that worker."""

    worker_id: int


class Job(NamedTuple):
    """What all workers of a loader get."""

    iterable: bool
    dataset: Any
    auto_collation: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    worker_init_fn: Callable[[int], None] | None
    num_workers: int
    base_seed: int
    streams: dict[int, Any]  # to go on with, by worker, in place of streams from the seed
    stream: str  # which one a process's default generator draws


class Worker:
    """Answers tasks.  An exception in the program's code is an answer, never the end of the worker."""

    def __init__(self, job: Job, number: int, method: str, allocate: Any = None) -> None:
        self._job, self._number = job, number
        self._where = f"in DataLoader worker {'thread' if method == 'thread' else 'process'} {number}"
        self._fetcher: _BaseDatasetFetcher | None = None
        self._failed: ExceptionWrapper | None = None  # before any task
        self._ended = False
        if method != "thread":
            set_stream(job.stream)
        kind = ThreadStreams if method == "thread" else ProcessStreams
        self._streams: Any = kind(job.base_seed, number)
        seed = job.base_seed + number
        become(WorkerInfo(number, job.num_workers, seed, job.dataset, self._streams.rng, method), allocate)
        if job.worker_init_fn is not None:
            self._failed = self._caught(lambda: job.worker_init_fn(number))  # type: ignore[misc]
        if number in job.streams:
            self._streams.restore(job.streams[number])
        self._last = self._streams.state()

    def begin(self) -> None:
        """Starts another pass."""
        self._ended = False
        if self._fetcher is None or self._job.iterable:
            self._fetcher = None
            failed = self._caught(self._make_fetcher)
            self._failed = self._failed or failed

    def answer(self, task: Task) -> Answer:
        data = self._failed or self._caught(lambda: self._fetch(task))
        streams = self._streams.state()
        if streams == self._last:
            return Answer(task.epoch, task.number, data)
        self._last = streams
        return Answer(task.epoch, task.number, data, streams)

    def wrapped(self) -> ExceptionWrapper:
        """The exception now being handled."""
        return ExceptionWrapper(where=self._where)

    def _make_fetcher(self) -> None:
        job = self._job
        kind = _IterableDatasetFetcher if job.iterable else _MapDatasetFetcher
        self._fetcher = kind(job.dataset, job.auto_collation, job.collate_fn, job.drop_last)

    def _fetch(self, task: Task) -> Any:
        assert self._fetcher is not None
        if self._ended:
            return Ended(self._number)
        try:
            return self._fetcher.skip(task.index) if task.skip else self._fetcher.fetch(task.index)
        except StopIteration:
            self._ended = True
            return Ended(self._number)

    def _caught(self, function: Callable[[], Any]) -> Any:
        try:
            return function()
        except (Exception, SystemExit, GeneratorExit, KeyboardInterrupt):
            return self.wrapped()
