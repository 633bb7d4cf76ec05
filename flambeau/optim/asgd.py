"""Averaged stochastic gradient descent."""

from __future__ import annotations

from ._declared import Declared, anything, like, scalar
from ._functional import function_of
from ._functions import maximum, power, where

__all__ = ["ASGD", "asgd"]


class ASGD(Declared):
    """Stochastic gradient descent that keeps the average of the parameters, too (Polyak and Juditsky, 1992).

    p ← p·(1 - `lambd`·η) - η·g and a ← a + μ·(p - a), where after the parameter's step t
    η = lr / (1 + `lambd`·lr·t)^`alpha` and μ = 1 / max(1, t - `t0`).

    `state[p]` has `step`, `eta` (η), `mu` (μ) and the average `ax` (a).  Parameters are floating-point or complex
    tensors of any shape.  The options that all optimisers share are explained in `Optimizer`.

    Raises ValueError for a negative lr or weight_decay.

    >>> import flambeau
    >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = flambeau.optim.ASGD([w], lr=0.25, lambd=0.0)
    >>> (w * w).sum().backward(), optimizer.step(), w
    (None, None, tensor([ 0.5000, -1.0000], requires_grad=True))
    """

    options = dict(lr=1e-2, lambd=anything(1e-4), alpha=anything(0.75), t0=anything(1e6), weight_decay=0)
    flags = "foreach, maximize, differentiable, capturable"
    entries = dict(step=scalar(), eta=scalar("lr"), mu=scalar(1.0), ax=like())

    @staticmethod
    def rule(p, g, ax, *, step, eta, mu, lr, lambd, alpha, t0):
        p = p * (1 - lambd * eta) - eta * g
        ax = where(mu == 1, p, ax + mu * (p - ax))
        return p, lr / power(1 + lambd * lr * step, alpha), 1 / maximum(step - t0, 1.0), ax


asgd = function_of(ASGD, axs="ax", mus="mu", etas="eta", state_steps="step")
