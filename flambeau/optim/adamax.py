"""Adamax."""

from __future__ import annotations

from ._declared import Declared, like, scalar
from ._functional import function_of
from ._functions import absolute, maximum

__all__ = ["Adamax", "adamax"]


class Adamax(Declared):
    """Adamax: Adam with the largest gradient, which decays, in place of the root of mean squares (Kingma and Ba,
    2015, section 7).

    m ← β₁·m + (1 - β₁)·g and u ← max(β₂·u, |g| + eps), then, at the parameter's step t,
    p ← p - lr / (1 - β₁ᵗ) · m / u.

    `state[p]` has `step`, `exp_avg` (m) and `exp_inf` (u).  Parameters are floating-point or complex tensors of
    any shape.  The options that all optimisers share are explained in `Optimizer`.

    Raises ValueError for negative options and betas outside [0, 1).

    >>> import flambeau
    >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = flambeau.optim.Adamax([w], lr=0.5)
    >>> (w * w).sum().backward(), optimizer.step(), w
    (None, None, tensor([ 0.5000, -1.5000], requires_grad=True))
    """

    options = dict(lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0)
    flags = "foreach, *, maximize, differentiable, capturable"
    entries = dict(step=scalar(), exp_avg=like(), exp_inf=like())

    @staticmethod
    def rule(p, g, exp_avg, exp_inf, *, step, lr, betas, eps):
        beta1, beta2 = betas
        exp_avg = exp_avg + (1 - beta1) * (g - exp_avg)
        exp_inf = maximum(beta2 * exp_inf, absolute(g) + eps)
        return p - lr / (1 - beta1**step) * exp_avg / exp_inf, exp_avg, exp_inf


adamax = function_of(Adamax, exp_avgs="exp_avg", exp_infs="exp_inf", state_steps="step")
