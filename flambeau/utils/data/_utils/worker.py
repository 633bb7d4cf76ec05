"""What a worker knows of itself: who it is, its random numbers, where its batches are made."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from threading import local
from typing import TYPE_CHECKING, Any, NamedTuple

from ....core.base.dtypes import by_name
from ....core.make.bridge import frombuffer
from ....core.make.random import Generator, default_generator, manual_seed

if TYPE_CHECKING:
    import random


class _RNG(NamedTuple):
    """Random numbers of one thread: those of the whole process would come in another order on each run."""

    random_generator: random.Random
    torch_generator: Generator
    numpy_generator: Any = None


class WorkerInfo(NamedTuple):
    """A worker of a DataLoader, as `get_worker_info` tells it.

    `id` counts from 0 to `num_workers` - 1, `seed` is the one that it was started with, and `dataset` its copy of the
    dataset, or in a thread the dataset itself.  `worker_method` is "multiprocessing" or "thread"; a thread has generators of its
    own in `rng` (`random_generator`, `torch_generator`, `numpy_generator`), for those of the process serve all threads.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: _RNG | None = None
    worker_method: str | None = "multiprocessing"


_worker_info: WorkerInfo | None = None  # of this process
_of_thread = local()
_allocate: Callable[[tuple[int, ...], Any], Any] | None = None


def get_worker_info() -> WorkerInfo | None:
    """The worker of a DataLoader in which this is called; None outside of workers.

    A dataset asks it which part of the samples is its own; see `IterableDataset`.

    >>> import flambeau
    >>> flambeau.utils.data.get_worker_info() is None
    True
    """
    return getattr(_of_thread, "info", _worker_info)


def become(info: WorkerInfo, allocate: Callable[[tuple[int, ...], Any], Any] | None = None) -> None:
    """This process, or thread, is that worker from now on.  `allocate(shape, dtype)` gives tensors to make batches in."""
    global _worker_info, _allocate
    if info.worker_method == "thread":
        _of_thread.info = info
    else:
        _worker_info, _allocate = info, allocate


def shared_output(shape: tuple[int, ...], dtype: Any) -> Any:
    """A tensor in memory that both this worker's process and the loader's see; None outside of such a worker, or where
    the elements are so few that they travel in the message.
    """
    return None if _allocate is None else _allocate(shape, dtype)


# --- random numbers ---------------------------------------------------------------


def process_state() -> Any:
    """Where the generators of this process stand, `random`'s, flambeau's and, where it is used, NumPy's: plain numbers,
    tuples and bytes.
    """
    import random

    theirs = None
    if "numpy" in sys.modules:
        import numpy

        kind, keys, *rest = numpy.random.get_state()
        theirs = kind, keys.tobytes(), *rest
    return random.getstate(), bytes(default_generator.get_state().untyped_storage()), theirs


def restore_process(state: Any) -> None:
    """Puts the generators of this process where `process_state` found them."""
    import random

    python, own, theirs = state
    random.setstate(python)
    default_generator.set_state(_bytes_tensor(own))
    if theirs is not None:
        import numpy

        kind, keys, *rest = theirs
        numpy.random.set_state((kind, numpy.frombuffer(keys, numpy.uint32), *rest))


class ProcessStreams:
    """The generators of this process."""

    rng = None

    def __init__(self, base_seed: int, worker_id: int) -> None:
        import random

        import numpy

        random.seed(base_seed + worker_id)
        manual_seed(base_seed + worker_id)
        numpy.random.seed(_generate_state(base_seed, worker_id))

    state = staticmethod(process_state)
    restore = staticmethod(restore_process)


class ThreadStreams:
    """Generators of one thread alone, `get_worker_info().rng`."""

    def __init__(self, base_seed: int, worker_id: int) -> None:
        import random

        import numpy

        self.rng = _RNG(
            random.Random(base_seed + worker_id),
            Generator().manual_seed(base_seed + worker_id),
            numpy.random.default_rng(_generate_state(base_seed, worker_id)),
        )

    def state(self) -> Any:
        """Plain numbers, tuples, dicts and bytes."""
        rng = self.rng
        own = bytes(rng.torch_generator.get_state().untyped_storage())
        return rng.random_generator.getstate(), own, rng.numpy_generator.bit_generator.state

    def restore(self, state: Any) -> None:
        ours, own, theirs = state
        self.rng.random_generator.setstate(ours)
        self.rng.torch_generator.set_state(_bytes_tensor(own))
        self.rng.numpy_generator.bit_generator.state = theirs


def _bytes_tensor(raw: bytes) -> Any:
    return frombuffer(bytearray(raw), dtype=by_name["uint8"])


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Four words for `numpy.random.seed`: O'Neill's seed sequence, as in NumPy's bit_generator.pyx, so that NumPy's stream
    differs from `random`'s, which has the same algorithm.
    """
    word = 0xFFFFFFFF
    multiplier = 0x43B0D7E5

    def hashed(value: int) -> int:
        nonlocal multiplier
        value = (value ^ multiplier) & word
        multiplier = multiplier * 0x931E8875 & word
        value = value * multiplier & word
        return value ^ value >> 16

    pool = [hashed(value) for value in (worker_id, base_seed & word, base_seed >> 32, 0)]
    for source in range(4):
        for target in range(4):
            if source != target:
                mixed = (0xCA01F9DD * pool[target] - 0x4973F715 * hashed(pool[source])) & word
                pool[target] = mixed ^ mixed >> 16
    multiplier = 0x8B51F9DD
    state = []
    for value in pool:
        value = (value ^ multiplier) & word
        multiplier = multiplier * 0x58F38DED & word
        value = value * multiplier & word
        state.append(value ^ value >> 16)
    return state


# What loaders that libraries write send between processes.
class _IterableDatasetStopIteration(NamedTuple):
    """A worker's dataset has no more samples."""

    worker_id: int


class _ResumeIteration(NamedTuple):
    """A worker begins another pass."""

    seed: int | None = None


class ManagerWatchdog:
    """Whether the process that started this worker lives.

    >>> ManagerWatchdog().is_alive()
    True
    """

    def __init__(self) -> None:
        self.manager_pid = os.getppid()
        self.manager_dead = False

    def is_alive(self) -> bool:
        """Once it does not, never again."""
        self.manager_dead = self.manager_dead or os.getppid() != self.manager_pid
        return not self.manager_dead
