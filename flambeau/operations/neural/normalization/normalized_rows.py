"""What normalises rows, as leaves: the kernels of layer, instance and RMS norm, and of their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....codegen import functions as fn
from ....codegen import kernels as kn
from ....core.base.dtypes import dtype as Dtype
from ....core.base.tensor import TensorBase
from ....core.make.create import ones, zeros
from ...declare.half_types import FLOAT32, HALF_TYPES
from ...declare.pointwise import FLOATING
from ...declare.registry import leaf
from ...declare.rows import reduction, row
from . import gradients


def _rounded(input: TensorBase, beside: TensorBase) -> Dtype | None:
    """The dtype of rows beside weights: the input's where it is a half type and they are float32, else what promotion gives."""
    return input.dtype if input.dtype in HALF_TYPES and beside.dtype is FLOAT32 else None


def _standardised(x, eps):
    """A row less its mean, over √(variance + eps); the mean; 1 / √(variance + eps).

    The mean of what is left after the rounded mean is taken off too: next to a large mean its rounding is no small part.
    """
    mean = kn.mean(x)
    centred = x - mean
    rest = kn.mean(centred)
    inverse = 1.0 / fn.sqrt(kn.mean(centred * centred) - rest * rest + eps)
    return fn.fma(centred, inverse, -(rest * inverse)), mean + rest, inverse


@row(places=(), name="normalized_rows", exact=True)
def normalized_rows(x, *, eps=1e-5):
    """(x - mean) / √(variance + eps) of each row, its mean, and 1 / √(variance + eps)."""
    return _standardised(x, eps)


@row(places=(), name="instance_rows", exact=True)
def instance_rows(x, *, eps=1e-5):
    """`normalized_rows`, but where variance + eps is 0, 1 / √(variance + eps) is taken for 0."""
    result, mean, inverse = _standardised(x, eps)
    constant, zero = inverse == math.inf, fn.like(inverse, 0.0)
    return fn.where(constant, zero, result), mean, fn.where(constant, zero, inverse)


@row(places=(), name="affine_rows", per_row=(), exact=True)
def affine_rows(x, weight, bias, *, eps=1e-5):
    """`normalized_rows` times weight plus bias; mean and scale for the derivative."""
    result, mean, inverse = _standardised(x, eps)
    return result * weight + bias, mean, inverse


@row(places=(), name="normalized_rows_back", per_row=("mean", "inverse"))
def normalized_rows_back(g, x, mean, inverse):
    """The gradient of x, from that of its normalised row (Ba et al. 2016)."""
    y = (x - mean) * inverse
    return inverse * (g - kn.mean(g) - y * kn.mean(g * y))


@row(places=(), name="affine_rows_back", per_row=("mean", "inverse"))
def affine_rows_back(g, x, weight, mean, inverse):
    """The same where the row is multiplied by a weight."""
    y, g = (x - mean) * inverse, g * weight
    return inverse * (g - kn.mean(g) - y * kn.mean(g * y))


@reduction(places=(), dtypes=FLOATING, name="batch_sums", per_row=("mean", "inverse"))
def batch_sums(grad, input, mean, inverse):
    """The sums of grad and of grad · (normalised input), in one walk."""
    return kn.sum(grad), kn.sum(grad * ((input - mean) * inverse))


@leaf(
    "library",
    results=("found", "mean", "inverse"),
    label="NativeLayerNormBackward0",
    decomposes=True,
    sharding="norm of rows",
)
def layer_norm_rows(
    input: TensorBase, weight: TensorBase | None, bias: TensorBase | None, rank: int, eps: float
) -> tuple[TensorBase, TensorBase, TensorBase]:
    """The last `rank` dimensions normalised, times weight plus bias, their means, and 1 / √(variance + eps).  Half types are
    computed in float32, and so are those two.
    """
    dims = tuple(range(input.ndim - rank, input.ndim))
    if weight is None and bias is None:
        return normalized_rows.over((input,), dims, True, params=(eps,))
    shape, like = input.shape[input.ndim - rank :], input.dtype
    weight = ones(shape, dtype=like, device=input.device) if weight is None else weight
    bias = zeros(shape, dtype=like, device=input.device) if bias is None else bias
    kind = _rounded(input, weight) or _rounded(input, bias)
    return affine_rows.over((input, weight, bias), dims, True, dtype=kind, params=(eps,))


@layer_norm_rows.derivative
def _layer_norm_gradients(grad, input, mean, inverse, weight, rank, eps, needs):
    return layer_norm_rows_backward(grad, input, mean, inverse, weight, rank, eps, needs)


@leaf(
    "library",
    results=("to_input", "to_weight", "to_bias"),
    inputs=("grad_out", "input", "weight"),
    decomposes=True,
    sharding="norm of rows",
)
def layer_norm_rows_backward(
    grad_out: TensorBase,
    input: TensorBase,
    mean: TensorBase,
    inverse: TensorBase,
    weight: TensorBase | None,
    rank: int,
    eps: float,
    wanted: Sequence[bool],
) -> tuple[TensorBase | None, ...]:
    """The gradients of `layer_norm_rows`, and of `instance_norm_rows`."""
    lead, dims = tuple(range(input.ndim - rank)), tuple(range(input.ndim - rank, input.ndim))
    to_input = to_weight = to_bias = None
    kind = _rounded(input, mean)
    if wanted[0]:
        to_input = (
            normalized_rows_back.over((grad_out, input, mean, inverse), dims, True, dtype=kind)
            if weight is None
            else affine_rows_back.over((grad_out, input, weight, mean, inverse), dims, True, dtype=kind)
        )
    if any(wanted[1:]):
        if lead:
            to_bias, to_weight = batch_sums.over((grad_out, input, mean, inverse), lead, False)
        else:
            to_bias, to_weight = grad_out, grad_out * ((input - mean) * inverse)
        like = input.dtype if weight is None else weight.dtype
        to_weight, to_bias = to_weight.to(like), to_bias.to(like)
    return to_input, to_weight, to_bias


@layer_norm_rows_backward.derivative
def _layer_norm_again(grads, grad_out, input, weight, rank, eps):
    return gradients.second_gradients(
        grads, grad_out, input, weight, tuple(range(input.ndim - rank, input.ndim)), eps
    )


@leaf("library", results=("found", "mean", "inverse"), label="NativeLayerNormBackward0", decomposes=True)
def instance_norm_rows(input: TensorBase, rank: int, eps: float) -> tuple[TensorBase, TensorBase, TensorBase]:
    """`layer_norm_rows` without weights, where what is constant becomes 0."""
    dims = tuple(range(input.ndim - rank, input.ndim))
    return instance_rows.over((input,), dims, True, params=(eps,))


@instance_norm_rows.derivative
def _instance_norm_gradients(grad, input, mean, inverse, rank, eps, needs):
    return layer_norm_rows_backward(grad, input, mean, inverse, None, rank, eps, (True, False, False))[0]


@row(places=(), name="rms_rows", per_row=(), exact=True)
def rms_rows(x, weight, *, eps=1e-5):
    """x / √(mean of squares + eps) · weight, and 1 / √(mean of squares + eps)."""
    inverse = 1.0 / fn.sqrt(kn.mean(x * x) + eps)
    return x * inverse * weight, inverse


@row(places=(), name="rms_rows_back", per_row=("inverse",))
def rms_rows_back(g, x, weight, inverse):
    """The gradient of x."""
    y, g = x * inverse, g * weight
    return inverse * (g - y * kn.mean(g * y))


@reduction(places=(), name="rms_sums", dtypes=FLOATING)
def rms_sums(g, x, inverse):
    """The gradient of weight."""
    return kn.sum(g * (x * inverse))


@leaf(
    "library",
    results=("found", "inverse"),
    label="MulBackward0",
    decomposes=True,
    sharding="norm of rows",
)
def rms_norm_rows(
    input: TensorBase, weight: TensorBase, rank: int, eps: float
) -> tuple[TensorBase, TensorBase]:
    """The last `rank` dimensions over the root of their mean square, times weight, and 1 / √(mean of squares + eps)."""
    dims = tuple(range(input.ndim - rank, input.ndim))
    return rms_rows.over((input, weight), dims, True, dtype=_rounded(input, weight), params=(eps,))


@rms_norm_rows.derivative
def _rms_norm_gradients(grad, input, inverse, weight, rank, eps, needs):
    return rms_norm_rows_backward(grad, input, inverse, weight, rank, eps, needs)


@leaf(
    "library",
    results=("to_input", "to_weight"),
    inputs=("grad_out", "input", "weight"),
    decomposes=True,
    sharding="norm of rows",
)
def rms_norm_rows_backward(
    grad_out: TensorBase,
    input: TensorBase,
    inverse: TensorBase,
    weight: TensorBase,
    rank: int,
    eps: float,
    wanted: Sequence[bool],
) -> tuple[TensorBase | None, ...]:
    """The gradients of `rms_norm_rows`."""
    lead, dims = tuple(range(input.ndim - rank)), tuple(range(input.ndim - rank, input.ndim))
    kind = _rounded(input, inverse)
    to_input = (
        rms_rows_back.over((grad_out, input, weight, inverse), dims, True, dtype=kind) if wanted[0] else None
    )
    if not wanted[1]:
        return to_input, None
    if not lead:
        return to_input, (grad_out * (input * inverse)).to(weight.dtype)
    return to_input, rms_sums.over((grad_out, input, inverse), lead, False).to(weight.dtype)


@rms_norm_rows_backward.derivative
def _rms_norm_again(grads, grad_out, input, weight, rank, eps):
    dims = tuple(range(input.ndim - rank, input.ndim))
    return gradients.second_gradients((*grads, None), grad_out, input, weight, dims, eps, centred=False)
