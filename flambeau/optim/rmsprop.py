"""RMSprop."""

from __future__ import annotations

from ._declared import Declared, like, scalar
from ._functional import function_of
from ._functions import sqrt

__all__ = ["RMSprop", "rmsprop"]


class RMSprop(Declared):
    """RMSprop: steps by the gradient over the root of the running mean of its squares (Tieleman and Hinton,
    2012).

    v ← α·v + (1 - α)·g², then p ← p - lr·g / (√v + eps).  `centered` subtracts from v the square of the
    running mean of g (Graves, 2013); with `momentum` μ the quotient is accumulated first, b ← μ·b + g / (√v +
    eps).

    `state[p]` has `step`, `square_avg` (v), with momentum `momentum_buffer` (b), centered `grad_avg`.
    Parameters are floating-point or complex tensors of any shape.  The options that all optimisers share are
    explained in `Optimizer`.

    Raises ValueError for negative options.

    >>> import flambeau
    >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = flambeau.optim.RMSprop([w], lr=0.1, alpha=0.75)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.8000, -1.8000], requires_grad=True)
    """

    options = dict(lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False)
    flags = "capturable, foreach, maximize, differentiable"
    entries = dict(
        step=scalar(),
        square_avg=like(),
        momentum_buffer=like(when="momentum"),
        grad_avg=like(when="centered"),
    )

    @staticmethod
    def rule(p, g, square_avg, momentum_buffer, grad_avg, *, lr, alpha, eps, momentum):
        square_avg = alpha * square_avg + (1 - alpha) * g * g
        variance = square_avg
        if grad_avg is not None:
            grad_avg = grad_avg + (1 - alpha) * (g - grad_avg)
            variance = variance - grad_avg * grad_avg
        update = g / (sqrt(variance) + eps)
        if momentum_buffer is not None:
            update = momentum_buffer = momentum * momentum_buffer + update
        return p - lr * update, square_avg, momentum_buffer, grad_avg


rmsprop = function_of(
    RMSprop,
    square_avgs="square_avg",
    grad_avgs="grad_avg",
    momentum_buffer_list="momentum_buffer",
    state_steps="step",
)
