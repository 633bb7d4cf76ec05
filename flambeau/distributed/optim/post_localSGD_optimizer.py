"""An optimizer after whose steps parameters are averaged over the processes, every few steps."""

from __future__ import annotations

import warnings
from typing import Any

from ...optim.optimizer import Optimizer
from ..algorithms.model_averaging.averagers import ModelAverager

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Post-local SGD (Lin, Stich, Patel, Jaggi: Don't Use Large Mini-Batches, Use Local SGD, 2020).

    Args:
        optim: steps in this process.
        averager: averages the parameters after each step, such as `PeriodicModelAverager(period, warmup_steps)`; `warmup_steps` is
            the `start_localSGD_iter` of `PostLocalSGDState`.

    Its state dict is that of `optim` with the averager's `step`.  ValueError and others are those of the two.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    >>> from flambeau.distributed.optim import PostLocalSGDOptimizer
    >>> dist.init_process_group("fake", rank=0, world_size=1)
    >>> net = flambeau.nn.Linear(2, 1)
    >>> sgd = flambeau.optim.SGD(net.parameters(), lr=0.1)
    >>> optimizer = PostLocalSGDOptimizer(sgd, PeriodicModelAverager(period=4, warmup_steps=100))
    >>> net(flambeau.ones(1, 2)).sum().backward()
    >>> optimizer.step()
    >>> optimizer.state_dict()["step"]
    1
    >>> dist.destroy_process_group()
    """

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        self.optim, self.averager = optim, averager
        self.defaults = optim.defaults

    @property
    def param_groups(self) -> Any:  # type: ignore[override]
        """Those of `optim`."""
        return self.optim.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """That of `optim`."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """The state dict of `optim`, and the averager's `step`."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state dict; with a warning one without the averager's `step`, which is 0 then."""
        self.optim.load_state_dict({key: value for key, value in state_dict.items() if key != "step"})
        if "step" not in state_dict:
            warnings.warn(
                "Loaded state dict does not contain a step counter for an averager. Setting step counter to 0.",
                stacklevel=2,
            )
        self.averager.step = state_dict.get("step", 0)

    def step(self, closure: Any = None) -> Any:
        """Step, and average where the averager says so; the loss of `closure`."""
        loss = self.optim.step() if closure is None else self.optim.step(closure)
        self.averager.average_parameters(self.param_groups)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """As `optim.zero_grad`."""
        self.optim.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As `optim.add_param_group`."""
        self.optim.add_param_group(param_group)
