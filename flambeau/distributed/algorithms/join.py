"""Training on uneven inputs: who has no more goes along with the others until all are through."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from ...core.make.create import ones, zeros
from .._collectives import all_reduce
from .._work import Work

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a process without inputs does: `main_hook` in each of the others' iterations, `post_hook` when all are through.

    >>> from flambeau.distributed.algorithms.join import JoinHook
    >>> JoinHook().main_hook()
    """

    def main_hook(self) -> None:
        """Answer the collectives of one iteration."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Take over what the last ones have."""


@dataclass
class _Config:
    enable: bool = False
    throw_on_early_termination: bool = False
    is_first_joinable: bool = False
    options: dict[str, Any] = field(default_factory=dict)


class Joinable(ABC):
    """What can be in a `Join` context: it says what to do for others (`join_hook`), on which device and with which processes.

    >>> from flambeau.distributed.algorithms.join import Joinable
    >>> import flambeau
    >>> issubclass(flambeau.nn.parallel.DistributedDataParallel, Joinable)
    True
    """

    @abstractmethod
    def __init__(self) -> None:
        super().__init__()
        self._join_config = _Config()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process without inputs does."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """The device on which processes count each other."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The processes."""


class Join:
    """A context for loops over uneven inputs.

    Args:
        joinables: what communicates in each iteration; the first of them counts the processes (`notify_join_context`).
        enable: whether to do anything.
        throw_on_early_termination: RuntimeError on all processes as soon as one has no more inputs.

    Raises:
        ValueError: there are no joinables, or they have different processes

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.algorithms.join import Join
    >>> dist.init_process_group("fake", rank=0, world_size=1)
    >>> net = flambeau.nn.parallel.DistributedDataParallel(flambeau.nn.Linear(1, 1))
    >>> with Join([net], enable=False):
    ...     net(flambeau.ones(1, 1)).sum().backward()
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        joinables: Sequence[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        groups = {id(each.join_process_group) for each in joinables}
        if len(groups) != 1:
            raise ValueError("Using join context manager with multiple process groups")
        self._joinables, self._enable, self._throw = list(joinables), enable, throw_on_early_termination
        self._hooks = [each.join_hook(**kwargs) for each in joinables]
        self._group = joinables[0].join_process_group
        for k, each in enumerate(joinables):
            each._join_config = _Config(enable, throw_on_early_termination, k == 0, kwargs)

    def __enter__(self) -> Join:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._enable and kind is None:
                self._go_along()
        finally:
            for each in self._joinables:
                each._join_config = _Config()

    def _go_along(self) -> None:
        last, iterations = True, 0
        while True:
            count = zeros(1)
            all_reduce(count, group=self._group)
            if count.item() == 0:
                break
            if self._throw:
                self._tell_exhausted()
                raise RuntimeError(f"Rank {self._group._rank} exhausted all inputs.")
            for hook in self._hooks:
                hook.main_hook()
            last, iterations = False, iterations + 1
            if iterations == 1000:
                warnings.warn(
                    "Detected uneven input skew of greater than 1000. This means that rank "
                    f"{self._group._rank} has at least 1000 fewer inputs than other currently-active ranks."
                )
        for hook in self._hooks:
            hook.post_hook(last)

    def _tell_exhausted(self) -> None:
        all_reduce(ones(1), group=self._group)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Work | None:
        """Say that this process begins an iteration, before its other collectives; the `Work` counts those that do.

        Returns:
            None outside of a context, and for all but its first joinable.

        Raises:
            RuntimeError: a process has no more inputs, and the context is to raise then
        """
        config = joinable._join_config
        if not config.enable or not config.is_first_joinable:
            return None
        group = joinable.join_process_group
        work = all_reduce(ones(1), group=group, async_op=True)
        if config.throw_on_early_termination:
            assert work is not None
            work.wait()
            if int(work.result()[0].item()) < group._size:
                exhausted = zeros(1)
                all_reduce(exhausted, group=group)
                raise RuntimeError(
                    "Detected at least one rank that exhausted inputs. Throwing across all ranks."
                )
        return work
