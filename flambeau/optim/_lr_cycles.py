"""Schedules in cycles, of the learning rate and of the momentum against it."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

from ._lr_base import LRScheduler, check_optimizer, per_group, set_option
from .optimizer import Optimizer


def _begin_momentum(
    scheduler: Any, optimizer: Optimizer, low: Any, high: Any, anew: bool
) -> tuple[list[Any], list[Any]]:
    """Prepares a schedule that cycles the momentum of each group between `low` and `high`; returns these, one a
    group."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            f"{type(scheduler).__name__}: optimizer must support momentum or beta1 with `cycle_momentum` "
            "option enabled"
        )
    scheduler.use_beta1 = "betas" in optimizer.defaults
    lowest, highest = per_group("base_momentum", optimizer, low), per_group("max_momentum", optimizer, high)
    if anew:
        for group, b, m in zip(optimizer.param_groups, lowest, highest):
            _set_momentum(scheduler, group, m)
            group["max_momentum"] = m
            group["base_momentum"] = b
    return lowest, highest


def _set_momentum(scheduler: Any, group: dict[str, Any], value: float) -> None:
    if scheduler.use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


class OneCycleLR(LRScheduler):
    """One cycle of the rate: up from `max_lr`/`div_factor` to `max_lr` in the first `pct_start` of all steps,
    then down to the initial rate/`final_div_factor` (Smith and Topin, 2018).  Steps are batches here, not
    epochs.

    The number of steps is `total_steps`, or `epochs` × `steps_per_epoch`.  With `three_phase` the way down
    first takes as long as the way up and ends at the initial rate.  `anneal_strategy` is `"cos"` or
    `"linear"`.  With `cycle_momentum` the momentum, or the first of `betas`, goes from `max_momentum` to
    `base_momentum` while the rate rises, and back.

    Raises ValueError for options out of range, and in `step` after the last of `total_steps`.

    >>> import flambeau
    >>> optimizer = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> schedule = flambeau.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=4, pct_start=0.5)
    >>> rates = []
    >>> for _ in range(3):
    ...     rates += [round(schedule.get_last_lr()[0], 3)]
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.04, 1.0, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer, self)
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise ValueError("OneCycleLR: you must define either total_steps OR (epochs AND steps_per_epoch)")
        counts: dict[str, Any] = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
        if total_steps is not None:
            counts = {"total_steps": total_steps}
        for name, count in counts.items():
            if not isinstance(count, int) or count <= 0:
                raise ValueError(f"OneCycleLR: expected positive integer {name}, but got {count}")
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"OneCycleLR: expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"OneCycleLR: anneal_strategy must be one of 'cos' or 'linear', got {anneal_strategy!r}"
            )
        self.total_steps: int = math.prod(counts.values())
        self._anneal_func_type = anneal_strategy
        self.cycle_momentum = cycle_momentum
        top, last = pct_start * self.total_steps - 1, self.total_steps - 1
        ends: tuple[float, ...]
        rates: tuple[str, ...]
        momenta: tuple[str, ...]
        if three_phase:
            ends, rates = (top, 2 * top, last), ("initial_lr", "max_lr", "initial_lr", "min_lr")
            momenta = ("max_momentum", "base_momentum", "max_momentum", "max_momentum")
        else:
            ends, rates = (top, last), ("initial_lr", "max_lr", "min_lr")
            momenta = ("max_momentum", "base_momentum", "max_momentum")
        # The last step of each phase, and the keys of what goes from where to where in it.
        self._schedule_phases: list[dict[str, Any]] = [
            dict(zip(("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum"), phase))
            for phase in zip(ends, rates, rates[1:], momenta, momenta[1:])
        ]
        if last_epoch == -1:
            for group, highest in zip(optimizer.param_groups, per_group("max_lr", optimizer, max_lr)):
                group["initial_lr"] = highest / div_factor
                group["max_lr"] = highest
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            _begin_momentum(self, optimizer, base_momentum, max_momentum, anew=last_epoch == -1)
        super().__init__(optimizer, last_epoch)

    def _between(self, start: float, end: float, part: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        t = self.last_epoch
        if t > self.total_steps:
            raise ValueError(
                f"OneCycleLR: tried to step {t} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        begin: Any = 0.0
        for phase in self._schedule_phases:
            end = phase["end_step"]
            if t <= end or phase is self._schedule_phases[-1]:
                break
            begin = end
        part = (t - begin) / (end - begin)
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            for group in groups:
                start, goal = group[phase["start_momentum"]], group[phase["end_momentum"]]
                _set_momentum(self, group, self._between(start, goal, part))
        return [self._between(group[phase["start_lr"]], group[phase["end_lr"]], part) for group in groups]


class CyclicLR(LRScheduler):
    """The rate from `base_lr` to `max_lr` in `step_size_up` steps and back in `step_size_down`, over and over
    (Smith, 2017).  Steps are batches here, not epochs.

    The height of each cycle is scaled by `mode`: `"triangular"` not at all, `"triangular2"` by 1/2 each
    cycle, `"exp_range"` by `gamma` each step; or by `scale_fn`, a function of the number of the cycle (from
    1) or of steps, as `scale_mode`, `"cycle"` or `"iterations"`, says.  With `cycle_momentum` the momentum,
    or the first of `betas`, goes the opposite way, between `max_momentum` and `base_momentum`.

    `state_dict` has the attributes of a `scale_fn` object; a plain function cannot be saved and stands there
    as None. Raises ValueError for an unknown `mode` and for an optimizer without momentum while
    `cycle_momentum` is on.

    >>> import flambeau
    >>> optimizer = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> schedule = flambeau.optim.lr_scheduler.CyclicLR(optimizer, base_lr=1.0, max_lr=3.0, step_size_up=2)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates += schedule.get_last_lr()
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [1.0, 2.0, 3.0, 2.0, 1.0]
    """

    use_beta1: bool

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer, self)
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ValueError(
                f"CyclicLR: mode is invalid and scale_fn is None: got mode={mode!r}, wanted 'triangular', "
                "'triangular2' or 'exp_range'"
            )
        lowest = per_group("base_lr", optimizer, base_lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, lowest):
                set_option(group, "lr", lr)
        self.total_size = float(step_size_up + (step_size_up if step_size_down is None else step_size_down))
        self.step_ratio = step_size_up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = _begin_momentum(
                self, optimizer, base_momentum, max_momentum, anew=last_epoch == -1
            )
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lowest

    def scale_fn(self, x: float) -> float:
        """The scale of the height in cycle, or after steps, `x`."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / 2.0 ** (x - 1) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle  # in [0, 1): where in its cycle this step is
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                _set_momentum(self, group, high - (high - low) * height * scale)
        return [
            low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        custom = self._scale_fn_custom
        plain = custom is None or isinstance(custom, types.FunctionType)
        state["_scale_fn_custom"] = None if plain else dict(getattr(custom, "__dict__", {}))
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        custom = self._scale_fn_custom
        super().load_state_dict(state_dict)
        self._scale_fn_custom = custom
        if state_dict["_scale_fn_custom"]:
            custom.__dict__.update(state_dict["_scale_fn_custom"])
