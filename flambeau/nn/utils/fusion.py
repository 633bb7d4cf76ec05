"""Batch norms folded into the convolutions and linear layers before them."""

from __future__ import annotations

import copy
from typing import Any

from ..._tensor import Tensor
from ..modules.module import Module
from ..parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def _check_eval(layer: Module, bn: Module) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")


def _scale_and_shift(
    mean: Tensor,
    var: Tensor,
    eps: float,
    weight: Tensor | None,
    bias: Tensor | None,
    layer_bias: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """What a batch norm multiplies each output by, and what it makes of the bias before it."""
    scale = (var + eps).rsqrt()
    scale = scale if weight is None else scale * weight
    shift = (-mean if layer_bias is None else layer_bias - mean) * scale
    return scale, shift if bias is None else shift + bias


def _parameter(tensor: Tensor, like: Tensor | None, dtype: Any) -> Parameter:
    return Parameter(tensor.detach().to(dtype), like is not None and like.requires_grad)


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A new convolution that computes `bn(conv(x))`; both must be in evaluation mode.

    Args:
        conv: a convolution.
        bn: a batch norm with running statistics.
        transpose: whether the second dimension of the weight counts the outputs, as in transposed convolutions.

    Raises:
        AssertionError: one is in training mode, or there are no running statistics.

    >>> import flambeau
    >>> from flambeau import nn
    >>> conv, bn, x = nn.Conv2d(3, 4, 3).eval(), nn.BatchNorm2d(4).eval(), flambeau.rand(2, 3, 5, 5)
    >>> bool(flambeau.allclose(nn.utils.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-5))
    True
    """
    _check_eval(conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the convolution that `fuse_conv_bn_eval` makes, in the dtypes of those before.

    Args:
        conv_w, conv_b: the convolution's, (out, in, …) and (out,), or None for no bias.
        bn_rm, bn_rv, bn_eps: running mean and variance, (out,), and the epsilon of the batch norm.
        bn_w, bn_b: its weight and bias, (out,), or None.
        transpose: whether `conv_w` is (in, out, …).

    Raises:
        RuntimeError: the moments are not of as many channels as the weight

    >>> import flambeau
    >>> from flambeau.nn.utils import fuse_conv_bn_weights
    >>> mean, variance = flambeau.tensor([1.0, 2.0]), flambeau.tensor([4.0, 1.0])
    >>> weight, bias = fuse_conv_bn_weights(flambeau.ones(2, 1, 3), None, mean, variance, 0.0, None, None)
    >>> weight.data[:, 0], bias.data
    (tensor([[0.5000, 0.5000, 0.5000],
            [1.0000, 1.0000, 1.0000]]), tensor([-0.5000, -2.0000]))
    """
    scale, bias = _scale_and_shift(bn_rm, bn_rv, bn_eps, bn_w, bn_b, conv_b)
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    return (
        _parameter(conv_w * scale.reshape(shape), conv_w, conv_w.dtype),
        _parameter(bias, conv_b, conv_w.dtype if conv_b is None else conv_b.dtype),
    )


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A new linear layer that computes `bn(linear(x))`; both must be in evaluation mode.

    Args:
        linear: a linear layer.
        bn: a batch norm over its outputs, or over one feature, with running statistics.

    Raises:
        AssertionError: one is in training mode, there are no running statistics, or the numbers of features do not fit.

    >>> import flambeau
    >>> from flambeau import nn
    >>> linear, bn, x = nn.Linear(3, 4).eval(), nn.BatchNorm1d(4).eval(), flambeau.rand(2, 3)
    >>> bool(flambeau.allclose(nn.utils.fuse_linear_bn_eval(linear, bn)(x), bn(linear(x)), atol=1e-5))
    True
    """
    _check_eval(linear, bn)
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, "
            f"got linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the layer that `fuse_linear_bn_eval` makes; arguments as of `fuse_conv_bn_weights`.

    Shape:
        linear_w: (out, in); linear_b, bn_rm, bn_rv, bn_w, bn_b: (out,); so are the results

    Raises:
        RuntimeError: the moments are not of as many features as the weight

    >>> import flambeau
    >>> from flambeau.nn.utils import fuse_linear_bn_weights
    >>> mean, variance = flambeau.tensor([1.0]), flambeau.tensor([4.0])
    >>> weight, bias = fuse_linear_bn_weights(flambeau.ones(1, 2), None, mean, variance, 0.0, None, None)
    >>> weight.data, bias.data
    (tensor([[0.5000, 0.5000]]), tensor([-0.5000]))
    """
    scale, bias = _scale_and_shift(bn_rm, bn_rv, bn_eps, bn_w, bn_b, linear_b)
    return (
        _parameter(linear_w * scale.unsqueeze(-1), linear_w, linear_w.dtype),
        _parameter(
            bias.expand(linear_w.size(0)).contiguous(),
            linear_b,
            linear_w.dtype if linear_b is None else linear_b.dtype,
        ),
    )
