"""RMSprop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau

from ..operations.neural import optimizer_steps as steps
from ._optimizer import Optimizer, Params, check_nonnegative, check_rate, check_unavailable, run

_KERNELS = {  # by (centered, with momentum)
    (False, False): steps.rmsprop,
    (True, False): steps.rmsprop_centered,
    (False, True): steps.rmsprop_momentum,
    (True, True): steps.rmsprop_centered_momentum,
}


class RMSprop(Optimizer):
    """RMSprop: steps by the gradient over the root of the running mean of its squares (Tieleman and Hinton,
    2012).

    v ← α·v + (1 - α)·g², then p ← p - lr·g / (√v + eps).  `centered` subtracts from v the square of the
    running mean of g (Graves, 2013); with `momentum` μ the quotient is accumulated first, b ← μ·b + g / (√v +
    eps).  `weight_decay` adds `weight_decay`·p to the gradient, `maximize` turns it round.  `foreach` chooses
    among implementations elsewhere and changes nothing here: the step is always one fused pass over all
    parameters.

    `state[p]` has `step` (an int), `square_avg` (v), with momentum `momentum_buffer` (b), centered
    `grad_avg`.

    Raises ValueError for negative options, `differentiable=True` and `capturable=True`.

    >>> import flambeau
    >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = flambeau.optim.RMSprop([w], lr=0.1, alpha=0.75)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.8000, -1.8000], requires_grad=True)
    """

    _added_options = dict(
        momentum=0, centered=False, maximize=False, foreach=None, capturable=False, differentiable=False
    )

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate("RMSprop", lr)
        check_nonnegative("RMSprop", eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        check_unavailable("RMSprop", differentiable=differentiable, capturable=capturable)
        defaults = dict(
            lr=lr,
            momentum=momentum,
            alpha=alpha,
            eps=eps,
            centered=centered,
            weight_decay=weight_decay,
            capturable=capturable,
            foreach=foreach,
            maximize=maximize,
            differentiable=differentiable,
        )
        super().__init__(params, defaults)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient; returns the closure's loss, if there is a closure."""
        loss = self._loss(closure)
        for group in self.param_groups:
            centered, momentum = bool(group["centered"]), float(group["momentum"])
            entries = ["square_avg"]
            if centered:
                entries.append("grad_avg")
            if momentum > 0:
                entries.append("momentum_buffer")
            lists: list[list[Any]] = [[], [], *([] for _ in entries)]
            for p in group["params"]:
                g = p.grad
                if g is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    for entry in entries:
                        state[entry] = flambeau.zeros_like(p, requires_grad=False)
                state["step"] += 1
                lists[0].append(p)
                lists[1].append(g)
                for tensors, entry in zip(lists[2:], entries):
                    tensors.append(state[entry])
            alpha = float(group["alpha"])
            options = {
                "sign": -1.0 if group["maximize"] else 1.0,
                "weight_decay": float(group["weight_decay"]),
                "lr": float(group["lr"]),
                "alpha": alpha,
                "fresh": 1.0 - alpha,
                "eps": float(group["eps"]),
            }
            if momentum > 0:
                options["momentum"] = momentum
            run(_KERNELS[centered, momentum > 0], lists, options)
        return loss
