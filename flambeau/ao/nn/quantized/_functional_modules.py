"""Where a model enters and leaves integers, and sums, products and joins of quantised tensors as methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....core.base.dtypes import by_name
from ....core.make.literal import tensor
from ....core.places.join import cat
from ....nn.modules.linear import Identity
from ....nn.modules.module import Module
from ....nn.quantized import FloatFunctional
from ..._observers import limits
from ..._quantized_functions import quantize_per_tensor
from ..._quantized_tensor import QuantizedTensor, Quantizer, encoded, over, schemes
from ._base import Requantizing


class Quantize(Module):
    """Makes a quantised tensor of numbers; `ao.quantization.convert` makes it of a `QuantStub`.

    Args:
        scale, zero_point: numbers, which become buffers of one element.
        dtype: quint8, qint8 or qint32.

    Shape:
        input: any; the result has the same

    Raises:
        RuntimeError: an input that is not floating-point, or a scale that is not positive

    >>> import flambeau
    >>> from flambeau.ao.nn.quantized import Quantize
    >>> Quantize(0.5, 2, flambeau.quint8)(flambeau.ones(2)).int_repr()
    tensor([4, 4], dtype=flambeau.uint8)
    """

    scale: Any
    zero_point: Any

    def __init__(self, scale: float, zero_point: int, dtype: Any, factory_kwargs: dict | None = None) -> None:
        super().__init__()
        given = dict(factory_kwargs or {})
        self.register_buffer("scale", tensor([scale], **given))
        given.pop("dtype", None)
        self.register_buffer("zero_point", tensor([zero_point], dtype=by_name["int64"], **given))
        self.dtype = dtype

    def forward(self, X: Any) -> Any:
        return quantize_per_tensor(X, float(self.scale), int(self.zero_point), self.dtype)

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> Quantize:
        """With the scale of the observer of a `QuantStub`."""
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        return Quantize(float(scale), int(zero_point), mod.activation_post_process.dtype)

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(Module):
    """Makes numbers of a quantised tensor; `ao.quantization.convert` makes it of a `DeQuantStub`.

    Shape:
        input: any; the result has the same, in float32

    Raises nothing.

    >>> import flambeau
    >>> from flambeau.ao.nn.quantized import DeQuantize
    >>> DeQuantize()(flambeau.quantize_per_tensor(flambeau.ones(2), 0.5, 2, flambeau.quint8))
    tensor([1., 1.])
    """

    def forward(self, Xq: Any) -> Any:
        return Xq.dequantize()

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> DeQuantize:
        """A new one."""
        return DeQuantize()


def _quantised(name: str, *given: Any) -> None:
    for x in given:
        if not isinstance(x, QuantizedTensor):
            raise RuntimeError(
                f"{name}(): expected quantised tensors, got one of {getattr(x, 'dtype', type(x).__name__)}"
            )
        x._per_tensor(name)


class QFunctional(Requantizing):
    """`FloatFunctional` of quantised tensors, whose results are quantised by `scale` and `zero_point`.

    `ao.quantization.convert` makes it of a `FloatFunctional` that was observed.  `forward` is a RuntimeError.  A number that is added
    or multiplied changes the scale and the zero point of the result, not the codes, where the dtype allows it.

    Shape:
        arguments and results: as of the operation of that name

    Raises:
        RuntimeError: a tensor that is not quantised per tensor

    >>> import flambeau
    >>> from flambeau.ao.nn.quantized import QFunctional
    >>> x = flambeau.quantize_per_tensor(flambeau.ones(2), 0.5, 2, flambeau.quint8)
    >>> QFunctional().add(x, x).dequantize()
    tensor([2., 2.])
    """

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = Identity()

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def forward(self, x: Any) -> Any:
        raise RuntimeError(
            "QFunctional is not intended to use the 'forward'. Please use the underlying operation"
        )

    def _rounded(self, result: Any, like: Any) -> Any:
        quantizer = Quantizer(schemes.per_tensor_affine, self.scale, self.zero_point)
        return self.activation_post_process(encoded(result, like.dtype, quantizer))

    def add(self, x: Any, y: Any) -> Any:
        """`x + y`."""
        _quantised("add", x, y)
        return self._rounded(x.dequantize() + y.dequantize(), x)

    def mul(self, x: Any, y: Any) -> Any:
        """`x * y`."""
        _quantised("mul", x, y)
        return self._rounded(x.dequantize() * y.dequantize(), x)

    def add_relu(self, x: Any, y: Any) -> Any:
        """max(x + y, 0)."""
        _quantised("add_relu", x, y)
        return self._rounded((x.dequantize() + y.dequantize()).relu_(), x)

    def matmul(self, x: Any, y: Any) -> Any:
        """`x @ y`."""
        _quantised("matmul", x, y)
        return self._rounded(x.dequantize() @ y.dequantize(), x)

    def cat(self, x: Sequence[Any], dim: int = 0) -> Any:
        """Tensors joined along a dimension."""
        _quantised("cat", *x)
        return self._rounded(cat([t.dequantize() for t in x], dim), x[0])

    def add_scalar(self, x: Any, y: float) -> Any:
        """`x + y` for a number: the codes of x with another zero point; rounded again where the dtype does not have that one."""
        _quantised("add_scalar", x)
        low, high = limits(x.dtype)
        scale, code = x.q_scale(), x.q_zero_point() - round(y / x.q_scale())
        if low <= code <= high:
            return over(x._elements.clone(), x.dtype, Quantizer(schemes.per_tensor_affine, scale, code))
        new, end = (scale * (high - code), low) if code < low else (scale * (code - low), high)
        quantizer = Quantizer(schemes.per_tensor_affine, new / (high - low), end)
        moved = over(x._elements, x.dtype, Quantizer(schemes.per_tensor_affine, scale, code))
        return encoded(moved.dequantize(), x.dtype, quantizer)

    def mul_scalar(self, x: Any, y: float) -> Any:
        """`x * y` for a number: the codes of x with another scale, counted from the other end for a negative number."""
        _quantised("mul_scalar", x)
        low, high = limits(x.dtype)
        scale, zero_point = x.q_scale(), x.q_zero_point()
        if y == 0:
            return over(x._elements.new_zeros(x.shape), x.dtype, Quantizer(schemes.per_tensor_affine, 1.0, 0))
        if y > 0:
            return over(
                x._elements.clone(), x.dtype, Quantizer(schemes.per_tensor_affine, scale * y, zero_point)
            )
        codes = (low + high) - x._elements.to(by_name["int64"])
        quantizer = Quantizer(schemes.per_tensor_affine, scale * -y, low + high - zero_point)
        return over(codes.to(x._elements.dtype), x.dtype, quantizer)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> QFunctional:
        """With the scale of the observer of a `FloatFunctional`; AssertionError for another class."""
        if type(mod) is not FloatFunctional:
            raise AssertionError(
                f"QFunctional.from_float expects an instance of FloatFunctional, got {type(mod).__name__}"
            )
        return cls()._take_scale(mod.activation_post_process)
