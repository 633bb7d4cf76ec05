"""Where training stands in its data, so that another process goes on at the same sample.

The order of an epoch follows from the states of the generators at its start.  So a position is these states and a
count of batches: whoever resumes sets the states, lets the sampler draw the same order again, and leaves out the
batches that are done, without loading them.
"""

from __future__ import annotations

import copy
import random
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any
from zlib import crc32

from ...core.make.random import default_generator, get_rng_state, set_rng_state
from ..data import DataLoader, IterableDataset


def random_states() -> dict[str, Any]:
    """The states of the generators that everybody draws from: ours, Python's, and NumPy's where it is imported."""
    states: dict[str, Any] = {"flambeau": get_rng_state(), "python": random.getstate()}
    if "numpy" in sys.modules:
        name, keys, *rest = sys.modules["numpy"].random.get_state()
        states["numpy"] = (name, keys.tolist(), *rest)
    return states


def set_random_states(states: dict[str, Any]) -> None:
    """Lets these generators go on from `random_states()`."""
    set_rng_state(states["flambeau"])
    random.setstate(states["python"])
    if "numpy" in states:
        import numpy

        numpy.random.set_state(states["numpy"])


class Position:
    """The batches of `loader`, epoch after epoch, and how to come back to the middle of one.

    `loader` is a DataLoader, or any iterable of batches that can be iterated again; of the latter, and of an
    IterableDataset, batches that are done are loaded once more and dropped.
    """

    def __init__(self, loader: Iterable[Any]) -> None:
        self.loader = loader
        self.done = 0  # batches of this epoch
        self.order = 0  # a checksum of the numbers of their samples
        self.start: dict[str, Any] = {}  # the states at the epoch's start
        self._generators = _own_generators(loader)
        self._batches: Iterable[Any] = loader
        self._sampler: _Sampler | None = None
        if isinstance(loader, DataLoader) and not isinstance(loader.dataset, IterableDataset):
            if type(loader).__iter__ is DataLoader.__iter__:
                self._batches, self._sampler = _observed(loader)

    def batches(self, epoch: int) -> Iterator[Any]:
        """The batches of an epoch that are not done; each counts as done as soon as it is given.

        Raises ValueError, before anything is loaded, where those that are done are not those of before.
        """
        for name in ("sampler", "batch_sampler"):
            sampler: Any = getattr(self.loader, name, None)
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)
        now = None
        if self.done:
            now = random_states()
            set_random_states(self.start["global"])
            self._set_states(self.start["loader"])
        else:
            self.start = {"global": random_states(), "loader": self._states()}
            self.order = 0
        if self._sampler is not None:
            self._sampler.begin(self, now)
            for batch in self._batches:
                self.done, self.order = self.done + 1, self._sampler.ahead.popleft()
                yield batch
        else:
            batches = iter(self._batches)
            self.come_back(sum(1 for _ in islice(batches, self.done)), self.order, now)
            for batch in batches:
                self.done += 1
                yield batch

    def come_back(self, skipped: int, order: int, now: dict[str, Any] | None) -> None:
        """Called when as many batches as are done were left out, or all that there are; the generators are at `now`
        then.  `order` is what `self.order` should be."""
        if skipped != self.done:
            raise ValueError(
                f"Trainer: batch {self.done} of the epoch was done before, but now the loader gives {skipped}"
            )
        if order != self.order:
            raise ValueError(
                f"Trainer: the first {self.done} batches of the epoch are not made of the samples of before: "
                f"{_name_of_sampler(self.loader)} gives another order.  It must follow from the dataset's length, its "
                "attribute `generator`, and the states of the global generators at the start of the epoch"
            )
        if now is not None:
            set_random_states(now)

    def state_dict(self) -> dict[str, Any]:
        return {"done": self.done, "start": self.start, "order": self.order, "generators": self._states()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.done, self.start, self.order = state["done"], state["start"], state["order"]
        self._set_states(state["generators"])

    def _states(self) -> list[Any]:
        return [g.get_state() for g in self._generators]

    def _set_states(self, states: list[Any]) -> None:
        if len(states) != len(self._generators):
            raise ValueError(
                f"Trainer: the checkpoint is of a loader with {len(states)} generators of its own, this one has "
                f"{len(self._generators)}"
            )
        for generator, state in zip(self._generators, states):
            generator.set_state(state)


class _Sampler:
    """Stands for a loader's sampler: leaves out what is done, and notes what is asked for."""

    def __init__(self, sampler: Any) -> None:
        self._inner = sampler
        self.ahead: deque[int] = (
            deque()
        )  # the checksum after each batch that was asked for and has not come yet

    def begin(self, position: Position, now: dict[str, Any] | None) -> None:
        self._position, self._now = position, now
        self.ahead.clear()

    def __iter__(self) -> Iterator[Any]:
        numbers, order, skipped = iter(self._inner), 0, 0
        for index in islice(numbers, self._position.done):
            order, skipped = crc32(repr(index).encode(), order), skipped + 1
        self._position.come_back(skipped, order, self._now)
        for index in numbers:
            order = crc32(repr(index).encode(), order)
            self.ahead.append(order)
            yield index

    def __len__(self) -> int:
        return len(self._inner)


def _observed(loader: DataLoader) -> tuple[DataLoader, _Sampler]:
    """A loader of the same batches whose sampler is observed."""
    name = "sampler" if loader.batch_sampler is None else "batch_sampler"
    sampler = _Sampler(getattr(loader, name))
    observed = copy.copy(loader)
    vars(observed)[name] = sampler  # as an attribute it cannot be set
    return observed, sampler


def _own_generators(loader: Any) -> list[Any]:
    """The generators that the loader and its samplers draw from, but for the global one."""
    batch_sampler = getattr(loader, "batch_sampler", None)
    holders = (
        loader,
        getattr(loader, "sampler", None),
        batch_sampler,
        getattr(batch_sampler, "sampler", None),
    )
    found = {id(g): g for holder in holders if (g := getattr(holder, "generator", None)) is not None}
    return [g for g in found.values() if g is not default_generator]


def _name_of_sampler(loader: Any) -> str:
    batch_sampler = getattr(loader, "batch_sampler", None)
    sampler = getattr(batch_sampler, "sampler", batch_sampler) or loader.sampler
    return type(sampler).__name__
