"""Adadelta."""

from __future__ import annotations

from ._declared import Declared, Option, like, scalar
from ._functional import function_of
from ._functions import sqrt

__all__ = ["Adadelta", "adadelta"]


class Adadelta(Declared):
    """Adadelta: steps by the gradient times a root of past steps over one of past gradients (Zeiler, 2012).

    v ← ρ·v + (1 - ρ)·g², δ = √(u + eps) / √(v + eps) · g, u ← ρ·u + (1 - ρ)·δ², p ← p - lr·δ.

    `state[p]` has `step`, `square_avg` (v) and `acc_delta` (u).  Parameters are floating-point or complex tensors
    of any shape.  The options that all optimisers share are explained in `Optimizer`.

    Raises ValueError for negative options and rho outside [0, 1].

    >>> import flambeau
    >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = flambeau.optim.Adadelta([w], eps=0.25, rho=0.0)
    >>> (w * w).sum().backward(), optimizer.step(), w
    (None, None, tensor([ 0.5149, -1.5039], requires_grad=True))
    """

    options = dict(
        lr=1.0, rho=Option(0.9, lambda x: 0 <= x <= 1, "a number in [0, 1]"), eps=1e-6, weight_decay=0
    )
    flags = "foreach, *, capturable, maximize, differentiable"
    entries = dict(step=scalar(), square_avg=like(), acc_delta=like())

    @staticmethod
    def rule(p, g, square_avg, acc_delta, *, lr, rho, eps):
        square_avg = rho * square_avg + (1 - rho) * g * g
        delta = sqrt(acc_delta + eps) / sqrt(square_avg + eps) * g
        return p - lr * delta, square_avg, rho * acc_delta + (1 - rho) * delta * delta


adadelta = function_of(Adadelta, square_avgs="square_avg", acc_deltas="acc_delta", state_steps="step")
