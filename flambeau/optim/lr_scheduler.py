"""Schedules of the learning rate.

A schedule sets `group["lr"]` of each parameter group whenever its `step()` is called, usually once an epoch,
after the optimiser's steps.  Most schedules say how the rate changes from one epoch to the next rather than
what it is, so that several of them act together on one optimiser: each multiplies the rate that the others
leave.

>>> import flambeau
>>> weight = flambeau.zeros(1, requires_grad=True)
>>> optimizer = flambeau.optim.SGD([weight], lr=1.0)
>>> scheduler = flambeau.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
>>> for epoch in range(4):
...     optimizer.step()
...     scheduler.step()
...     print(scheduler.get_last_lr())
[1.0]
[0.5]
[0.5]
[0.25]
"""

from __future__ import annotations

import math
import types
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ._lr_base import LRScheduler, check_optimizer, group_rates, per_group, set_option, warn_epoch
from ._lr_cycles import CyclicLR, OneCycleLR
from .optimizer import Optimizer

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "LRScheduler",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


_LRScheduler = LRScheduler  # its name in older programs


def _functions(name: str, optimizer: Optimizer, lr_lambda: Any) -> list[Callable[[int], float]]:
    groups = len(optimizer.param_groups)
    if not isinstance(lr_lambda, (list, tuple)):
        return [lr_lambda] * groups
    if len(lr_lambda) != groups:
        raise ValueError(f"{name}: Expected {groups} lr_lambdas, one a group, but got {len(lr_lambda)}")
    return list(lr_lambda)


class _ByFunction(LRScheduler):
    """A schedule by `lr_lambda`, a function of the epoch or a list of them, one a group.

    `state_dict` has the attributes of callable objects; plain functions cannot be saved and stand there as
    None.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer, self)
        self.lr_lambdas = _functions(type(self).__name__, optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        state["lr_lambdas"] = [
            None if isinstance(f, types.FunctionType) else dict(getattr(f, "__dict__", {}))
            for f in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        functions = self.lr_lambdas
        super().load_state_dict(state_dict)
        self.lr_lambdas = functions
        for function, attributes in zip(functions, state_dict["lr_lambdas"]):
            if attributes:
                function.__dict__.update(attributes)


class LambdaLR(_ByFunction):
    """The initial rate times a function of the epoch: `lr_lambda`, or one of them for each group in a list.

    `state_dict` has the attributes of callable objects; plain functions cannot be saved and stand there as
    None.

    Raises:
        TypeError: the first argument is no Optimizer
        ValueError: there is not one function for each group

    >>> import flambeau
    >>> optimizer = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = flambeau.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch)
    >>> optimizer.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(_ByFunction):
    """The rate of the epoch before times a function of the epoch: `lr_lambda`, or one of them for each group
    in a list.

    `state_dict` has the attributes of callable objects; plain functions cannot be saved and stand there as
    None.

    Raises:
        TypeError: the first argument is no Optimizer
        ValueError: there is not one function for each group

    >>> import flambeau
    >>> optimizer = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = flambeau.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> optimizer.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        rates = group_rates(self.optimizer)
        if self._is_initial:
            return rates
        return [lr * f(self.last_epoch) for lr, f in zip(rates, self.lr_lambdas, strict=True)]


class _Multiplying(LRScheduler):
    """A schedule that multiplies the rates of all groups: `_ratio()` is by how much, from the epoch before to
    `last_epoch`, and `_factor()` by how much in all since the beginning."""

    def _ratio(self) -> float:
        raise NotImplementedError(f"{type(self).__name__} does not define _ratio")

    def _factor(self) -> float:
        raise NotImplementedError(f"{type(self).__name__} does not define _factor")

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        ratio = self._ratio()
        return [lr * ratio for lr in group_rates(self.optimizer)]

    def _get_closed_form_lr(self) -> list[Any]:
        factor = self._factor()
        return [base * factor for base in self.base_lrs]


class StepLR(_Multiplying):
    """The rate times `gamma` every `step_size` epochs.

    Raises:
        TypeError: the first argument is no Optimizer

    >>> import flambeau
    >>> optimizer = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = flambeau.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [1.0, 1.0, 0.5, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _ratio(self) -> float:
        return self.gamma if self.last_epoch != 0 and self.last_epoch % self.step_size == 0 else 1.0

    def _factor(self) -> float:
        return self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(_Multiplying):
    """The rate times `gamma` at each of the epochs `milestones`.

    Raises:
        TypeError: the first argument is no Optimizer

    >>> import flambeau
    >>> optimizer = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = flambeau.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 0.5, 0.25]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _ratio(self) -> float:
        return self.gamma ** self.milestones[self.last_epoch]

    def _factor(self) -> float:
        return self.gamma ** bisect_right(sorted(self.milestones.elements()), self.last_epoch)


class ConstantLR(_Multiplying):
    """The rate times `factor` for the first `total_iters` epochs.

    Raises ValueError when `factor` is outside [0, 1].

    >>> import flambeau
    >>> optimizer = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = flambeau.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.5, 0.5, 1.0, 1.0]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1.0:
            raise ValueError(f"Constant multiplicative factor expected to be between 0 and 1, got {factor}")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _ratio(self) -> float:
        if self.last_epoch == 0:
            return self.factor
        return 1.0 / self.factor if self.last_epoch == self.total_iters else 1.0

    def _factor(self) -> float:
        return 1.0 if self.last_epoch >= self.total_iters else self.factor


class LinearLR(_Multiplying):
    """The rate times a factor that goes in a line from `start_factor` to `end_factor` in `total_iters`
    epochs.

    Raises ValueError when `start_factor` is outside (0, 1] or `end_factor` outside [0, 1].

    >>> import flambeau
    >>> optimizer = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = flambeau.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.5, 0.75, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1.0:
            raise ValueError(
                f"Starting multiplicative factor expected to be greater than 0 and less or equal to 1, got {start_factor}"
            )
        if not 0 <= end_factor <= 1.0:
            raise ValueError(f"Ending multiplicative factor expected to be between 0 and 1, got {end_factor}")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _ratio(self) -> float:
        if self.last_epoch == 0:
            return self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return 1.0
        rise = self.end_factor - self.start_factor
        return 1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)

    def _factor(self) -> float:
        rise = self.end_factor - self.start_factor
        return self.start_factor + rise * min(self.total_iters, self.last_epoch) / self.total_iters


class ExponentialLR(_Multiplying):
    """The rate times `gamma` every epoch.

    Raises:
        TypeError: the first argument is no Optimizer

    >>> import flambeau
    >>> optimizer = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = flambeau.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> rates = []
    >>> for _ in range(3):
    ...     rates += schedule.get_last_lr()
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 0.25]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _ratio(self) -> float:
        return 1.0 if self._is_initial else self.gamma

    def _factor(self) -> float:
        return self.gamma**self.last_epoch


class PolynomialLR(_Multiplying):
    """The rate times (1 - epoch/`total_iters`) to the `power`, and 0 after `total_iters` epochs.

    Raises:
        TypeError: the first argument is no Optimizer

    >>> import flambeau
    >>> optimizer = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = flambeau.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4)
    >>> optimizer.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.75]
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _ratio(self) -> float:
        if self._is_initial or self.last_epoch > self.total_iters:
            return 1.0
        left = 1.0 - self.last_epoch / self.total_iters
        left_before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return (left / left_before) ** self.power

    def _factor(self) -> float:
        return (1.0 - min(self.total_iters, self.last_epoch) / self.total_iters) ** self.power


class CosineAnnealingLR(LRScheduler):
    """The rate from its initial value to `eta_min` along half a cosine of `T_max` epochs, and back in as
    many.

    SGDR without the restarts (Loshchilov and Hutter, 2017, equation 5), as a recurrence.

    Raises:
        TypeError: the first argument is no Optimizer

    >>> import flambeau
    >>> optimizer = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = flambeau.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> rates = []
    >>> for _ in range(3):
    ...     rates += [round(schedule.get_last_lr()[0], 6)]
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 0.0]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        rates = group_rates(self.optimizer)
        if self._is_initial:
            return rates
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        if (self.last_epoch - 1 - self.T_max) % (
            2 * self.T_max
        ) == 0:  # the epoch before was at the bottom, a ratio of 0
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [lr + (base - self.eta_min) * rise for base, lr in zip(self.base_lrs, rates, strict=True)]
        now = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        before = 1 + math.cos(math.pi * (self.last_epoch - 1) / self.T_max)
        return [now / before * (lr - self.eta_min) + self.eta_min for lr in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """The rate from its initial value to `eta_min` along half a cosine, again and again: first in `T_0`
    epochs, then each time in `T_mult` times as many (Loshchilov and Hutter, 2017).

    `step(epoch)` takes fractions of an epoch too.  Raises ValueError unless `T_0` and `T_mult` are integers
    above 0.

    >>> import flambeau
    >>> optimizer = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = flambeau.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += [round(schedule.get_last_lr()[0], 6)]
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [1.0, 0.5, 1.0, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"CosineAnnealingWarmRestarts: expected positive integer T_0, but got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"CosineAnnealingWarmRestarts: expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (int, float)):
            raise ValueError(f"CosineAnnealingWarmRestarts: expected a number eta_min, but got {eta_min!r}")
        self.T_0 = T_0
        self.T_i = T_0  # length of this period
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch  # epochs since the last restart
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Goes on by one epoch, or to `epoch`, which may be a fraction.  Raises ValueError for a negative
        one."""
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = 0 if epoch is None else epoch
            if epoch < 0:
                raise ValueError(
                    f"CosineAnnealingWarmRestarts.step: expected non-negative epoch, but got {epoch}"
                )
            start: float = 0
            length = self.T_0
            if self.T_mult == 1:
                start = epoch // self.T_0 * self.T_0
            else:
                while epoch >= start + length:
                    start += length
                    length *= self.T_mult
            self.T_cur = epoch - start
            self.T_i = length
        self._update_lr(math.floor(epoch))  # as in PyTorch, such steps are not counted in `_step_count`


class _Composite(LRScheduler):
    """A schedule made of others on the same optimizer, `self._schedulers`."""

    def _adopt(self, optimizer: Any, schedulers: Sequence[LRScheduler]) -> None:
        name = type(self).__name__
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(
                    f"{name}: schedulers[{i}] must be a scheduler, got {type(scheduler).__name__}"
                )
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau`, whose step needs metrics: schedulers[{i}]"
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer: schedulers[{i}] does not"
                )
        self.optimizer = optimizer
        self._schedulers = schedulers

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)


class SequentialLR(_Composite):
    """One schedule after the other: the next takes over, from its epoch 0, at each of the epochs
    `milestones`.

    Raises ValueError unless there is one milestone less than schedulers, all of them on `optimizer`.

    >>> import flambeau
    >>> optimizer = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0)
    >>> warm = flambeau.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=9)
    >>> decay = flambeau.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.25)
    >>> schedule = flambeau.optim.lr_scheduler.SequentialLR(optimizer, [warm, decay], milestones=[2])
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.5, 0.5, 1.0, 0.25]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError("SequentialLR expects at least one scheduler, but got no scheduler.")
        self._adopt(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the "
                f"number of milestone points, but got {len(schedulers)} schedulers and {len(milestones)} "
                "milestones"
            )
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            set_option(group, "lr", group["initial_lr"])
        # The schedulers made their first steps when they were made; only the one in charge shall have made
        # it.
        _take_back(self)
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self) -> None:  # type: ignore[override]  # there are no jumps
        """Goes on by one epoch."""
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def _take_back(scheduler: Any) -> None:
    for part in getattr(scheduler, "_schedulers", ()):
        _take_back(part)
        if hasattr(part, "last_epoch") and not hasattr(part, "_schedulers"):
            part.last_epoch -= 1


class ChainedScheduler(_Composite):
    """Several schedules together: each multiplies the rate that the one before it left.

    Raises ValueError when there is none or they belong to different optimizers.

    >>> import flambeau
    >>> w = flambeau.zeros(1, requires_grad=True)
    >>> optimizer = flambeau.optim.SGD([w], lr=1.0)
    >>> halves = flambeau.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    >>> steps = flambeau.optim.lr_scheduler.StepLR(optimizer, 2, 0.1)
    >>> both = flambeau.optim.lr_scheduler.ChainedScheduler([halves, steps])
    >>> for _ in range(2):
    ...     optimizer.step()
    ...     both.step()
    >>> round(both.get_last_lr()[0], 6)
    0.025
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                "ChainedScheduler expects at least one scheduler to be chained, but got no scheduler."
            )
        self._adopt(getattr(schedulers[0], "optimizer", None) if optimizer is None else optimizer, schedulers)
        self._last_lr = group_rates(self.optimizer)

    def _initial_step(self) -> None:
        for scheduler in self._schedulers:
            scheduler._initial_step()
        self._last_lr = group_rates(self.optimizer)

    def step(self) -> None:  # type: ignore[override]  # there are no jumps
        """Goes on by one epoch."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = group_rates(self.optimizer)


class ReduceLROnPlateau(LRScheduler):
    """The rate times `factor` whenever a figure has not got better for more than `patience` epochs.

    `step(metrics)` takes the figure, which should become small (`mode="min"`) or large (`"max"`).  Better
    means by more than `threshold`: of the best so far (`threshold_mode="rel"`) or in all (`"abs"`).  After a
    reduction `cooldown` epochs are not counted.  The rate does not fall under `min_lr`, one number or one a
    group, nor change by `eps` or less.

    Raises ValueError when `factor` is 1 or more, or a mode is unknown.

    >>> import flambeau
    >>> optimizer = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = flambeau.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    >>> rates = []
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     optimizer.step()
    ...     schedule.step(loss)
    ...     rates += schedule.get_last_lr()
    >>> rates
    [1.0, 1.0, 1.0, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError(f"ReduceLROnPlateau: factor should be < 1.0, got {factor}")
        check_optimizer(optimizer, self)
        if mode not in ("min", "max"):
            raise ValueError(f"ReduceLROnPlateau: mode {mode} is unknown! Wanted 'min' or 'max'")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(
                f"ReduceLROnPlateau: threshold mode {threshold_mode} is unknown! Wanted 'rel' or 'abs'"
            )
        self.optimizer = optimizer
        self.factor = factor
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = per_group("min_lr", optimizer, min_lr)
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.mode = mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.last_epoch = 0
        self._last_lr = group_rates(optimizer)
        self._reset()

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs are not counted, because the rate was reduced a short while ago."""
        return self.cooldown_counter > 0

    def _is_better(self, value: float) -> bool:
        if self.threshold_mode == "rel":
            bound = self.best * (1.0 - self.threshold if self.mode == "min" else 1.0 + self.threshold)
        else:
            bound = self.best - self.threshold if self.mode == "min" else self.best + self.threshold
        return value < bound if self.mode == "min" else value > bound

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Takes the figure of one more epoch, a number or a tensor of one element."""
        value = float(metrics)
        if epoch is not None:
            warn_epoch()
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(value):
            self.best = value
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = group_rates(self.optimizer)

    def _reduce(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"ReduceLROnPlateau: the optimizer has {len(groups)} parameter groups now, but min_lrs "
                    f"has {len(self.min_lrs)} entries: give it one a group"
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, lowest in zip(groups, self.min_lrs):
            old = float(group["lr"])
            new = max(old * self.factor, lowest)
            if old - new > self.eps:
                set_option(group, "lr", new)
