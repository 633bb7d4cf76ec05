"""Adagrad."""

from __future__ import annotations

from ._declared import Declared, like, scalar
from ._functional import function_of
from ._functions import sqrt

__all__ = ["Adagrad", "adagrad"]


class Adagrad(Declared):
    """Adagrad: steps by the gradient over the root of the sum of its squares so far (Duchi et al., 2011).

    s ← s + g², then, at the parameter's step t, p ← p - lr / (1 + (t - 1)·`lr_decay`) · g / (√s + eps).
    `state[p]` has, from the beginning on, `step` and `sum`: s, which starts as `initial_accumulator_value`.
    For shared options and parameters see `Optimizer`; gradients may be sparse.  Raises ValueError for negative options.

    >>> import flambeau
    >>> optimizer = flambeau.optim.Adagrad([w := flambeau.tensor([1.0, -2.0], requires_grad=True)], lr=0.5)
    >>> (w * w).sum().backward(), optimizer.step(), w
    (None, None, tensor([ 0.5000, -1.5000], requires_grad=True))
    """

    options = dict(lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10)
    flags = "foreach, *, maximize, differentiable, fused"
    entries = dict(step=scalar(), sum=like(start="initial_accumulator_value"))
    at_once = True
    takes_sparse = True

    @staticmethod
    def rule(p, g, sum, *, step, lr, lr_decay, eps):
        sum = sum + g * g
        return p - lr / (1 + (step - 1) * lr_decay) * g / (sqrt(sum) + eps), sum


adagrad = function_of(Adagrad, state_sums="sum", state_steps="step")
