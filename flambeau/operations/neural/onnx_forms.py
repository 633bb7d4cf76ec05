"""ONNX forms of activations, convolutions and normalisation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..declare.onnx import onnx_form
from .activations import (
    celu,
    elu,
    gelu_erf,
    gelu_tanh,
    hardsigmoid,
    hardswish,
    leaky_relu,
    mish,
    relu,
    selu,
    softplus,
    softsign,
)
from .convolution.convolution import convolution
from .convolution.unfolding import blocks_of, sum_of_blocks
from .normalization.normalization import batch_norm_channels, centred_moments, group_norm_channels
from .normalization.normalized_rows import layer_norm_rows, rms_norm_rows


# --- activations ------------------------------
def _one(kind: str, since: int = 0, **names: str) -> Any:
    """One operator of ONNX for floats; `names`: its attributes, and the parameters that they are."""

    def form(g: Any, input: Any, *args: Any, **params: Any) -> Any:
        if g.opset < since or input.dtype not in ("float32", "float16") or args:
            return NotImplemented
        return g.op(
            kind, input, **{attribute: float(params[p]) for attribute, p in names.items() if p in params}
        )

    return form


def _declare(operation: Any, kind: str, since: int = 0, **names: str) -> None:
    onnx_form(operation)(_one(kind, since, **names))


_declare(relu, "Relu")
_declare(elu, "Elu", alpha="alpha")
_declare(selu, "Selu")
_declare(softsign, "Softsign")
_declare(mish, "Mish")
_declare(hardswish, "HardSwish")


@onnx_form(leaky_relu)
def _(g: Any, input: Any, negative_slope: float = 0.01) -> Any:
    return (
        g.op("LeakyRelu", input, alpha=float(negative_slope)) if input.dtype == "float32" else NotImplemented
    )


@onnx_form(celu)
def _(g: Any, input: Any, alpha: float = 1.0) -> Any:
    return (
        g.op("Celu", input, alpha=float(alpha)) if input.dtype == "float32" and alpha != 0 else NotImplemented
    )


@onnx_form(softplus)
def _(g: Any, input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    return (
        g.Softplus(input) if input.dtype == "float32" and beta == 1.0 and threshold >= 20 else NotImplemented
    )


@onnx_form(hardsigmoid)
def _(g: Any, input: Any) -> Any:
    return g.op("HardSigmoid", input, alpha=1 / 6, beta=0.5) if input.dtype == "float32" else NotImplemented


@onnx_form(gelu_erf)
def _(g: Any, input: Any) -> Any:
    return g.Gelu(input) if g.opset >= 20 and input.dtype == "float32" else NotImplemented


@onnx_form(gelu_tanh)
def _(g: Any, input: Any) -> Any:
    return (
        g.op("Gelu", input, approximate="tanh")
        if g.opset >= 20 and input.dtype == "float32"
        else NotImplemented
    )


# --- convolutions ------------------------------
def padding_behind(size: int, out: int, kernel: int, stride: int, before: int, dilation: int) -> int:
    """The padding behind a line, from how many windows there are: that in front, where this gives as many."""
    reach = dilation * (kernel - 1) + 1
    if (size + 2 * before - reach) // stride + 1 == out:
        return before
    return max((out - 1) * stride + reach - size - before, 0)


@onnx_form(convolution)
def _(g: Any, input: Any, weight: Any, bias: Any, geometry: Any, out: Any, transposed: bool) -> Any:
    stride, before, dilation, groups = geometry
    sizes, kernel = input.shape[2:], weight.shape[2:]
    if 0 in input.shape or 0 in weight.shape:
        return NotImplemented
    shared = {
        "strides": list(stride),
        "dilations": list(dilation),
        "group": groups,
        "kernel_shape": list(kernel),
    }
    if transposed:
        rest = [
            o - ((n - 1) * s - 2 * p + d * (k - 1) + 1)
            for o, n, s, p, d, k in zip(out, sizes, stride, before, dilation, kernel)
        ]
        given = [max(r, 0) for r in rest]
        if all(0 <= r < max(s, d) for r, s, d in zip(rest, stride, dilation)) and all(
            r < s for r, s in zip(rest, stride)
        ):
            return g.op(
                "ConvTranspose", input, weight, bias, pads=[*before, *before], output_padding=rest, **shared
            )
        behind = [p - r for p, r in zip(before, given)]
        if any(p < 0 for p in behind):
            result = g.op("ConvTranspose", input, weight, None, pads=[*before, *([0] * len(out))], **shared)
            ends = [r - p for p, r in zip(before, given)]
            short = [max(e, 0) for e in ends]
            result = g.Pad(result, [0] * (len(out) + 2) + [0, 0, *short], g.number(0, input.dtype))
            dims = list(range(2, 2 + len(out)))
            result = g.op("Slice", result, [0] * len(out), list(out), dims)
            line = None if bias is None else g.unsqueeze(bias, list(range(1, len(out) + 1)))
            return result if line is None else g.Add(result, line)
        return g.op("ConvTranspose", input, weight, bias, pads=[*before, *behind], **shared)
    ends = [padding_behind(*numbers) for numbers in zip(sizes, out, kernel, stride, before, dilation)]
    return g.op("Conv", input, weight, bias, pads=[*before, *ends], **shared)


@onnx_form(blocks_of)
def _(g: Any, input: Any, way: Any, sizes: Any) -> Any:
    """Gathers along each padded dimension: (N, C, k, places, …), then the kernel's dimensions in front."""
    dims = len(sizes)
    pads = [0, 0, *way.padding] * 2
    x = g.Pad(input, pads, g.number(0, input.dtype)) if any(way.padding) else input
    places = way.places(sizes)
    for d in range(dims):
        at = np.arange(way.kernel[d])[:, None] * way.dilation[d] + np.arange(places[d]) * way.stride[d]
        x = g.op("Gather", x, at, axis=2 + 2 * d)
    order = [0, 1, *(2 + 2 * d for d in range(dims)), *(3 + 2 * d for d in range(dims))]
    return g.op("Transpose", x, perm=order)


@onnx_form(sum_of_blocks)
def _(g: Any, input: Any, way: Any, sizes: Any) -> Any:
    if len(sizes) != 2 or input.dtype != "float32":
        return NotImplemented
    n, c = input.shape[:2]
    columns = g.reshape(input, [n, c * math.prod(way.kernel), math.prod(way.places(sizes))])
    return g.op(
        "Col2Im",
        columns,
        list(sizes),
        list(way.kernel),
        dilations=list(way.dilation),
        pads=[*way.padding, *way.padding],
        strides=list(way.stride),
    )


# --- normalisation ------------------------------
@onnx_form(layer_norm_rows)
def _(g: Any, input: Any, weight: Any, bias: Any, rank: int, eps: float) -> Any:
    if not rank or 0 in input.shape:
        return NotImplemented
    shape = input.shape[input.rank - rank :]
    scale = g.expand(g.number(1, input.dtype), shape) if weight is None else weight
    result, mean, inverse = g.op(
        "LayerNormalization", input, scale, bias, outputs=3, axis=-rank, epsilon=float(eps)
    )
    return result, mean, inverse


@onnx_form(rms_norm_rows)
def _(g: Any, input: Any, weight: Any, rank: int, eps: float) -> Any:
    x = input if input.dtype in ("float32", "float64") else g.cast(input, "float32")
    squares = g.reduce("ReduceMean", g.Mul(x, x), list(range(-rank, 0)), True)
    inverse = g.Reciprocal(g.Sqrt(g.Add(squares, g.number(eps, x.dtype))))
    if g.opset >= 23 and input.dtype == "float32":
        return g.op("RMSNormalization", input, weight, axis=-rank, epsilon=float(eps)), inverse
    return g.Mul(g.Mul(x, inverse), g.cast(weight, x.dtype)), inverse


@onnx_form(batch_norm_channels)
def _(g: Any, input: Any, mean: Any, inverse: Any, weight: Any, bias: Any, eps: Any) -> Any:
    """BatchNormalization, where the reciprocal of the deviation is seen to be made of a variance."""
    channels = input.shape[1]
    variance = _variance_of(g, inverse)
    if eps is not None or variance is None or input.dtype not in ("float32", "float16"):
        return NotImplemented
    value, epsilon = variance
    scale = g.expand(g.number(1, input.dtype), [channels]) if weight is None else weight
    shift = g.expand(g.number(0, input.dtype), [channels]) if bias is None else bias
    moments = [g.reshape(v, [channels]) for v in (mean, value.of(mean.shape))]
    return g.op("BatchNormalization", input, scale, shift, *moments, epsilon=epsilon)


def _variance_of(g: Any, inverse: Any) -> tuple[Any, float] | None:
    """v and e, where a value is 1 / √(v + e)."""
    kinds, node = [], g.maker(inverse)
    for kind in ("Div", "Sqrt", "Add"):
        if node is None or node.kind != kind:
            return None
        kinds.append(node)
        name = node.inputs[1] if kind == "Div" else node.inputs[0]
        if kind != "Add":
            node = g.maker(type(inverse)(name, inverse.dtype))
    number = g.constants.get(kinds[-1].inputs[1])
    if number is None or number.shape:
        return None
    return type(inverse)(kinds[-1].inputs[0], inverse.dtype), float(number)


@onnx_form(group_norm_channels)
def _(g: Any, input: Any, mean: Any, inverse: Any, rest: Any, weight: Any, bias: Any, eps: float) -> Any:
    given = [g.cast(v, mean.dtype) for v in (input, weight, bias)]
    x, scale, shift = given
    return g.Add(g.Mul(g.Mul(g.Sub(x, mean), inverse), scale), shift)


@onnx_form(centred_moments)
def _(g: Any, *given: Any, **_: Any) -> Any:
    (x,), dim, keepdim, _, _, _ = given
    wide = g.cast(x, g.results[0].dtype)
    mean = g.reduce("ReduceMean", wide, list(dim), True)
    far = g.Sub(wide, mean)
    variance = g.reduce("ReduceMean", g.Mul(far, far), list(dim), True)
    return variance, mean, g.Sub(mean, mean)
