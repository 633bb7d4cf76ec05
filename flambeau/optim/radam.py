"""RAdam."""

from __future__ import annotations

from ._declared import Declared, like, scalar
from ._functional import function_of
from ._functions import maximum, sqrt, where

__all__ = ["RAdam", "radam"]


class RAdam(Declared):
    """RAdam: Adam whose first steps are those of momentum, while too few gradients are known to tell their variance
    (Liu et al., 2020).

    m ← β₁·m + (1 - β₁)·g and v ← β₂·v + (1 - β₂)·g².  At the parameter's step t, with ρ∞ = 2/(1 - β₂) - 1 and
    ρ = ρ∞ - 2t·β₂ᵗ/(1 - β₂ᵗ): p ← p - lr · m/(1 - β₁ᵗ), and where ρ > 5 times
    √((ρ - 4)(ρ - 2)ρ∞ / ((ρ∞ - 4)(ρ∞ - 2)ρ)) · √(1 - β₂ᵗ) / (√v + eps).  `weight_decay` is as in `Adam`.

    `state[p]` has `step`, `exp_avg` (m) and `exp_avg_sq` (v).  Parameters are floating-point or complex tensors of
    any shape.  The options that all optimisers share are explained in `Optimizer`.

    Raises ValueError for negative options and betas outside [0, 1).

    >>> import flambeau
    >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = flambeau.optim.RAdam([w], lr=0.25)
    >>> (w * w).sum().backward(), optimizer.step(), w
    (None, None, tensor([ 0.5000, -1.0000], requires_grad=True))
    """

    options = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False)
    flags = "*, foreach, maximize, capturable, differentiable"
    entries = dict(step=scalar(), exp_avg=like(), exp_avg_sq=like())

    @staticmethod
    def rule(p, g, exp_avg, exp_avg_sq, *, step, lr, betas, eps):
        beta1, beta2 = betas
        exp_avg = exp_avg + (1 - beta1) * (g - exp_avg)
        exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / (1 - beta2**step)
        surplus = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
        rectified = sqrt(maximum(surplus, 0.0)) * sqrt(1 - beta2**step) / (sqrt(exp_avg_sq) + eps)
        scale = where(length > 5, rectified, 1.0)
        return p - lr / (1 - beta1**step) * exp_avg * scale, exp_avg, exp_avg_sq


radam = function_of(RAdam, exp_avgs="exp_avg", exp_avg_sqs="exp_avg_sq", state_steps="step")
