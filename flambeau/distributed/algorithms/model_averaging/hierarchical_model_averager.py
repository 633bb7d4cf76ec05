"""Averages over small groups often, over larger ones more rarely."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from ..._group_making import new_subgroups
from . import utils
from .averagers import ALWAYS, ModelAverager

__all__ = ["HierarchicalModelAverager"]


class HierarchicalModelAverager(ModelAverager):
    """Averages over groups of several sizes, of processes that follow each other (Lin et al.: Hierarchical local SGD, 2020).

    Args:
        period_group_size_dict: from period to size of group, both growing; the last size is that of `process_group`.  In a call whose
            number several periods divide, the largest counts.
        warmup_steps: how many calls do nothing.
        process_group: the processes, by default all.

    Raises:
        ValueError: there are no periods, one is not positive, periods or sizes do not grow, sizes do not divide the group, or the last is
            not its size; `warmup_steps` is less than 0

    >>> from collections import OrderedDict
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.algorithms.model_averaging.hierarchical_model_averager import HierarchicalModelAverager
    >>> dist.init_process_group("fake", rank=0, world_size=4)
    >>> averager = HierarchicalModelAverager(OrderedDict([(2, 2), (8, 4)]))
    >>> {period: group.size() for period, group in averager.period_process_group_dict.items()}
    {2: 2, 8: 4}
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        period_group_size_dict: Mapping[int, int] | None = None,
        warmup_steps: int = 0,
        process_group: Any = None,
    ) -> None:
        super().__init__(process_group)
        if not period_group_size_dict:
            raise ValueError("Arg ``period_group_size_dict`` must not be empty.")
        periods, sizes = list(period_group_size_dict), list(period_group_size_dict.values())
        if min(periods) <= 0:
            raise ValueError("The minimum period in arg ``period_group_size_dict`` must be a positive value.")
        if periods != sorted(periods) or sizes != sorted(sizes):
            raise ValueError(
                f"The periods and sizes in arg ``period_group_size_dict`` must grow, got {dict(period_group_size_dict)}."
            )
        world_size = 0 if self.process_group is None else self.process_group._size
        if sizes[-1] != world_size:
            raise ValueError(
                f"The last value in arg ``period_group_size_dict`` {sizes[-1]} must be equal to the size of arg "
                f"``process_group`` {world_size}."
            )
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if periods[-1] == 1:
            warnings.warn(ALWAYS.format("the maximum period in arg ``period_group_size_dict``"), stacklevel=2)
        self._periods, self.warmup_steps = periods, warmup_steps
        self.period_process_group_dict: OrderedDict[int, Any] = OrderedDict()
        for period, size in zip(periods, sizes):
            self.period_process_group_dict[period] = (
                self.process_group if size == world_size else new_subgroups(size, self.process_group)[0]
            )

    def _find_process_group(self) -> Any:
        """The group of the largest period that divides the number of this call; None where none does."""
        return next(
            (
                self.period_process_group_dict[period]
                for period in reversed(self._periods)
                if self.step % period == 0
            ),
            None,
        )

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average the parameters that have gradients over the group whose time it is, if it is any's."""
        if self.step >= self.warmup_steps:
            group = self._find_process_group()
            if group is not None:
                utils.average_parameters_or_parameter_groups(params, group)
        self.step += 1
