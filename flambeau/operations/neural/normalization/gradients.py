"""Second derivatives of normalisation, out of operations: those of layer, instance, group, batch and RMS norm alike.

With y = (x - mean) r, r = 1 / √(variance + eps), the gradients of x, weight w and bias from g, that of y w + bias, are

    r P(g w),  Σ g y  and  Σ g,    where P(v) = v - mean(v) - y mean(v y)

(Ioffe and Szegedy 2015; Ba et al. 2016; RMS norm has no means of y and v in it).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....core.base.tensor import TensorBase
from ...declare.half_types import HALF_TYPES


def scale_of(spread: TensorBase, eps: float) -> TensorBase:
    """1 / √(spread + eps), 0 where that is no number."""
    inverse = (spread + eps).rsqrt()
    return inverse if eps > 0 else inverse.masked_fill(inverse.detach() == math.inf, 0.0)


def second_gradients(
    grads: Sequence[TensorBase | None],
    grad: TensorBase,
    input: TensorBase,
    weight: TensorBase | None,
    dims: tuple[int, ...],
    eps: float,
    centred: bool = True,
) -> tuple[TensorBase, TensorBase, TensorBase | None]:
    """The gradients of `grad`, `input` and `weight` from those of the three gradients; weights broadcast to the input."""
    kind = input.dtype
    if kind in HALF_TYPES:
        grads = [x if x is None else x.float() for x in grads]
        grad, input = grad.float(), input.float()
    mean = input.mean(dims, True) if centred else None
    x = input if mean is None else input - mean
    inverse = scale_of(x.square().mean(dims, True), eps)
    y = x * inverse

    def projected(v: TensorBase) -> TensorBase:
        result = v - y * (v * y).mean(dims, True)
        return result - v.mean(dims, True) if centred else result

    scaled = grad if weight is None else grad * weight
    of_input, of_weight, of_bias = grads
    to_grad, to_y, to_inverse, to_weight = grad * 0.0, grad * 0.0, None, None
    if of_input is not None:
        arriving = projected(of_input) * inverse
        to_grad = arriving if weight is None else arriving * weight
        to_weight = None if weight is None else grad * arriving
        first, second = (of_input * y).mean(dims, True), (scaled * y).mean(dims, True)
        to_y = (scaled * first + of_input * second) * -inverse
        to_inverse = (of_input * scaled).mean(dims, True) - first * second
        if centred:
            to_inverse = to_inverse - of_input.mean(dims, True) * scaled.mean(dims, True)
    if of_weight is not None:
        to_grad, to_y = to_grad + of_weight * y, to_y + of_weight * grad
    if of_bias is not None:
        to_grad = to_grad + of_bias
    to_input = projected(to_y) * inverse
    if to_inverse is not None:
        to_input = to_input - y * (to_inverse * inverse * inverse)
    if to_weight is not None and weight is not None:
        to_weight = to_weight.sum_to_size(weight.shape).to(weight.dtype)
    return to_grad.to(kind), to_input.to(kind), to_weight
