"""One pass over a dataset: with no workers, with processes, with threads."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

from ....core.base.device import accelerator_type
from ....core.base.profiling import begin_span, end_span, is_profiling
from ....core.base.tracebacks import shorten
from ....core.make.random import Generator, default_generator, get_stream
from ....operations.random.random import in_turn, new_seed
from .errors import ExceptionWrapper
from .fetch import _BaseDatasetFetcher, _IterableDatasetFetcher, _MapDatasetFetcher
from .pin_memory import Pinner, pin_memory
from .serve import Answer, Ended, Job, Task, WorkerTimeout
from .worker import process_state, restore_process


class Place:
    """Where a pass is: how many batches were given, the generators' states when the first numbers were drawn, and the
    random numbers of workers when it began and after the last batch of each.
    """

    def __init__(self, generators: list[Generator]) -> None:
        self.generators = generators  # of the samplers, the default one last
        self.ended = False
        self.drawn = False  # whether the samplers have begun
        self.batches = 0
        self.base_seed = 0
        self.workers_seed = 0  # that of an earlier pass, where workers stay
        self.began: dict[int, Any] = {}
        self.streams: dict[int, Any] = {}
        self.states: list[Any] = []

    def remember(self) -> None:
        """The generators are about to be drawn from."""
        self.states = [generator.get_state() for generator in self.generators]


class Resume(NamedTuple):
    """Where a pass goes on: what `Place` was.  Where none was `running`, the workers go on and the pass is a new one."""

    running: bool
    drawn: bool
    batches: int
    base_seed: int
    workers_seed: int
    states: list[Any]
    began: dict[int, Any]
    streams: dict[int, Any]


class _BaseDataLoaderIter:
    """The batches of one pass over the data of `loader`: a DataLoader, or any object that has the attributes which PyTorch's
    iterators read.  These are `dataset`, `_dataset_kind`, `_index_sampler`, `_auto_collation`, `_IterableDataset_len_called`,
    `collate_fn`, `drop_last`, `num_workers`, `timeout`, `pin_memory`, `pin_memory_device`, `persistent_workers` and
    `generator`; with workers also `prefetch_factor`, `in_order`, `worker_init_fn` and `multiprocessing_context`.
    """

    def __init__(self, loader: Any, pool: Any = None) -> None:
        self._dataset = loader.dataset
        self._dataset_kind = loader._dataset_kind
        self._iterable = self._dataset_kind == 1
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._collate_fn = loader.collate_fn
        self._index_sampler = loader._index_sampler
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._timeout = loader.timeout
        self._num_workers = loader.num_workers
        self._persistent_workers = loader.persistent_workers
        self._num_yielded = 0
        self._pin_memory = loader.pin_memory and _can_pin(loader.pin_memory_device)
        self._profile_name = f"enumerate(DataLoader)#{type(self).__name__}.__next__"
        self._place = Place([])
        self._workers_from: Resume | None = None
        begin = getattr(loader, "_begin", None)  # of a DataLoader, which may go on where another was
        if begin is not None:
            self._workers_from = begin(self)
        running = self._workers_from is not None and self._workers_from.running
        self._resume = self._workers_from if running else None
        place = self._place
        earlier = self._workers_from
        staying = earlier is not None and self._persistent_workers and earlier.drawn
        if self._resume is None and (pool is not None or staying) and in_turn(loader.generator):
            # PyTorch draws none for workers that stay.
            place.base_seed = pool.base_seed if pool is not None else earlier.workers_seed  # type: ignore[union-attr]
        elif self._resume is None:
            place.base_seed = new_seed(loader.generator)
        else:
            place.base_seed = self._resume.base_seed
        self._base_seed = place.base_seed
        self._sampler_iter: Iterator[Any] = iter(self._index_sampler)
        if self._resume is not None:
            self._go_past(self._resume)
        else:
            place.remember()

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """Begins another pass over the data of `loader`."""
        type(self).__init__(self, loader)

    def _go_past(self, resume: Resume) -> None:
        """Takes what the samplers gave before, and the next one, which is drawn from the same states.  The default generator,
        which the program restores by itself, is left as it is found.
        """
        place = self._place
        default = default_generator.get_state()
        for generator, state in zip(place.generators, resume.states):
            generator.set_state(state)
        place.remember()
        if resume.drawn and not self._iterable:
            place.drawn = True
            skipped = len(list(islice(self._sampler_iter, resume.batches)))
            if skipped < resume.batches:
                raise RuntimeError(
                    f"DataLoader: cannot resume after {resume.batches} batches, for the sampler gives only {skipped}"
                )
            self._sampler_iter = chain(list(islice(self._sampler_iter, 1)), self._sampler_iter)
            place.batches = resume.batches
        default_generator.set_state(default)

    def _read_again(self, batches: int) -> None:
        """Goes past the first batches of an IterableDataset."""
        for done in range(batches):
            try:
                self._next_data()
            except StopIteration:
                raise RuntimeError(
                    f"DataLoader: cannot resume after {batches} batches, for the dataset gives only {done}"
                ) from None

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")

    def __next__(self) -> Any:
        entry = begin_span(self._profile_name) if is_profiling() else -1
        try:
            data = self._next_data()
        except StopIteration:
            self._place.ended = True
            raise
        except Exception as error:
            shorten(error)
            raise
        finally:
            end_span(entry)
        self._num_yielded += 1
        promised = self._IterableDataset_len_called
        if promised is not None and self._iterable and self._num_yielded > promised:
            self._warn_of_length()
        return data

    def _next_data(self) -> Any:
        raise NotImplementedError

    def _next_index(self) -> Any:
        if not self._place.drawn:
            self._place.drawn = True
            self._place.remember()
        return next(self._sampler_iter)

    def _warn_of_length(self) -> None:
        more = (
            ".  With workers, each has a copy of the dataset, which has to give its own part of the samples: see get_worker_info"
            if self._num_workers
            else ""
        )
        warnings.warn(
            f"Length of IterableDataset {self._dataset} was reported as {self._IterableDataset_len_called} batches, but "
            f"{self._num_yielded} have been fetched{more}",
            stacklevel=3,
        )


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """A pass whose batches are made here, when they are requested."""

    def __init__(self, loader: Any) -> None:
        if loader.timeout != 0:
            raise AssertionError(
                f"DataLoader: timeout is for num_workers > 0 only, got timeout={loader.timeout}"
            )
        if loader.num_workers != 0:
            raise AssertionError(
                f"DataLoader: batches are made in this process for num_workers=0 only, got {loader.num_workers}"
            )
        super().__init__(loader)
        if self._iterable:
            self._place.began[0] = process_state()
        kind: type[_BaseDatasetFetcher] = _IterableDatasetFetcher if self._iterable else _MapDatasetFetcher
        self._dataset_fetcher = kind(self._dataset, self._auto_collation, self._collate_fn, self._drop_last)
        if self._resume is not None and self._iterable:
            now = process_state()
            self._place.began[0] = self._resume.began[0]
            restore_process(self._resume.began[0])
            try:
                self._read_again(self._resume.batches)
            finally:
                restore_process(now)

    def _next_data(self) -> Any:
        index = self._next_index()
        try:
            data = self._dataset_fetcher.fetch(index)
        except Exception:  # not Ctrl-C, after which the batch is still to be given
            self._place.batches += 1
            raise
        self._place.batches += 1
        return pin_memory(data) if self._pin_memory else data


class _WorkersIter(_BaseDataLoaderIter):
    """A pass whose batches workers make ahead: so many tasks are given out, worker by worker in turn, and one more with
    each batch that the program takes.
    """

    def __init__(self, loader: Any, pool: Any = None) -> None:
        if loader.num_workers <= 0:
            raise AssertionError(f"DataLoader: workers need num_workers > 0, got {loader.num_workers}")
        super().__init__(loader, pool)
        self._in_order = loader.in_order
        self._sent = self._received = 0  # tasks given out; the number of the batch that comes next
        self._tasks: dict[int, int] = {}  # those under way, each with its worker
        self._arrived: dict[int, tuple[int, Answer]] = {}
        self._status = [True] * self._num_workers  # whether a worker has samples left
        self._load = [0] * self._num_workers
        self._turn = 0
        self._sampler_ended = False
        self._sampler_error: BaseException | None = None
        self._skip = 0
        self._pinner = Pinner() if self._pin_memory else None
        if self._resume is not None and self._iterable:
            self._skip = self._resume.batches
        elif self._resume is not None:
            self._turn = self._resume.batches % self._num_workers
        self._pool = self._make_pool(loader) if pool is None else pool
        place = self._place
        place.workers_seed, place.streams, place.began = (
            self._pool.base_seed,
            self._pool.streams,
            dict(self._pool.streams),
        )
        self._epoch = self._pool.begin()
        for _ in range(max(1, loader.prefetch_factor * self._num_workers)):
            self._try_put_index()
        self._read_again(self._skip)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """Begins another pass over the data of `loader`, by the same workers where they are still there."""
        pool = self._pool
        if not (self._persistent_workers and pool.usable):
            self._shutdown_workers()
            pool = None
        type(self).__init__(self, loader, pool)

    @property
    def _workers(self) -> list[Any]:
        return self._pool.workers

    def _make_pool(self, loader: Any) -> Any:
        raise NotImplementedError

    def _job(self, loader: Any) -> Job:
        return Job(
            self._iterable,
            self._dataset,
            self._auto_collation,
            self._collate_fn,
            self._drop_last,
            loader.worker_init_fn,
            self._num_workers,
            *self._streams_to_begin_with(),
            get_stream(),
        )

    def _streams_to_begin_with(self) -> tuple[int, dict[int, Any]]:
        """The seed of workers, and where they stand."""
        resume = self._workers_from
        if resume is None or not (resume.running or (self._persistent_workers and resume.drawn)):
            return self._place.base_seed, {}
        return resume.workers_seed, resume.began if self._iterable and resume.running else resume.streams

    def _next_data(self) -> Any:
        if self._pool.epoch != self._epoch:
            raise RuntimeError(
                "DataLoader: this iterator ended when its DataLoader, which has persistent_workers=True, was iterated anew"
            )
        try:
            while (number := self._ready()) is None:
                self._take_answer()
                while (
                    self._pinner is not None and self._pool.has_more
                ):  # to be pinned beside what the program does now
                    self._take_answer()
            return self._process_data(number)
        except WorkerTimeout:
            raise RuntimeError(self._late()) from None
        except (KeyboardInterrupt, SystemExit):
            self._shutdown_workers()  # an answer may have been lost
            raise

    def _ready(self) -> int | None:
        """The number of the batch to give now; None where it is still being made, StopIteration where there is none."""
        if not self._in_order and self._arrived:
            return next(iter(self._arrived))
        while self._received < self._sent:
            if self._received in self._arrived:
                return self._received
            worker = self._tasks.get(self._received)
            if worker is not None and self._status[worker]:
                return None
            self._received += 1
        if self._sampler_error is not None:
            error, self._sampler_error = self._sampler_error, None
            raise error
        self._end_pinning()
        if not self._persistent_workers:
            self._shutdown_workers()
        raise StopIteration

    def _take_answer(self) -> None:
        worker, answer = self._pool.get(self._timeout)
        if answer.epoch != self._epoch:
            return
        del self._tasks[answer.number]
        self._load[worker] -= 1
        if isinstance(answer.data, Ended):
            self._status[worker] = False
            self._note_streams(worker, answer)
            self._try_put_index()
        else:
            if self._pinner is not None and not isinstance(answer.data, ExceptionWrapper):
                answer = answer._replace(data=self._pinner.begin(answer.data))
            self._arrived[answer.number] = worker, answer

    def _process_data(self, number: int) -> Any:
        worker, answer = self._arrived.pop(number)
        if number == self._received:
            self._received += 1
        self._try_put_index()
        self._place.batches += 1
        self._note_streams(worker, answer)
        if isinstance(answer.data, ExceptionWrapper):
            answer.data.reraise()
        return answer.data if self._pinner is None else answer.data.result()

    def _note_streams(self, worker: int, answer: Answer) -> None:
        if answer.streams is not None:
            self._place.streams[worker] = answer.streams

    def _try_put_index(self) -> None:
        """Gives out one more task, if there is one and a worker for it."""
        if self._sampler_ended or not any(self._status):
            return
        try:
            index = self._next_index()
        except StopIteration:
            self._no_more_tasks()
            return
        except BaseException as error:  # which is raised when the batches before it were given
            self._sampler_error = error
            self._no_more_tasks()
            return
        worker = self._next_worker()
        self._pool.put(worker, Task(self._epoch, self._sent, index, self._sent < self._skip))
        self._tasks[self._sent] = worker
        self._load[worker] += 1
        self._sent += 1

    def _no_more_tasks(self) -> None:
        self._sampler_ended = True
        if not self._persistent_workers:
            self._pool.finish()

    def _next_worker(self) -> int:
        if not self._in_order:
            active = [worker for worker in range(self._num_workers) if self._status[worker]]
            return min(active, key=lambda worker: self._load[worker])
        while not self._status[self._turn]:
            self._turn = (self._turn + 1) % self._num_workers
        worker = self._turn
        self._turn = (worker + 1) % self._num_workers
        return worker

    def _late(self) -> str:
        if self._in_order:
            whose = [self._tasks[self._received]]
        else:
            whose = sorted(set(self._tasks.values()))
        names = ", ".join(self._pool.describe(worker) for worker in whose)
        return f"DataLoader timed out after {self._timeout} seconds: {names} has not given batch {self._received} in that time"

    def _shutdown_workers(self) -> None:
        """Ends the workers."""
        self._pool.close()
        self._end_pinning()

    def _end_pinning(self) -> None:
        if self._pinner is not None:
            self._pinner.end()

    def __del__(self) -> None:
        if getattr(self, "_pinner", None) is not None:
            self._end_pinning()


class _MultiProcessingDataLoaderIter(_WorkersIter):
    """A pass whose batches processes make."""

    def _make_pool(self, loader: Any) -> Any:
        from .processes import Processes

        return Processes(self._job(loader), loader.multiprocessing_context)


class _ThreadingDataLoaderIter(_WorkersIter):
    """A pass whose batches threads make."""

    def _make_pool(self, loader: Any) -> Any:
        from .threads import Threads

        return Threads(self._job(loader))


def _can_pin(device: str) -> bool:
    """Whether there is an accelerator to pin memory for; a warning where there is not."""
    if accelerator_type() is not None:
        return True
    warnings.warn(
        "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used.",
        stacklevel=4,
    )
    return False
