"""Optimizers that step inside backward, each as soon as its parameter's gradient is there, so that gradients need not live together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...nn.modules.module import Module
from ...optim.optimizer import Optimizer

__all__: list[str] = []


def _apply_optimizer_in_backward(
    optimizer_class: type[Optimizer],
    params: Iterable[Any],
    optimizer_kwargs: dict[str, Any],
    register_hook: bool = True,
) -> None:
    """Give each parameter an optimizer of its own, which steps in backward; the gradient is None then.

    Called again, it adds another one.  `DistributedDataParallel` of a module whose parameters have some steps them with the averaged
    gradients.

    Args:
        register_hook: False where somebody else calls the optimizers, which are `parameter._in_backward_optimizers`.

    Raises:
        ValueError, TypeError: as the optimizer raises

    >>> import flambeau
    >>> from flambeau.distributed.optim import _apply_optimizer_in_backward
    >>> net = flambeau.nn.Linear(1, 1, bias=False)
    >>> _ = net.weight.data.fill_(1.0)
    >>> _apply_optimizer_in_backward(flambeau.optim.SGD, net.parameters(), {"lr": 0.5})
    >>> net(flambeau.ones(1, 1)).sum().backward()
    >>> net.weight.item(), net.weight.grad is None
    (0.5, True)
    """
    for param in list(params):
        made = optimizer_class([param], **optimizer_kwargs)
        first = not hasattr(param, "_in_backward_optimizers")
        if first:
            param._in_backward_optimizers, param._optimizer_classes, param._optimizer_kwargs = [], [], []
        param._in_backward_optimizers.append(made)
        param._optimizer_classes.append(optimizer_class)
        param._optimizer_kwargs.append(optimizer_kwargs)
        if register_hook and not hasattr(param, "_in_backward_handle"):
            param._in_backward_handle = param.register_post_accumulate_grad_hook(step_in_backward)


def step_in_backward(param: Any) -> None:
    """Step a parameter's optimizers, and take its gradient away."""
    for optimizer in param._in_backward_optimizers:
        optimizer.step()
    param.grad = None


def _get_in_backward_optimizers(module: Module) -> list[Optimizer]:
    """The optimizers that the parameters of a module have, in the order of the parameters; for checkpoints.

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.distributed.optim import _apply_optimizer_in_backward, _get_in_backward_optimizers
    >>> net = flambeau.nn.Linear(1, 1)
    >>> _apply_optimizer_in_backward(flambeau.optim.SGD, net.parameters(), {"lr": 0.5})
    >>> len(_get_in_backward_optimizers(net))
    2
    """
    return [made for param in module.parameters() for made in getattr(param, "_in_backward_optimizers", ())]
