"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau

from ..operations.neural import optimizer_steps as steps
from ._optimizer import Optimizer, Params, check_nonnegative, check_rate, check_unavailable, run


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum if wanted (Sutskever et al., 2013).

    With the gradient g, to which `weight_decay`·p is added, momentum μ and dampening τ: b ← μ·b + (1 - τ)·g,
    where the first b is g itself, and p ← p - lr·b, or p - lr·(g + μ·b) with `nesterov`.  `maximize` turns
    the gradient round. `foreach` and `fused` choose among implementations elsewhere and change nothing here:
    the step is always one fused pass over all parameters.  `state[p]["momentum_buffer"]` is b.

    Raises ValueError for negative options, for `nesterov` without momentum or with dampening, and for
    `differentiable=True`.

    >>> import flambeau
    >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = flambeau.optim.SGD([w], lr=0.5)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.0, 0.0]
    """

    _added_options = dict(nesterov=False, maximize=False, foreach=None, differentiable=False, fused=None)

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_rate("SGD", lr)
        check_nonnegative("SGD", momentum=momentum, weight_decay=weight_decay)
        check_unavailable("SGD", differentiable=differentiable)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError(
                f"Nesterov momentum requires a momentum and zero dampening, got momentum={momentum}, "
                f"dampening={dampening}"
            )
        defaults = dict(
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
            maximize=maximize,
            foreach=foreach,
            differentiable=differentiable,
            fused=fused,
        )
        super().__init__(params, defaults)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient; returns the closure's loss, if there is a closure."""
        loss = self._loss(closure)
        for group in self.param_groups:
            options = {
                "sign": -1.0 if group["maximize"] else 1.0,
                "weight_decay": float(group["weight_decay"]),
                "lr": float(group["lr"]),
            }
            if group["momentum"] == 0:
                params = [p for p in group["params"] if p.grad is not None]
                run(steps.sgd, [params, [p.grad for p in params]], options)
            else:
                self._momentum_step(group, options)
        return loss

    def _momentum_step(self, group: dict[str, Any], options: dict[str, float]) -> None:
        new: list[list[Any]] = [[], [], []]  # parameters, gradients and buffers that are new
        known: list[list[Any]] = [[], [], []]
        for p in group["params"]:
            g = p.grad
            if g is None:
                continue
            state = self.state[p]
            buffer = state.get("momentum_buffer")
            lists = known
            if buffer is None:
                buffer = state["momentum_buffer"] = flambeau.zeros_like(p, requires_grad=False)
                lists = new
            lists[0].append(p)
            lists[1].append(g)
            lists[2].append(buffer)
        kernel = steps.sgd_nesterov if group["nesterov"] else steps.sgd_momentum
        options["momentum"] = float(group["momentum"])
        # A new buffer is zero, so that without dampening it becomes the first gradient.
        for lists, dampening in ((new, 0.0), (known, group["dampening"])):
            options["fresh"] = 1.0 - dampening
            run(kernel, lists, options)
