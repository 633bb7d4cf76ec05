"""Counts collectives between placements."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ....core.base import display
from .._redistribute import listening


class CommDebugMode:
    """Counts the collectives that distributed tensors call while it is on (`with mode:`), those of backward passes included.

    Collectives that a program calls itself are not counted.  Names are those of `distributed`: "all_gather", "all_reduce",
    "reduce_scatter", "all_to_all".

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    >>> from flambeau.distributed.tensor.debug import CommDebugMode
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> x = distribute_tensor(flambeau.ones(4), init_device_mesh("cpu", (2,)), [Shard(0)])
    >>> with CommDebugMode() as mode:
    ...     _ = x.full_tensor(), (x + x).sum().full_tensor()
    >>> mode.get_comm_counts(), mode.get_total_counts()
    ({'all_gather': 1, 'all_reduce': 1}, 2)
    >>> dist.destroy_process_group()
    """

    def __init__(self) -> None:
        self.comm_counts: Counter[str] = Counter()
        self._on: list[Any] = []

    def __enter__(self) -> CommDebugMode:
        self.comm_counts = Counter()
        self._on.append(listening(self._note))
        self._on[-1].__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._on.pop().__exit__(*exception)

    def _note(self, name: str, group: Any) -> None:
        self.comm_counts[name] += 1

    def get_comm_counts(self) -> dict[str, int]:
        """How often each collective was called since the mode was last entered."""
        return dict(sorted(self.comm_counts.items()))

    def get_total_counts(self) -> int:
        """How many collectives there were."""
        return sum(self.comm_counts.values())


CommDebugMode.__module__ = display.public("distributed.tensor.debug")
