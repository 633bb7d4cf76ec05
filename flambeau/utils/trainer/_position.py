"""Where training stands in its data, so that another process goes on at the same sample.

A DataLoader tells its place and comes back to it (`DataLoader.state_dict`): its samplers draw the order of the epoch
again, and what is done is not loaded again.  Here are the generators of the program, and a check that the order is the
one of before.
"""

from __future__ import annotations

import copy
import random
import sys
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any
from zlib import crc32

from ...core.make.literal import tensor
from ...core.make.random import device_states, get_rng_state, set_device_states, set_rng_state
from ..data import DataLoader, IterableDataset


def random_states() -> dict[str, Any]:
    """The states of the generators that everybody draws from: ours, Python's, and NumPy's where it is imported."""
    version, words, gauss = random.getstate()
    states: dict[str, Any] = {
        "flambeau": get_rng_state(),
        "devices": device_states(),
        "python": (version, tensor(words), gauss),
    }
    if "numpy" in sys.modules:
        name, keys, *rest = sys.modules["numpy"].random.get_state()
        states["numpy"] = (name, tensor(keys.tolist()), *rest)
    return states


def set_random_states(states: dict[str, Any]) -> None:
    """Lets these generators go on from `random_states()`."""
    set_rng_state(states["flambeau"])
    set_device_states(states.get("devices", {}))  # checkpoints of before devices had generators have none
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words.tolist()), gauss))
    if "numpy" in states:
        import numpy

        name, keys, *rest = states["numpy"]
        numpy.random.set_state((name, keys.tolist(), *rest))


def tells_place(loader: Any) -> bool:
    """Whether `state_dict` of a loader is about what is iterated."""
    return isinstance(loader, DataLoader) and type(loader).__iter__ is DataLoader.__iter__


class Position:
    """The batches of `loader`, epoch after epoch, and how to come back to the middle of one.

    `loader` is a DataLoader, or any iterable of batches that can be iterated again; of the latter, batches that are done
    are made once more and dropped.
    """

    def __init__(self, loader: Iterable[Any]) -> None:
        self.loader = loader
        self.done = 0  # batches of this epoch
        self.ended = False  # whether these are all
        self.start: dict[str, Any] = {}  # the generators' states when it began
        self._order = 0  # a checksum of the numbers of the samples in the batches that are done
        self._batches: Any = loader
        self._numbers: _Numbers | None = None
        self._tells = tells_place(loader)
        if self._tells and not isinstance(self._batches.dataset, IterableDataset):
            self._batches, self._numbers = _observed(self._batches)

    def begin_epoch(self) -> None:
        """Nothing of the next epoch is done."""
        self.done, self.ended = 0, False

    def batches(self, epoch: int) -> Iterator[Any]:
        """The batches of an epoch that are not done; each counts as done as soon as it is given.

        Raises ValueError, before anything is loaded, where those that are done are not those of before.
        """
        if self.ended:
            return
        for name in ("sampler", "batch_sampler"):
            sampler: Any = getattr(self.loader, name, None)
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)
        if self.done:
            iterator = self._again()
        else:
            self._order, self.start = 0, random_states()
            iterator = iter(self._batches)
        for batch in iterator:
            self.done += 1
            if self._numbers is not None:
                self._order = self._numbers.ahead.popleft()
            yield batch
        self.ended = True

    def _again(self) -> Iterator[Any]:
        """The rest of an epoch.  Its order is drawn from the generators as they were at its start."""
        now = random_states()
        set_random_states(self.start)
        if self._tells:
            self._batches.load_state_dict(self._batches.state_dict())
        iterator = iter(self._batches)
        if not self._tells:
            result = sum(1 for _ in islice(iterator, self.done))
            if result < self.done:
                raise ValueError(
                    f"Trainer: {self.done} batches of the epoch were done before, but now there are {result}"
                )
        if self._numbers is not None:
            *_, order = (self._numbers.ahead.popleft() for _ in range(self.done))
            if order != self._order:
                sampler = self.loader.batch_sampler or self.loader.sampler  # type: ignore[attr-defined]
                raise ValueError(
                    f"Trainer: the first {self.done} batches of the epoch are not made of the samples of before: "
                    f"{type(getattr(sampler, 'sampler', sampler)).__name__} gives another order.  It must follow from the "
                    "dataset's length, its attribute `generator`, and the states of the global generators at the start of "
                    "the epoch"
                )
        set_random_states(now)
        return iterator

    def state_dict(self) -> dict[str, Any]:
        return {
            "done": self.done,
            "ended": self.ended,
            "start": self.start,
            "order": self._order,
            "loader": self._batches.state_dict() if self._tells else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.done, self.ended = state["done"], state["ended"]
        self.start, self._order = state["start"], state["order"]
        if self._tells:
            self._batches.load_state_dict(state["loader"])


class _Numbers:
    """Stands for a loader's sampler, and notes what was requested."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self.ahead: deque[int] = (
            deque()
        )  # the checksum after each batch that was requested and has not come yet

    def __iter__(self) -> Iterator[Any]:
        self.ahead.clear()
        order = 0
        for index in self._sampler:
            order = _checksum(index, order)
            self.ahead.append(order)
            yield index

    def __len__(self) -> int:
        return len(self._sampler)

    def __getattr__(self, name: str) -> Any:
        """The sampler's: its generator, and the sampler that it has."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._sampler, name)


def _checksum(index: Any, before: int) -> int:
    """That of all that was requested before, and a batch's numbers, or whatever stands for them."""
    try:
        return crc32(array("q", index), before)
    except (TypeError, OverflowError):
        return crc32(repr(index).encode(), before)


def _observed(loader: Any) -> tuple[Any, _Numbers]:
    """A loader of the same batches whose sampler is observed."""
    name = "sampler" if loader.batch_sampler is None else "batch_sampler"
    numbers = _Numbers(getattr(loader, name))
    observed = copy.copy(loader)
    vars(observed)[name] = numbers  # as an attribute it cannot be set
    return observed, numbers
