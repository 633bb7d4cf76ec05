"""Sums, products and joins of quantised tensors, and functions of one: each result has a scale and a zero point that are given.

`ao.nn.quantized.QFunctional` calls them, and so do graphs (`quantize_fx`), under PyTorch's names: `ops.quantized.add`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.base.callbacks import callbacks_in
from ..core.base.dtypes import by_name
from ..core.base.tensor import TensorBase
from ..core.places import join
from ..operations.declare.registry import published
from ..operations.neural.quantizing import traceable
from ._observers import limits
from ._quantized_operations import needs_scale
from ._quantized_tensor import QuantizedTensor, Quantizer, encoded, over, overrides, schemes

_functions = published("nn.functional.")


def _quantised(name: str, *given: Any) -> None:
    for x in given:
        if not isinstance(x, QuantizedTensor):
            raise RuntimeError(
                f"{name}(): expected quantised tensors, got one of {getattr(x, 'dtype', type(x).__name__)}"
            )
        x._per_tensor(name)


def _rounded(result: Any, like: Any, scale: Any, zero_point: Any) -> Any:
    quantizer = Quantizer(schemes.per_tensor_affine, float(scale), int(zero_point))
    return encoded(result, like.dtype, quantizer)


def _is_number(name: str, x: Any, y: Any, scale: Any) -> bool:
    """Whether the second operand is a number, which needs no scale; RuntimeError for a tensor without one."""
    number = not isinstance(y, TensorBase)
    _quantised(name, *([x] if number else [x, y]))
    if not number and scale is None:
        raise RuntimeError(f"{name}(): the scale and the zero point of a result of two tensors must be given")
    return number


@traceable
def add(x: Any, y: Any, scale: Any = None, zero_point: Any = None) -> Any:
    """`x + y` of two quantised tensors, or of one and a number: `add_scalar`.

    Args:
        scale, zero_point: of the result of two tensors.

    Raises:
        RuntimeError: a tensor that is not quantised per tensor, or two of them without a scale.

    >>> import flambeau
    >>> x = flambeau.quantize_per_tensor(flambeau.ones(2), 0.5, 2, flambeau.quint8)
    >>> flambeau.ops.quantized.add(x, x, 1.0, 0).int_repr()
    tensor([2, 2], dtype=flambeau.uint8)
    """
    if _is_number("add", x, y, scale):
        return add_scalar(x, y)
    return _rounded(x.dequantize() + y.dequantize(), x, scale, zero_point)


@traceable
def add_relu(x: Any, y: Any, scale: Any = None, zero_point: Any = None) -> Any:
    """max(x + y, 0); see `add`.

    Raises:
        RuntimeError: a tensor that is not quantised per tensor, or two of them without a scale.

    >>> import flambeau
    >>> x = flambeau.quantize_per_tensor(-flambeau.ones(2), 0.5, 8, flambeau.quint8)
    >>> flambeau.ops.quantized.add_relu(x, x, 1.0, 0).int_repr()
    tensor([0, 0], dtype=flambeau.uint8)
    """
    if _is_number("add_relu", x, y, scale):
        return add_scalar(x, y).relu()
    return _rounded((x.dequantize() + y.dequantize()).relu_(), x, scale, zero_point)


@traceable
def mul(x: Any, y: Any, scale: Any = None, zero_point: Any = None) -> Any:
    """`x * y` of two quantised tensors, or of one and a number: `mul_scalar`; see `add`.

    Raises:
        RuntimeError: a tensor that is not quantised per tensor, or two of them without a scale.

    >>> import flambeau
    >>> x = flambeau.quantize_per_tensor(flambeau.ones(2), 0.5, 2, flambeau.quint8)
    >>> flambeau.ops.quantized.mul(x, 3).q_scale()
    1.5
    """
    if _is_number("mul", x, y, scale):
        return mul_scalar(x, y)
    return _rounded(x.dequantize() * y.dequantize(), x, scale, zero_point)


@traceable
def mul_relu(x: Any, y: Any, scale: Any = None, zero_point: Any = None) -> Any:
    """max(x * y, 0); see `add`.

    Raises:
        RuntimeError: a tensor that is not quantised per tensor, or two of them without a scale.

    >>> import flambeau
    >>> x = flambeau.quantize_per_tensor(-flambeau.ones(2), 0.5, 8, flambeau.quint8)
    >>> flambeau.ops.quantized.mul_relu(x, 3).dequantize()
    tensor([0., 0.])
    """
    if _is_number("mul_relu", x, y, scale):
        return mul_scalar(x, y).relu()
    return _rounded((x.dequantize() * y.dequantize()).relu_(), x, scale, zero_point)


@traceable
def matmul(x: Any, y: Any, scale: Any, zero_point: Any) -> Any:
    """`x @ y`, summed in float32.

    Raises:
        RuntimeError: a tensor that is not quantised per tensor.

    >>> import flambeau
    >>> x = flambeau.quantize_per_tensor(flambeau.eye(2), 0.5, 2, flambeau.quint8)
    >>> flambeau.ops.quantized.matmul(x, x, 1.0, 0).int_repr()
    tensor([[1, 0],
            [0, 1]], dtype=flambeau.uint8)
    """
    _quantised("matmul", x, y)
    return _rounded(x.dequantize() @ y.dequantize(), x, scale, zero_point)


@traceable
def cat(x: Sequence[Any], dim: int, scale: Any, zero_point: Any) -> Any:
    """Tensors joined along a dimension.

    Raises:
        RuntimeError: a tensor that is not quantised per tensor.

    >>> import flambeau
    >>> x = flambeau.quantize_per_tensor(flambeau.ones(1), 0.5, 2, flambeau.quint8)
    >>> flambeau.ops.quantized.cat([x, x], 0, 1.0, 0).int_repr()
    tensor([1, 1], dtype=flambeau.uint8)
    """
    _quantised("cat", *x)
    return _rounded(join.cat([t.dequantize() for t in x], dim), x[0], scale, zero_point)


@traceable
def add_scalar(x: Any, y: float) -> Any:
    """`x + y` for a number: the codes of x with another zero point; rounded again where the dtype does not have that one.

    Raises:
        RuntimeError: a tensor that is not quantised per tensor.

    >>> import flambeau
    >>> x = flambeau.quantize_per_tensor(flambeau.ones(2), 0.5, 2, flambeau.quint8)
    >>> flambeau.ops.quantized.add_scalar(x, 0.5).q_zero_point()
    1
    """
    _quantised("add_scalar", x)
    low, high = limits(x.dtype)
    scale, code = x.q_scale(), x.q_zero_point() - round(y / x.q_scale())
    if low <= code <= high:
        return over(x._elements.clone(), x.dtype, Quantizer(schemes.per_tensor_affine, scale, code))
    new, end = (scale * (high - code), low) if code < low else (scale * (code - low), high)
    quantizer = Quantizer(schemes.per_tensor_affine, new / (high - low), end)
    moved = over(x._elements, x.dtype, Quantizer(schemes.per_tensor_affine, scale, code))
    return encoded(moved.dequantize(), x.dtype, quantizer)


@traceable
def mul_scalar(x: Any, y: float) -> Any:
    """`x * y` for a number: the codes of x with another scale, counted from the other end for a negative number.

    Raises:
        RuntimeError: a tensor that is not quantised per tensor.

    >>> import flambeau
    >>> x = flambeau.quantize_per_tensor(flambeau.ones(2), 0.5, 2, flambeau.quint8)
    >>> flambeau.ops.quantized.mul_scalar(x, -1.0).dequantize()
    tensor([-1., -1.])
    """
    _quantised("mul_scalar", x)
    low, high = limits(x.dtype)
    scale, zero_point = x.q_scale(), x.q_zero_point()
    if y == 0:
        return over(x._elements.new_zeros(x.shape), x.dtype, Quantizer(schemes.per_tensor_affine, 1.0, 0))
    if y > 0:
        return over(x._elements.clone(), x.dtype, Quantizer(schemes.per_tensor_affine, scale * y, zero_point))
    codes = (low + high) - x._elements.to(by_name["int64"])
    quantizer = Quantizer(schemes.per_tensor_affine, scale * -y, low + high - zero_point)
    return over(codes.to(x._elements.dtype), x.dtype, quantizer)


def _with_scale(name: str) -> Callable[..., Any]:
    """A function of `nn.functional` whose result has a scale and a zero point that are given."""

    def run(input: Any, *args: Any, output_scale: Any, output_zero_point: Any, **kwargs: Any) -> Any:
        _quantised(name, input)
        return _rounded(
            _functions[name](input.dequantize(), *args, **kwargs), input, output_scale, output_zero_point
        )

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"`nn.functional.{name}` of a quantised tensor; RuntimeError for another."
    return traceable(run)


OPERATIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (add, add_relu, add_scalar, mul, mul_relu, mul_scalar, matmul, cat)
} | {name: _with_scale(name) for name in overrides if needs_scale(name)}
callbacks_in(f"{__name__.partition('.')[0]}.library._targets", "library_in_code")
for _name, _function in OPERATIONS.items():
    _function.code_path = f"ops.quantized.{_name}"  # type: ignore[attr-defined]  # as graphs' code writes it
