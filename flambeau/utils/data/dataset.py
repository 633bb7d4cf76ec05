"""Datasets: where samples come from."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, Protocol, TypeVar

from ..._tensor import Tensor
from ...core.make.literal import tensor
from ...core.make.random import Generator, randperm
from ._utils.fetch import samples_of
from ._utils.worker import shared_output

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

T_co = TypeVar("T_co", covariant=True)


class Indexed(Protocol[T_co]):
    """What has samples by their numbers: a dataset, a sequence."""

    def __getitem__(self, index: Any, /) -> T_co: ...


class Dataset(Generic[T_co]):
    """Base class of datasets whose samples have numbers: a subclass defines `__getitem__`, and `__len__` if
    it can.

    `__getitems__(indices)`, which returns a list of samples, may be defined to fetch many at a time.

    >>> import flambeau
    >>> class Squares(flambeau.utils.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, index):
    ...         return index**2
    >>> Squares()[3]
    9
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(
            f"Subclasses of Dataset should implement __getitem__, which {type(self).__name__} does not"
        )

    def __add__(self, other: Dataset[T_co]) -> ConcatDataset[T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """Base class of datasets whose samples come one after the other: a subclass defines `__iter__`.

    With workers each of them has a copy, and iterates over all of it unless it asks which part is its own:

    >>> from flambeau.utils.data import DataLoader, IterableDataset, get_worker_info
    >>> class Numbers(IterableDataset):
    ...     def __iter__(self):
    ...         worker = get_worker_info()
    ...         first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
    ...         return iter(range(first, 6, step))
    >>> [batch.tolist() for batch in DataLoader(Numbers(), batch_size=2, num_workers=2)]
    [[0, 2], [1, 3], [4], [5]]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")

    def __add__(self, other: Dataset[T_co]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Any, ...]]):
    """Sample i is the tuple of the entries i of `tensors` along their first dimension.

    Raises AssertionError when their first dimensions differ.

    >>> import flambeau
    >>> dataset = flambeau.utils.data.TensorDataset(flambeau.arange(3), flambeau.arange(6.0).reshape(3, 2))
    >>> dataset[1]
    (tensor(1), tensor([2., 3.]))
    """

    tensors: tuple[Any, ...]

    def __init__(self, *tensors: Any) -> None:
        sizes = [t.size(0) for t in tensors]
        if any(n != sizes[0] for n in sizes):
            raise AssertionError(f"Size mismatch between tensors: TensorDataset got first dimensions {sizes}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)

    def __getbatch__(self, indices: list[Any]) -> list[Any] | None:
        return _select(self.tensors, indices) if _inherits(self, TensorDataset) else None


class StackDataset(Dataset[Any]):
    """Sample i is the tuple of samples i of the datasets `args`, or the dict of those of `kwargs`.

    Raises ValueError when there is none, both are given, or lengths differ.

    >>> import flambeau
    >>> flambeau.utils.data.StackDataset("ab", [1, 2])[1]
    ('b', 2)
    >>> flambeau.utils.data.StackDataset(letter="ab", number=[1, 2])[1]
    {'letter': 'b', 'number': 2}
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError(
                "StackDataset: At least one dataset should be passed, by position, for tuples, or by name, for dicts: got "
                f"{len(args)} by position and {len(kwargs)} by name"
            )
        self.datasets = args or kwargs
        lengths = [len(dataset) for dataset in args or kwargs.values()]
        if any(n != lengths[0] for n in lengths):
            raise ValueError(f"Size mismatch between datasets: StackDataset got lengths {lengths}")
        self._length = lengths[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        if not isinstance(self.datasets, dict):
            return list(zip(*(self._column(dataset, indices) for dataset in self.datasets)))
        columns = {name: self._column(dataset, indices) for name, dataset in self.datasets.items()}
        return [dict(zip(columns, row)) for row in zip(*columns.values())]

    @staticmethod
    def _column(dataset: Dataset[Any], indices: list[Any]) -> list[Any]:
        samples = samples_of(dataset, indices)
        if len(samples) != len(indices):
            raise ValueError(
                f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(samples)}"
            )
        return samples

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T_co]):
    """The samples of several datasets one after the other.

    Raises AssertionError when there is none or one of them is an IterableDataset.

    >>> import flambeau
    >>> from flambeau.utils.data import ConcatDataset
    >>> both = ConcatDataset(["ab", "cde"])
    >>> len(both), both[3]
    (5, 'd')
    """

    datasets: list[Any]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Dataset[T_co]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset: datasets should not be an empty iterable")
        for i, dataset in enumerate(self.datasets):
            if isinstance(dataset, IterableDataset):
                raise AssertionError(f"ConcatDataset does not support IterableDataset: datasets[{i}]")
        self.cumulative_sizes = list(accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T_co:
        if index < 0:
            if -index > len(self):
                raise ValueError(
                    f"ConcatDataset: absolute value of index should not exceed dataset length {len(self)}, "
                    f"got {index}"
                )
            index += len(self)
        which = bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset[Any]):
    """The samples of several IterableDatasets one after the other.

    Raises AssertionError, when it is used, if one of them is not an IterableDataset.

    >>> import flambeau
    >>> from flambeau.utils.data import ChainDataset, IterableDataset
    >>> class Count(IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(2))
    >>> list(ChainDataset([Count(), Count()]))
    [0, 1, 0, 1]
    """

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._checked():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._checked())

    def _checked(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError(
                    f"ChainDataset only supports IterableDataset, got {type(dataset).__name__}"
                )
            yield dataset


class Subset(Dataset[T_co]):
    """The samples of `dataset` that have the numbers `indices`, in that order.

    Raises:
        IndexError: when it is used: there is no such place

    >>> from flambeau.utils.data import Subset
    >>> Subset("abcde", [4, 0])[0]
    'e'
    """

    dataset: Any
    indices: Sequence[int]

    def __init__(self, dataset: Indexed[T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> T_co:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[T_co]:
        if type(self).__getitem__ is not Subset.__getitem__:
            return [self[i] for i in indices]
        return samples_of(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)

    def __getbatch__(self, indices: list[Any]) -> list[Any] | None:
        has_getbatch = _inherits(self, Subset) and hasattr(self.dataset, "__getbatch__")
        return self.dataset.__getbatch__([self.indices[i] for i in indices]) if has_getbatch else None


# `__getbatch__(indices)` of a dataset is what default_collate makes of these samples, or None when it is not
# known.  It spares one small tensor per sample.


def _inherits(dataset: Any, cls: Any) -> bool:
    """Whether the dataset's samples are what `cls` says: no subclass redefines how they are fetched."""
    mine: Any = type(dataset)
    same = mine.__getitem__ is cls.__getitem__
    return same and getattr(mine, "__getitems__", None) is getattr(cls, "__getitems__", None)


def _select(tensors: tuple[Any, ...], indices: list[Any]) -> list[Any] | None:
    if not indices or not all(type(i) is int for i in indices):
        return None
    n = tensors[0].size(0)
    if min(indices) < 0:
        indices = [i + n if i < 0 else i for i in indices]
    if min(indices) < 0 or max(indices) >= n:
        raise IndexError(f"TensorDataset: index out of range, got {indices}, wanted 0 to {n - 1}")
    index = tensor(indices, device="cpu")
    return [_rows(t, index) for t in tensors]


def _rows(t: Any, index: Any) -> Any:
    """Those entries of `t`; in a worker's process straight into the memory in which they travel."""
    if type(t) is Tensor and not t.requires_grad and t.device.type == "cpu":
        out = shared_output((len(index), *t.shape[1:]), t.dtype)
        if out is not None:
            return t.index_select(0, index, out=out)
    return t.index_select(0, index.to(t.device))


def random_split(
    dataset: Indexed[T_co], lengths: Sequence[int | float], generator: Generator | None = None
) -> list[Subset[T_co]]:
    """Splits a dataset at random into subsets of `lengths`, which add up to its length, or are fractions that
    add up to 1.

    Fractions are rounded down, and what is left is dealt out one by one from the first subset on.
    `generator` makes the permutation; None is the default generator.

    Raises ValueError when the lengths do not add up or a fraction is outside [0, 1]; warns of a subset
    without samples.

    >>> import flambeau
    >>> parts = flambeau.utils.data.random_split(range(10), [0.25, 0.75])
    >>> [len(part) for part in parts]
    [3, 7]
    """
    total = len(dataset)  # type: ignore[arg-type]
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        for i, fraction in enumerate(lengths):
            if not 0 <= fraction <= 1:
                raise ValueError(
                    f"random_split: Fraction at index {i} is not between 0 and 1: got {fraction}"
                )
        counts = [math.floor(total * fraction) for fraction in lengths]
        for i in range(total - sum(counts)):
            counts[i % len(counts)] += 1
        for i, count in enumerate(counts):
            if count == 0:
                warnings.warn(
                    f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=2
                )
    else:
        counts = list(lengths)  # type: ignore[arg-type]
    if sum(counts) != total:
        raise ValueError(
            "random_split: Sum of input lengths does not equal the length of the input dataset: got "
            f"{sum(counts)}, wanted {total}"
        )
    order = randperm(total, generator=generator, device="cpu").tolist()
    return [Subset(dataset, order[end - count : end]) for end, count in zip(accumulate(counts), counts)]
