"""Averages of weights along a training: stochastic weight averaging (Izmailov et al., 2018) and exponential moving
averages (Polyak and Juditsky, 1992).

>>> import flambeau
>>> from flambeau.optim.swa_utils import AveragedModel
>>> model = flambeau.nn.Linear(1, 1, bias=False)
>>> averaged = AveragedModel(model)
>>> for weight in (1.0, 2.0, 6.0):
...     _ = flambeau.nn.init.constant_(model.weight, weight)
...     averaged.update_parameters(model)
>>> averaged(flambeau.ones(1, 1)).item()
3.0
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

from .._compat.foreach import functions
from ..autograd.grad_mode import no_grad
from ..core.base.dtypes import by_name
from ..core.make.create import zeros
from ..nn.modules.module import Module
from ..nn.modules.normalization import _BatchNorm
from ._lr_base import LRScheduler, per_group
from .optimizer import Optimizer

__all__ = [
    "AveragedModel",
    "SWALR",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

_lerp_ = functions()["_foreach_lerp_"]


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _rounds(x: Any) -> bool:
    return x.is_floating_point() or x.is_complex()


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Any, Any, Any], Any]:
    """An `avg_fn`: the exponential moving average, `decay`·average + (1 - `decay`)·parameter.

    Raises ValueError for a decay outside [0, 1].

    >>> import flambeau
    >>> from flambeau.optim.swa_utils import get_ema_avg_fn
    >>> average = get_ema_avg_fn(0.75)
    >>> average(flambeau.tensor([4.0]), flambeau.tensor([8.0]), 1)
    tensor([5.])
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[[Any, Any, Any], Any]:
    """An `avg_fn`: the mean of all parameters so far.

    The third argument is how many the average is of.

    >>> import flambeau
    >>> from flambeau.optim.swa_utils import get_swa_avg_fn
    >>> average = get_swa_avg_fn()
    >>> average(flambeau.tensor([4.0]), flambeau.tensor([8.0]), 3)
    tensor([5.])
    """

    @no_grad()
    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[Sequence[Any], Sequence[Any], Any], None]:
    """A `multi_avg_fn`: `get_ema_avg_fn(decay)` of lists of tensors of one dtype, in place.

    Raises ValueError for a decay outside [0, 1].

    >>> import flambeau
    >>> from flambeau.optim.swa_utils import get_ema_multi_avg_fn
    >>> averages = [flambeau.tensor([4.0]), flambeau.tensor([0.0, 4.0])]
    >>> get_ema_multi_avg_fn(0.75)(averages, [flambeau.tensor([8.0]), flambeau.tensor([4.0, 0.0])], 1)
    >>> averages
    [tensor([5.]), tensor([1., 3.])]
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(
        ema_param_list: Sequence[Any], current_param_list: Sequence[Any], num_averaged: Any
    ) -> None:
        if _rounds(ema_param_list[0]):
            _lerp_(ema_param_list, current_param_list, 1 - decay)
        else:
            for average, now in zip(ema_param_list, current_param_list, strict=True):
                average.copy_(average * decay + now * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[[Sequence[Any], Sequence[Any], Any], None]:
    """A `multi_avg_fn`: `get_swa_avg_fn()` of lists of tensors of one dtype, in place.

    >>> import flambeau
    >>> from flambeau.optim.swa_utils import get_swa_multi_avg_fn
    >>> averages = [flambeau.tensor([4.0]), flambeau.tensor([0.0, 4.0])]
    >>> get_swa_multi_avg_fn()(averages, [flambeau.tensor([8.0]), flambeau.tensor([4.0, 0.0])], 3)
    >>> averages
    [tensor([5.]), tensor([1., 3.])]
    """

    @no_grad()
    def swa_update(
        averaged_param_list: Sequence[Any], current_param_list: Sequence[Any], num_averaged: Any
    ) -> None:
        if _rounds(averaged_param_list[0]):
            _lerp_(averaged_param_list, current_param_list, float(1 / (num_averaged + 1)))
        else:
            for average, now in zip(averaged_param_list, current_param_list, strict=True):
                average.copy_(average + (now - average) / (num_averaged + 1))

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are the average of the model's, at the calls of `update_parameters`.

    The first call copies the parameters.  Later calls average by `multi_avg_fn(averages, parameters, count)`, in place
    on lists of tensors of one dtype and device, or by `avg_fn(average, parameter, count)`, which returns the new
    average; by default all count alike.  `use_buffers` averages the buffers, too; else they are copied each time (for
    batch norm see `update_bn`).  The copy is on `device`, where that is given.

    `module` is the copy, the buffer `n_averaged` (int64) how often it was updated.  Called, it is the copy.
    Raises AssertionError where both functions are given.

    >>> import flambeau
    >>> model = flambeau.nn.Linear(2, 2)
    >>> smooth = flambeau.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    >>> averaged = flambeau.optim.swa_utils.AveragedModel(model, multi_avg_fn=smooth)
    >>> averaged.update_parameters(model), averaged.n_averaged
    (None, tensor(1))
    """

    n_averaged: Any

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[[Any, Any, Any], Any] | None = None,
        multi_avg_fn: Callable[[Sequence[Any], Sequence[Any], Any], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("AveragedModel: Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", zeros((), dtype=by_name["int64"], device=device or "cpu"))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged model makes of the arguments."""
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Takes the parameters of `model`, which is like the one this was made of, into the average."""
        averages, values = self._averaged(self.module), self._averaged(model)
        pairs = [(average, value.detach().to(average.device)) for average, value in zip(averages, values)]
        if self.n_averaged == 0:
            for average, value in pairs:
                average.copy_(value)
        elif self.avg_fn is not None:
            for average, value in pairs:
                average.copy_(self.avg_fn(average.detach(), value, self.n_averaged.to(average.device)))
        else:
            update = self.multi_avg_fn or get_swa_multi_avg_fn()
            alike: dict[Any, tuple[list[Any], list[Any]]] = {}
            for average, value in pairs:
                lists = alike.setdefault((average.device, average.dtype), ([], []))
                lists[0].append(average.detach())
                lists[1].append(value)
            for (device, _), lists in alike.items():
                update(*lists, self.n_averaged.to(device))
        if not self.use_buffers:
            for buffer, value in zip(self.module.buffers(), model.buffers(), strict=True):
                buffer.copy_(value)
        self.n_averaged += 1

    def _averaged(self, model: Module) -> Iterable[Any]:
        return (
            itertools.chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters()
        )


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Makes the statistics of the model's batch norms anew, by one pass over the batches of `loader`.

    A batch is what the model takes, or a list or tuple that begins with it; it is moved to `device`, where that is
    given.  Without batch norms nothing is done.

    Raises:
        TypeError: `loader` cannot be iterated over

    >>> import flambeau
    >>> from flambeau.optim.swa_utils import update_bn
    >>> model = flambeau.nn.BatchNorm1d(1)
    >>> update_bn([flambeau.tensor([[1.0], [3.0]]), flambeau.tensor([[5.0], [7.0]])], model)
    >>> model.running_mean, model.running_var
    (tensor([4.]), tensor([2.]))
    """
    momenta = {m: m.momentum for m in model.modules() if isinstance(m, _BatchNorm)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    try:
        for module in momenta:
            module.reset_running_stats()
            module.momentum = None  # all batches count alike
        for batch in loader:
            batch = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(batch if device is None else batch.to(device))
    finally:
        for module, momentum in momenta.items():
            module.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """Brings the rate of each group to `swa_lr` within `anneal_epochs` epochs, and leaves it there.

    `swa_lr` is one rate for all groups, or a list of one a group.  The way there is along a cosine
    (`anneal_strategy="cos"`) or a line ("linear").  `last_epoch` as in `LRScheduler`.

    Raises ValueError for a list of another length, another strategy, and `anneal_epochs` that are negative or no int.

    >>> import flambeau
    >>> optimizer = flambeau.optim.SGD([flambeau.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = flambeau.optim.swa_utils.SWALR(optimizer, 0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> for epoch in range(3):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(scheduler.get_last_lr())
    [0.75]
    [0.5]
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = per_group("swa_lr", optimizer, swa_lr)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"SWALR: anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"SWALR: anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        for rate, group in zip(rates, optimizer.param_groups):
            group["swa_lr"] = rate
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, t: float) -> float:
        """How much of the way is done at the share t of the epochs."""
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def _done(self, step: int) -> float:
        return self.anneal_func(max(0, min(1, step / max(1, self.anneal_epochs))))

    def get_lr(self) -> list[Any]:
        """The rates of all groups at `last_epoch`; meant to be called by `step` only, see `get_last_lr`."""
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._done(step - 1), self._done(step)
        rates = []
        for group in self.optimizer.param_groups:
            end = group["swa_lr"]
            start = end if before == 1 else (group["lr"] - before * end) / (1 - before)
            rates.append(end * now + start * (1 - now))
        return rates
