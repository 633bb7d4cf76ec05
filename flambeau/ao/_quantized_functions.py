"""How quantised tensors are made: what the flat namespace calls (`operations/neural/quantizing.py`)."""

from __future__ import annotations

import math
from typing import Any

from ..core.base.callbacks import set_callback
from ..core.base.dtypes import by_name
from ..core.base.tensor import TensorBase
from ..core.make.create import empty
from ..operations.rows.reductions import aminmax
from . import _quantized_operations  # noqa: F401  which gives the class its operations
from ._dynamic_range import qparams_of
from ._observers import limits
from ._quantized_tensor import (
    QuantizedTensor,
    Quantizer,
    checked_dtype,
    encoded,
    over,
    quint4x2,
    schemes,
    whole,
)

_float, _double, _int64 = (by_name[name] for name in ("float32", "float64", "int64"))
per_channel = (schemes.per_channel_affine, schemes.per_channel_symmetric)


def _floats(name: str, input: Any) -> Any:
    if (
        isinstance(input, QuantizedTensor)
        or not isinstance(input, TensorBase)
        or input.dtype not in (_float, by_name["float16"], by_name["bfloat16"])
    ):
        given = input.dtype if isinstance(input, TensorBase) else type(input).__name__
        raise RuntimeError(f"{name}(): Quantize only works on Float Tensor, got {given}")
    return input


def _number(name: str, what: str, value: Any) -> Any:
    if isinstance(value, TensorBase):
        if value.numel() != 1:
            raise RuntimeError(f"{name}(): expected one element for `{what}`, got shape {list(value.shape)}")
        return value.item()
    return value


def quantize_per_tensor(input: Any, scale: Any, zero_point: Any, dtype: Any) -> Any:
    name = "quantize_per_tensor"
    if isinstance(input, (list, tuple)):
        parts = zip(input, scale.tolist(), zero_point.tolist(), strict=True)
        return tuple(quantize_per_tensor(x, s, z, dtype) for x, s, z in parts)
    checked_dtype(name, dtype)
    _floats(name, input)
    scale, zero_point = whole(
        float(_number(name, "scale", scale)), int(_number(name, "zero_point", zero_point)), dtype
    )
    return encoded(input, dtype, Quantizer(schemes.per_tensor_affine, scale, zero_point))


def quantize_per_tensor_dynamic(input: Any, dtype: Any, reduce_range: bool) -> Any:
    name = "quantize_per_tensor_dynamic"
    checked_dtype(name, dtype)
    _floats(name, input)
    if dtype.name == "qint32":
        raise RuntimeError(f"{name}(): dtype must be quint8 or qint8, got {dtype}")
    low, high = limits(dtype)
    if reduce_range:
        low, high = low // 2, high // 2
    least, most = (t.item() for t in aminmax(input)) if input.numel() else (0.0, 0.0)
    if not math.isfinite(most - least):
        raise RuntimeError(f"{name}(): expected finite input, got numbers from {least} to {most}")
    scale, zero_point = qparams_of(least, most, low, high)
    return encoded(input, dtype, Quantizer(schemes.per_tensor_affine, scale, zero_point))


def _channels(name: str, scales: Any, zero_points: Any, axis: int, size: Any, dtype: Any) -> Quantizer:
    """A quantiser per channel, once it is found to fit."""
    if not -len(size) <= axis < len(size):
        raise IndexError(f"{name}(): axis must be in [{-len(size)}, {len(size) - 1}], got {axis}")
    axis %= len(size)
    for what, t in (("scales", scales), ("zero_points", zero_points)):
        if tuple(t.shape) != (size[axis],):
            raise RuntimeError(
                f"{name}(): length of {what} must equal to channel: expected shape {[size[axis]]}, got {list(t.shape)}"
            )
    if zero_points.dtype.is_floating_point:
        return Quantizer(
            schemes.per_channel_affine_float_qparams, scales.to(_float), zero_points.to(_float), axis
        )
    low, high = limits(dtype)
    if bool(((zero_points < low) | (zero_points > high)).any()):
        raise RuntimeError(f"{name}(): zero_points must be between {low} and {high} for {dtype}")
    return Quantizer(schemes.per_channel_affine, scales.to(_double), zero_points.to(_int64), axis)


def quantize_per_channel(input: Any, scales: Any, zero_points: Any, axis: int, dtype: Any) -> Any:
    name = "quantize_per_channel"
    checked_dtype(name, dtype, four_bits=True)
    _floats(name, input)
    quantizer = _channels(name, scales, zero_points, axis, input.shape, dtype)
    if dtype is quint4x2 and quantizer.scheme is not schemes.per_channel_affine_float_qparams:
        raise RuntimeError(f"{name}(): quint4x2 needs floating-point zero_points, got {zero_points.dtype}")
    return encoded(input, dtype, quantizer)


def _query(name: str) -> Any:
    def ask(input: Any) -> Any:
        if isinstance(input, QuantizedTensor):
            return getattr(input, name)()
        if name == "dequantize" and isinstance(input, (tuple, list)):
            return tuple(map(ask, input))
        if name == "dequantize":
            return input.to(_float)
        raise NotImplementedError(f"{name}(): expected a quantised tensor, got one of {input.dtype}")

    return ask


def _empty_affine_quantized(
    size: Any, scale: float, zero_point: int, dtype: Any, device: Any, memory_format: Any
) -> Any:
    name = "_empty_affine_quantized"
    integers = checked_dtype(name, dtype)
    scale, zero_point = whole(float(scale), int(zero_point), dtype)
    options = {} if memory_format is None else {"memory_format": memory_format}
    codes = empty(tuple(size), dtype=integers, device=device, **options)
    return over(codes, dtype, Quantizer(schemes.per_tensor_affine, scale, zero_point))


def _empty_per_channel_affine_quantized(
    size: Any, scales: Any, zero_points: Any, axis: int, dtype: Any, device: Any
) -> Any:
    name = "_empty_per_channel_affine_quantized"
    integers = checked_dtype(name, dtype, four_bits=True)
    quantizer = _channels(name, scales, zero_points, axis, tuple(size), dtype)
    return over(empty(tuple(size), dtype=integers, device=device), dtype, quantizer)


def _empty_quantized(size: Any, qtensor: Any, dtype: Any) -> Any:
    name = "empty_quantized"
    if not isinstance(qtensor, QuantizedTensor):
        raise RuntimeError(f"{name}(): expected a quantised tensor for `qtensor`, got one of {qtensor.dtype}")
    dtype = qtensor.dtype if dtype is None else dtype
    integers = checked_dtype(name, dtype)
    quantizer = qtensor._quantizer
    if quantizer.axis is not None:
        quantizer = _channels(name, quantizer.scale, quantizer.zero_point, quantizer.axis, tuple(size), dtype)
    return over(empty(tuple(size), dtype=integers, device=qtensor.device), dtype, quantizer)


def _of_integers(input: Any, scale: Any, zero_point: Any, axis: int | None) -> Any:
    name = f"_make_per_{'tensor' if axis is None else 'channel'}_quantized_tensor"
    kinds = {"uint8": "quint8", "int8": "qint8", "int32": "qint32"}
    if not isinstance(input, TensorBase) or input.dtype.name not in kinds:
        raise RuntimeError(
            f"{name}(): expected integers of uint8, int8 or int32, got {getattr(input, 'dtype', type(input))}"
        )
    from ..core.base.dtypes import without_tensors

    dtype = without_tensors[kinds[input.dtype.name]]
    if axis is None:
        scale, zero_point = whole(float(scale), int(zero_point), dtype)
        return over(input.clone(), dtype, Quantizer(schemes.per_tensor_affine, scale, zero_point))
    return over(input.clone(), dtype, _channels(name, scale, zero_point, axis, input.shape, dtype))


def rebuilt(codes: Any, dtype: Any, scale: Any, zero_point: Any, axis: int | None = None) -> QuantizedTensor:
    """A quantised tensor over integers of a file, which are not copied; RuntimeError or IndexError for parts that do not fit.

    >>> import flambeau
    >>> from flambeau.ao._quantized_functions import rebuilt
    >>> rebuilt(flambeau.tensor([3], dtype=flambeau.int8), flambeau.qint8, 0.5, 1).item()
    1.0
    """
    if axis is None:
        scale, zero_point = whole(scale, zero_point, dtype)
        return over(codes, dtype, Quantizer(schemes.per_tensor_affine, scale, zero_point))
    return over(codes, dtype, _channels("_rebuild_qtensor", scale, zero_point, axis, codes.shape, dtype))


for _name, _function in (
    ("quantize_per_tensor", quantize_per_tensor),
    ("quantize_per_tensor_dynamic", quantize_per_tensor_dynamic),
    ("quantize_per_channel", quantize_per_channel),
    ("_empty_affine_quantized", _empty_affine_quantized),
    ("_empty_per_channel_affine_quantized", _empty_per_channel_affine_quantized),
    ("empty_quantized", _empty_quantized),
    ("quantised tensor of integers", _of_integers),
):
    set_callback(_name, _function)
for _name in (
    *("dequantize", "int_repr", "qscheme", "q_scale", "q_zero_point"),
    *("q_per_channel_scales", "q_per_channel_zero_points", "q_per_channel_axis"),
):
    set_callback(_name, _query(_name))
