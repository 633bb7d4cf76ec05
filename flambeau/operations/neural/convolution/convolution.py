"""Convolutions, plain and transposed, and their gradients: two leaves whose derivatives are made of themselves.

    convolution                    out[n, o, p] = sum of w[o, c, k] x[n, c, stride p + dilation k - padding], or its adjoint in x
    convolution_backward           the gradients of input, weight and bias

Here stand arguments and derivatives; `families.py` chooses how each is computed, `half_families.py` of halves.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from ....core.base.tensor import TensorBase
from ...declare import checks
from ...declare.examples import of_call
from ...declare.flops import Count, Shape, conv_flop_count
from ...declare.half_types import HALF_TYPES
from ...declare.registry import REGISTRY, leaf, library, register
from ...pointwise.complex_numbers import complex_of
from ..pooling.pooling import addressable, ntuple, positive
from . import families, half_families
from .grid import Geometry


# --- leaves ------------------------------
def _count(input: Shape, weight: Shape, bias: Any, geometry: Geometry, out: Shape, transposed: bool) -> Count:
    return Count("aten.convolution", conv_flop_count(input, weight, out, transposed))


def _count_backward(
    grad: Shape, input: Shape, weight: Shape, geometry: Geometry, transposed: bool, wanted: Sequence[bool]
) -> Count:
    each = conv_flop_count(input, weight, grad, transposed)
    return Count("aten.convolution_backward", sum(wanted[:2]) * each)


@leaf("library", flops=_count, sharding="convolution")
def convolution(
    input: TensorBase,
    weight: TensorBase,
    bias: TensorBase | None,
    geometry: Geometry,
    out: tuple[int, ...],
    transposed: bool,
) -> TensorBase:
    """(N, O, *out) of an input (N, C, *); half types are summed in float32."""
    filters = weight.shape[1] * geometry.groups if transposed else weight.shape[0]
    if input.numel() == 0:  # PyTorch's result for no channels has none
        return input.new_zeros((input.shape[0], filters if input.shape[1] else 0, *out))
    if input.dtype in HALF_TYPES:
        return half_families.convolved(input, weight, bias, geometry, out, transposed)
    compute = families.transposed if transposed else families.forward
    return compute(input, weight, bias, geometry, out)


@convolution.derivative
def _gradients(
    grad: TensorBase,
    input: TensorBase,
    weight: TensorBase,
    geometry: Geometry,
    transposed: bool,
    needs: tuple[bool, bool, bool],
) -> tuple:
    return convolution_backward(grad, input, weight, geometry, transposed, needs)


@leaf(
    "library",
    results=("input_gradient", "weight_gradient", "bias_gradient"),
    label="ConvolutionBackwardBackward0",
    flops=_count_backward,
    sharding="convolution gradient",
)
def convolution_backward(
    grad_output: TensorBase,
    input: TensorBase,
    weight: TensorBase,
    geometry: Geometry,
    transposed: bool,
    wanted: tuple[bool, bool, bool],
) -> tuple[TensorBase | None, ...]:
    """The gradients of a `convolution` in its input, weight and bias: those `wanted`, None in place of the others."""
    sizes, kernel = tuple(input.shape[2:]), tuple(weight.shape[2:])
    if input.numel() == 0:
        filters = weight.shape[1] * geometry.groups if transposed else weight.shape[0]
        shapes = tuple(input.shape), tuple(weight.shape), (filters,)
        return tuple(grad_output.new_zeros(shape) if w else None for shape, w in zip(shapes, wanted))
    if 0 in grad_output.stride():  # of a sum: it is read more than once
        grad_output = grad_output.contiguous()
    of_input = of_weight = of_bias = None
    half = grad_output.dtype in HALF_TYPES
    if wanted[0] and half:
        of_input = half_families.convolved(grad_output, weight, None, geometry, sizes, not transposed)
    elif wanted[0] and transposed:
        of_input = families.forward(grad_output, weight, None, geometry, sizes)
    elif wanted[0]:
        of_input = families.input_gradient(grad_output, weight, geometry, sizes)
    if wanted[1]:
        sent, read = (input, grad_output) if transposed else (grad_output, input)
        compute = half_families.weight_gradient if half else families.weight_gradient
        of_weight = compute(sent, read, geometry, kernel)
    if wanted[2]:
        of_bias = grad_output.sum([0, *range(2, grad_output.ndim)])
    return of_input, of_weight, of_bias


@convolution_backward.derivative
def _gradients_again(
    grads: tuple,
    grad_output: TensorBase,
    input: TensorBase,
    weight: TensorBase,
    geometry: Geometry,
    transposed: bool,
    needs: tuple[bool, bool, bool],
) -> tuple:
    of_input, of_weight, of_bias = grads
    again = to_input = to_weight = None
    if needs[0]:
        pairs = (of_input, weight), (input, of_weight)
        places = tuple(grad_output.shape[2:])
        terms = [
            convolution(x, w, None, geometry, places, transposed)
            for x, w in pairs
            if x is not None and w is not None
        ]
        if of_bias is not None and grad_output.numel():
            terms.append(of_bias.reshape(-1, *[1] * len(places)).expand(grad_output.shape))
        again = functools.reduce(operator.add, terms) if terms else None
    if needs[1] and of_weight is not None:
        to_input = convolution_backward(
            grad_output, input, of_weight, geometry, transposed, (True, False, False)
        )[0]
    if needs[2] and of_input is not None:
        to_weight = convolution_backward(
            grad_output, of_input, weight, geometry, transposed, (False, True, False)
        )[1]
    return again, to_input, to_weight


# --- leaves of slices ------------------------------
def in_groups(x: TensorBase) -> TensorBase:
    """(B, N, C, …) as (N, B C, …)."""
    return x.movedim(0, 1).flatten(1, 2)


def out_of_groups(x: TensorBase, slices: int) -> TensorBase:
    """(N, B C, …) as (B, N, C, …)."""
    return x.unflatten(1, (slices, x.shape[1] // slices)).movedim(1, 0)


def _of_slices(geometry: Geometry, slices: int) -> Geometry:
    return geometry._replace(groups=slices * geometry.groups)


def _count_sliced(input: Shape, weight: Shape, geometry: Geometry, out: Shape) -> Count:
    return Count("aten.convolution", conv_flop_count(input, weight[1:], out))


def _count_sliced_backward(grad: Shape, input: Shape, weight: Shape, geometry: Geometry) -> Count:
    return Count("aten.convolution_backward", 2 * conv_flop_count(input, weight[1:], grad))


@leaf("library", label="ConvolutionBackward0", flops=_count_sliced)
def sliced_convolution(
    input: TensorBase, weight: TensorBase, geometry: Geometry, out: tuple[int, ...]
) -> TensorBase:
    """(B, N, O, *out) of inputs (B, N, C, *) and weights (B, O, C / groups, *) that are one in memory: slices are more images.  What
    each of them adds to the weight's gradient stays apart.
    """
    result = families.forward(input.flatten(0, 1), weight[0], None, geometry, out)
    return result.unflatten(0, input.shape[:2])


@sliced_convolution.derivative
def _sliced_gradients(grad: TensorBase, input: TensorBase, weight: TensorBase, geometry: Geometry) -> tuple:
    return sliced_convolution_backward(grad, input, weight, geometry)


@leaf(
    "library",
    results=("input_gradient", "weight_gradient"),
    label="ConvolutionBackwardBackward0",
    flops=_count_sliced_backward,
)
def sliced_convolution_backward(
    grad_output: TensorBase, input: TensorBase, weight: TensorBase, geometry: Geometry
) -> tuple[TensorBase, TensorBase]:
    """The gradients of a `sliced_convolution`."""
    sizes, kernel, apart = (
        tuple(input.shape[3:]),
        tuple(weight.shape[3:]),
        _of_slices(geometry, len(grad_output)),
    )
    of_input = families.input_gradient(grad_output.flatten(0, 1).contiguous(), weight[0], geometry, sizes)
    of_weight = families.weight_gradient(in_groups(grad_output), in_groups(input), apart, kernel)
    return of_input.reshape(input.shape), of_weight.reshape(weight.shape)


@sliced_convolution_backward.derivative
def _sliced_gradients_again(
    grads: tuple, grad_output: TensorBase, input: TensorBase, weight: TensorBase, geometry: Geometry
) -> tuple:
    b = grad_output.shape[0]
    of_input, of_weight = grads
    given = (
        None if of_input is None else in_groups(of_input),
        None if of_weight is None else of_weight.flatten(0, 1),
        None,
    )
    again, to_input, to_weight = _gradients_again(
        given,
        in_groups(grad_output),
        in_groups(input),
        weight.flatten(0, 1),
        _of_slices(geometry, b),
        False,
        (True, True, True),
    )
    return (
        None if again is None else out_of_groups(again, b),
        None if to_input is None else out_of_groups(to_input, b),
        None if to_weight is None else to_weight.unflatten(0, weight.shape[:2]),
    )


# --- arguments ------------------------------
def _checked(name: str, n: int, x, weight, bias, channels: int, groups: int, filters: int, transposed: bool):
    """(N, C, *) of the input, and whether it had a batch; RuntimeError where things do not fit."""
    if bias is not None and bias.dtype is not x.dtype and not transposed:
        raise RuntimeError(
            f"{name}(): Input type ({x.dtype}) and bias type ({bias.dtype}) should be the same"
        )
    if x.dtype != weight.dtype:
        raise RuntimeError(
            f"{name}(): Input type ({x.dtype}) and weight type ({weight.dtype}) should be the same"
        )
    if x.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"{name}(): Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, but got input of size: {list(x.shape)}"
        )
    if groups < 1 or weight.shape[0] % groups:
        raise RuntimeError(
            f"{name}(): {weight.shape[0]} {'input' if transposed else 'output'} channels cannot be divided into {groups} groups"
        )
    batched = x.ndim == n + 2
    x = x if batched else x.unsqueeze(0)
    if x.shape[1] != channels:
        what = "transposed=1" if transposed else f"groups={groups}"
        raise RuntimeError(
            f"{name}(): Given {what}, weight of size {list(weight.shape)}, expected input{list(x.shape)} to have {channels} channels, but "
            f"got {x.shape[1]} channels instead"
        )
    if weight.shape[0] < 1 or min(weight.shape[2:]) < 1:
        raise RuntimeError(
            f"{name}(): expected weight to be at least 1 at dimension 0 and its kernel size to be greater than zero, but got "
            f"weight of size {list(weight.shape)}"
        )
    if transposed and weight.shape[1] < 1:
        raise RuntimeError(
            f"{name}(): non-empty weight expected, but got weight of size {list(weight.shape)}"
        )
    if 0 in x.shape[2:]:
        raise RuntimeError(
            f"{name}(): Only zero batch or zero channel inputs are supported, but got input shape: {list(x.shape)}"
        )
    if bias is not None and tuple(bias.shape) != (filters,):
        raise RuntimeError(
            f"{name}(): Given weight of size {list(weight.shape)}, expected bias to be 1-dimensional with {filters} elements, but got bias "
            f"of size {list(bias.shape)} instead"
        )
    return x, batched


def paddings(name: str, padding, kernel, stride, dilation) -> tuple[tuple[int, int], ...]:
    """How much is added before and behind each dimension."""
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise RuntimeError(f"{name}(): padding must be 'valid', 'same' or ints, got {padding!r}")
        if padding == "same" and any(s != 1 for s in stride):
            raise RuntimeError(f"{name}(): padding='same' is not supported for strided convolutions")
        totals = [d * (k - 1) if padding == "same" else 0 for k, d in zip(kernel, dilation)]
        return tuple((t // 2, t - t // 2) for t in totals)
    amounts = ntuple(name, "padding", padding, len(kernel))
    positive(name, "padding", amounts, 0)
    return tuple((p, p) for p in amounts)


def in_parts(function: Callable, x: TensorBase, w: TensorBase, bias: TensorBase | None) -> TensorBase:
    """A bilinear function of complex numbers by that of real ones."""
    both = function(x.real, w.real, None if bias is None else bias.real)
    other = function(x.imag, w.imag, None)
    imaginary = function(x.real, w.imag, None if bias is None else bias.imag) + function(x.imag, w.real, None)
    return complex_of(both - other, imaginary)


def _convolved(
    x: TensorBase, w: TensorBase, bias: TensorBase | None, g: Geometry, out: tuple[int, ...], transposed: bool
) -> TensorBase:
    if x.is_complex() and x.numel():
        return in_parts(lambda x, w, bias: convolution(x, w, bias, g, out, transposed), x, w, bias)
    return convolution(x, w, bias, g, out, transposed)


@functools.lru_cache(maxsize=256)
def windows(name: str, sizes, kernel, stride, pads, dilation) -> tuple[tuple[int, ...], ...]:
    """The output's sizes, and stride and dilation as far as they play a part: one window has no next, one tap neither."""
    padded = [s + a + b for s, (a, b) in zip(sizes, pads)]
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    if any(s < r for s, r in zip(padded, reach)):
        raise RuntimeError(
            f"{name}(): Calculated padded input size per channel: ({' x '.join(map(str, padded))}). Kernel size: "
            f"({' x '.join(map(str, kernel))}). Kernel size can't be greater than actual input size"
        )
    addressable(name, [*padded, *reach])
    out = tuple((s - r) // step + 1 for s, r, step in zip(padded, reach, stride))
    stride = tuple(min(s, r) if o == 1 else s for s, r, o in zip(stride, reach, out))
    return out, stride, tuple(d if k > 1 else 1 for d, k in zip(dilation, kernel))


@functools.lru_cache(maxsize=1024)
def _placed(name: str, n: int, sizes, kernel, stride, padding, dilation, groups: int):
    """The geometry of a convolution, and its output's sizes; RuntimeError where there is none."""
    stride, dilation = ntuple(name, "stride", stride, n), ntuple(name, "dilation", dilation, n)
    positive(name, "stride", stride)
    positive(name, "dilation", dilation)
    pads = paddings(name, padding, kernel, stride, dilation)
    out, stride, dilation = windows(name, sizes, kernel, stride, pads, dilation)
    return Geometry(stride, tuple(a for a, _ in pads), dilation, groups), out


def _whole(given) -> bool:
    """Whether an argument is made of plain integers, so that what is equal to it means the same."""
    if type(given) is tuple:
        for e in given:
            if type(e) is not int:
                return False
        return True
    return type(given) is int


def _convolution(name: str, n: int, x, weight, bias, stride, padding, dilation, groups: int) -> TensorBase:
    plain = _whole(stride) and _whole(dilation) and (_whole(padding) or type(padding) is str)
    if not plain:
        stride, dilation = ntuple(name, "stride", stride, n), ntuple(name, "dilation", dilation, n)
        positive(name, "stride", stride)
        positive(name, "dilation", dilation)
    checks.rank(name, "weight", weight, n + 2)
    channels = weight.shape[1] * groups
    x, batched = _checked(name, n, x, weight, bias, channels, groups, weight.shape[0], False)
    place = _placed if plain else _placed.__wrapped__
    g, out = place(name, n, tuple(x.shape[2:]), tuple(weight.shape[2:]), stride, padding, dilation, groups)

    result = _convolved(x, weight, bias, g, out, False)
    return result if batched else result.squeeze(0)


def _transposition(
    name: str, n: int, x, weight, bias, stride, padding, extra, groups: int, dilation
) -> TensorBase:
    stride, dilation = ntuple(name, "stride", stride, n), ntuple(name, "dilation", dilation, n)
    padding, extra = ntuple(name, "padding", padding, n), ntuple(name, "output_padding", extra, n)
    positive(name, "stride", stride)
    positive(name, "dilation", dilation)
    positive(name, "padding", padding, 0)
    positive(name, "output_padding", extra, 0)
    checks.rank(name, "weight", weight, n + 2)
    filters = weight.shape[1] * groups
    x, batched = _checked(name, n, x, weight, bias, weight.shape[0], groups, filters, True)
    if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation)):
        raise RuntimeError(
            f"{name}(): output padding must be smaller than either stride or dilation, but got output_padding {extra}, stride "
            f"{stride}, dilation {dilation}"
        )
    sizes = tuple(
        (i - 1) * s - 2 * p + d * (k - 1) + e + 1
        for i, s, p, d, k, e in zip(x.shape[2:], stride, padding, dilation, weight.shape[2:], extra)
    )
    if any(s < 1 for s in sizes):
        raise RuntimeError(
            f"{name}(): Given input size per channel: {list(x.shape[2:])}. Calculated output size per channel: {list(sizes)}. Output size "
            "is too small"
        )
    addressable(name, [s + 2 * p + d * k for s, p, d, k in zip(sizes, padding, dilation, weight.shape[2:])])
    stride = tuple(min(s, n + p) if i == 1 else s for s, n, p, i in zip(stride, sizes, padding, x.shape[2:]))
    dilation = tuple(d if k > 1 else 1 for d, k in zip(dilation, weight.shape[2:]))
    g = Geometry(stride, padding, dilation, groups)

    bias = bias if bias is None else bias.to(x.dtype)
    result = _convolved(x, weight, bias, g, sizes, True)
    return result if batched else result.squeeze(0)


_SPREADS = """

Windows of 3 × 3 may be computed by Winograd's way, but for float64: then an infinity or a NaN in the input spreads to the squares of
4 × 4 results whose patches hold it; `backends.cpu.allow_winograd = False` takes sums alone."""


def _count_whole(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1) -> Count:
    n = len(weight) - 2
    steps, places, kernel = (
        ntuple("conv", "stride", stride, n),
        ntuple("conv", "dilation", dilation, n),
        tuple(weight[2:]),
    )
    pads = paddings("conv", padding, kernel, steps, places)
    out = windows("conv", tuple(input[len(input) - n :]), kernel, steps, pads, places)[0]
    return Count("aten.convolution", conv_flop_count(input, weight, out))


def _declare(n: int) -> None:
    def conv(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1) -> TensorBase:
        return _convolution(f"conv{n}d", n, input, weight, bias, stride, padding, dilation, groups)

    def transposed(
        input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
    ) -> TensorBase:
        name = f"conv_transpose{n}d"
        return _transposition(name, n, input, weight, bias, stride, padding, output_padding, groups, dilation)

    ones = "1, " * (n + 1)
    for name, function, what, shapes, elements in (
        (
            f"conv{n}d",
            conv,
            "Σ input[k · stride + j · dilation - padding] · weight[j] + bias: cross-correlation",
            "input: (N, C, *) or (C, *); weight: (O, C / groups, *); bias: (O,); result: (N, O, *) or (O, *)",
            "3., 6.",
        ),
        (
            f"conv_transpose{n}d",
            transposed,
            "Each input[k] · weight[j] added at k · stride + j · dilation - padding: a convolution's adjoint",
            "input: (N, C, *) or (C, *); weight: (C, O / groups, *); bias: (O,); result: (N, O, *) or (O, *)",
            "1., 3., 6., 4.",
        ),
    ):
        function.__name__ = function.__qualname__ = name
        function.__doc__ = (
            f"{what}.\n\nOver {n} dimension{'s' if n > 1 else ''}, with groups of channels.{_SPREADS if n > 1 else ''}\n\n"
            f"Shape:\n    {shapes}\n\n"
            "Raises:\n    RuntimeError: shapes, dtypes or numbers do not fit"
            + of_call(
                f"{name}(flambeau.tensor([1.0, 2.0, 4.0]).reshape({ones}3), flambeau.ones({ones}2))",
                f"tensor({'[' * (n + 2)}{elements}{']' * (n + 2)})",
            )
        )
        register(
            name,
            "composite",
            function,
            places=(name, f"nn.functional.{name}"),
            autocast="lower",
            flops=_count_whole if function is conv else None,
            gain=1.0,
        )


for _n in (1, 2, 3):
    _declare(_n)


@library("composite", "nn.functional.conv_tbc", "conv_tbc", autocast="lower")
def conv_tbc(input: TensorBase, weight: TensorBase, bias: TensorBase, pad: int = 0) -> TensorBase:
    """result[t, n, o] = bias[o] + Σ input[t + k - pad, n, c] · weight[k, c, o].
    It is the cross-correlation of an input (T, N, C) with a weight (K, C, O) along time, with `pad` zeros at
    both ends.

    Shape:
        input: (T, N, C); weight: (K, C, O); bias: (O,); result: (T + 2 pad - K + 1, N, O)

    Raises:
        RuntimeError: input or weight has not three dimensions, or the channels differ

    >>> import flambeau
    >>> input = flambeau.arange(4.0).reshape(4, 1, 1)
    >>> flambeau.nn.functional.conv_tbc(input, flambeau.ones(2, 1, 1), flambeau.zeros(1)).flatten()
    tensor([1., 3., 5.])
    """
    checks.rank("conv_tbc", "input", input, 3)
    checks.rank("conv_tbc", "weight", weight, 3)
    conv1d = REGISTRY["conv1d"].function
    return conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)
