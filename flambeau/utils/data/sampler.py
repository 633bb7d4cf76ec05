"""Samplers: the order in which samples are taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any, Generic, TypeVar

from ...core.base.dtypes import by_name
from ...core.make import mt19937
from ...core.make.literal import as_tensor
from ...core.make.random import Generator, randperm
from ...operations.random.random import multinomial, new_seed, randint

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

_AT_ONCE = 1024  # how many draws are made at a time
_MOST_AT_ONCE = 1 << 26  # up to so many weighted draws stand in memory

T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co]):
    """Base class: a subclass defines `__iter__`, over the numbers of samples, and `__len__` if it can.

    >>> import flambeau
    >>> class Even(flambeau.utils.data.Sampler):
    ...     def __iter__(self):
    ...         return iter(range(0, 6, 2))
    >>> list(Even())
    [0, 2, 4]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")


class SequentialSampler(Sampler[int]):
    """The numbers of all samples of `data_source` in order.

    Raises:
        TypeError: when it is used: `data_source` has no length

    >>> import flambeau
    >>> list(flambeau.utils.data.SequentialSampler("abc"))
    [0, 1, 2]
    """

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """The numbers of samples of `data_source` at random.

    Without `replacement` a permutation of all, or, with `num_samples`, of as many permutations as it takes;
    with it, `num_samples` draws of any number, made as requested.  `generator` None is one of each
    iteration's own, with a seed from the default generator.

    Raises TypeError when `replacement` is no bool, ValueError when there is nothing to draw.

    >>> import flambeau
    >>> sorted(flambeau.utils.data.RandomSampler("abcd"))
    [0, 1, 2, 3]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Any = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(
                f"RandomSampler: replacement should be a boolean value, but got replacement={replacement}"
            )
        _check_count("RandomSampler", "num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """How many numbers an iteration yields."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, generator = len(self.data_source), _generator(self.generator)
        if self.replacement:
            for count in _parts(self.num_samples, _AT_ONCE):
                yield from randint(n, (count,), generator=generator, device="cpu").tolist()
        else:
            for count in _parts(self.num_samples, n):
                yield from randperm(n, generator=generator, device="cpu")[:count].tolist()
            if self.generator is not None and self.num_samples % n == 0:
                randperm(
                    n, generator=generator, device="cpu"
                )  # PyTorch's generator is one permutation further

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The numbers in `indices` in random order.  `generator` None is the default generator.

    Raises:
        TypeError: when it is used: `indices` has no length

    >>> import flambeau
    >>> sorted(flambeau.utils.data.SubsetRandomSampler([5, 1, 3]))
    [1, 3, 5]
    """

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in randperm(len(self.indices), generator=self.generator, device="cpu").tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """`num_samples` draws of numbers from 0 to len(`weights`) - 1, i with a probability in proportion to
    `weights[i]`.

    `weights` need not add up to one.  Draws with `replacement` are made as requested.  `generator` None is one
    of each iteration's own, with a seed from the default generator.

    Raises ValueError when `num_samples` is no positive integer, `replacement` no bool, or `weights` not of
    one dimension.

    >>> import flambeau
    >>> list(flambeau.utils.data.WeightedRandomSampler([0.0, 1.0, 0.0], num_samples=3))
    [1, 1, 1]
    """

    def __init__(
        self, weights: Any, num_samples: int, replacement: bool = True, generator: Any = None
    ) -> None:
        _check_count("WeightedRandomSampler", "num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(
                "WeightedRandomSampler: replacement should be a boolean value, but got "
                f"replacement={replacement}"
            )
        self.weights = as_tensor(weights, dtype=by_name["float64"])
        if self.weights.dim() != 1:
            raise ValueError(
                "WeightedRandomSampler: weights should be a 1d sequence but given weights have shape "
                f"{tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        if self.num_samples <= _MOST_AT_ONCE and mt19937.source(self.generator, self.weights) is not None:
            # PyTorch draws all at once.
            yield from multinomial(
                self.weights, self.num_samples, self.replacement, generator=self.generator
            ).tolist()
            return
        generator = _generator(self.generator, self.weights.device)
        most = max(_AT_ONCE, len(self.weights)) if self.replacement else self.num_samples
        for count in _parts(self.num_samples, most):
            yield from multinomial(self.weights, count, self.replacement, generator=generator).tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` numbers of `sampler`; the last may be shorter, or is left out with `drop_last`.

    Raises ValueError when `batch_size` is no positive integer or `drop_last` no bool.

    >>> from flambeau.utils.data import BatchSampler
    >>> list(BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool) -> None:
        _check_count("BatchSampler", "batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(
                f"BatchSampler: drop_last should be a boolean value, but got drop_last={drop_last}"
            )
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        numbers = iter(self.sampler)
        while batch := list(islice(numbers, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]  # of a sampler that has a length
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


def _parts(total: int, most: int) -> Iterator[int]:
    """Counts of at most `most` that add up to `total`."""
    for done in range(0, total, most):
        yield min(most, total - done)


def _generator(generator: Any, device: Any = "cpu") -> Any:
    """The generator of one iteration: what is drawn meanwhile from the default one does not change its numbers."""
    if generator is not None:
        return generator
    return Generator(device).manual_seed(new_seed())


def _check_count(function: str, name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{function}: {name} should be a positive integer value, but got {name}={value}")
