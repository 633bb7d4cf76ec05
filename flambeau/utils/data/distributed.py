"""Each of several processes takes its part of one dataset."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized
from typing import Any

from ...core.base.callbacks import callbacks, callbacks_in
from ...core.make.random import Generator, randperm
from .sampler import Sampler

__all__ = ["DistributedSampler"]

callbacks_in("flambeau.distributed._groups", "rank and number of processes")


class DistributedSampler(Sampler[Any]):
    """The part of `dataset`'s numbers that process `rank` of `num_replicas` takes.

    All processes have the same permutation, of seed + epoch (in order without `shuffle`), and take every
    `num_replicas`-th of it, so that each has as many: some numbers come twice where the length is no multiple, or the
    rest is left out with `drop_last`.  `set_epoch` gives each epoch another permutation.

    Both are by default those of `distributed.init_process_group`: ValueError where there are no groups, and for a rank that is not from 0
    to `num_replicas` - 1.

    >>> from flambeau.utils.data import DistributedSampler
    >>> [list(DistributedSampler(range(5), num_replicas=2, rank=rank, shuffle=False)) for rank in (0, 1)]
    [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            own, number = callbacks["rank and number of processes"]()
            rank = own if rank is None else rank
            num_replicas = number if num_replicas is None else num_replicas
        if rank >= num_replicas or rank < 0:
            raise ValueError(
                f"DistributedSampler: Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        n = len(dataset)
        self.num_samples = n // num_replicas if drop_last else math.ceil(n / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[Any]:
        n = len(self.dataset)
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            order = randperm(n, generator=generator, device="cpu").tolist()
        else:
            order = list(range(n))
        mine = range(self.rank, self.total_size, self.num_replicas)
        if n == 0 or len(mine) != self.num_samples:
            raise AssertionError(
                f"DistributedSampler: cannot make {self.num_samples} numbers of {n} samples for process {self.rank}"
            )
        return iter([order[i % n] for i in mine])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, on which the permutation depends: call it before each."""
        self.epoch = epoch
