"""Where a model enters and leaves integers, and sums, products and joins of quantised tensors as methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....core.base.dtypes import by_name
from ....core.make.literal import tensor
from ....nn.modules.linear import Identity
from ....nn.modules.module import Module
from ....nn.quantized import FloatFunctional
from ... import _quantized_arithmetic as arithmetic
from ..._quantized_functions import quantize_per_tensor
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

    def _run(self, function: Any, *given: Any) -> Any:
        return self.activation_post_process(function(*given, self.scale, self.zero_point))

    def add(self, x: Any, y: Any) -> Any:
        """`x + y`."""
        return self._run(arithmetic.add, x, y)

    def mul(self, x: Any, y: Any) -> Any:
        """`x * y`."""
        return self._run(arithmetic.mul, x, y)

    def add_relu(self, x: Any, y: Any) -> Any:
        """max(x + y, 0)."""
        return self._run(arithmetic.add_relu, x, y)

    def matmul(self, x: Any, y: Any) -> Any:
        """`x @ y`."""
        return self._run(arithmetic.matmul, x, y)

    def cat(self, x: Sequence[Any], dim: int = 0) -> Any:
        """Tensors joined along a dimension."""
        return self._run(arithmetic.cat, x, dim)

    def add_scalar(self, x: Any, y: float) -> Any:
        """`x + y` for a number: the codes of x with another zero point; rounded again where the dtype does not have that one."""
        return arithmetic.add_scalar(x, y)

    def mul_scalar(self, x: Any, y: float) -> Any:
        """`x * y` for a number: the codes of x with another scale, counted from the other end for a negative number."""
        return arithmetic.mul_scalar(x, y)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> QFunctional:
        """With the scale of the observer of a `FloatFunctional`; AssertionError for another class."""
        if type(mod) is not FloatFunctional:
            raise AssertionError(
                f"QFunctional.from_float expects an instance of FloatFunctional, got {type(mod).__name__}"
            )
        return cls()._take_scale(mod.activation_post_process)
