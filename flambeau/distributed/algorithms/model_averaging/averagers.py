"""When parameters are averaged: every few steps, after steps in which gradients are."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from ..._groups import resolve
from . import utils

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(ABC):
    """Averages parameters; `step` counts the calls.

    Args:
        process_group: the processes, by default all.

    Raises:
        ValueError: there is no group

    >>> import inspect
    >>> from flambeau.distributed.algorithms.model_averaging.averagers import ModelAverager
    >>> inspect.isabstract(ModelAverager)
    True
    """

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = resolve(process_group)
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average a module's parameters, or those of an optimizer's groups, if it is time."""


class PeriodicModelAverager(ModelAverager):
    """Averages in the call after `warmup_steps` others, and in every `period`-th from there.

    Args:
        period: how many calls apart averages are.
        warmup_steps: how many calls do nothing.
        process_group: the processes, by default all.

    Raises:
        ValueError: `period` is less than 1, or `warmup_steps` less than 0

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    >>> dist.init_process_group("fake", rank=0, world_size=1)
    >>> averager, net = PeriodicModelAverager(period=4, warmup_steps=100), flambeau.nn.Linear(1, 1)
    >>> averager.average_parameters(net.parameters())
    >>> averager.step
    1
    >>> dist.destroy_process_group()
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        if period == 1:
            warnings.warn(ALWAYS.format("period"), stacklevel=2)
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average the parameters that have gradients, if it is time."""
        since = self.step - self.warmup_steps
        if since >= 0 and since % self.period == 0:
            utils.average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1


ALWAYS = (
    "When {} is 1, no need to use model averaging because the communication cost of all-reducing parameters will be no less than "
    "that of all-reducing gradients by DistributedDataParallel."
)
