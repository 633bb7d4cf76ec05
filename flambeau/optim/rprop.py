"""Rprop."""

from __future__ import annotations

from ._declared import Declared, Option, anything, like, scalar
from ._functional import function_of
from ._functions import maximum, minimum, where

__all__ = ["Rprop", "rprop"]


class Rprop(Declared):
    """Resilient propagation: each element has a step of its own, and only the gradient's sign counts (Riedmiller and
    Braun, 1993).

    An element's step grows by η⁺ where its gradient has the sign it had before, shrinks by η⁻ where the sign has
    turned, where it does not move and forgets the gradient, and stays within `step_sizes`: p ← p - sign(g)·step.

    `etas` are (η⁻, η⁺).  `state[p]` has `step`, `prev` (the gradient before) and `step_size`, which starts as lr.
    Parameters are floating-point or complex tensors of any shape.  The options that all optimisers share are
    explained in `Optimizer`.

    Raises ValueError for a negative lr, and unless 0 < η⁻ < 1 < η⁺.

    >>> import flambeau
    >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = flambeau.optim.Rprop([w], lr=0.25)
    >>> (w * w).sum().backward(), optimizer.step(), w
    (None, None, tensor([ 0.7500, -1.7500], requires_grad=True))
    """

    options = dict(
        lr=1e-2,
        etas=Option(
            (0.5, 1.2),
            lambda etas: 0 < etas[0] < 1 < etas[1],
            "one in (0, 1) and one above 1",
            "Invalid eta values: {0[0]}, {0[1]}",
        ),
        step_sizes=anything((1e-6, 50)),
    )
    flags = "*, capturable, foreach, maximize, differentiable"
    entries = dict(step=scalar(), prev=like(), step_size=like(start="lr"))

    @staticmethod
    def rule(p, g, prev, step_size, *, etas, step_sizes):
        turn = g * prev
        factor = where(turn > 0, etas[1], where(turn < 0, etas[0], 1.0))
        step_size = minimum(maximum(step_size * factor, step_sizes[0]), step_sizes[1])
        g = where(turn < 0, 0.0, g)
        return p - where(g > 0, step_size, where(g < 0, -step_size, 0.0)), g, step_size


rprop = function_of(Rprop, prevs="prev", step_sizes="step_size", state_steps="step")
