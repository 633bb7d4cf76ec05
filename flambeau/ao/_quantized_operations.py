"""What operations do with quantised tensors (`QuantizedTensor._overrides`).

Operations that move elements run over the integers.  Clamping is clamping of integers.  Averages and functions of one element run
over numbers and are rounded to codes again: with the input's scale, or with one that the function's range asks for, as PyTorch has it.
"""

from __future__ import annotations

from enum import Enum
from types import SimpleNamespace
from typing import Any

from .._wrapper.wrapper_tensor import moving
from ..core.base.dtypes import by_name
from ..core.base.tensor import TensorBase
from ..core.make.create import arange
from ..core.make.literal import tensor
from ..operations.declare.registry import published
from ._observers import limits
from ._quantized_tensor import (
    QuantizedTensor,
    Quantizer,
    encoded,
    over,
    overrides,
    schemes,
)

_float = by_name["float32"]
methods, functions = (SimpleNamespace(**published(prefix)) for prefix in ("Tensor.", "nn.functional."))


def _map(x: Any, function: Any) -> Any:
    """What a function makes of the quantised tensors in arguments."""
    if isinstance(x, (tuple, list)):
        return type(x)(_map(y, function) for y in x)
    return function(x) if isinstance(x, QuantizedTensor) else x


def _first(*containers: Any) -> QuantizedTensor:
    """The first quantised tensor in arguments."""
    found: list[QuantizedTensor] = []
    _map(containers, found.append)
    return found[0]


def _elements(q: QuantizedTensor) -> Any:
    return q._elements


# --- what moves elements ------------------------------
def _moved(func: Any, *args: Any, **kwargs: Any) -> Any:
    name = func.__name__
    whole = {n: _map(v, _elements) for n, v in kwargs.items()}
    parts = args[0] if args and isinstance(args[0], (tuple, list)) else args[:1]
    plain = [t for t in parts if isinstance(t, TensorBase) and not isinstance(t, QuantizedTensor)]
    if plain and parts is not args[0]:  # a quantised tensor says a shape, as of `view_as`
        return func(*_map(args, _elements), **whole)
    if plain:
        raise RuntimeError(
            f"{name}(): expected quantised tensors alone, got one of {plain[0].dtype} among them"
        )
    given = _first(args, list(kwargs.values()))
    result = func(*_map(args, lambda q: requantized(q, given)._elements), **whole)
    if given._quantizer.axis is None:
        return _wrapped(result, lambda r: given._with(r))
    channels = func(*_map(args, _channels), **{n: _map(v, _channels) for n, v in kwargs.items()})
    if isinstance(result, (tuple, list)):
        return type(result)(_of_channels(name, given, r, c) for r, c in zip(result, channels))
    return _of_channels(name, given, result, channels)


def _wrapped(result: Any, function: Any) -> Any:
    if isinstance(result, (tuple, list)):
        return type(result)(_wrapped(r, function) for r in result)
    return function(result) if isinstance(result, TensorBase) else result


def _channels(q: QuantizedTensor) -> Any:
    """The channel of each element, which goes wherever the element goes."""
    axis = q._quantizer.axis
    assert axis is not None
    shape = [-1 if d == axis else 1 for d in range(q.ndim)]
    return arange(q.shape[axis], device=q._elements.device).reshape(shape).expand(q.shape).contiguous()


def _of_channels(name: str, q: QuantizedTensor, result: Any, channels: Any) -> QuantizedTensor:
    """A quantised tensor of elements whose channels are these: RuntimeError where no dimension tells them apart."""
    quantizer = q._quantizer
    if not channels.numel():
        if result.shape == q.shape:
            return q._with(result)
        raise RuntimeError(f"{name}(): no element is left to tell which channel it belongs to")
    for axis in range(channels.ndim):
        line = channels
        for d in range(channels.ndim):
            if d != axis:
                line = line.narrow(d, 0, 1)
        if bool((channels == line).all()):
            at = line.reshape(-1)
            if bool((at == at[0]).all()) and channels.ndim < q.ndim:
                break
            new = quantizer._replace(
                scale=quantizer.scale[at], zero_point=quantizer.zero_point[at], axis=axis
            )
            return over(result, q._dtype, new)
    first = channels.reshape(-1)[0]
    if bool((channels == first).all()):
        if quantizer.scheme is schemes.per_channel_affine_float_qparams:
            raise RuntimeError(f"{name}(): one channel of {quantizer.scheme} has no scheme per tensor")
        one = Quantizer(
            schemes.per_tensor_affine, quantizer.scale[first].item(), int(quantizer.zero_point[first].item())
        )
        return over(result, q._dtype, one)
    raise RuntimeError(
        f"{name}(): channels of a tensor quantised per channel would lie in no dimension of the result"
    )


def requantized(q: QuantizedTensor, like: QuantizedTensor) -> QuantizedTensor:
    """The same numbers, with the dtype and scale of another tensor."""
    if q._dtype is like._dtype and q._quantizer.equals(like._quantizer):
        return q
    if like._quantizer.axis is not None:
        raise RuntimeError(
            "tensors that are quantised per channel are joined where they have the same channels alone"
        )
    return encoded(q.dequantize(), like._dtype, like._quantizer)


overrides.group(moving(), _moved)
overrides(methods.contiguous, methods.clone, methods.cpu, methods.cuda, methods.pin_memory)(_moved)
overrides(functions.pixel_shuffle, functions.pixel_unshuffle, functions.channel_shuffle)(_moved)


def _converted(func: Any, input: QuantizedTensor, *args: Any, **kwargs: Any) -> Any:
    """To another device or memory format: not to another dtype."""
    wanted = [a for a in (*args, *kwargs.values()) if isinstance(a, type(_float))]
    wanted += [a.dtype for a in (*args, *kwargs.values()) if isinstance(a, TensorBase)]
    if any(kind is not input._dtype for kind in wanted):
        raise RuntimeError(
            f"{func.__name__}(): Creation of quantized tensor requires quantized dtype: a quantised tensor becomes floating-point by "
            "dequantize()"
        )
    plain = [a for a in args if not isinstance(a, (type(_float), TensorBase))]
    rest = {n: v for n, v in kwargs.items() if not isinstance(v, (type(_float), TensorBase))}
    moved = func(input._elements, *plain, **rest) if plain or rest else input._elements
    return input if moved is input._elements else input._with(moved)


overrides(methods.to)(_converted)


def _as_float(func: Any, input: QuantizedTensor, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(
        f"{func.__name__}(): Creation of quantized tensor requires quantized dtype: a quantised tensor becomes floating-point by "
        "dequantize()"
    )


overrides(methods.float, methods.half, methods.double, methods.bfloat16, methods.int, methods.long)(_as_float)
overrides(methods.short, methods.char, methods.byte, methods.bool)(_as_float)


def _empty_like(func: Any, input: QuantizedTensor, *args: Any, **kwargs: Any) -> Any:
    if args or any(kwargs.get(n) is not None for n in ("dtype", "layout", "device")):
        raise RuntimeError(
            f"{func.__name__}(): a quantised tensor's dtype, layout and device are those of its input"
        )
    return input._with(func(input._elements, memory_format=kwargs.get("memory_format")))


overrides(published("")["empty_like"])(_empty_like)


# --- writing ------------------------------
def _copied(func: Any, input: Any, src: Any, non_blocking: bool = False) -> Any:
    if not isinstance(input, QuantizedTensor):  # numbers into a plain tensor
        return input.copy_(src.dequantize())
    if isinstance(src, QuantizedTensor):
        if src._dtype is not input._dtype:
            raise RuntimeError(f"copy_(): expected a source of {input._dtype}, got {src._dtype}")
        input._elements.copy_(src._elements)
        input._quantizer = src._quantizer
        return input
    if src.dtype is not _float:
        raise RuntimeError(
            f"copy_(): Quantized copy only works with kFloat as source Tensor, got {src.dtype}"
        )
    input._elements.copy_(encoded(src.expand(input.shape), input._dtype, input._quantizer)._elements)
    return input


overrides(methods.copy_)(_copied)


def _code_of(name: str, q: QuantizedTensor, value: Any) -> Any:
    """The code of one number."""
    given = value.dequantize() if isinstance(value, QuantizedTensor) else value
    given = given if isinstance(given, TensorBase) else tensor(float(given))
    return encoded(given, q._dtype, q._per_tensor(name))._elements


def _filled(func: Any, input: QuantizedTensor, value: Any) -> Any:
    input._elements.fill_(_code_of("fill_", input, value))
    return input


overrides(methods.fill_)(_filled)


def _set(func: Any, input: QuantizedTensor, index: Any, value: Any) -> None:
    if not isinstance(input, QuantizedTensor):
        input[index] = value.dequantize()
        return
    input._elements[index] = _code_of("__setitem__", input, value)


overrides(methods.__setitem__)(_set)


def _masked(func: Any, input: QuantizedTensor, mask: Any, value: Any) -> Any:
    result = func(input._elements, mask, _code_of(func.__name__, input, value))
    return input if result is input._elements else input._with(result)


overrides(methods.masked_fill, methods.masked_fill_)(_masked)


def _padded(func: Any, input: QuantizedTensor, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    if mode != "constant":
        return input._with(func(input._elements, pad, mode))
    code = int(_code_of("pad", input, 0.0 if value is None else value).item())
    return input._with(func(input._elements, pad, mode, code))


overrides(functions.pad)(_padded)


# --- comparisons ------------------------------
def _numbers(x: Any) -> Any:
    return _map(x, lambda q: q.dequantize())


def _compared(func: Any, *args: Any, **kwargs: Any) -> Any:
    return func(*_numbers(args), **{n: _numbers(v) for n, v in kwargs.items()})


overrides(methods.eq, methods.ne, methods.lt, methods.le, methods.gt, methods.ge)(_compared)
overrides(methods.allclose, methods.isclose)(_compared)


def _equal(func: Any, input: Any, other: Any) -> bool:
    if (
        not (isinstance(input, QuantizedTensor) and isinstance(other, QuantizedTensor))
        or input._dtype is not other._dtype
    ):
        return False
    return input._quantizer.equals(other._quantizer) and func(input._elements, other._elements)


overrides(methods.equal)(_equal)


# --- what chooses by order, which that of the integers is ------------------------------
def _with_values(input: QuantizedTensor, result: tuple) -> tuple:
    """Values and their places, of which the values are codes."""
    values, *rest = result
    return (
        type(result)(*(input._with(values), *rest))
        if hasattr(result, "_fields")
        else (input._with(values), *rest)
    )


def _chosen(func: Any, input: QuantizedTensor, *args: Any, **kwargs: Any) -> Any:
    input._per_tensor(func.__name__)
    result = func(input._elements, *args, **kwargs)
    return _with_values(input, result) if isinstance(result, tuple) else input._with(result)


overrides(methods.max, methods.min, methods.amax, methods.amin, methods.sort, methods.topk)(_chosen)
overrides(methods.median, methods.msort, methods.kthvalue)(_chosen)


def _places(func: Any, input: QuantizedTensor, *args: Any, **kwargs: Any) -> Any:
    input._per_tensor(func.__name__)
    return func(input._elements, *args, **kwargs)


overrides(methods.argmax, methods.argmin, methods.argsort)(_places)


def _pooled(func: Any, input: QuantizedTensor, *args: Any, **kwargs: Any) -> Any:
    """Over numbers of float32, which hold all codes of eight bits."""
    input._per_tensor(func.__name__)
    result = func(input._elements.to(_float), *args, **kwargs)
    kind = input._elements.dtype
    if isinstance(result, tuple):
        return _with_values(input, (result[0].to(kind), *result[1:]))
    return input._with(result.to(kind))


overrides(functions.max_pool1d, functions.max_pool2d, functions.max_pool3d)(_pooled)
overrides(functions.adaptive_max_pool1d, functions.adaptive_max_pool2d, functions.adaptive_max_pool3d)(
    _pooled
)


# --- clamping ------------------------------
def clamped(
    input: QuantizedTensor, least: float | None, most: float | None, in_place: bool = False
) -> QuantizedTensor:
    """Numbers between two, whose codes bound the codes."""
    input._per_tensor("clamp")
    low, high = (None if v is None else int(_code_of("clamp", input, v).item()) for v in (least, most))
    if in_place:
        input._elements.clamp_(low, high)
        return input
    return input._with(input._elements.clamp(low, high))


def _clamp(func: Any, input: QuantizedTensor, min: Any = None, max: Any = None) -> Any:
    return clamped(input, min, max)


def _clamp_(func: Any, input: QuantizedTensor, min: Any = None, max: Any = None) -> Any:
    return clamped(input, min, max, True)


overrides(methods.clamp, methods.clip)(_clamp)
overrides(methods.clamp_, methods.clip_)(_clamp_)


def _relu(func: Any, input: QuantizedTensor, inplace: bool = False) -> Any:
    return clamped(input, 0.0, None, inplace or func.__name__ == "relu_")


def _relu6(func: Any, input: QuantizedTensor, inplace: bool = False) -> Any:
    return clamped(input, 0.0, 6.0, inplace or func.__name__ == "relu6_")


def _hardtanh(
    func: Any, input: QuantizedTensor, min_val: Any = -1.0, max_val: Any = 1.0, inplace: bool = False
) -> Any:
    return clamped(input, min_val, max_val, inplace or func.__name__ == "hardtanh_")


overrides(methods.relu, methods.relu_)(_relu)
overrides(functions.relu6)(_relu6)
overrides(functions.hardtanh, functions.hardtanh_)(_hardtanh)


# --- functions of numbers ------------------------------
def _averaged(func: Any, input: QuantizedTensor, *args: Any, **kwargs: Any) -> Any:
    """With the scale of the input."""
    return encoded(func(input.dequantize(), *args, **kwargs), input._dtype, input._per_tensor(func.__name__))


overrides(methods.mean, methods.std)(_averaged)
overrides(functions.avg_pool1d, functions.avg_pool2d, functions.avg_pool3d)(_averaged)
overrides(functions.adaptive_avg_pool1d, functions.adaptive_avg_pool2d, functions.adaptive_avg_pool3d)(
    _averaged
)
overrides(functions.interpolate)(_averaged)


def _computed(func: Any, input: QuantizedTensor, *args: Any, **kwargs: Any) -> Any:
    """With the scale of the input; in graphs, with one that was observed."""
    return _averaged(func, input, *args, **kwargs)


overrides(functions.leaky_relu, functions.elu, functions.hardswish)(_computed)


def _like_input(func: Any, input: QuantizedTensor, *args: Any, **kwargs: Any) -> Any:
    """With the scale of the input, in graphs too, which leave it in floats."""
    return _averaged(func, input, *args, **kwargs)


overrides(functions.gelu, functions.threshold, functions.upsample)(_like_input)


def bounded(dtype: Any, least: float) -> tuple[float, int]:
    """Scale and zero point of what lies between `least` (-1 or 0) and 1."""
    bits = 32 if dtype.name == "qint32" else 8
    low, high = limits(dtype)
    return (1.0 - least) / 2.0**bits, (low if least == 0 else (low + high + 1) // 2)


def _in_range(least: float) -> Any:
    def run(func: Any, input: QuantizedTensor, *args: Any, **kwargs: Any) -> Any:
        scale, zero_point = bounded(input._dtype, least)
        return encoded(
            func(input.dequantize()), input._dtype, Quantizer(schemes.per_tensor_affine, scale, zero_point)
        )

    return run


_from_0, _from_minus_1 = _in_range(0.0), _in_range(-1.0)
overrides(methods.sigmoid, functions.hardsigmoid)(_from_0)
overrides(methods.tanh)(_from_minus_1)


def _dropped(
    func: Any, input: QuantizedTensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Any:
    """What PyTorch's does: the identity, in training too."""
    return input


overrides(functions.dropout, functions.dropout2d, functions.dropout3d)(_dropped)


# --- questions ------------------------------
def _type(func: Any, input: QuantizedTensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    if dtype is None:
        from ..core.base import display

        names = {
            "quint8": "QUInt8Tensor",
            "qint8": "QInt8Tensor",
            "qint32": "QInt32Tensor",
            "quint4x2": "QUInt4x2Tensor",
        }
        return f"{display.NAME}.quantized.{names[input._dtype.name]}"
    return _as_float(func, input)


overrides(methods.type)(_type)
overrides(methods.is_pinned)(lambda func, input, *args: func(input._elements, *args))


# --- graphs ------------------------------
class Scale(Enum):
    """Which scale the result of an operation has in a graph of quantised tensors."""

    SHARED = "its input's"
    OBSERVED = "one that an observer of the result finds"
    FIXED = "one that the range of the function gives"


_SCALES = {
    **dict.fromkeys((_moved, _pooled, _averaged, _clamp, _clamp_, _relu, _relu6, _hardtanh), Scale.SHARED),
    **dict.fromkeys((_dropped, _computed), Scale.OBSERVED),
    **dict.fromkeys((_from_0, _from_minus_1), Scale.FIXED),
}


def scale_of_result(name: str) -> Scale | None:
    """Which scale the result of an operation has in a graph; None for one that graphs leave in floats.

    >>> from flambeau.ao._quantized_operations import scale_of_result
    >>> scale_of_result("flatten").value, scale_of_result("gelu")
    ("its input's", None)
    """
    return _SCALES.get(overrides.get(name))


def needs_scale(name: str) -> bool:
    """Whether an operation is given the scale of its result in a graph."""
    return overrides.get(name) is _computed
