"""Operators that work element by element; operands broadcast as NumPy's do."""

from __future__ import annotations

import functools

from ..._tensor import Tensor
from ...core.base.dtypes import by_name
from ...core.base.typeinfo import finfo
from .._bodies import OF_FUNCTIONS
from .declare import DType, fl, nn, operator, same

# Functions that the export writes as one operator are that operator.
for _name, _operator in OF_FUNCTIONS.items():
    if _operator != "Pow":  # of the dtype of its base there
        same(_operator, getattr(fl, _name), 1)
same("Abs", fl.abs)
same("Neg", fl.neg)
same("Floor", fl.floor)
same("Ceil", fl.ceil)
same("Round", fl.round)
same("Sqrt", fl.sqrt)
same("Sign", fl.sign)
same("Reciprocal", fl.reciprocal)
same("IsNaN", fl.isnan)
same("Relu", fl.relu)
same("Add", fl.add, 2, since=7)
same("Sub", fl.sub, 2, since=7)
same("Mul", fl.mul, 2, since=7)
same("And", fl.logical_and, 2, since=7)
same("Or", fl.logical_or, 2, since=7)
same("Xor", fl.logical_xor, 2, since=7)
same("Not", fl.logical_not)
same("Equal", fl.eq, 2, since=7)
same("Less", fl.lt, 2, since=7)
same("LessOrEqual", fl.le, 2, since=7)
same("Greater", fl.gt, 2, since=7)
same("GreaterOrEqual", fl.ge, 2, since=7)
same("BitwiseAnd", fl.bitwise_and, 2)
same("BitwiseOr", fl.bitwise_or, 2)
same("BitwiseXor", fl.bitwise_xor, 2)
same("BitwiseNot", fl.bitwise_not)
same("Where", fl.where, 3)
same("Softsign", nn.softsign)
same("Mish", nn.mish)
same("HardSwish", nn.hardswish)


# --- arithmetic ------------------------------
@operator("Div", since=7)
def div(a: Tensor, b: Tensor) -> Tensor:
    """a / b, of integers towards zero."""
    if a.is_floating_point() or a.is_complex():
        return a / b
    return fl.div(a, b, rounding_mode="trunc")


@operator("Mod")
def mod(a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    return fl.fmod(a, b) if fmod else fl.remainder(a, b)


@operator("Pow", since=7)
def power(x: Tensor, y: Tensor) -> Tensor:
    return fl.pow(x, y).to(x.dtype)


@operator("BitShift")
def bit_shift(x: Tensor, y: Tensor, *, direction: str) -> Tensor:
    """x · 2ʸ or x / 2ʸ of integers; 0 where all bits leave."""
    bits = 8 * x.element_size()
    shifted = fl.bitwise_left_shift if direction == "LEFT" else fl.bitwise_right_shift
    if x.dtype.is_signed:
        return shifted(x, y)
    few = y < bits
    return fl.where(few, shifted(x, fl.where(few, y, fl.zeros_like(y))), fl.zeros_like(x))


@operator("Sum", since=8)
def sum_of(*inputs: Tensor) -> Tensor:
    return functools.reduce(fl.add, inputs)


@operator("Mean", since=8)
def mean_of(*inputs: Tensor) -> Tensor:
    return functools.reduce(fl.add, inputs) / len(inputs)


@operator("Max", since=8)
def largest_of(*inputs: Tensor) -> Tensor:
    return functools.reduce(fl.maximum, inputs)


@operator("Min", since=8)
def smallest_of(*inputs: Tensor) -> Tensor:
    return functools.reduce(fl.minimum, inputs)


@operator("Clip", since=11)
def clip(input: Tensor, least: Tensor | None = None, most: Tensor | None = None) -> Tensor:
    result = input if least is None else fl.maximum(input, least)
    return result if most is None else fl.minimum(result, most)


@operator("IsInf")
def is_inf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    if detect_negative and detect_positive:
        return fl.isinf(x)
    endless = fl.isinf(x)
    if detect_positive:
        return endless & (x > 0)
    return endless & (x < 0) if detect_negative else fl.zeros_like(endless)


# --- dtypes ------------------------------
_NO_INFINITY = by_name["float8_e4m3fn"]


@operator("Cast")
def cast(input: Tensor, *, to: DType, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """The elements in another dtype; what float8 has not becomes its largest number, or with saturate=0 NaN or infinity."""
    if to.is_floating_point and to.itemsize == 1 and "e8m0" not in str(to) and saturate:
        most = finfo(to).max
        value = input if input.is_floating_point() else input.float()
        return fl.where(fl.isnan(value), value, value.clamp(-most, most)).to(to)
    if to is _NO_INFINITY and not saturate:
        value = input.float()
        return fl.where(fl.abs(value) > 464, float("nan"), value).to(
            to
        )  # 448 is the largest, 480 would be the next
    return input.to(to)


@operator("CastLike")
def cast_like(input: Tensor, like: Tensor, *, saturate: int = 1, round_mode: str = "up") -> Tensor:
    return cast(input, to=like.dtype, saturate=saturate, round_mode=round_mode)


@operator("BitCast")
def bit_cast(input: Tensor, *, to: DType) -> Tensor:
    return input.view(to)


# --- activations ------------------------------
@operator("Elu")
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return nn.elu(x, alpha)


@operator("Celu")
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return nn.celu(x, alpha)


@operator("Selu")
def selu(x: Tensor, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Tensor:
    return gamma * (fl.clamp_min(x, 0) + alpha * fl.expm1(fl.clamp_max(x, 0)))


@operator("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    return nn.leaky_relu(x, alpha)


@operator("PRelu", since=7)
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    return fl.where(x < 0, slope * x, x)


@operator("ThresholdedRelu")
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return fl.where(x > alpha, x, fl.zeros_like(x))


@operator("Softplus")
def softplus(x: Tensor) -> Tensor:
    return fl.clamp_min(x, 0) + fl.log1p(fl.exp(-fl.abs(x)))


@operator("HardSigmoid")
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    return fl.clamp(alpha * x + beta, 0, 1)


@operator("Gelu")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    return nn.gelu(x, approximate=approximate)


@operator("Swish")
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return x * fl.sigmoid(alpha * x)


@operator("Shrink")
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    below, above = (x + bias).to(x.dtype), (x - bias).to(x.dtype)
    return fl.where(x < -lambd, below, fl.where(x > lambd, above, fl.zeros_like(x)))
