"""NAdam."""

from __future__ import annotations

from ._declared import Declared, like, scalar
from ._functional import function_of
from ._functions import kept, power, sqrt

__all__ = ["NAdam", "nadam"]


class NAdam(Declared):
    """NAdam: Adam that looks a step ahead, as Nesterov's momentum does (Dozat, 2016).

    With μₜ = β₁·(1 - 0.96^(t·`momentum_decay`) / 2) and Πₜ = μ₁·…·μₜ: m ← β₁·m + (1 - β₁)·g,
    v ← β₂·v + (1 - β₂)·g², then, at the parameter's step t,
    p ← p - lr · ((1 - μₜ)·g/(1 - Πₜ) + μₜ₊₁·m/(1 - Πₜ₊₁)) / (√(v/(1 - β₂ᵗ)) + eps).
    `weight_decay` is as in `Adam`.

    `state[p]` has `step`, `mu_product` (Π), `exp_avg` (m) and `exp_avg_sq` (v).  Parameters are floating-point or
    complex tensors of any shape.  The options that all optimisers share are explained in `Optimizer`.

    Raises ValueError for negative options and betas outside [0, 1).

    >>> import flambeau
    >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = flambeau.optim.NAdam([w], lr=0.5, momentum_decay=0)
    >>> (w * w).sum().backward(), optimizer.step(), w
    (None, None, tensor([ 0.4718, -1.4718], requires_grad=True))
    """

    options = dict(
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        momentum_decay=4e-3,
        decoupled_weight_decay=False,
    )
    flags = "*, foreach, maximize, capturable, differentiable"
    entries = dict(step=scalar(), mu_product=scalar(1.0, taped=True), exp_avg=like(), exp_avg_sq=like())

    @staticmethod
    def rule(p, g, exp_avg, exp_avg_sq, *, step, mu_product, lr, betas, eps, momentum_decay):
        beta1, beta2 = betas
        mu, ahead = (beta1 * (1 - 0.5 * power(0.96, t * momentum_decay)) for t in (step, step + 1))
        mu_product = kept(mu_product * kept(mu))
        exp_avg = exp_avg + (1 - beta1) * (g - exp_avg)
        exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g * g
        now, later = lr * (1 - mu) * (1 / (1 - mu_product)), lr * ahead * (1 / (1 - mu_product * ahead))
        p = p - (now * g + later * exp_avg) / (sqrt(exp_avg_sq / (1 - beta2**step)) + eps)
        return p, mu_product, exp_avg, exp_avg_sq


nadam = function_of(
    NAdam, exp_avgs="exp_avg", exp_avg_sqs="exp_avg_sq", mu_products="mu_product", state_steps="step"
)
