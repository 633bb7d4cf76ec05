"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from ._declared import Declared, anything, like
from ._functional import function_of
from ._functions import detached

__all__ = ["SGD", "sgd"]


class SGD(Declared):
    """Stochastic gradient descent, with momentum if wanted (Sutskever et al., 2013).

    With the gradient g, to which `weight_decay`·p is added, momentum μ and dampening τ: b ← μ·b + (1 - τ)·g,
    where the first b is g itself, and p ← p - lr·b, or p - lr·(g + μ·b) with `nesterov`.
    `state[p]["momentum_buffer"]` is b; without momentum there is no state.  With
    `differentiable=True` the first b is a constant, as in PyTorch.

    Parameters are floating-point or complex tensors of any shape.  Gradients may be sparse.  The options that all optimisers share are
    explained in `Optimizer`.

    Raises ValueError for negative options, and for `nesterov` without momentum or with dampening.

    >>> import flambeau
    >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = flambeau.optim.SGD([w], lr=0.5)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.0, 0.0]
    """

    options = dict(lr=1e-3, momentum=0, dampening=anything(0), weight_decay=0, nesterov=False)
    flags = "*, maximize, foreach, differentiable, fused"
    entries = dict(momentum_buffer=like(when="momentum"))
    takes_sparse = True

    @classmethod
    def _check(cls, options: dict[str, Any]) -> None:
        if options["nesterov"] and (options["momentum"] <= 0 or options["dampening"] != 0):
            raise ValueError(
                "Nesterov momentum requires a momentum and zero dampening, got "
                f"momentum={options['momentum']}, dampening={options['dampening']}"
            )

    @staticmethod
    def _by_rows(group: dict[str, Any]) -> bool:
        """Whether an element without gradient stands still: not while its momentum moves it."""
        return not group["momentum"]

    @staticmethod
    def rule(p, g, momentum_buffer, *, lr, momentum, dampening, nesterov, first):
        if momentum_buffer is None:
            return p - lr * g, None
        b = detached(g) if first else momentum * momentum_buffer + (1 - dampening) * g
        return p - lr * (g + momentum * b if nesterov else b), b


sgd = function_of(SGD, momentum_buffer_list="momentum_buffer")
