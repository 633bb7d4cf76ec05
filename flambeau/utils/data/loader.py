"""DataLoader: batches of a dataset's samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import islice, repeat
from typing import Any, Generic

from ...core.base.device import device_count
from .collate import default_collate, default_convert, pin
from .dataset import IterableDataset, T_co, fetch
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset")


def get_worker_info() -> None:
    """None: samples are loaded in the process that uses them, not in workers.

    >>> import flambeau
    >>> flambeau.utils.data.get_worker_info() is None
    True
    """
    return None


class _Endless(Sampler[None]):
    """The numbers of an IterableDataset's samples, which has none."""

    def __iter__(self) -> Iterator[None]:
        return repeat(None)


class DataLoader(Generic[T_co]):
    """An iterable over the batches of a dataset.

    A batch is what `collate_fn` (by default `default_collate`) makes of a list of `batch_size` samples.  They
    come in order, at random with `shuffle` (a new permutation, made by `generator`, in each iteration), or as
    `sampler` says; `batch_sampler` says it for whole batches.  The last batch may be smaller; `drop_last`
    leaves it out.  With `batch_size=None` samples come one by one through `collate_fn`, by default
    `default_convert`.

    With `pin_memory` the tensors of a batch are in page-locked memory, from where they go to an accelerator beside
    the host's work; where there is none, that is a warning.  `pin_memory_device` is deprecated and has no effect.

    Samples are loaded in this process: `num_workers` must be 0, `persistent_workers` False and `prefetch_factor`
    None; `timeout`, `worker_init_fn` and `in_order` are about workers and have no effect.

    Raises ValueError for options that are out of range or exclude each other, and when options that make the
    batches are set later.

    >>> import flambeau
    >>> dataset = flambeau.utils.data.TensorDataset(flambeau.arange(5))
    >>> for (batch,) in flambeau.utils.data.DataLoader(dataset, batch_size=2):
    ...     print(batch)
    tensor([0, 1])
    tensor([2, 3])
    tensor([4])
    """

    _complete = False

    def __init__(
        self,
        dataset: Any,
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
    ) -> None:
        _check_workers(num_workers, timeout, multiprocessing_context, prefetch_factor, persistent_workers)
        iterable = isinstance(dataset, IterableDataset)
        if iterable:
            given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
            for name, value in given.items():
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
                "DataLoader: batch_size=None makes no batches and is mutually exclusive with drop_last"
            )

        if sampler is None:
            if iterable:
                sampler = _Endless()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.dataset = dataset
        self.batch_size = batch_size
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.drop_last = drop_last
        self.generator = generator
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
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
        self._promised: int | None = None  # the number of batches by what an IterableDataset said
        self._complete = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._complete and name in _FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def __iter__(self) -> Iterator[Any]:
        batches = _Iterable(self) if isinstance(self.dataset, IterableDataset) else _Map(self)
        if not self.pin_memory:
            return batches
        if device_count("cuda") or device_count("opencl"):
            return _Pinned(batches)
        warnings.warn(
            "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used.",
            stacklevel=2,
        )
        return batches

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        n = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is not None:
            n = n // self.batch_size if self.drop_last else -(-n // self.batch_size)
        self._promised = n
        return n


def _check_workers(
    num_workers: int, timeout: float, context: Any, prefetch: int | None, persistent: bool
) -> None:
    if num_workers < 0:
        raise ValueError(f"DataLoader: num_workers option should be non-negative, got {num_workers}")
    if num_workers > 0:
        raise ValueError(
            f"DataLoader: num_workers must be 0, got {num_workers}: loading runs in this process for now"
        )
    if timeout < 0:
        raise ValueError(f"DataLoader: timeout option should be non-negative, got {timeout}")
    named = {
        "multiprocessing_context": context,
        "prefetch_factor": prefetch,
        "persistent_workers": persistent or None,
    }
    for name, value in named.items():
        if value is not None:
            raise ValueError(f"DataLoader: {name} is for num_workers > 0 only, got {name}={value}")


class _Map:
    """One pass over a dataset whose samples have numbers."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self._dataset = loader.dataset
        self._collate = loader.collate_fn
        self._batches = loader.batch_sampler is not None
        self._next = iter(loader.sampler if loader.batch_sampler is None else loader.batch_sampler)
        # Where the dataset can, it makes the batch itself; see `dataset.py`.
        self._fast = (
            getattr(self._dataset, "__getbatch__", None) if self._collate is default_collate else None
        )

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        index = next(self._next)
        if not self._batches:
            return self._collate(self._dataset[index])
        if self._fast is not None and type(index) is list:
            batch = self._fast(index)
            if batch is not None:
                return batch
        return self._collate(fetch(self._dataset, index))


class _Iterable:
    """One pass over an IterableDataset."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self._samples = iter(loader.dataset)
        self._count = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        loader = self._loader
        if loader.batch_size is None:
            data: Any = next(self._samples)
        else:
            data = list(islice(self._samples, loader.batch_size))
            if not data or (loader.drop_last and len(data) < loader.batch_size):
                raise StopIteration
        self._count += 1
        if loader._promised is not None and self._count > loader._promised:
            warnings.warn(
                f"Length of IterableDataset {loader.dataset} was reported as {loader._promised} batches, but "
                f"{self._count} have been fetched",
                stacklevel=2,
            )
        return loader.collate_fn(data)


class _Pinned:
    """The batches of another pass in page-locked memory."""

    def __init__(self, batches: _Map | _Iterable) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self._batches)

    def __next__(self) -> Any:
        return pin(next(self._batches))
