"""Normalisation."""

from __future__ import annotations

import math

from ..._tensor import Tensor
from ...core.base.dtypes import by_name
from .declare import State, fl, nn, operator


def _by_channel(x: Tensor, v: Tensor) -> Tensor:
    return v.reshape([-1, *[1] * (x.ndim - 2)])


@operator("BatchNormalization", since=9)
def batch_normalization(
    x: Tensor,
    scale: Tensor,
    b: Tensor,
    input_mean: State,
    input_var: State,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    outputs: int = 1,
) -> tuple[Tensor, ...]:
    """By running statistics, or with training_mode by those of the batch; then the next running ones, too."""
    if not training_mode:
        result = nn.batch_norm(x, input_mean, input_var, scale, b, False, 0.0, epsilon)
        return (result.to(x.dtype), input_mean, input_var)
    dims = [0, *range(2, x.ndim)]
    variance, mean = fl.var_mean(x.to(input_mean.dtype), dims, correction=0)
    wide = x.to(mean.dtype)
    inverse = fl.rsqrt(variance + epsilon)
    result = (wide - _by_channel(x, mean)) * _by_channel(x, inverse * scale.to(mean.dtype)) + _by_channel(
        x, b
    )
    running = [
        momentum * old + (1 - momentum) * new for old, new in ((input_mean, mean), (input_var, variance))
    ]
    return (result.to(x.dtype), *(v.detach().to(input_mean.dtype) for v in running))


@operator("InstanceNormalization")
def instance_normalization(input: Tensor, scale: Tensor, b: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    dims = list(range(2, input.ndim))
    variance, mean = fl.var_mean(input, dims, correction=0, keepdim=True)
    return (input - mean) * fl.rsqrt(variance + epsilon) * _by_channel(input, scale) + _by_channel(input, b)


@operator("LayerNormalization")
def layer_normalization(
    x: Tensor,
    scale: Tensor,
    b: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    outputs: int = 1,
) -> tuple[Tensor, ...]:
    """By mean and variance over the dimensions from `axis` on, which it gives, too."""
    at = axis % x.ndim
    sizes = list(x.shape[at:])
    if outputs == 1 and list(scale.shape) == sizes and (b is None or list(b.shape) == sizes):
        return (nn.layer_norm(x, sizes, scale, b, epsilon),)
    wide = x.to(by_name["float32"]) if stash_type == 1 and x.element_size() < 4 else x
    variance, mean = fl.var_mean(wide, list(range(at, x.ndim)), correction=0, keepdim=True)
    inverse = fl.rsqrt(variance + epsilon)
    result = ((wide - mean) * inverse).to(x.dtype) * scale
    return (result if b is None else result + b), mean, inverse


@operator("RMSNormalization")
def rms_normalization(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    wide = x.to(by_name["float32"]) if stash_type == 1 and x.element_size() < 4 else x
    squares = fl.mean(wide * wide, list(range(axis % x.ndim, x.ndim)), True)
    return (wide * fl.rsqrt(squares + epsilon)).to(x.dtype) * scale


def _grouped(x: Tensor, groups: int, epsilon: float) -> Tensor:
    parts = x.reshape([x.shape[0], groups, -1])
    wide = parts.to(by_name["float32"]) if x.element_size() < 4 else parts
    variance, mean = fl.var_mean(wide, [2], correction=0, keepdim=True)
    return ((wide - mean) * fl.rsqrt(variance + epsilon)).to(x.dtype)


@operator("GroupNormalization", since=18)
def group_normalization_18(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int
) -> Tensor:
    """With a scale and a bias for each group."""
    result = _grouped(x, num_groups, epsilon)
    return (result * scale.reshape([-1, 1]) + bias.reshape([-1, 1])).reshape(x.shape)


@operator("GroupNormalization", since=21)
def group_normalization(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1
) -> Tensor:
    """With a scale and a bias for each channel."""
    result = _grouped(x, num_groups, epsilon).reshape(x.shape)
    return result * _by_channel(x, scale) + _by_channel(x, bias)


@operator("LpNormalization")
def lp_normalization(input: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """x / ‖x‖ along an axis; 0 where the norm is 0."""
    size = fl.sum(fl.abs(input), axis, True) if p == 1 else fl.sqrt(fl.sum(input * input, axis, True))
    return fl.where(size == 0, fl.zeros_like(input), input / fl.where(size == 0, fl.ones_like(size), size))


@operator("MeanVarianceNormalization")
def mean_variance_normalization(x: Tensor, *, axes: list[int] | None = None) -> Tensor:
    dims = [0, 2, 3] if axes is None else axes
    mean = fl.mean(x, dims, True)
    deviation = fl.sqrt(fl.mean(x * x, dims, True) - mean * mean)
    return (x - mean) / (deviation + 1e-9)


@operator("LRN")
def local_response_normalization(
    x: Tensor, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int
) -> Tensor:
    """x / (bias + alpha / size · Σ x² over neighbouring channels) ^ beta."""
    before, behind = (size - 1) // 2, math.ceil((size - 1) / 2)
    squares = fl.movedim(x * x, 1, -1)
    sums = fl.sum(nn.pad(squares, [before, behind]).unfold(-1, size, 1), -1)
    return x / fl.pow(bias + alpha / size * fl.movedim(sums, -1, 1), beta)
