"""Numbers of 8 bits with a scale and a zero point, and products of them."""

from __future__ import annotations

from ..._tensor import Tensor
from ...core.base.dtypes import by_name
from .declare import DType, fl, operator
from .windows import Way, convolved

_INT32 = by_name["int32"]
_LIMITS = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767)}


def _along(v: Tensor, x: Tensor, axis: int, block_size: int = 0) -> Tensor:
    """A scale or zero point beside the elements that it is of: one for all, for each slice of an axis, or for blocks along it."""
    if v.ndim == 0 or v.numel() == 1 and v.ndim < 2:
        return v.reshape([])
    if v.ndim == 1 and not block_size:
        sizes = [1] * x.ndim
        sizes[axis] = -1
        return v.reshape(sizes)
    return fl.repeat_interleave(v, block_size, axis).narrow(axis, 0, x.shape[axis])


def _rounded(x: Tensor, zero: Tensor | None, dtype: DType) -> Tensor:
    """Numbers moved by the zero point, within what the dtype has."""
    name = str(dtype).rpartition(".")[2]
    if name not in _LIMITS:
        from .pointwise import cast

        return cast(x if zero is None else x + zero.to(x.dtype), to=dtype)
    least, most = _LIMITS[name]
    moved = fl.round(x) if zero is None else fl.round(x) + zero.to(x.dtype)
    return fl.clamp(moved, least, most).to(dtype)


@operator("QuantizeLinear", since=10)
def quantize_linear(
    x: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: DType | None = None,
    precision: int = 0,
    saturate: int = 1,
) -> Tensor:
    """round(x / scale) + zero point, of halves to even, within what the dtype of the zero point has."""
    dtype = by_name["uint8"] if output_dtype is None else output_dtype
    if y_zero_point is not None:
        dtype = y_zero_point.dtype
    wide = x.to(y_scale.dtype)
    if wide.element_size() < 4:
        wide = wide.float()
    share = wide / _along(y_scale, x, axis, block_size).to(wide.dtype)
    zero = None if y_zero_point is None else _along(y_zero_point, x, axis, block_size)
    return _rounded(share, None if zero is None else zero.to(wide.dtype), dtype)


@operator("DequantizeLinear", since=10)
def dequantize_linear(
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: DType | None = None,
) -> Tensor:
    """(x - zero point) · scale."""
    wide = x.to(by_name["float32"])
    if x_zero_point is not None:
        wide = wide - _along(x_zero_point, x, axis, block_size).to(wide.dtype)
    result = wide * _along(x_scale, x, axis, block_size).to(wide.dtype)
    return result.to(x_scale.dtype if output_dtype is None else output_dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x in uint8, by the scale and zero point that its own elements want, which it gives, too."""
    least, most = fl.clamp_max(fl.amin(x), 0), fl.clamp_min(fl.amax(x), 0)
    scale = (most - least) / 255
    scale = fl.where(scale == 0, fl.ones_like(scale), scale)
    zero = fl.clamp(fl.round(-least / scale), 0, 255)
    return fl.clamp(fl.round(x / scale) + zero, 0, 255).to(by_name["uint8"]), scale, zero.to(by_name["uint8"])


def _from_zero(x: Tensor, zero: Tensor | None, rows: bool = False) -> Tensor:
    """Numbers less their zero point, in int32; one that has several is for rows or columns."""
    wide = x.to(_INT32)
    if zero is None:
        return wide
    if zero.ndim == 1 and zero.numel() > 1 and rows:
        zero = zero[:, None]
    return wide - (zero.reshape([]) if zero.numel() == 1 else zero).to(_INT32)


@operator("MatMulInteger")
def mat_mul_integer(
    a: Tensor, b: Tensor, a_zero_point: Tensor | None = None, b_zero_point: Tensor | None = None
) -> Tensor:
    return fl.matmul(_from_zero(a, a_zero_point, True), _from_zero(b, b_zero_point))


@operator("QLinearMatMul")
def qlinear_mat_mul(
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
) -> Tensor:
    """The product of quantised matrices, quantised."""
    product = fl.matmul(_from_zero(a, a_zero_point, True), _from_zero(b, b_zero_point)).float()
    left = a_scale[:, None] if a_scale.ndim == 1 and a_scale.numel() > 1 else a_scale
    factor = left.float() * b_scale.float() / y_scale.float()
    return _rounded(product * factor, y_zero_point.to(product.dtype), y_zero_point.dtype)


def _convolved(x: Tensor, w: Tensor, way: Way, group: int) -> Tensor:
    """A convolution of integers: exact in float64, whose integers reach 2⁵³."""
    return convolved(x.double(), w.double(), None, way, group)


@operator("ConvInteger")
def conv_integer(
    x: Tensor,
    w: Tensor,
    x_zero_point: Tensor | None = None,
    w_zero_point: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    way = Way(x.shape[2:], w.shape[2:], strides, dilations, pads, auto_pad)
    return _convolved(_from_zero(x, x_zero_point), _filters(w, w_zero_point), way, group).to(_INT32)


def _filters(w: Tensor, zero: Tensor | None) -> Tensor:
    """Filters less the zero point of all or of each."""
    if zero is not None and zero.numel() > 1:
        zero = zero.reshape([-1, *[1] * (w.ndim - 1)])
    return _from_zero(w, zero)


@operator("QLinearConv")
def qlinear_conv(
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """A convolution of quantised numbers with a bias in int32, quantised."""
    way = Way(x.shape[2:], w.shape[2:], strides, dilations, pads, auto_pad)
    result = _convolved(_from_zero(x, x_zero_point), _filters(w, w_zero_point), way, group)
    tail = [-1, *[1] * (x.ndim - 2)]
    if b is not None:
        result = result + b.double().reshape(tail)
    scale = w_scale.double() if w_scale.numel() == 1 else w_scale.double().reshape(tail)
    factor = x_scale.double() * scale / y_scale.double()
    return _rounded(
        result * factor.reshape([]) if factor.numel() == 1 else result * factor,
        y_zero_point.double(),
        y_zero_point.dtype,
    )
