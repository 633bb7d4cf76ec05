"""One batch out of a dataset, in whichever process or thread that is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from .collate import Located, default_collate


def samples_of(dataset: Any, indices: Iterable[Any]) -> list[Any]:
    """The samples of those numbers, all at once if the dataset can."""
    many = getattr(dataset, "__getitems__", None)
    return many(indices) if many else [dataset[i] for i in indices]


class _BaseDatasetFetcher:
    """Fetches and collates; `auto_collation` says whether an index is a list of numbers, which makes a batch."""

    def __init__(
        self, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool
    ) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        raise NotImplementedError

    def skip(self, possibly_batched_index: Any) -> None:
        """Goes past a batch that was given before."""

    def _stopped(self, error: StopIteration) -> RuntimeError:
        """A StopIteration out of a dataset's or a collate function's code would end the loop as if all were given."""
        return RuntimeError(
            f"DataLoader: {type(self.dataset).__name__}.__getitem__, or collate_fn, raised StopIteration: {error}"
        )


class _MapDatasetFetcher(_BaseDatasetFetcher):
    """Batches of a dataset whose samples have numbers."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # Where the dataset can, it makes the batch itself; see `dataset.py`.
        own = getattr(self.dataset, "__getbatch__", None)
        self._getbatch = own if self.auto_collation and self.collate_fn is default_collate else None

    def fetch(self, possibly_batched_index: Any) -> Any:
        try:
            if not self.auto_collation:
                return self.collate_fn(self.dataset[possibly_batched_index])
            if self._getbatch is not None and type(possibly_batched_index) is list:
                batch = self._getbatch(possibly_batched_index)
                if batch is not None:
                    return batch
            return self.collate_fn(samples_of(self.dataset, possibly_batched_index))
        except Located as error:
            error.name_samples(possibly_batched_index)
            raise
        except StopIteration as error:
            raise self._stopped(error) from error


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    """Batches of an IterableDataset; StopIteration when its samples have ended."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.dataset_iter = iter(self.dataset)
        self.ended = False

    def fetch(self, possibly_batched_index: Any) -> Any:
        samples = self._take(possibly_batched_index)
        try:
            return self.collate_fn(samples)
        except StopIteration as error:
            raise self._stopped(error) from error

    def skip(self, possibly_batched_index: Any) -> None:
        self.fetch(possibly_batched_index)  # whatever is drawn at random on the way is drawn again

    def _take(self, index: Any) -> Any:
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return next(self.dataset_iter)
        samples = list(islice(self.dataset_iter, len(index)))
        self.ended = len(samples) < len(index)
        if not samples or (self.ended and self.drop_last):
            raise StopIteration
        return samples
