"""Adam, and the step it shares with AdamW."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import flambeau

from ..operations.neural import optimizer_steps as steps
from ._optimizer import (
    Optimizer,
    Params,
    bias_correction,
    check_fraction,
    check_nonnegative,
    check_rate,
    check_unavailable,
    run,
)


class Adam(Optimizer):
    """Adam: steps by the running mean of gradients over the root of that of their squares (Kingma and Ba,
    2015).

    m ← β₁·m + (1 - β₁)·g and v ← β₂·v + (1 - β₂)·g², then, at the parameter's step t,
    p ← p - lr · m/(1 - β₁ᵗ) / (√(v/(1 - β₂ᵗ)) + eps).

    `weight_decay` adds `weight_decay`·p to the gradient or, with `decoupled_weight_decay`, shrinks p by
    lr·`weight_decay` instead (Loshchilov and Hutter, 2019).  `amsgrad` divides by the largest v so far (Reddi
    et al., 2018).  `maximize` turns the gradient round.  `foreach` and `fused` choose among implementations
    elsewhere and change nothing here: the step is always one fused pass over all parameters.

    `state[p]` has `step` (an int), `exp_avg` (m), `exp_avg_sq` (v) and with `amsgrad` `max_exp_avg_sq`.

    Raises ValueError for negative options, betas outside [0, 1), `differentiable=True` and `capturable=True`.

    >>> import flambeau
    >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = flambeau.optim.Adam([w], lr=0.5)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.5000, -1.5000], requires_grad=True)
    """

    _added_options = dict(
        amsgrad=False,
        maximize=False,
        foreach=None,
        capturable=False,
        differentiable=False,
        fused=None,
        decoupled_weight_decay=False,
    )

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        name = type(self).__name__
        check_rate(name, lr)
        check_nonnegative(name, eps=eps, weight_decay=weight_decay)
        check_fraction(name, **{"betas[0]": betas[0], "betas[1]": betas[1]})
        check_unavailable(name, differentiable=differentiable, capturable=capturable)
        defaults = dict(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=decoupled_weight_decay,
        )
        super().__init__(params, defaults)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient; returns the closure's loss, if there is a closure."""
        loss = self._loss(closure)
        state_of = self.state
        for group in self.param_groups:
            amsgrad = group["amsgrad"]
            by_step: dict[int, list[list[Any]]] = {}  # parameters that got all gradients so far are one list
            for p in group["params"]:
                g = p.grad
                if g is None:
                    continue
                state = state_of[p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = flambeau.zeros_like(p, requires_grad=False)
                    state["exp_avg_sq"] = flambeau.zeros_like(p, requires_grad=False)
                    if amsgrad:
                        state["max_exp_avg_sq"] = flambeau.zeros_like(p, requires_grad=False)
                t = state["step"] = state["step"] + 1
                lists = by_step.get(t)
                if lists is None:
                    lists = by_step[t] = [[], [], [], [], []] if amsgrad else [[], [], [], []]
                lists[0].append(p)
                lists[1].append(g)
                lists[2].append(state["exp_avg"])
                lists[3].append(state["exp_avg_sq"])
                if amsgrad:
                    lists[4].append(state["max_exp_avg_sq"])
            kernel = steps.adam_amsgrad if amsgrad else steps.adam
            for t, lists in by_step.items():
                run(kernel, lists, _options(group, t))
        return loss


def _options(group: dict[str, Any], t: int) -> dict[str, float]:
    """The scalars of step `t`."""
    lr, decay, decoupled = float(group["lr"]), float(group["weight_decay"]), group["decoupled_weight_decay"]
    beta1, beta2 = group["betas"]
    beta1, beta2 = float(beta1), float(beta2)
    return {
        "sign": -1.0 if group["maximize"] else 1.0,
        "weight_decay": 0.0 if decoupled else decay,
        "shrink": 1.0 - lr * decay if decoupled else 1.0,
        "beta1": beta1,
        "fresh1": 1.0 - beta1,
        "beta2": beta2,
        "fresh2": 1.0 - beta2,
        "eps": float(group["eps"]),
        "step_size": lr / bias_correction(beta1, t),
        "root": math.sqrt(bias_correction(beta2, t)),
    }
