"""Normalisation over batches, layers and groups."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....codegen import functions as fn
from ....codegen import kernels as kn
from ....core.base.dtypes import dtype as Dtype
from ....core.base.formats import channels_last, channels_last_3d
from ....core.base.tensor import TensorBase
from ....core.base.typeinfo import finfo
from ....core.make.create import ones, zeros
from ...declare import checks
from ...declare.dtype_groups import COMPLEX
from ...declare.half_types import FLOAT32, HALF_TYPES
from ...declare.pointwise import FLOATING, pointwise
from ...declare.registry import leaf, library
from ...declare.rows import reduction
from ...rows.moments import deviations, variance_and_mean
from ...rows.reductions import wide
from . import gradients
from .normalized_rows import batch_sums, instance_norm_rows, layer_norm_rows, rms_norm_rows


def _alike(
    who: str,
    input: TensorBase,
    weight: TensorBase | None,
    bias: TensorBase | None,
    running_mean: TensorBase | None = None,
    running_var: TensorBase | None = None,
) -> None:
    """RuntimeError unless weights and moments are of the input's dtype; half types go with float32."""
    kind = input.dtype
    given = (weight, bias, running_mean, running_var)
    for name, x in zip(("weight", "bias", "running_mean", "running_var"), given):
        if x is None or x.dtype is kind:
            continue
        pair = {kind.name, x.dtype.name}
        if pair not in ({"float16", "float32"}, {"bfloat16", "float32"}):
            raise RuntimeError(
                f"{who}(): expected {name} to be of the input's dtype, {kind}, but got {x.dtype}"
            )


# --- rows: layer and RMS norm ------------------------------
@library(
    "composite",
    "nn.functional.layer_norm",
    "layer_norm",
    forwards=True,
    autocast=("fallthrough", "float32"),
    dtypes=FLOATING,
)
def layer_norm(
    input: TensorBase,
    normalized_shape,
    weight: TensorBase | None = None,
    bias: TensorBase | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> TensorBase:
    """(x - mean) / √(variance + eps) · weight + bias over the last dimensions (Ba et al. 2016).
    These have the sizes `normalized_shape`.

    Shape:
        input: (*, *normalized_shape); weight, bias: normalized_shape; the result has the input's

    Raises:
        RuntimeError: the last dimensions are not `normalized_shape`

    >>> import flambeau
    >>> flambeau.nn.functional.layer_norm(flambeau.tensor([[1.0, 3.0], [10.0, 30.0]]), [2])
    tensor([[-1.0000,  1.0000],
            [-1.0000,  1.0000]])
    """
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    rank = len(shape)
    if not rank or tuple(input.shape[input.ndim - rank :]) != shape:
        raise RuntimeError(
            f"layer_norm(): Given normalized_shape={list(shape)}, expected input with shape [*, {str(list(shape))[1:-1]}], but "
            f"got input of size{list(input.shape)}"
        )
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and tuple(given.shape) != shape:
            raise RuntimeError(
                f"layer_norm(): Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(given.shape)} and normalized_shape = {list(shape)}"
            )
    _alike("layer_norm", input, weight, bias)
    # rows lie in one piece, and so do the results
    return layer_norm_rows(input.contiguous(), weight, bias, rank, eps)[0]


@library(
    "composite",
    "nn.functional.rms_norm",
    "rms_norm",
    forwards=True,
    autocast=("fallthrough", "float32"),
    dtypes=FLOATING | COMPLEX,
)
def rms_norm(
    input: TensorBase, normalized_shape, weight: TensorBase | None = None, eps: float | None = None
) -> TensorBase:
    """input / √(mean of squares + eps) over the last dimensions, times weight (Zhang and Sennrich 2019).

    Shape:
        input: (*, *normalized_shape); weight: normalized_shape; the result has the input's

    Raises:
        RuntimeError: the last dimensions are not `normalized_shape`

    >>> import flambeau
    >>> flambeau.nn.functional.rms_norm(flambeau.tensor([3.0, 4.0]), [2])
    tensor([0.8485, 1.1314])
    """
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not (input.is_floating_point() or input.is_complex()):
        checks.floating("rms_norm", input=input)
    if input.ndim < len(shape):
        checks.rank_at_least("rms_norm", "input", input, len(shape), ValueError)
    if not shape or tuple(input.shape[input.ndim - len(shape) :]) != shape:
        raise RuntimeError(
            f"rms_norm(): Given normalized_shape={list(shape)}, expected input with shape [*, {str(list(shape))[1:-1]}], but got "
            f"input of size{list(input.shape)}"
        )
    dims = tuple(range(input.ndim - len(shape), input.ndim))
    kind = _moments_dtype(input) or input.dtype
    if (
        weight is not None
        and weight.dtype in (input.dtype, kind)
        and not input.is_complex()
        and tuple(weight.shape) == shape
    ):
        eps = finfo(kind).eps if eps is None else eps
        return rms_norm_rows(input, weight, len(shape), eps)[0]
    input, like = _row_major_or_channels_last(input), input.dtype
    input = input.to(kind)
    scale = (input.square().mean(dims, True) + (finfo(kind).eps if eps is None else eps)).rsqrt()
    result = input * scale if weight is None else input * scale * weight
    return result.to(like) if weight is None or weight.dtype in (like, kind) else result


# --- channels: batch, instance and group norm ------------------------------
@pointwise(places=("_scaled",), in_place=False, dtypes=FLOATING, differentiable=False, keeps=(0,))
def scaled(input, mean, inverse, weight, bias):
    """(input - mean) · inverse · weight + bias, rounded to the input's dtype."""
    return fn.fma(input - mean, inverse * weight, bias)


@pointwise(places=("_scaled_back",), in_place=False, dtypes=FLOATING, differentiable=False, keeps=(1,))
def scaled_back(grad, input, mean, inverse, weight, from_grad, from_product):
    """The gradient of a normalised input (Ioffe and Szegedy 2015): from_grad and from_product are the means of grad · weight and of
    grad · weight · (normalised input)."""
    y = (input - mean) * inverse
    return inverse * (grad * weight - from_grad - y * from_product)


@reduction(places=(), dtypes=FLOATING, name="centred_moments", origin="origin")
def centred_moments(input, origin):
    """Variance, mean, and what rounding has taken off the mean: next to a large mean it is no small part."""
    mean = kn.mean(wide(input))
    rounded = fn.cast(mean, input.dtype)
    spread = deviations(input, origin) / fn.cast(kn.length(), mean.dtype)
    return fn.cast(spread, input.dtype), rounded, fn.cast(mean - fn.cast(rounded, mean.dtype), input.dtype)


def _row_major_or_channels_last(input: TensorBase) -> TensorBase:
    """The input, or a row-major copy where its elements lie in another order: results and gradients lie as it does.

    A single image is channels last where its stride says so, too, as PyTorch's `suggest_memory_format` has it.
    """
    if input.is_contiguous():
        return input
    last = {4: channels_last, 5: channels_last_3d}.get(input.ndim)
    if last is not None and input.is_contiguous(memory_format=last) and input.stride(0) == input[0].numel():
        return input
    return input.contiguous()


def _moments_dtype(input: TensorBase) -> Dtype | None:
    """The dtype of moments, weights and biases beside an input: float32 beside a half type, None for the input's own."""
    return FLOAT32 if input.dtype in HALF_TYPES else None


def _beside(input: TensorBase, x: TensorBase | None) -> TensorBase | None:
    """What has one value a channel, in the dtype that goes beside the input."""
    return x if x is None else x.to(_moments_dtype(input) or input.dtype)


def _all_but_channels(ndim: int) -> tuple[int, ...]:
    return 0, *range(2, ndim)


def _channel(t: TensorBase, ndim: int) -> TensorBase:
    return t.reshape([-1 if d == 1 else 1 for d in range(ndim)])


@library("composite", "nn.functional.batch_norm", "batch_norm", dtypes=FLOATING)
def batch_norm(
    input: TensorBase,
    running_mean: TensorBase | None,
    running_var: TensorBase | None,
    weight: TensorBase | None = None,
    bias: TensorBase | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> TensorBase:
    """(x - mean) / √(variance + eps) · weight + bias for each channel (Ioffe and Szegedy 2015).
    The channel is dimension 1.

    In training the moments are the batch's, and the running ones move towards them (with n - 1 in the variance); else the
    running ones are used.

    Shape:
        input: (N, C, *); running_mean, running_var, weight, bias: (C,); the result has the input's

    Raises:
        RuntimeError: there are no running moments outside of training
        ValueError: in training there is one value a channel

    >>> import flambeau
    >>> x = flambeau.tensor([[1.0, 10.0], [3.0, 30.0]])
    >>> flambeau.nn.functional.batch_norm(x, None, None, training=True)
    tensor([[-1.0000, -1.0000],
            [ 1.0000,  1.0000]])
    """
    if input.ndim == 1 and not input.numel():  # PyTorch takes this one, with no channels
        return input * 1.0
    if input.ndim < 2:
        raise RuntimeError(
            f"batch_norm(): an input with at least 2 dimensions expected, got shape {tuple(input.shape)}"
        )
    channels = input.shape[1]
    for name, given in (
        ("running_mean", running_mean),
        ("running_var", running_var),
        ("weight", weight),
        ("bias", bias),
    ):
        if given is not None and given.numel() != channels:
            raise RuntimeError(f"batch_norm(): {name} should contain {channels} elements not {given.numel()}")
    if not input.is_floating_point():
        checks.floating("batch_norm", input=input)
    _alike("batch_norm", input, weight, bias, running_mean, running_var)
    for name, moment in (("running_mean", running_mean), ("running_var", running_var)):
        if moment is not None and moment.ndim != 1:
            checks.rank("batch_norm", name, moment, 1)
    input = _row_major_or_channels_last(input)
    weight, bias, ndim = _beside(input, weight), _beside(input, bias), input.ndim
    if not training:
        if eps < 0:
            raise ValueError(f"batch_norm(): batch_norm eps must be non-negative, but got {eps}")
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "batch_norm(): expected running_mean and running_var to be given when training=False"
            )
        kind = _moments_dtype(input) or input.dtype
        mean, var = (_channel(x.to(kind), ndim) for x in (running_mean, running_var))
        inverse = (var + eps).rsqrt()
        return batch_norm_channels(input, mean, inverse, weight, bias, None)
    if eps <= 0:
        raise ValueError(f"batch_norm(): batch_norm eps must be positive during training, but got {eps}")
    n = input.numel() // channels if channels else 0
    if n == 1:
        raise ValueError(
            f"batch_norm(): Expected more than 1 value per channel when training, got input size {input.shape}"
        )
    if n == 0:  # no moments, which the running ones could move towards
        w, b = _affine(weight, bias, ndim)
        return (input * w + b).to(input.dtype)
    over = _all_but_channels(ndim)
    var, mean = variance_and_mean.over(
        (input.detach(),), over, True, dtype=_moments_dtype(input), params=(0.0,)
    )
    if running_mean is not None:
        running_mean.data.mul_(1 - momentum).add_(mean.reshape(-1), alpha=momentum)
    if running_var is not None:
        running_var.data.mul_(1 - momentum).add_(var.reshape(-1), alpha=momentum * n / (n - 1))
    return batch_norm_channels(input, mean, (var + eps).rsqrt(), weight, bias, eps)


@leaf("library", label="NativeBatchNormBackward0", inputs=("input", "weight", "bias"), decomposes=True)
def batch_norm_channels(
    input: TensorBase,
    mean: TensorBase,
    inverse: TensorBase,
    weight: TensorBase | None,
    bias: TensorBase | None,
    eps: float | None,
) -> TensorBase:
    """(input - mean) · inverse · weight + bias for each channel; `eps` is None where mean and inverse are not those of the input."""
    return scaled(input, mean, inverse, *_affine(weight, bias, input.ndim))


@batch_norm_channels.derivative
def _batch_norm_gradients(grad, input, mean, inverse, weight, eps, needs):
    return batch_norm_channels_backward(grad, input, mean, inverse, weight, eps, needs)


def _affine(weight, bias, ndim: int):
    return (1.0 if weight is None else _channel(weight, ndim)), (
        0.0 if bias is None else _channel(bias, ndim)
    )


@leaf(
    "library",
    results=("to_input", "to_weight", "to_bias"),
    inputs=("grad_out", "input", "weight"),
    decomposes=True,
)
def batch_norm_channels_backward(
    grad_out: TensorBase,
    input: TensorBase,
    mean: TensorBase,
    inverse: TensorBase,
    weight: TensorBase | None,
    eps: float | None,
    wanted: Sequence[bool],
) -> tuple[TensorBase | None, ...]:
    """The gradients of `batch_norm_channels`."""
    w = 1.0 if weight is None else _channel(weight, input.ndim)
    dims = _all_but_channels(input.ndim)
    if eps is None and not any(wanted[1:]):
        return scaled(grad_out, 0.0, inverse, w, 0.0), None, None
    sums, products = batch_sums.over((grad_out, input, mean, inverse), dims, True)
    if eps is None:
        to_input = scaled(grad_out, 0.0, inverse, w, 0.0)
    else:
        n = math.prod(input.shape[d] for d in dims)
        to_input = scaled_back(grad_out, input, mean, inverse, w, w * (sums / n), w * (products / n))
    return to_input, products.reshape(-1), sums.reshape(-1)


@batch_norm_channels_backward.derivative
def _batch_norm_again(grads, grad_out, input, mean, inverse, weight, eps):
    ndim = input.ndim
    w = None if weight is None else _channel(weight, ndim)
    of_input, *others = grads
    of_weight, of_bias = (x if x is None else _channel(x, ndim) for x in others)
    if eps is not None:
        given = (of_input, of_weight, of_bias)
        result = gradients.second_gradients(given, grad_out, input, w, _all_but_channels(ndim), eps)
        return *result[:2], None if result[2] is None else result[2].reshape(-1)
    to_grad, to_input, to_weight = grad_out * 0.0, None, None
    if of_input is not None:
        to_grad = of_input * inverse if w is None else of_input * (inverse * w)
        if w is not None:
            to_weight = (of_input * grad_out * inverse).sum(_all_but_channels(ndim))
    if of_weight is not None:
        to_grad = to_grad + of_weight * ((input - mean) * inverse)
        to_input = of_weight * (grad_out * inverse)
    to_grad = to_grad if of_bias is None else to_grad + of_bias
    return to_grad.to(grad_out.dtype), to_input if to_input is None else to_input.to(input.dtype), to_weight


@library("composite", "nn.functional.instance_norm", "instance_norm", dtypes=FLOATING)
def instance_norm(
    input: TensorBase,
    running_mean: TensorBase | None = None,
    running_var: TensorBase | None = None,
    weight: TensorBase | None = None,
    bias: TensorBase | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> TensorBase:
    """(x - mean) / √(variance + eps) · weight + bias for each channel of each example (Ulyanov et al.
    2016).

    With `eps` = 0 a channel that is constant becomes 0.

    Shape:
        input: (N, C, *); running_mean, running_var, weight, bias: (C,); the result has the input's

    Raises:
        ValueError: there is one value a channel

    >>> import flambeau
    >>> flambeau.nn.functional.instance_norm(flambeau.tensor([[[1.0, 3.0], [10.0, 30.0]]]))
    tensor([[[-1.0000,  1.0000],
             [-1.0000,  1.0000]]])
    """
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    checks.rank_at_least("instance_norm", "input", input, 2)
    _alike(
        "instance_norm", input, weight=weight, bias=bias, running_mean=running_mean, running_var=running_var
    )
    for name, given in (
        ("running_mean", running_mean),
        ("running_var", running_var),
        ("weight", weight),
        ("bias", bias),
    ):
        if given is not None and tuple(given.shape) != (input.shape[1],):
            raise RuntimeError(
                f"instance_norm(): {name} should have an element for each of {input.shape[1]} channels, got shape {list(given.shape)}"
            )
    dims = tuple(range(2, input.ndim))
    if math.prod(input.shape[2:]) == 1:
        raise ValueError(
            f"instance_norm(): Expected more than 1 spatial element when training, got input size {input.shape}"
        )
    if running_mean is not None or running_var is not None:
        kind = _moments_dtype(input)
        var, mean = variance_and_mean.over((input.detach(),), dims, False, dtype=kind, params=(1.0,))
        if running_mean is not None:
            running_mean.data.mul_(1 - momentum).add_(mean.mean(0), alpha=momentum)
        if running_var is not None:
            running_var.data.mul_(1 - momentum).add_(var.mean(0), alpha=momentum)
    if weight is not None or bias is not None:
        return _grouped(input, input.shape[1], weight, bias, eps)
    return instance_norm_rows(input, len(dims), eps)[0]


@library(
    "composite",
    "nn.functional.group_norm",
    "group_norm",
    autocast=("fallthrough", "float32"),
    dtypes=FLOATING,
)
def group_norm(
    input: TensorBase,
    num_groups: int,
    weight: TensorBase | None = None,
    bias: TensorBase | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> TensorBase:
    """(x - mean) / √(variance + eps) · weight + bias for each group of each example (Wu and He 2018).
    The channels, dimension 1, are in `num_groups` groups.

    Shape:
        input: (N, C, *); weight, bias: (C,); the result has the input's

    Raises:
        RuntimeError: the channels are no multiple of `num_groups`

    >>> import flambeau
    >>> flambeau.nn.functional.group_norm(flambeau.tensor([[1.0, 3.0, 10.0, 30.0]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    if input.ndim < 2:
        raise RuntimeError(
            f"group_norm(): Expected at least 2 dimensions for input tensor but received {input.ndim}"
        )
    if num_groups <= 0:
        raise RuntimeError(
            f"group_norm(): Expected num groups to be greater than 0, got num_groups={num_groups}"
        )
    _alike("group_norm", input, weight, bias)
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and tuple(given.shape) != (input.shape[1],):
            raise RuntimeError(
                f"group_norm(): Expected {name} to be a vector of size {input.shape[1]}, one for each channel, got {list(given.shape)}"
            )
    if input.shape[1] % num_groups:
        raise RuntimeError(
            f"group_norm(): Expected channels in input to be divisible by num_groups, but got input of shape {list(input.shape)} and "
            f"num_groups={num_groups}"
        )
    if weight is not None or bias is not None:
        return _grouped(input, num_groups, weight, bias, eps)
    grouped = input.reshape(
        [input.shape[0], num_groups, -1] if input.numel() else [input.shape[0], num_groups, 0]
    )
    return layer_norm_rows(grouped, None, None, 1, eps)[0].reshape(input.shape)


def _grouped(input, groups: int, weight, bias, eps: float) -> TensorBase:
    """Channels in groups, times weight plus bias."""
    sizes = (input.shape[0], groups, input.shape[1] // groups, math.prod(input.shape[2:]))
    per_channel = (1, *sizes[1:3], 1)
    input = _row_major_or_channels_last(input)
    seen = input.reshape(sizes)
    weight, bias, kind = _beside(input, weight), _beside(input, bias), _moments_dtype(input)
    like = kind or input.dtype
    w = ones(per_channel, dtype=like, device=input.device) if weight is None else weight.reshape(per_channel)
    b = zeros(per_channel, dtype=like, device=input.device) if bias is None else bias.reshape(per_channel)
    var, mean, rest = centred_moments.over((seen.detach(),), (2, 3), True, dtype=kind)
    result = group_norm_channels(seen, mean, gradients.scale_of(var, eps), rest, w, b, eps)
    result = result.reshape(input.shape)
    # convolutions look at the stride of one image, too
    if input.shape[0] == 1 and not input.is_contiguous():
        result = result.as_strided(input.shape, input.stride())
    return result


@leaf("library", label="NativeGroupNormBackward0", inputs=("input", "weight", "bias"))
def group_norm_channels(
    input: TensorBase,
    mean: TensorBase,
    inverse: TensorBase,
    rest: TensorBase,
    weight: TensorBase,
    bias: TensorBase,
    eps: float,
) -> TensorBase:
    """(input - mean - rest) · inverse · weight + bias of (N, groups, channels, places); the moments are those of the input."""
    return scaled(input, mean, inverse, weight, bias - rest * (inverse * weight))


@group_norm_channels.derivative
def _group_norm_gradients(grad, input, mean, inverse, weight, eps):
    return group_norm_channels_backward(grad, input, mean, inverse, weight, eps)


@leaf("library", results=("to_input", "to_weight", "to_bias"), inputs=("grad_out", "input", "weight"))
def group_norm_channels_backward(
    grad_out: TensorBase,
    input: TensorBase,
    mean: TensorBase,
    inverse: TensorBase,
    weight: TensorBase,
    eps: float,
) -> tuple[TensorBase, TensorBase, TensorBase]:
    """The gradients of `group_norm_channels`."""
    n = input.shape[2] * input.shape[3]
    sums, products = batch_sums.over((grad_out, input, mean, inverse), 3, True)
    of_product, of_grad = ((x * weight).sum(2, True) / n for x in (products, sums))
    to_input = scaled_back(grad_out, input, mean, inverse, weight, of_grad, of_product)
    return to_input, products.sum(0, True), sums.sum(0, True)


@group_norm_channels_backward.derivative
def _group_norm_again(grads, grad_out, input, weight, eps):
    return gradients.second_gradients(grads, grad_out, input, weight, (2, 3), eps)
