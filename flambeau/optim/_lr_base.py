"""The base class of learning-rate schedules, and what they share."""

from __future__ import annotations

import warnings
from typing import Any

from ..core.base.tensor import TensorBase
from .optimizer import Optimizer


def check_optimizer(optimizer: Any, scheduler: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(
            f"{type(scheduler).__name__}: optimizer must be an Optimizer, but {type(optimizer).__name__} "
            "is not an Optimizer"
        )


def group_rates(optimizer: Optimizer, key: str = "lr") -> list[Any]:
    """The option `key` of each group; tensors are copied, so that nobody else's change shows."""
    values = [group[key] for group in optimizer.param_groups]
    return [v.clone() if isinstance(v, TensorBase) else v for v in values]


def set_option(group: dict[str, Any], key: str, value: Any) -> None:
    """Sets an option of a group, in place where it is a tensor."""
    if isinstance(group.get(key), TensorBase):
        group[key].fill_(float(value))
    else:
        group[key] = value


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value for each group, from a list of as many or from one for all."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * groups
    if len(value) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups: got {len(value)}, wanted {groups}"
        )
    return list(value)


def warn_epoch() -> None:
    warnings.warn(
        "scheduler.step(): the epoch parameter is deprecated; call step() without it to go on by one epoch",
        stacklevel=3,
    )


class LRScheduler:
    """Base class: a subclass defines `get_lr()`, the rates of all groups at `self.last_epoch`.

    `last_epoch` is the epoch to go on from; -1 starts anew.  A new schedule keeps the rate it starts from as
    `group["initial_lr"]` and in `base_lrs`, and sets the rate of epoch 0 at once.  A subclass may define
    `_get_closed_form_lr()`, the same rates as a function of `base_lrs` and `last_epoch` only.

    Raises TypeError when `optimizer` is not one, KeyError when `last_epoch` is given and a group has no
    `initial_lr`.

    >>> import flambeau
    >>> class Inverse(flambeau.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [base / (1 + self.last_epoch) for base in self.base_lrs]
    >>> optimizer = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = Inverse(optimizer)
    >>> optimizer.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    _is_initial = False  # while the constructor makes the step to the first epoch
    _get_lr_called_within_step = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer, self)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                lr = group["lr"]
                group.setdefault("initial_lr", lr.clone() if isinstance(lr, TensorBase) else lr)
            elif "initial_lr" not in group:
                raise KeyError(
                    f"{type(self).__name__}: param 'initial_lr' is not specified in param_groups[{i}], "
                    f"wanted to resume from last_epoch={last_epoch}: load the optimizer's state first, or "
                    "start with last_epoch=-1"
                )
        self.base_lrs = group_rates(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_last_lr(self) -> list[Any]:
        """The rates of all groups as this schedule set them last."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The rates of all groups at `last_epoch`; meant to be called by `step` only, see `get_last_lr`."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr")

    def step(self, epoch: int | None = None) -> None:
        """Goes on by one epoch, or, deprecated, to `epoch`, and sets the rates.

        Warns when it is called for the first time before the optimizer's first step: the first rate would be
        skipped.
        """
        if self._step_count == 1 and not getattr(self.optimizer, "_opt_called", False):
            if "step" in vars(self.optimizer):
                warnings.warn(
                    "Seems like `optimizer.step()` has been overridden: make sure that it is called "
                    "before `lr_scheduler.step()`",
                    stacklevel=2,
                )
            else:
                warnings.warn(
                    "Detected call of `lr_scheduler.step()` before `optimizer.step()`: the first learning "
                    "rate of the schedule is skipped; call them in the opposite order",
                    stacklevel=2,
                )
        self._step_count += 1
        if epoch is not None:
            warn_epoch()
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                rates = getattr(self, "_get_closed_form_lr", self.get_lr)()
        finally:
            self._get_lr_called_within_step = False
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            set_option(group, "lr", lr)
        self._last_lr = group_rates(self.optimizer)

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                stacklevel=3,
            )

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict()` returned.  The optimizer's own state, with its rates, is loaded
        apart."""
        self.__dict__.update(state_dict)
