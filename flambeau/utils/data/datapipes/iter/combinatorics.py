"""The pipe that shuffles, of which no dataset here is one."""

from __future__ import annotations

from typing import Any

from ...dataset import IterableDataset

__all__ = ["ShufflerIterDataPipe"]


class ShufflerIterDataPipe(IterableDataset):
    """A class for `isinstance`; NotImplementedError where one is made, as PyTorch deprecated pipes.

    >>> from flambeau.utils.data.datapipes.iter.combinatorics import ShufflerIterDataPipe
    >>> isinstance([1], ShufflerIterDataPipe)
    False
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "ShufflerIterDataPipe is not here, as PyTorch deprecated pipes of data: shuffle with DataLoader(shuffle=True)"
        )
