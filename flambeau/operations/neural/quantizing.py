"""Rounding to the numbers that a quantised tensor could hold, in floating point (Jacob et al. 2018, equation 12).

x is taken to (clamp(round(x / scale) + zero_point, quant_min, quant_max) - zero_point) · scale; half-way cases go to the even
neighbour. The gradient is passed on where nothing was clamped, and is 0 elsewhere (the straight-through estimator).
"""

from __future__ import annotations

from typing import Any

from ...codegen import functions as fn
from ...core.base.tensor import TensorBase
from ..declare import checks
from ..declare.host import holds
from ..declare.pointwise import FLOATING, pointwise
from ..declare.registry import leaf, library


@pointwise(places=("_fake_quantized",), results=2, dtypes=FLOATING, in_place=False, differentiable=False)
def fake_quantized(input, scale, zero_point, *, low, high):
    """(clamp(round(x / scale) + zero_point, low, high) - zero_point) · scale, and 1 where nothing was clamped, else 0."""
    place = fn.rint(input * (1.0 / scale) + zero_point) + 0.0  # integers have no -0
    # NaN becomes the least one, as it does where it is taken for a number of 32 bits.
    kept = fn.where(place >= low, fn.minimum(place, fn.like(place, high)), fn.like(place, low))
    inside = fn.where((place >= low) & (place <= high), fn.like(place, 1.0), fn.like(place, 0.0))
    return (kept - zero_point) * scale, inside


def _with_mask(
    input: TensorBase, scale: TensorBase, zero_point: TensorBase, low: int, high: int
) -> tuple[TensorBase, TensorBase]:
    """The rounded numbers, and 1 where nothing was clamped, else 0."""
    return fake_quantized(input, scale, zero_point, low=float(low), high=float(high))


def _passed_on(grad: TensorBase, mask: TensorBase) -> TensorBase:
    return grad * mask


_PER_TENSOR, _PER_CHANNEL = (
    leaf(
        "library",
        name=f"fake_quantize_per_{each}_affine_cachemask",
        results=("result", "mask"),
        inputs=("input",),
        label=f"FakeQuantizePer{each.capitalize()}AffineCachemaskBackward0",
        batching="pointwise",
        decomposes=True,
    )(_with_mask)
    for each in ("tensor", "channel")
)
_PER_TENSOR.derivative(_passed_on)
_PER_CHANNEL.derivative(_passed_on)


def _range(name: str, zero_point: Any, low: int, high: int) -> None:
    if low > high:
        raise RuntimeError(
            f"{name}(): `quant_min` should be less than or equal to `quant_max`, got {low} and {high}"
        )
    inside = (
        holds((zero_point >= low) & (zero_point <= high))
        if isinstance(zero_point, TensorBase)
        else low <= zero_point <= high
    )
    if not inside:
        raise RuntimeError(
            f"{name}(): `zero_point` must be between `quant_min` and `quant_max`, {low} and {high}, got {zero_point}"
        )


@library("composite", "fake_quantize_per_tensor_affine", dtypes=FLOATING)
def fake_quantize_per_tensor_affine(
    input: TensorBase, scale, zero_point, quant_min: int, quant_max: int
) -> TensorBase:
    """Round to multiples of `scale` as if quantised to integers from `quant_min` to `quant_max`, of which `zero_point` is 0.

    (clamp(round(x / scale) + zero_point, quant_min, quant_max) - zero_point) · scale, of the shape of x.

    `scale` and `zero_point` are numbers, or tensors of one element. The gradient of `input` is passed on where it lies in range.
    RuntimeError for a `zero_point` out of range, NotImplementedError for an input that is not floating-point.

    >>> import flambeau
    >>> flambeau.fake_quantize_per_tensor_affine(flambeau.tensor([-3.0, 0.3, 0.6, 200.0]), 0.5, 2, 0, 255)
    tensor([ -1.0000,   0.5000,   0.5000, 126.5000])
    """
    name = "fake_quantize_per_tensor_affine"
    checks.floating(name, input=input)
    for what, given in (("scale", scale), ("zero_point", zero_point)):
        if isinstance(given, TensorBase) and given.numel() != 1:
            raise RuntimeError(
                f"{name}(): `{what}` must be a number or one element, got shape {list(given.shape)}"
            )
    _range(name, zero_point, quant_min, quant_max)
    scale, zero_point = (
        x.detach().reshape(()).to(input.dtype) if isinstance(x, TensorBase) else input.new_full((), x)
        for x in (scale, zero_point)
    )
    return _PER_TENSOR(input, scale, zero_point, quant_min, quant_max)[0]


@library("composite", "fake_quantize_per_channel_affine", dtypes=FLOATING)
def fake_quantize_per_channel_affine(
    input: TensorBase, scale: TensorBase, zero_point: TensorBase, axis: int, quant_min: int, quant_max: int
) -> TensorBase:
    """`fake_quantize_per_tensor_affine` with a scale and a zero point, (C,), for each index of dimension `axis`.

    (clamp(round(x / scale[c]) + zero_point[c], quant_min, quant_max) - zero_point[c]) · scale[c].

    `zero_point` is int32, or floating-point. RuntimeError for other dtypes and shapes, and zero points out of range.

    >>> import flambeau
    >>> zero = flambeau.tensor([0, 1], dtype=flambeau.int32)
    >>> flambeau.fake_quantize_per_channel_affine(flambeau.eye(2) * 3.2, flambeau.tensor([1.0, 0.5]), zero, 0, 0, 15)
    tensor([[3., 0.],
            [0., 3.]])
    """
    name = "fake_quantize_per_channel_affine"
    checks.floating(name, input=input)
    if zero_point.dtype.name not in ("int32", "float32", "float16"):
        raise RuntimeError(f"{name}(): Zero-point must be Int32, Float or Half, found {zero_point.dtype}")
    if not -input.ndim <= axis < input.ndim:
        raise IndexError(
            f"{name}(): argument 'axis' must be in [{-input.ndim}, {input.ndim - 1}], got {axis}"
        )
    channels = input.shape[axis]
    for what, given in (("scale", scale), ("zero_point", zero_point)):
        if tuple(given.shape) != (channels,):
            raise RuntimeError(
                f"{name}(): dimensions of scale and zero-point are not consistent with input tensor: expected `{what}` of shape "
                f"{[channels]}, got {list(given.shape)}"
            )
    _range(name, zero_point, quant_min, quant_max)
    shape = [channels if d == axis % input.ndim else 1 for d in range(input.ndim)]
    scale, zero_point = (x.detach().to(input.dtype).reshape(shape) for x in (scale, zero_point))
    return _PER_CHANNEL(input, scale, zero_point, quant_min, quant_max)[0]
