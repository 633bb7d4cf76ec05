"""SparseAdam."""

from __future__ import annotations

from typing import Any

from ._declared import Declared, Option, like, scalar
from ._functions import sqrt

__all__ = ["SparseAdam"]


class SparseAdam(Declared):
    """Adam for sparse gradients: parameters and means change where the gradient has elements, and nowhere else.

    There m ← β₁·m + (1 - β₁)·g and v ← β₂·v + (1 - β₂)·g², then, at the parameter's step t,
    p ← p - lr · √(1 - β₂ᵗ)/(1 - β₁ᵗ) · m / (√v + eps): eps is not corrected for t, as it is in `Adam`.

    `state[p]` has `step` (an int), `exp_avg` (m) and `exp_avg_sq` (v).  Parameters are dense floating-point tensors,
    gradients sparse ones, as `nn.Embedding(…, sparse=True)` makes them.  For shared options see `Optimizer`.

    Raises ValueError for lr and eps not above 0, betas outside [0, 1), and sparse or complex parameters; RuntimeError in
    `step` for dense gradients.

    >>> import flambeau
    >>> table = flambeau.nn.Embedding(3, 1, sparse=True)
    >>> _ = flambeau.nn.init.zeros_(table.weight)
    >>> optimizer = flambeau.optim.SparseAdam(table.parameters(), lr=0.5)
    >>> table(flambeau.tensor([1, 1])).sum().backward(), optimizer.step(), table.weight.detach()
    (None, None, tensor([[ 0.0000],
            [-0.5000],
            [ 0.0000]]))
    """

    options = dict(
        lr=Option(1e-3, lambda x: bool(x > 0), "a number > 0"),
        betas=(0.9, 0.999),
        eps=Option(1e-8, lambda x: bool(x > 0), "a number > 0"),
    )
    flags = "maximize"
    entries = dict(step=scalar(0, plain=True), exp_avg=like(), exp_avg_sq=like())
    takes_complex = False
    takes_sparse = True
    takes_dense = False

    def _refusal(self, p: Any) -> str | None:
        if p.is_sparse:
            return "SparseAdam requires dense parameter tensors"
        return "SparseAdam does not support complex parameters" if p.is_complex() else None

    @staticmethod
    def rule(p, g, exp_avg, exp_avg_sq, *, step, lr, betas, eps):
        beta1, beta2 = betas
        exp_avg = exp_avg + (1 - beta1) * (g - exp_avg)
        exp_avg_sq = exp_avg_sq + (1 - beta2) * (g * g - exp_avg_sq)
        size = lr * sqrt(1 - beta2**step) / (1 - beta1**step)
        return p - size * exp_avg / (sqrt(exp_avg_sq) + eps), exp_avg, exp_avg_sq
