"""Convolutions and their adjoints: three bilinear functions whose derivatives are each other.

    convolve(x, w)                 out[n, o, p] = sum of w[o, c, k] x[n, c, stride p + dilation k - padding]
    convolve_input(g, w)           its gradient in x, which is also the transposed convolution
    convolve_weight(g, x)          its gradient in w

Here stand arguments and tape; `convolution_families.py` chooses how each is computed.
"""

from __future__ import annotations

import functools

from ...core import tape
from ...core.base.dtypes import by_name
from ...core.base.tensor import TensorBase
from ...core.make.create import zeros
from ...core.tape.contexts import unrecorded
from ..declare import checks
from ..declare.examples import of_call
from ..declare.registry import REGISTRY, library, register
from ..pointwise.complex_numbers import complex_of
from . import convolution_families as families
from .convolution_grid import Geometry
from .pooling import addressable, positive, spread


# --- on the tape ------------------------------
def convolve(x, w, bias, g: Geometry, out: tuple[int, ...]) -> TensorBase:
    with unrecorded():
        found = families.forward(x, w, bias, g, out)
    if tape.recording(x, w, bias):
        wanted = (tape.recording(x), tape.recording(w), bias is not None and tape.recording(bias))
        tape.record("ConvolutionBackward0", _back, (x, w, bias), found, (x, w), (g, wanted))
    return found


def _back(grad, x, w, g, wanted):
    if 0 in grad.stride():  # of a sum: both functions read it more than once
        grad = grad.contiguous()
    of_x = convolve_input(grad, w, g, tuple(x.shape[2:])) if wanted[0] else None
    of_w = convolve_weight(grad, x, g, tuple(w.shape[2:])) if wanted[1] else None
    return of_x, of_w, grad.sum([0, *range(2, grad.ndim)]) if wanted[2] else None


def convolve_input(grad, w, g: Geometry, sizes: tuple[int, ...]) -> TensorBase:
    with unrecorded():
        found = families.input_gradient(grad, w, g, sizes)
    if tape.recording(grad, w):
        tape.record("ConvolutionBackwardBackward0", _input_back, (grad, w), found, (grad, w), (g,))
    return found


def _input_back(again, grad, w, g):
    return convolve(again, w, None, g, tuple(grad.shape[2:])), convolve_weight(
        grad, again, g, tuple(w.shape[2:])
    )


def convolve_weight(grad, x, g: Geometry, kernel: tuple[int, ...]) -> TensorBase:
    with unrecorded():
        found = families.weight_gradient(grad, x, g, kernel)
    if tape.recording(grad, x):
        tape.record("ConvolutionBackwardBackward0", _weight_back, (grad, x), found, (grad, x), (g,))
    return found


def _weight_back(again, grad, x, g):
    return convolve(x, again, None, g, tuple(grad.shape[2:])), convolve_input(
        grad, again, g, tuple(x.shape[2:])
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
            f"{name}(): Expected {n + 1}D (unbatched) or {n + 2}D (batched) input, but got input of size: {list(x.shape)}"
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
    amounts = spread(name, "padding", padding, len(kernel))
    positive(name, "padding", amounts, 0)
    return tuple((p, p) for p in amounts)


def in_parts(function, x, w, bias):
    """A convolution of half or complex numbers by convolutions of real ones; None where it needs none."""
    kind = x.dtype.name
    if kind in ("float16", "bfloat16"):
        wide = by_name["float32"]
        found = function(x.to(wide), w.to(wide), None if bias is None else bias.to(wide))
        return found.to(x.dtype)
    if not kind.startswith("complex"):
        return None
    both = function(x.real, w.real, None if bias is None else bias.real)
    other = function(x.imag, w.imag, None)
    imaginary = function(x.real, w.imag, None if bias is None else bias.imag) + function(x.imag, w.real, None)
    return complex_of(both - other, imaginary)


def _without_elements(x, weight, bias, shape: tuple[int, ...]) -> TensorBase:
    """The result for no images or no channels; all gradients are zeros."""
    sums = [p.sum() for p in (x, weight, bias) if p is not None]
    return functools.reduce(lambda a, b: a + b, sums) * zeros(shape, dtype=x.dtype, device=x.device)


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
    stride, dilation = spread(name, "stride", stride, n), spread(name, "dilation", dilation, n)
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
        stride, dilation = spread(name, "stride", stride, n), spread(name, "dilation", dilation, n)
        positive(name, "stride", stride)
        positive(name, "dilation", dilation)
    checks.rank(name, "weight", weight, n + 2)
    channels = weight.shape[1] * groups
    x, batched = _checked(name, n, x, weight, bias, channels, groups, weight.shape[0], False)
    place = _placed if plain else _placed.__wrapped__
    g, out = place(name, n, tuple(x.shape[2:]), tuple(weight.shape[2:]), stride, padding, dilation, groups)

    def run(x, w, bias):
        return convolve(x, w, bias, g, out)

    if x.numel() == 0:  # PyTorch's result for no channels has none
        shape = (x.shape[0], weight.shape[0] if x.shape[1] else 0, *out)
        found = _without_elements(x, weight, bias, shape)
    else:
        found = in_parts(run, x, weight, bias)
        found = run(x, weight, bias) if found is None else found
    return found if batched else found.squeeze(0)


def _transposition(
    name: str, n: int, x, weight, bias, stride, padding, extra, groups: int, dilation
) -> TensorBase:
    stride, dilation = spread(name, "stride", stride, n), spread(name, "dilation", dilation, n)
    padding, extra = spread(name, "padding", padding, n), spread(name, "output_padding", extra, n)
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

    def run(x, w, bias):
        found = convolve_input(x, w, g, sizes)
        return found if bias is None else found + bias.to(found.dtype).reshape(-1, *[1] * n)

    if x.numel() == 0:
        found = _without_elements(x, weight, bias, (x.shape[0], filters, *sizes))
    else:
        found = in_parts(run, x, weight, bias)
        found = run(x, weight, bias) if found is None else found
    return found if batched else found.squeeze(0)


_SPREADS = """

Windows of 3 × 3 may be computed by Winograd's way, but for float64: then an infinity or a NaN in the input spreads to the squares of
4 × 4 results whose patches hold it; `backends.cpu.allow_winograd = False` takes sums alone."""


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
            name, "composite", function, places=(name, f"nn.functional.{name}"), whole=True, autocast="lower"
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
