"""Copies of a module in several processes."""

from __future__ import annotations

from typing import Any

from ..._compat.absent import NO_GROUP, message
from ..modules.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """A module whose gradients are averaged over the processes of a group. There are no groups yet, so to make one is the
    ValueError that it is in PyTorch before `init_process_group`; nothing is an instance of it.

    >>> import flambeau
    >>> flambeau.nn.parallel.DistributedDataParallel(flambeau.nn.Linear(2, 2))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: Default process group has not been initialized, please make sure to call init_process_group. It is not here: ...
    """

    def __init__(self, module: Module, *args: Any, **options: Any) -> None:
        raise ValueError(
            f"{NO_GROUP} {message('distributed.init_process_group', 'It')}, so {type(self).__name__} cannot be made"
        )
