"""Adam."""

from __future__ import annotations

from typing import Any

from ..core.base.tensor import TensorBase
from ._declared import Declared, like, scalar
from ._functional import function_of
from ._functions import maximum, sqrt

__all__ = ["Adam", "adam"]


class Adam(Declared):
    """Adam: steps by the running mean of gradients over the root of that of their squares (Kingma and Ba,
    2015).

    m ← β₁·m + (1 - β₁)·g and v ← β₂·v + (1 - β₂)·g², then, at the parameter's step t,
    p ← p - lr · m/(1 - β₁ᵗ) / (√(v/(1 - β₂ᵗ)) + eps).

    `weight_decay` adds `weight_decay`·p to the gradient or, with `decoupled_weight_decay`, shrinks p by
    lr·`weight_decay` instead (Loshchilov and Hutter, 2019).  `amsgrad` divides by the largest v so far (Reddi
    et al., 2018).

    `state[p]` has `step`, `exp_avg` (m), `exp_avg_sq` (v) and with `amsgrad` `max_exp_avg_sq`.  Parameters are
    floating-point or complex tensors of any shape.  The options that all optimisers share are explained in
    `Optimizer`.

    Raises ValueError for negative options, betas outside [0, 1), and options in tensors with `foreach=True`
    but without `capturable=True`.

    >>> import flambeau
    >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = flambeau.optim.Adam([w], lr=0.5)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.5000, -1.5000], requires_grad=True)
    """

    options = dict(
        lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, decoupled_weight_decay=False
    )
    flags = "*, foreach, maximize, capturable, differentiable, fused, decoupled_weight_decay"
    entries = dict(
        step=scalar(taped=True), exp_avg=like(), exp_avg_sq=like(), max_exp_avg_sq=like(when="amsgrad")
    )

    @classmethod
    def _check(cls, options: dict[str, Any]) -> None:
        if options["foreach"] and not options["capturable"]:
            for x in (options["lr"], *options["betas"]):
                if isinstance(x, TensorBase):
                    raise ValueError(
                        f"{cls.__name__}: lr or betas as a Tensor is not supported for capturable=False and "
                        "foreach=True"
                    )

    @staticmethod
    def rule(p, g, exp_avg, exp_avg_sq, max_exp_avg_sq, *, step, lr, betas, eps):
        beta1, beta2 = betas
        exp_avg = exp_avg + (1 - beta1) * (g - exp_avg)
        exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g
        if max_exp_avg_sq is not None:
            max_exp_avg_sq = maximum(max_exp_avg_sq, exp_avg_sq)
        square = exp_avg_sq if max_exp_avg_sq is None else max_exp_avg_sq
        correction = sqrt(1 - beta2**step)
        step_size = 1 / (1 - beta1**step) * lr * correction  # rounded as PyTorch rounds it on the tape
        return (
            p - step_size * exp_avg / (sqrt(square) + eps * correction),
            exp_avg,
            exp_avg_sq,
            max_exp_avg_sq,
        )


adam = function_of(
    Adam, exp_avgs="exp_avg", exp_avg_sqs="exp_avg_sq", max_exp_avg_sqs="max_exp_avg_sq", state_steps="step"
)
