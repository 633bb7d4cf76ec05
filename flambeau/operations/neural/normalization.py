"""Normalisation over batches, layers and groups."""

from __future__ import annotations

import math

from ..._typeinfo import finfo
from ...codegen import functions as fn
from ...codegen import kernels as kn
from ...core import tape
from ...core.base.formats import channels_last, channels_last_3d
from ...core.base.tensor import TensorBase
from ...core.make.create import ones, zeros
from ...core.tape.contexts import unrecorded
from ..declare import checks
from ..declare.half_types import HALF_TYPES, in_float32
from ..declare.pointwise import FLOATING, pointwise
from ..declare.registry import library
from ..declare.rows import reduction, row
from ..rows.moments import deviations, variance_and_mean
from ..rows.reductions import wide


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


# --- rows: layer norm ------------------------------
def _standardised(x, eps):
    """A row less its mean, over √(variance + eps); the mean; 1 / √(variance + eps).

    The mean of what is left after the rounded mean is taken off too: next to a large mean its rounding is no small part.
    """
    mean = kn.mean(x)
    centred = x - mean
    rest = kn.mean(centred)
    inverse = 1.0 / fn.sqrt(kn.mean(centred * centred) - rest * rest + eps)
    return fn.fma(centred, inverse, -(rest * inverse)), mean + rest, inverse


@row(places=(), name="normalized_rows")
def normalized_rows(x, *, eps=1e-5):
    """(x - mean) / √(variance + eps) of each row, its mean, and 1 / √(variance + eps)."""
    return _standardised(x, eps)


@row(places=(), name="instance_rows")
def instance_rows(x, *, eps=1e-5):
    """`normalized_rows`, but where variance + eps is 0, 1 / √(variance + eps) is taken for 0."""
    found, mean, inverse = _standardised(x, eps)
    constant, zero = inverse == math.inf, fn.like(inverse, 0.0)
    return fn.where(constant, zero, found), mean, fn.where(constant, zero, inverse)


@row(places=(), name="affine_rows", per_row=())
def affine_rows(x, weight, bias, *, eps=1e-5):
    """`normalized_rows` times weight plus bias; mean and scale for the derivative."""
    found, mean, inverse = _standardised(x, eps)
    return found * weight + bias, mean, inverse


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


@library("composite", "nn.functional.layer_norm", "layer_norm", thin=True, autocast=("whole", "float32"))
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
    recorded = tape.recording(input, weight, bias)
    mixed = any(x is not None and x.dtype is not input.dtype for x in (weight, bias))
    if input.dtype in HALF_TYPES and (mixed or recorded):
        wide = (x if x is None else x.float() for x in (weight, bias))
        return layer_norm(input.float(), shape, *wide, eps).to(input.dtype)
    dims = tuple(range(input.ndim - rank, input.ndim))
    input = input.contiguous()  # rows lie in one piece, and so do the results
    if weight is None and bias is None:
        return _normalized(input, dims, eps)
    factor = ones(shape, dtype=input.dtype, device=input.device) if weight is None else weight
    addend = zeros(shape, dtype=input.dtype, device=input.device) if bias is None else bias
    if not recorded:
        return affine_rows.over((input, factor, addend), dims, True, params=(eps,))[0]
    operands = (input.detach(), factor.detach(), addend.detach())
    found, mean, inverse = affine_rows.over(operands, dims, True, params=(eps,))
    wanted = tuple(tape.recording(x) for x in (input, weight, bias))
    tape.record(
        "NativeLayerNormBackward0",
        _affine_back,
        (input, factor, addend),
        found,
        (input, factor),
        (mean, inverse, dims, eps, wanted),
    )
    return found


def _affine_back(grad, input, weight, mean, inverse, dims, eps, wanted):
    lead = tuple(range(input.ndim - len(dims)))
    if tape.recording(grad, input, weight):  # differentiated again: out of recorded operations
        mean = input.mean(dims, True)
        inverse = ((input - mean).square().mean(dims, True) + eps).rsqrt()
        y, scaled_grad = (input - mean) * inverse, grad * weight
        centred = scaled_grad - scaled_grad.mean(dims, True) - y * (scaled_grad * y).mean(dims, True)
        sums = (grad * y, grad)
        return inverse * centred, *(x.sum(lead) if lead else x for x in sums)
    to_input = affine_rows_back.over((grad, input, weight, mean, inverse), dims, True) if wanted[0] else None
    if not (wanted[1] or wanted[2]):
        return to_input, None, None
    if not lead:
        return to_input, grad * ((input - mean) * inverse), grad
    to_bias, to_weight = batch_sums.over((grad, input, mean, inverse), lead, False)
    return to_input, to_weight, to_bias


def _normalized(input: TensorBase, dims: tuple[int, ...], eps: float, rows=normalized_rows) -> TensorBase:
    """`normalized_rows`, or `instance_rows`, on the tape."""
    found, mean, inverse = rows.over((input.detach(),), dims, True, params=(eps,))
    if tape.recording(input):
        tape.record(
            "NativeLayerNormBackward0",
            _normalized_back,
            (input,),
            found,
            (input,),
            (mean, inverse, dims, eps, rows is instance_rows),
        )
    return found


def _normalized_back(grad, input, mean, inverse, dims, eps, constant_too):
    if tape.recording(grad, input):  # differentiated again: out of recorded operations
        mean = input.mean(dims, True)
        spread = (input - mean).square().mean(dims, True) + eps
        if constant_too:
            spread = spread.masked_fill(spread.detach() == 0, math.inf)
        inverse = spread.rsqrt()
        y = (input - mean) * inverse
        return inverse * (grad - grad.mean(dims, True) - y * (grad * y).mean(dims, True))
    return normalized_rows_back.over((grad, input, mean, inverse), dims, True)


@library("composite", "nn.functional.rms_norm", "rms_norm", thin=True, autocast=("whole", "float32"))
@in_float32(beside=True)
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
    if (
        weight is not None
        and weight.dtype is input.dtype
        and not input.is_complex()
        and tuple(weight.shape) == shape
    ):
        return _weighted_rms(input, weight, dims, finfo(input.dtype).eps if eps is None else eps)
    input = _row_major_or_channels_last(input)
    scale = (input.square().mean(dims, True) + (finfo(input.dtype).eps if eps is None else eps)).rsqrt()
    return input * scale if weight is None else input * scale * weight


@row(places=(), name="rms_rows", per_row=())
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


def _weighted_rms(input, weight, dims, eps: float) -> TensorBase:
    found, inverse = rms_rows.over((input.detach(), weight.detach()), dims, True, params=(eps,))
    if tape.recording(input, weight):
        wanted = tuple(tape.recording(x) for x in (input, weight))
        extra = (inverse, dims, eps, wanted)
        tape.record("MulBackward0", _rms_back, (input, weight), found, (input, weight), extra)
    return found


def _rms_back(grad, input, weight, inverse, dims, eps, wanted):
    lead = tuple(range(input.ndim - len(dims)))
    if tape.recording(grad, input, weight):  # differentiated again: out of recorded operations
        inverse = (input.square().mean(dims, True) + eps).rsqrt()
        y, scaled_grad = input * inverse, grad * weight
        to_weight = grad * y
        to_input = inverse * (scaled_grad - y * (scaled_grad * y).mean(dims, True))
        return to_input, to_weight.sum(lead) if lead else to_weight
    to_input = rms_rows_back.over((grad, input, weight, inverse), dims, True) if wanted[0] else None
    if not wanted[1]:
        return to_input, None
    if not lead:
        return to_input, grad * (input * inverse)
    return to_input, rms_sums.over((grad, input, inverse), lead, False)


# --- channels: batch, instance and group norm ------------------------------
@pointwise(places=("_scaled",), in_place=False, dtypes=FLOATING, differentiable=False)
def scaled(input, mean, inverse, weight, bias):
    """(input - mean) · inverse · weight + bias."""
    return fn.fma(input - mean, inverse * weight, bias)


@pointwise(places=("_scaled_back",), in_place=False, dtypes=FLOATING, differentiable=False)
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


def _channel(t: TensorBase, ndim: int) -> TensorBase:
    return t.reshape([-1 if d == 1 else 1 for d in range(ndim)])


@library("composite", "nn.functional.batch_norm", "batch_norm")
@in_float32("running_mean", "running_var", beside=True)
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
    ndim = input.ndim
    dims = tuple(d for d in range(ndim) if d != 1)
    if not training:
        if eps < 0:
            raise ValueError(f"batch_norm(): batch_norm eps must be non-negative, but got {eps}")
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "batch_norm(): expected running_mean and running_var to be given when training=False"
            )
        mean, inverse = _channel(running_mean, ndim), (_channel(running_var, ndim) + eps).rsqrt()
        return _scaled(input, mean, inverse, weight, bias, dims, None)
    if eps <= 0:
        raise ValueError(f"batch_norm(): batch_norm eps must be positive during training, but got {eps}")
    n = input.numel() // channels if channels else 0
    if n == 1:
        raise ValueError(
            f"batch_norm(): Expected more than 1 value per channel when training, got input size {input.shape}"
        )
    if n == 0:  # no moments, which the running ones could move towards
        w, b = _affine(weight, bias, ndim)
        return input * w + b
    var, mean = variance_and_mean.over((input.detach(),), dims, True, params=(0.0,))
    if running_mean is not None:
        running_mean.data.mul_(1 - momentum).add_(mean.reshape(-1), alpha=momentum)
    if running_var is not None:
        running_var.data.mul_(1 - momentum).add_(var.reshape(-1), alpha=momentum * n / (n - 1))
    return _scaled(input, mean, (var + eps).rsqrt(), weight, bias, dims, eps)


def _scaled(input, mean, inverse, weight, bias, dims: tuple[int, ...], eps: float | None) -> TensorBase:
    """`scaled` on the tape; `eps` is None where mean and inverse are no functions of the input."""
    w, b = _affine(weight, bias, input.ndim)
    before = tape._set_recording(0)
    try:
        found = scaled(input, mean, inverse, w, b)
    finally:
        tape._set_recording(before)
    if tape.recording(input, weight, bias):
        saved = (input, mean, inverse) if weight is None else (input, mean, inverse, weight)
        sums = eps is not None or tape.recording(weight, bias)
        tape.record(
            "NativeBatchNormBackward0",
            _batch_gradients,
            (input, weight, bias),
            found,
            saved,
            (dims, eps, sums),
        )
    return found


def _affine(weight, bias, ndim: int):
    return (1.0 if weight is None else _channel(weight, ndim)), (
        0.0 if bias is None else _channel(bias, ndim)
    )


def _batch_gradients(grad, input, mean, inverse, *rest):
    *given, dims, eps, sums = rest
    w = _channel(given[0], input.ndim) if given else 1.0
    again = tape.recording(grad, input, *given)  # differentiated again: out of recorded operations
    of_grad = of_product = None
    if again:
        if eps is not None:
            mean = input.mean(dims, True)
            inverse = ((input - mean).square().mean(dims, True) + eps).rsqrt()
        y = (input - mean) * inverse
        of_grad, of_product = grad.sum(dims, True), (grad * y).sum(dims, True)
    elif sums:
        of_grad, of_product = batch_sums.over((grad, input, mean, inverse), dims, True)
    n = math.prod(input.shape[d] for d in dims)
    if eps is None:
        to_input = grad * (inverse * w)
    elif again:
        to_input = inverse * w * (grad - of_grad / n - y * (of_product / n))
    else:
        to_input = scaled_back(grad, input, mean, inverse, w, w * (of_grad / n), w * (of_product / n))
    if not sums:
        return to_input, None, None
    return to_input, of_product.reshape(-1), of_grad.reshape(-1)


@library("composite", "nn.functional.instance_norm", "instance_norm")
@in_float32("running_mean", "running_var", beside=True)
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
        var, mean = variance_and_mean.over((input.detach(),), dims, False, params=(1.0,))
        if running_mean is not None:
            running_mean.data.mul_(1 - momentum).add_(mean.mean(0), alpha=momentum)
        if running_var is not None:
            running_var.data.mul_(1 - momentum).add_(var.mean(0), alpha=momentum)
    if weight is not None or bias is not None:
        return _grouped(input, input.shape[1], weight, bias, eps)
    return _normalized(input, dims, eps, instance_rows)


@library("composite", "nn.functional.group_norm", "group_norm", autocast=("whole", "float32"))
@in_float32(beside=True)
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
    return _normalized(grouped, (2,), eps).reshape(input.shape)


def _grouped(input, groups: int, weight, bias, eps: float) -> TensorBase:
    """Channels in groups, times weight plus bias."""
    sizes = (input.shape[0], groups, input.shape[1] // groups, math.prod(input.shape[2:]))
    per_channel = (1, *sizes[1:3], 1)
    input = _row_major_or_channels_last(input)
    seen = input.reshape(sizes)
    w = (
        ones(per_channel, dtype=input.dtype, device=input.device)
        if weight is None
        else weight.reshape(per_channel)
    )
    b = (
        zeros(per_channel, dtype=input.dtype, device=input.device)
        if bias is None
        else bias.reshape(per_channel)
    )
    with unrecorded():
        var, mean, rest = centred_moments.over((seen.detach(),), (2, 3), True)
        inverse = _inverse(var, eps)
        found = scaled(seen, mean, inverse, w, b - rest * (inverse * w))
    if tape.recording(seen, w, b):
        extra = (mean, inverse, eps)
        tape.record("NativeGroupNormBackward0", _grouped_back, (seen, w, b), found, (seen, w), extra)
    found = found.reshape(input.shape)
    # convolutions look at the stride of one image, too
    if input.shape[0] == 1 and not input.is_contiguous():
        found = found.as_strided(input.shape, input.stride())
    return found


def _inverse(var, eps: float) -> TensorBase:
    """1 / √(variance + eps), 0 where that is no number."""
    inverse = (var + eps).rsqrt()
    return inverse if eps > 0 else inverse.masked_fill(inverse.detach() == math.inf, 0.0)


def _grouped_back(grad, input, weight, mean, inverse, eps):
    n = input.shape[2] * input.shape[3]
    if tape.recording(grad, input, weight):  # differentiated again: out of recorded operations
        mean = input.mean((2, 3), True)
        inverse = _inverse((input - mean).square().mean((2, 3), True), eps)
        y = (input - mean) * inverse
        products, sums = (grad * y).sum(3, True), grad.sum(3, True)
        of_product, of_grad = ((x * weight).sum(2, True) / n for x in (products, sums))
        to_input = inverse * (grad * weight - of_grad - y * of_product)
    else:
        sums, products = batch_sums.over((grad, input, mean, inverse), 3, True)
        of_product, of_grad = ((x * weight).sum(2, True) / n for x in (products, sums))
        to_input = scaled_back(grad, input, mean, inverse, weight, of_grad, of_product)
    return to_input, products.sum(0, True), sums.sum(0, True)
