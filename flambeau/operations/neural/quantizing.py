"""Rounding to the numbers that a quantised tensor could hold, in floating point (Jacob et al. 2018, equation 12).

x is taken to (clamp(round(x / scale) + zero_point, quant_min, quant_max) - zero_point) · scale; half-way cases go to the even
neighbour. The gradient is passed on where nothing was clamped, and is 0 elsewhere (the straight-through estimator).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeVar

from ...codegen import functions as fn
from ...core.base.callbacks import callbacks, callbacks_in
from ...core.base.tensor import TensorBase
from ..declare import checks
from ..declare.host import holds
from ..declare.pointwise import FLOATING, pointwise
from ..declare.registry import leaf, library


@pointwise(places=("_fake_quantized",), results=2, dtypes=FLOATING, in_place=False, differentiable=False)
def fake_quantized(input, scale, zero_point, *, low, high, apart):
    """(clamp(round(x / scale) + zero_point, low, high) - zero_point) · scale, and 1 where nothing was clamped, else 0.  With `apart` 0 in
    place of 1 the zero point, which may be no integer then, is added before the sum is rounded.
    """
    place = (
        fn.rint(input * (1.0 / scale) + zero_point * (1.0 - apart)) + zero_point * apart + 0.0
    )  # integers have no -0
    # NaN becomes the least one, as it does where it is taken for a number of 32 bits.
    kept = fn.where(place >= low, fn.minimum(place, fn.like(place, high)), fn.like(place, low))
    inside = fn.where((place >= low) & (place <= high), fn.like(place, 1.0), fn.like(place, 0.0))
    return (kept - zero_point) * scale, inside


def _codes(kind: str, low: float, high: float):
    """The pointwise operations that make integers of a dtype."""

    def code(place):
        # The least integer for NaN.  Limits of int32 are those that float32 has.
        inside = fn.where(place >= low, fn.minimum(place, fn.like(place, high)), fn.like(place, low))
        return fn.cast(inside, kind)

    @pointwise(
        places=(f"_quantized_{kind}",),
        name=f"quantized_{kind}",
        dtypes=FLOATING,
        in_place=False,
        differentiable=False,
    )
    def quantized(input, scale, zero_point):
        """clamp(round(x · (1 / scale) + zero_point)), as integers; half-way cases go to the even neighbour."""
        return code(fn.rint(input * (1.0 / scale) + zero_point))

    @pointwise(
        places=(f"_requantized_{kind}",), name=f"requantized_{kind}", dtypes=FLOATING, raw=("sums",), in_place=False, differentiable=False
    )  # fmt: skip
    def requantized(sums, bias, multiplier, *, zero_point, least):
        """max(clamp(round((sum + bias) · multiplier) + zero_point), least), as integers: sums are integers, bias is in their units."""
        place = fn.rint((fn.cast(sums, bias.dtype) + bias) * multiplier) + zero_point
        return code(fn.maximum(place, fn.like(place, least)))

    return quantized, requantized


quantized_codes, requantized_codes = (
    dict(zip(("uint8", "int8", "int32"), functions))
    for functions in zip(
        _codes("uint8", 0.0, 255.0), _codes("int8", -128.0, 127.0), _codes("int32", -(2.0**31), 2.0**31 - 128)
    )
)


@pointwise(places=("_scaled_sums",), dtypes=FLOATING, raw=("sums",), in_place=False, differentiable=False)
def scaled_sums(sums, factor, bias):
    """sum · factor + bias: sums are integers."""
    return fn.cast(sums, factor.dtype) * factor + bias


def _with_mask(
    input: TensorBase, scale: TensorBase, zero_point: TensorBase, low: int, high: int, whole: bool = True
) -> tuple[TensorBase, TensorBase]:
    """The rounded numbers, and 1 where nothing was clamped, else 0; `whole` says that zero points are integers."""
    return fake_quantized(input, scale, zero_point, low=float(low), high=float(high), apart=float(whole))


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

    (clamp(round(x / scale[c]) + zero_point[c], quant_min, quant_max) - zero_point[c]) · scale[c]; floating-point zero points are added
    before rounding.

    `zero_point` is int32, or floating-point. RuntimeError for other dtypes and shapes, and integer zero points out of
    range.

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
    whole = not zero_point.dtype.is_floating_point
    if whole:  # those that are numbers may lie outside
        _range(name, zero_point, quant_min, quant_max)
    shape = [channels if d == axis % input.ndim else 1 for d in range(input.ndim)]
    scale, zero_point = (x.detach().to(input.dtype).reshape(shape) for x in (scale, zero_point))
    return _PER_CHANNEL(input, scale, zero_point, quant_min, quant_max, whole)[0]


# --- quantised tensors, which `ao` makes ------------------------------
_QUERIES: dict[str, type] = {  # and what each answers
    **dict.fromkeys(
        ("dequantize", "int_repr", "q_per_channel_scales", "q_per_channel_zero_points"), TensorBase
    ),
    **{"qscheme": object, "q_scale": float, "q_zero_point": int, "q_per_channel_axis": int},
}
callbacks_in(
    f"{__name__.partition('.')[0]}.ao._quantized_functions",
    *(
        "quantize_per_tensor",
        "quantize_per_tensor_dynamic",
        "quantize_per_channel",
        "quantised tensor of integers",
    ),
    *("_empty_affine_quantized", "_empty_per_channel_affine_quantized", "empty_quantized", *_QUERIES),
)


F = TypeVar("F", bound=Callable[..., Any])


def _stand_ins(values: Any) -> Iterator[Any]:
    for x in values:
        if isinstance(x, (tuple, list)):
            yield from _stand_ins(x)
        elif not isinstance(x, TensorBase) and hasattr(type(x), "__torch_function__"):
            yield x


def traceable(function: F) -> F:
    """A function that objects which stand for tensors, such as the proxies of a graph that is traced, answer by `__torch_function__`.

    >>> import flambeau
    >>> from flambeau.operations.neural.quantizing import traceable
    >>> @traceable
    ... def doubled(x):
    ...     return x + x
    >>> [n.name for n in flambeau.fx.symbolic_trace(lambda x: doubled(x)).graph.nodes]
    ['x', 'doubled', 'output']
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for x in _stand_ins((*args, *kwargs.values())):
            return type(x).__torch_function__(call, (type(x),), args, kwargs)
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


@traceable
def quantize_per_tensor(input: Any, scale: Any, zero_point: Any, dtype: Any) -> Any:
    """A quantised tensor of the nearest codes, clamp(round(x / scale + zero_point)); half-way cases go to the even neighbour.

    Args:
        input: of float32, bfloat16 or float16; or a sequence of tensors, with a scale and a zero point, (n,), for each.
        scale, zero_point: numbers, or tensors of one element.
        dtype: quint8, qint8 or qint32.

    Shape:
        input: any; the result has the same

    Raises:
        RuntimeError: another dtype, a scale that is not positive and finite, or a zero point that the dtype does not have

    >>> import flambeau
    >>> flambeau.quantize_per_tensor(flambeau.tensor([-1.0, 0.26, 99.0]), 0.1, 10, flambeau.quint8).int_repr()
    tensor([  0,  13, 255], dtype=flambeau.uint8)
    """
    return callbacks["quantize_per_tensor"](input, scale, zero_point, dtype)


@traceable
def quantize_per_tensor_dynamic(input: Any, dtype: Any, reduce_range: bool) -> Any:
    """A quantised tensor whose scale and zero point hold the least and the largest number of `input`, and 0.

    Args:
        dtype: quint8 or qint8.
        reduce_range: codes of one bit less.

    Shape:
        input: any; the result has the same

    Raises:
        RuntimeError: another dtype, or an input that is not floating-point or not finite

    >>> import flambeau
    >>> flambeau.quantize_per_tensor_dynamic(flambeau.tensor([-1.0, 1.55]), flambeau.quint8, False).q_zero_point()
    100
    """
    return callbacks["quantize_per_tensor_dynamic"](input, dtype, reduce_range)


@traceable
def quantize_per_channel(input: Any, scales: Any, zero_points: Any, axis: int, dtype: Any) -> Any:
    """`quantize_per_tensor` with a scale and a zero point for each index of dimension `axis`.

    Args:
        scales, zero_points: one for each channel. Floating-point zero points need not be codes.
        dtype: quint8, qint8 or qint32; quint4x2 with floating-point zero points.

    Shape:
        scales, zero_points: (C,), where C is the size of dimension `axis`; the result has the input's shape

    Raises:
        RuntimeError: another dtype or shape, or a zero point that the dtype does not have
        IndexError: an axis that the input does not have

    >>> import flambeau
    >>> zeros = flambeau.tensor([0, 3])
    >>> flambeau.quantize_per_channel(flambeau.ones(2, 1), flambeau.tensor([0.5, 0.1]), zeros, 0, flambeau.qint8).int_repr()
    tensor([[ 2],
            [13]], dtype=flambeau.int8)
    """
    return callbacks["quantize_per_channel"](input, scales, zero_points, axis, dtype)


def empty_quantized(size: Any, qtensor: Any, *, dtype: Any = None) -> Any:
    """A quantised tensor whose codes are not set, with the scale and zero point of another.

    Shape:
        the result: `size`

    Raises:
        RuntimeError: `qtensor` is not quantised, or its channels do not fit the size

    >>> import flambeau
    >>> x = flambeau.quantize_per_tensor(flambeau.ones(2), 0.1, 3, flambeau.quint8)
    >>> flambeau.empty_quantized((4, 5), x).q_zero_point()
    3
    """
    return callbacks["empty_quantized"](size, qtensor, dtype)


def _empty_affine_quantized(
    size: Any,
    *,
    scale: float = 1.0,
    zero_point: int = 0,
    dtype: Any = None,
    device: Any = None,
    memory_format: Any = None,
) -> Any:
    """A quantised tensor per tensor whose codes are not set; see `quantize_per_tensor`."""
    return callbacks["_empty_affine_quantized"](size, scale, zero_point, dtype, device, memory_format)


def _empty_per_channel_affine_quantized(
    size: Any, *, scales: Any, zero_points: Any, axis: int, dtype: Any = None, device: Any = None
) -> Any:
    """A quantised tensor per channel whose codes are not set; see `quantize_per_channel`."""
    return callbacks["_empty_per_channel_affine_quantized"](size, scales, zero_points, axis, dtype, device)


def _make_per_tensor_quantized_tensor(input: Any, scale: float, zero_point: int) -> Any:
    """A quantised tensor of these integers: uint8, int8 or int32."""
    return callbacks["quantised tensor of integers"](input, scale, zero_point, None)


def _make_per_channel_quantized_tensor(input: Any, scale: Any, zero_point: Any, axis: int) -> Any:
    """A quantised tensor of these integers: uint8, int8 or int32, with scales and zero points (C,) of dimension `axis`."""
    return callbacks["quantised tensor of integers"](input, scale, zero_point, axis)


_ANSWERS = {
    "dequantize": (
        "The numbers of a quantised tensor, in float32, or of a sequence of them; any other tensor in float32.",
        "tensor([0.5000])",
    ),
    "int_repr": (
        "The integers of a quantised tensor, in memory of their own.",
        "tensor([8], dtype=flambeau.uint8)",
    ),
    "qscheme": ("How a quantised tensor's numbers are scaled: a `qscheme`.", "flambeau.per_tensor_affine"),
    "q_scale": ("The scale of a tensor that is quantised per tensor: a number.", "0.1"),
    "q_zero_point": ("The zero point of a tensor that is quantised per tensor: the code that means 0.", "3"),
}
_OF_CHANNELS = {
    "q_per_channel_scales": (
        "The scales of a tensor that is quantised per channel, (C,).",
        "tensor([0.1000], dtype=flambeau.float64)",
    ),
    "q_per_channel_zero_points": (
        "The zero points of a tensor that is quantised per channel, (C,).",
        "tensor([3])",
    ),
    "q_per_channel_axis": ("The dimension of the channels of a tensor that is quantised per channel.", "0"),
}


def _question(name: str) -> Any:
    def ask(input: Any) -> Any:
        return callbacks[name](input)

    channels = name in _OF_CHANNELS
    text, answer = (_OF_CHANNELS if channels else _ANSWERS)[name]
    made = (
        "quantize_per_channel(flambeau.ones(1) / 2, flambeau.tensor([0.1]), flambeau.tensor([3]), 0, flambeau.quint8)"
        if channels
        else "quantize_per_tensor(flambeau.ones(1) / 2, 0.1, 3, flambeau.quint8)"
    )
    raised = "\n    Raises nothing.\n" if name == "dequantize" else (
        "\n    Raises:\n        NotImplementedError: the tensor is not quantised\n"
        + ("        RuntimeError: it is quantised in the other way\n" if name[:2] == "q_" else "")
    )  # fmt: skip
    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = f"""{text}

    Shape:
        input: any
{raised}
    >>> import flambeau
    >>> flambeau.{made}.{name}()
    {answer}
    """
    ask.__annotations__["return"] = _QUERIES[name]
    return traceable(ask)


QUANTISED = {name: _question(name) for name in _QUERIES}  # functions and methods that ask quantised tensors
globals().update(QUANTISED)  # where pickles look for them
