"""DataLoader: batches of a dataset's samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any, Generic

from ..._compat.absent import refusing
from ...core.base.parallel import usable_cpus
from ...core.make.random import Generator, default_generator
from . import _utils
from ._utils.collate import default_collate, default_convert
from ._utils.errors import ExceptionWrapper
from ._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher
from ._utils.passes import (
    Place,
    Resume,
    _BaseDataLoaderIter,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
    _ThreadingDataLoaderIter,
    _WorkersIter,
)
from ._utils.worker import get_worker_info
from .dataset import Dataset, Indexed, IterableDataset, T_co
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

# Names that programs import from here, as they do from PyTorch's file of this name.
_ALSO_HERE = (Dataset, ExceptionWrapper, _utils)
_collate_fn_t = Callable[[list[Any]], Any]
_worker_init_fn_t = Callable[[int], None]
_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
_WORKER_TYPES = ("process", "thread")


class _DatasetKind:
    """How samples are found: by numbers, or one after the other."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool
    ) -> Any:
        made = _IterableDatasetFetcher if kind == _DatasetKind.Iterable else _MapDatasetFetcher
        return made(dataset, auto_collation, collate_fn, drop_last)


class _InfiniteConstantSampler(Sampler[None]):
    """The numbers of an IterableDataset's samples, which has none."""

    def __iter__(self) -> Iterator[None]:
        return repeat(None)


class DataLoader(Generic[T_co]):
    """An iterable over the batches of a dataset.

    To go on where a program was: `state = loader.state_dict()` at any moment, and later, in a loader made alike,
    `loader.load_state_dict(state)`: its next iteration gives the batches that were left, then it goes on as the first
    would have.  See `state_dict`.

    A batch is what `collate_fn` (by default `default_collate`) makes of a list of `batch_size` samples.  They
    come in order, at random with `shuffle` (a new permutation, made by `generator`, in each iteration), or as
    `sampler` says; `batch_sampler` says it for whole batches.  The last batch may be smaller; `drop_last`
    leaves it out.  With `batch_size=None` samples come one by one through `collate_fn`, by default
    `default_convert`.

    **Workers.** With `num_workers=0` batches are made when they are requested.  Otherwise that many processes make them
    ahead, each `prefetch_factor` batches (2), or with `worker_type="thread"` threads of this process, which suits work
    that releases the GIL and starts at once.  Batch i is made by worker i modulo `num_workers`; batches come in order, or
    with `in_order=False` as they are ready.  Tensors and arrays of a batch travel in shared memory, which is used again when
    the program has dropped them.

    - `multiprocessing_context` is a context or a start method ("fork", "spawn", "forkserver"); None is Python's default.
    - Worker i seeds `random`, flambeau and NumPy from a number that `generator` draws in each iteration, plus i, then calls
      `worker_init_fn(i)`: the same seed gives the same batches.  Threads share those generators, and have their own in
      `get_worker_info().rng`.
    - Of an IterableDataset each worker has a copy, which gives its own part of the samples: see `get_worker_info`.
    - `persistent_workers` keeps them for the next iteration, which ends the one before.
    - Where the program's code raises in a worker, an error of the same class, with the worker's traceback in its message, is
      raised in place of the batch.  A worker that dies is a RuntimeError with its id, pid and signal or exit code; one that
      gives no batch for `timeout` seconds (0: no limit) is a RuntimeError that names it.
    - Workers end with the iteration, when the iterator is dropped, and when this process ends in whichever way; what they are
      at then may take 5 seconds.

    With `pin_memory` the tensors of a batch are in page-locked memory, from where they go to an accelerator beside
    the host's work (with workers a thread copies them there, ahead); where there is none, that is a warning.
    `pin_memory_device` is deprecated and has no effect.

    Raises ValueError for options that are out of range or exclude each other, and when options that make the
    batches are set later.

    >>> import flambeau
    >>> dataset = flambeau.utils.data.TensorDataset(flambeau.arange(5))
    >>> for (batch,) in flambeau.utils.data.DataLoader(dataset, batch_size=2, num_workers=1):
    ...     print(batch)
    tensor([0, 1])
    tensor([2, 3])
    tensor([4])
    """

    __initialized = False

    def __init__(
        self,
        dataset: Indexed[T_co] | Iterable[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        worker_type: str = "process",
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, worker_type)
        iterable = isinstance(dataset, IterableDataset)
        if iterable:
            arguments = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
            for name, value in arguments.items():
                if value is not None:
                    raise ValueError(
                        f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
                        f"{name}={value}"
                    )
        if sampler is not None and shuffle:
            raise ValueError("DataLoader: sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "DataLoader: batch_sampler option is mutually exclusive with batch_size, shuffle, "
                    "sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError(
                "DataLoader: batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
            )

        if sampler is None:
            if iterable:
                sampler = _InfiniteConstantSampler()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)  # type: ignore[arg-type]
            else:
                sampler = SequentialSampler(dataset)  # type: ignore[arg-type]
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.dataset: Any = dataset
        self.batch_size = batch_size
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.drop_last = drop_last
        self.generator = generator
        self.num_workers = num_workers
        self.worker_type = worker_type
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        if collate_fn is None:
            collate_fn = default_convert if batch_sampler is None else default_collate
        self.collate_fn = collate_fn
        self._dataset_kind = _DatasetKind.Iterable if iterable else _DatasetKind.Map
        self._IterableDataset_len_called: int | None = None  # the batches by what an IterableDataset said
        self._iterator: Any = None  # of persistent workers
        self._place: Any = None  # of the latest iteration
        self._resume: Resume | None = None  # where the next one begins
        self.__initialized = True
        self.check_worker_number_rationality()

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__initialized and name in _FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        """A copy, here or in another process, has no workers yet."""
        return {**self.__dict__, "_iterator": None, "_place": None}

    @property
    def multiprocessing_context(self) -> Any:
        """How processes are started: a context of `multiprocessing`, or None."""
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            context = self._checked_context(context)
        self.__multiprocessing_context = context

    def _checked_context(self, context: Any) -> Any:
        if self.num_workers == 0 or self.worker_type == "thread":
            raise ValueError(
                "DataLoader: multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
                f"num_workers={self.num_workers}, worker_type={self.worker_type!r}"
            )
        import multiprocessing

        if isinstance(context, str):
            methods = multiprocessing.get_all_start_methods()
            if context not in methods:
                raise ValueError(
                    f"DataLoader: multiprocessing_context option should specify a valid start method in {methods}, but "
                    f"got multiprocessing_context={context!r}"
                )
            return multiprocessing.get_context(context)
        if not isinstance(context, multiprocessing.context.BaseContext):
            raise TypeError(
                "DataLoader: multiprocessing_context option should be a valid context object or a string specifying the "
                f"start method, but got multiprocessing_context={context}"
            )
        return context

    def __iter__(self) -> Any:
        if not self.persistent_workers or self.num_workers == 0:
            return self._get_iterator()
        old = self._iterator
        pool = old._pool if isinstance(old, _WorkersIter) and old._pool.usable else None
        self._iterator = self._workers_iterator(pool)
        return self._iterator

    def _get_iterator(self) -> _BaseDataLoaderIter:
        return _SingleProcessDataLoaderIter(self) if self.num_workers == 0 else self._workers_iterator(None)

    def _workers_iterator(self, pool: Any) -> _WorkersIter:
        kind = _ThreadingDataLoaderIter if self.worker_type == "thread" else _MultiProcessingDataLoaderIter
        return kind(self, pool)

    @property
    def _iterable(self) -> bool:
        return self._dataset_kind == _DatasetKind.Iterable

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __len__(self) -> int:
        if not self._iterable:
            return len(self._index_sampler)
        n = len(self.dataset)
        if self.batch_size is not None:
            n = n // self.batch_size if self.drop_last else -(-n // self.batch_size)
        self._IterableDataset_len_called = n
        return n

    def check_worker_number_rationality(self) -> None:
        """Warns where there are more worker processes than CPUs that this process may use."""
        cpus = usable_cpus()
        if self.num_workers > cpus and self.worker_type == "process":
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our suggested max number of "
                f"worker in current system is {cpus}, which is smaller than what this DataLoader is going to create.",
                stacklevel=3,
            )

    # --- going on where a program was ---

    def _begin(self, iterator: _BaseDataLoaderIter) -> Resume | None:
        """Where the pass of an iterator goes on, if it does; from now on this loader's state is that of this pass."""
        iterator._place = self._place = Place(self._generators())
        resume, self._resume = self._resume, None
        return resume

    def state_dict(self) -> dict[str, Any]:
        """Where the latest iteration is, as numbers, bytes, tuples and small tensors, which `save` takes.

        It holds how many batches were given, the states of the samplers' generators before the first one (the loader's and
        the samplers' `generator`, and the default one), and the random numbers of each worker after its last batch that was
        given.  On the way back the samplers draw again from those states, so what they draw must depend on these
        generators alone; no sample is loaded again, but for an IterableDataset, which is read up to the place.  The default
        generator itself, and those of `random` and NumPy in this process, are the program's to save and restore.

        Raises RuntimeError in the middle of an iteration with workers and `in_order=False`, for the batches given are not the first
        ones then.

        >>> import flambeau
        >>> def make():
        ...     return flambeau.utils.data.DataLoader(range(6), batch_size=2, shuffle=True)
        >>> loader = make()
        >>> batches = iter(loader)
        >>> first, state = next(batches), loader.state_dict()
        >>> resumed = make()
        >>> resumed.load_state_dict(state)
        >>> [batch.tolist() for batch in resumed] == [batch.tolist() for batch in batches]
        True
        """
        place = self._place
        running = place is not None and not place.ended
        if running and self.num_workers and not self.in_order:
            raise RuntimeError(
                "DataLoader.state_dict: with in_order=False the batches given are not the first ones, so that no "
                "iteration could go on from there"
            )
        if self._resume is not None:  # loaded, and not yet begun
            return self._state(self._resume)
        if place is None:
            return self._state(Resume(False, False, 0, 0, 0, self._generator_states(), {}, {}))
        if running:
            states, began = place.states, dict(place.began)
        else:
            states, began = self._generator_states(), {}
        streams = dict(place.streams) if running or self.persistent_workers else {}
        batches = place.batches if running else 0
        return self._state(
            Resume(running, place.drawn, batches, place.base_seed, place.workers_seed, states, began, streams)
        )

    def _generator_states(self) -> list[Any]:
        return [generator.get_state() for generator in self._generators()]

    def _state(self, resume: Resume) -> dict[str, Any]:
        return {
            **resume._asdict(),
            "lengths": self._lengths(),
            "num_workers": self.num_workers,
            "worker_type": self.worker_type,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The next iteration goes on where the loader was whose `state_dict` this is.

        Raises RuntimeError where this loader cannot: the number of samples or batches differs, the samplers have another
        number of generators, or an IterableDataset is read by another number of workers.  Where workers differ
        otherwise, the samples are the same, and the random numbers of the workers begin anew.
        """
        who = "DataLoader.load_state_dict"
        missing = {*Resume._fields, "lengths", "num_workers", "worker_type"} - set(state_dict)
        if missing:
            raise RuntimeError(f"{who}: the state has no {', '.join(sorted(missing))}")
        resume = Resume(**{name: state_dict[name] for name in Resume._fields})
        here, there = self._lengths(), dict(state_dict["lengths"])
        for name in here:
            if there.get(name) != here[name]:
                raise RuntimeError(
                    f"{who}: the state is of a loader of {there.get(name)} {name}, this one has {here[name]}: it is not the "
                    "same data"
                )
        generators = self._generators()
        if len(resume.states) != len(generators):
            raise RuntimeError(
                f"{who}: the state has {len(resume.states)} generators, this loader and its samplers "
                f"{len(generators)}"
            )
        alike = all(state_dict[name] == getattr(self, name) for name in ("num_workers", "worker_type"))
        if self._iterable and resume.running and state_dict["num_workers"] != self.num_workers:
            raise RuntimeError(
                f"{who}: the state is of {state_dict['num_workers']} workers, this loader has {self.num_workers}: an "
                "IterableDataset gives its samples to them in another order"
            )
        self._place = self._resume = None
        if isinstance(self._iterator, _WorkersIter):
            self._iterator._shutdown_workers()
            self._iterator = None
        self._resume = resume if alike else resume._replace(began={}, streams={})
        if not resume.running:
            for generator, state in zip(generators[:-1], resume.states):
                generator.set_state(state)

    def _generators(self) -> list[Generator]:
        """Those that the order of samples depends on, each once, the default one last."""
        result: list[Generator] = []
        batch_sampler = self.batch_sampler
        for owner in (self, self.sampler, batch_sampler, getattr(batch_sampler, "sampler", None)):
            generator = getattr(owner, "generator", None)
            is_listed = any(generator is other for other in (*result, default_generator))
            if isinstance(generator, Generator) and not is_listed:
                result.append(generator)
        return [*result, default_generator]

    def _lengths(self) -> dict[str, int | None]:
        """The number of samples and of batches, None where nobody tells."""

        def length(thing: Any) -> int | None:
            try:
                return len(thing)
            except (TypeError, NotImplementedError):
                return None

        return {
            "samples": length(self.dataset),
            "batches": None if self._iterable else length(self._index_sampler),
        }


def _check_workers(
    num_workers: int, timeout: float, prefetch: int | None, persistent: bool, worker_type: str
) -> None:
    if num_workers < 0:
        raise ValueError(
            f"DataLoader: num_workers option should be non-negative; use num_workers=0 to disable multiprocessing, got {num_workers}"
        )
    if timeout < 0:
        raise ValueError(f"DataLoader: timeout option should be non-negative, got {timeout}")
    if prefetch is not None and prefetch < 0:
        raise ValueError(f"DataLoader: prefetch_factor option should be non-negative, got {prefetch}")
    if worker_type not in _WORKER_TYPES:
        raise ValueError(f"DataLoader: worker_type should be one of {_WORKER_TYPES}, got {worker_type!r}")
    if num_workers == 0:
        for name, value in {"prefetch_factor": prefetch, "persistent_workers": persistent or None}.items():
            if value is not None:
                raise ValueError(
                    f"DataLoader: {name} option could only be specified in multiprocessing: let num_workers > 0, got {name}={value}"
                )


__getattr__ = refusing("utils.data.dataloader")
