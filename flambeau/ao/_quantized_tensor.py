"""Quantised tensors: integers, and by which scale and zero point they mean numbers."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from .._wrapper.wrapper_tensor import Overrides, WrapperTensor
from ..core.base import display
from ..core.base.dtypes import by_name, without_tensors
from ..core.base.formats import qscheme as schemes  # noqa: F401  which others take from here
from ..core.base.tensor import TensorBase
from ..core.make.create import empty
from ..core.make.literal import tensor
from ..operations.neural.quantizing import quantized_codes

overrides = Overrides()
_float, _double, _int64 = (by_name[name] for name in ("float32", "float64", "int64"))
# The dtypes, by the integers that hold their codes; quint4x2 has codes 0 to 15, of which a byte holds two in files.
INTEGERS = {without_tensors[f"q{name}"]: by_name[name] for name in ("uint8", "int8", "int32")}
quint4x2 = without_tensors["quint4x2"]
_QUANTISED = {**INTEGERS, quint4x2: by_name["uint8"]}


class Quantizer(NamedTuple):
    """What codes mean: (code - zero_point) · scale. Numbers, or per channel (C,) tensors for indices of dimension `axis`."""

    scheme: Any
    scale: Any
    zero_point: Any
    axis: int | None = None

    def expanded(self, ndim: int) -> tuple[Any, Any]:
        """Scale and zero point in float32, in a shape that goes with `ndim` dimensions."""
        if self.axis is None:
            return tensor(self.scale, dtype=_float), tensor(float(self.zero_point), dtype=_float)
        shape = [-1 if d == self.axis else 1 for d in range(ndim)]
        return tuple(t.to(_float).reshape(shape) for t in (self.scale, self.zero_point))  # type: ignore[return-value]

    def equals(self, other: Quantizer) -> bool:
        """Whether codes mean the same."""
        if self.axis is None or other.axis is None:
            return self == other
        alike = self.scheme is other.scheme and self.axis == other.axis
        pairs = ((self.scale, other.scale), (self.zero_point, other.zero_point))
        return alike and all(a.shape == b.shape and bool((a == b).all()) for a, b in pairs)


class QuantizedTensor(WrapperTensor):
    """A tensor of integers that mean numbers: (code - zero_point) · scale, `dequantize()`.

    `quantize_per_tensor` and `quantize_per_channel` make one; `int_repr()` has the integers, of which views share the memory.
    Views, copies, comparisons, what chooses elements, and functions of elements that PyTorch has for quantised tensors are in
    `_overrides`; all others are refused by NotImplementedError.  It has no gradient.

    >>> import flambeau
    >>> x = flambeau.quantize_per_tensor(flambeau.tensor([-1.0, 0.5]), 0.1, 10, flambeau.quint8)
    >>> x.int_repr(), x.dequantize(), x.view(2, 1).q_scale()
    (tensor([ 0, 15], dtype=flambeau.uint8), tensor([-1.0000,  0.5000]), 0.1)
    """

    _overrides = overrides
    _is = "a quantised tensor"
    _dtype: Any
    _quantizer: Quantizer
    is_quantized = True

    @classmethod
    def _refusal(cls, name: str) -> NotImplementedError:
        return NotImplementedError(
            f"{name}(): not available for quantised tensors; apply it to dequantize(), or to the integers that int_repr() gives"
        )

    def _with(self, elements: Any) -> Any:
        return over(elements, self._dtype, self._quantizer)

    @property
    def dtype(self) -> Any:  # type: ignore[override]
        """The quantised dtype."""
        return self._dtype

    # --- what codes mean ---
    def int_repr(self) -> TensorBase:
        """The integers, in memory of their own; two a byte and flat for quint4x2."""
        return packed_bytes(self._elements) if self._dtype is quint4x2 else self._elements.clone()

    def dequantize(self) -> TensorBase:
        """The numbers, in float32."""
        scale, zero_point = self._quantizer.expanded(self.ndim)
        return (self._elements.to(_float) - zero_point) * scale

    def qscheme(self) -> Any:
        """How numbers are scaled: a `qscheme`."""
        return self._quantizer.scheme

    def _per_tensor(self, name: str) -> Quantizer:
        if self._quantizer.axis is not None:
            raise RuntimeError(f"{name}(): expected a tensor quantised per tensor, got {self.qscheme()}")
        return self._quantizer

    def _per_channel(self, name: str) -> Quantizer:
        if self._quantizer.axis is None:
            raise RuntimeError(f"{name}(): expected a tensor quantised per channel, got {self.qscheme()}")
        return self._quantizer

    def q_scale(self) -> float:
        """The scale; RuntimeError where there is one for each channel."""
        return self._per_tensor("q_scale").scale

    def q_zero_point(self) -> int:
        """The zero point; RuntimeError where there is one for each channel."""
        return self._per_tensor("q_zero_point").zero_point

    def q_per_channel_scales(self) -> TensorBase:
        """The scales of the channels, (C,); RuntimeError where there is one for all."""
        return self._per_channel("q_per_channel_scales").scale

    def q_per_channel_zero_points(self) -> TensorBase:
        """The zero points of the channels, (C,); RuntimeError where there is one for all."""
        return self._per_channel("q_per_channel_zero_points").zero_point

    def q_per_channel_axis(self) -> int:
        """The dimension of the channels; RuntimeError where one scale is for all."""
        return self._per_channel("q_per_channel_axis").axis  # type: ignore[return-value]

    # --- memory, which is that of the integers ---
    def stride(self, dim: Any = None) -> Any:
        """The strides of the integers."""
        return self._elements.stride() if dim is None else self._elements.stride(dim)

    def storage_offset(self) -> int:
        """Where the integers begin in their storage."""
        return self._elements.storage_offset()

    def untyped_storage(self) -> Any:
        """The storage of the integers."""
        return self._elements.untyped_storage()

    def data_ptr(self) -> int:
        """The address of the first integer."""
        return self._elements.data_ptr()

    def is_contiguous(self, memory_format: Any = None) -> bool:  # type: ignore[override]
        """Whether the integers lie in that order."""
        return (
            self._elements.is_contiguous()
            if memory_format is None
            else self._elements.is_contiguous(memory_format=memory_format)
        )

    def is_floating_point(self) -> bool:
        """False: they are integers."""
        return False

    def is_signed(self) -> bool:
        """Whether the integers have a sign."""
        return self._elements.dtype.is_signed

    @property
    def requires_grad(self) -> bool:  # type: ignore[override]
        """False: integers have no gradient."""
        return False

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        self.requires_grad_(flag)

    def requires_grad_(self, requires_grad: bool = True) -> Self:  # type: ignore[override]
        """RuntimeError where a gradient is wanted."""
        if requires_grad:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        return self

    def item(self) -> float:
        """The number of one element."""
        return self.dequantize().item()

    __float__ = item

    def __len__(self) -> int:
        return len(self._elements)

    def __iter__(self) -> Any:
        return iter(self.unbind(0))

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return printed(self)

    def __deepcopy__(self, memo: dict) -> Any:
        if id(self) not in memo:
            q = self._quantizer
            if q.axis is not None:
                q = q._replace(scale=q.scale.__deepcopy__(memo), zero_point=q.zero_point.__deepcopy__(memo))
            memo[id(self)] = over(self._elements.__deepcopy__(memo), self._dtype, q)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return over, (self._elements, self._dtype, self._quantizer)


def over(elements: Any, dtype: Any, quantizer: Quantizer) -> QuantizedTensor:
    """A quantised tensor of these integers, which are not copied.

    >>> import flambeau
    >>> from flambeau.ao._quantized_tensor import Quantizer, over
    >>> over(flambeau.tensor([3], dtype=flambeau.int8), flambeau.qint8, Quantizer(flambeau.per_tensor_affine, 0.5, 1)).item()
    1.0
    """
    made = QuantizedTensor._make_subclass(  # type: ignore[attr-defined]
        QuantizedTensor, empty(elements.shape, dtype=elements.dtype, device="meta")
    )
    made._elements, made._dtype, made._quantizer = elements, dtype, quantizer
    return made


def checked_dtype(name: str, dtype: Any, four_bits: bool = False) -> Any:
    """The integers that hold codes of a quantised dtype; RuntimeError for another dtype."""
    allowed = _QUANTISED if four_bits else INTEGERS
    if dtype not in allowed:
        names = ", ".join(map(str, allowed))
        raise RuntimeError(
            f"{name}(): Creation of quantized tensor requires quantized dtype like {display.public('quint8')}: expected one of "
            f"{names}, got {dtype}"
        )
    return allowed[dtype]


def whole(value: float, zero_point: int, dtype: Any) -> tuple[float, int]:
    """A scale and a zero point that a dtype can have; RuntimeError for others."""
    from ._observers import limits

    low, high = limits(dtype)
    if not low <= zero_point <= high:
        raise RuntimeError(
            f"zero_point must be between quant_min and quant_max: {low} to {high} for {dtype}, got {zero_point}"
        )
    if not (value > 0 and value < float("inf")):
        raise RuntimeError(f"scale must be a positive finite number, got {value}")
    return value, zero_point


def packed_bytes(codes: TensorBase) -> TensorBase:
    """Codes 0 to 15, two a byte, the first in its low half: flat, as PyTorch has them."""
    flat = codes.reshape(-1)
    if flat.numel() % 2:
        from ..core.places.join import cat

        flat = cat([flat, flat.new_zeros(1)])
    low, high = flat.reshape(-1, 2).unbind(1)
    return low | high << 4


def unpacked_bytes(packed: TensorBase, shape: Any) -> TensorBase:
    """Codes of `packed_bytes`, in a shape."""
    from math import prod

    from ..core.places.join import stack

    return stack([packed & 15, packed >> 4], 1).reshape(-1)[: prod(shape)].reshape(shape)


def encoded(input: Any, dtype: Any, quantizer: Quantizer) -> QuantizedTensor:
    """Numbers, in float32, as the nearest codes."""
    scale, zero_point = quantizer.expanded(input.ndim)
    x = input.detach().to(_float)
    if dtype is quint4x2:
        codes = quantized_codes["uint8"](x, scale, zero_point).clamp_(0, 15)
    else:
        codes = quantized_codes[INTEGERS[dtype].name](x, scale, zero_point)
    return over(codes, dtype, quantizer)


def printed(q: QuantizedTensor) -> str:
    """The numbers, and what the codes are."""
    from .._compat.printing import tensor_repr

    text = tensor_repr(q.dequantize())
    end = text.rfind("]") + 1 if q.ndim else len(text) - 1
    about = [f"size={tuple(q.shape)}", f"dtype={q.dtype}", f"quantization_scheme={q.qscheme()}"]
    if q._quantizer.axis is None:
        about += [f"scale={q.q_scale()}", f"zero_point={q.q_zero_point()}"]
    else:
        about += [
            f"scale={q.q_per_channel_scales()}",
            f"zero_point={q.q_per_channel_zero_points()}",
            f"axis={q._quantizer.axis}",
        ]
    return f"{text[:end]}, {', '.join(about)})"
