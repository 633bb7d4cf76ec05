"""The arithmetic of the optimisers: one element of a parameter, its gradient and its running means.

Each function is the body of a kernel that runs over lists of tensors, the parameters of a group, in one pass.
Options that change which tensors there are have functions of their own; the others are scalars chosen so that
"off" costs nothing and changes no bit of a finite result: `sign` is -1 to climb instead of descend,
`weight_decay` is 0 for none, `shrink` is 1 - lr·weight_decay for decoupled decay and 1 for none.
"""

from __future__ import annotations

from typing import Any

from ...codegen.functions import maximum, sqrt
from ..declare.pointwise import FLOATING, pointwise

_step: dict[str, Any] = dict(places=(), in_place=False, differentiable=False, dtypes=FLOATING)


@pointwise(name="sgd_step", results=1, **_step)
def sgd(p, g, *, sign, weight_decay, lr):
    """Gradient descent."""
    g = sign * g + weight_decay * p
    return p - lr * g


@pointwise(name="sgd_momentum_step", results=2, **_step)
def sgd_momentum(p, g, buffer, *, sign, weight_decay, lr, momentum, fresh):
    """Gradient descent with momentum; `fresh`, 1 - dampening, is the weight of the gradient in the buffer."""
    g = sign * g + weight_decay * p
    buffer = momentum * buffer + fresh * g
    return p - lr * buffer, buffer


@pointwise(name="sgd_nesterov_step", results=2, **_step)
def sgd_nesterov(p, g, buffer, *, sign, weight_decay, lr, momentum, fresh):
    """Gradient descent with Nesterov's momentum (Sutskever et al., 2013)."""
    g = sign * g + weight_decay * p
    buffer = momentum * buffer + fresh * g
    return p - lr * (g + momentum * buffer), buffer


@pointwise(name="adam_step", results=3, **_step)
def adam(p, g, m, v, *, sign, weight_decay, shrink, beta1, fresh1, beta2, fresh2, eps, step_size, root):
    """Adam (Kingma and Ba, 2015, algorithm 1) and, by `shrink`, AdamW (Loshchilov and Hutter, 2019).

    `fresh1` is 1 - beta1, `fresh2` is 1 - beta2, `step_size` is lr / (1 - beta1^t), `root` is sqrt(1 -
    beta2^t).
    """
    p = p * shrink
    g = sign * g + weight_decay * p
    m = beta1 * m + fresh1 * g
    v = beta2 * v + fresh2 * g * g
    return p - step_size * m / (sqrt(v) / root + eps), m, v


@pointwise(name="adam_amsgrad_step", results=4, **_step)
def adam_amsgrad(
    p, g, m, v, peak, *, sign, weight_decay, shrink, beta1, fresh1, beta2, fresh2, eps, step_size, root
):
    """Adam that divides by the largest second moment so far (Reddi et al., 2018)."""
    p = p * shrink
    g = sign * g + weight_decay * p
    m = beta1 * m + fresh1 * g
    v = beta2 * v + fresh2 * g * g
    peak = maximum(peak, v)
    return p - step_size * m / (sqrt(peak) / root + eps), m, v, peak


@pointwise(name="rmsprop_step", results=2, **_step)
def rmsprop(p, g, v, *, sign, weight_decay, lr, alpha, fresh, eps):
    """Division by the root of the running mean of squares (Tieleman and Hinton, 2012); `fresh` is 1 -
    alpha."""
    g = sign * g + weight_decay * p
    v = alpha * v + fresh * g * g
    return p - lr * g / (sqrt(v) + eps), v


@pointwise(name="rmsprop_centered_step", results=3, **_step)
def rmsprop_centered(p, g, v, mean, *, sign, weight_decay, lr, alpha, fresh, eps):
    """RMSprop by the estimated variance (Graves, 2013)."""
    g = sign * g + weight_decay * p
    v = alpha * v + fresh * g * g
    mean = alpha * mean + fresh * g
    return p - lr * g / (sqrt(v - mean * mean) + eps), v, mean


@pointwise(name="rmsprop_momentum_step", results=3, **_step)
def rmsprop_momentum(p, g, v, buffer, *, sign, weight_decay, lr, alpha, fresh, eps, momentum):
    """RMSprop whose steps have momentum."""
    g = sign * g + weight_decay * p
    v = alpha * v + fresh * g * g
    buffer = momentum * buffer + g / (sqrt(v) + eps)
    return p - lr * buffer, v, buffer


@pointwise(name="rmsprop_centered_momentum_step", results=4, **_step)
def rmsprop_centered_momentum(p, g, v, mean, buffer, *, sign, weight_decay, lr, alpha, fresh, eps, momentum):
    """Centered RMSprop whose steps have momentum."""
    g = sign * g + weight_decay * p
    v = alpha * v + fresh * g * g
    mean = alpha * mean + fresh * g
    buffer = momentum * buffer + g / (sqrt(v - mean * mean) + eps)
    return p - lr * buffer, v, mean, buffer
