"""Layers over integers of eight bits: exact sums in 32 bits, which are then requantised (Jacob et al. 2018, section 2.2).

With codes q of a scale s and a zero point z, x = s · (q - z), so that

    sum(x · w) = s_x · s_w · (sum(q_x · q_w) - z_x · sum(q_w) - z_w · sum(q_x) + k · z_x · z_w).

What depends on the weight alone is where sums start.  A weight is laid out in panels once (`codegen/tiles/integer_rows.py`).
"""

from __future__ import annotations

import copy
import math
from typing import Any, NamedTuple

from ..codegen.tiles import integer_rows as tiles
from ..core.base.dtypes import by_name
from ..core.lib.layers.bags import run
from ..core.make.create import arange, empty, full, zeros
from ..core.make.literal import tensor
from ..operations.declare import machine
from ..operations.declare.registry import published
from ..operations.neural.quantizing import quantized_codes, requantized_codes, scaled_sums
from ..operations.rows.reductions import aminmax
from . import _quantized_operations  # noqa: F401  which gives the class its operations
from ._dynamic_range import qparams_of
from ._quantized_tensor import QuantizedTensor, Quantizer, over, schemes

NANOSECONDS = 0.004  # of a product of two numbers
UNSIGNED = 128  # what is added to signed codes of x
_functional = published("nn.functional")
_pad = _functional["pad"]
_int32, _int64, _int8, _uint8 = (by_name[name] for name in ("int32", "int64", "int8", "uint8"))
_float, _double = by_name["float32"], by_name["float64"]


class Packed(NamedTuple):
    """A weight, (n, k) of int8, in panels: `sums` are those of its rows, `zeros` its zero points, None where all are 0."""

    panels: Any
    sums: Any
    zeros: Any
    n: int
    k: int


def packed(codes: Any, zeros_of_rows: Any) -> Packed:
    """Panels of integers (n, k) of int8, whose zero points are (n,) of integers."""
    n, k = codes.shape
    columns, step, _ = tiles.layout()
    blocks, steps = -(-n // columns), -(-k // step)
    whole = codes.new_zeros((blocks * columns, steps * step))
    whole[:n, :k] = codes
    panels = whole.reshape(blocks, columns, steps, step).transpose(1, 2).contiguous()
    given = zeros_of_rows.to(_int32)
    return Packed(panels, codes.sum(1, dtype=_int32), given if bool((given != 0).any()) else None, n, k)


class Windows(NamedTuple):
    """Where the rows of a product lie in x, in elements: each begins, (m,), and its runs of `terms` are at `distances`, (runs,)."""

    begins: Any
    distances: Any
    terms: int


def unsigned(x: Any, zero_point: int) -> tuple[Any, int]:
    """Codes as uint8 and their zero point: of int8 with the upper bit turned."""
    return (x.view(_uint8) ^ UNSIGNED, zero_point + UNSIGNED) if x.dtype is _int8 else (x, zero_point)


def product(x: Any, zero_point: int, weight: Packed, windows: Windows | None = None) -> Any:
    """Sums of (x - zero_point) · (w - z_w) over the terms, (m, n) of int32: x is (m, k) of uint8 or int8.

    With `windows`, x is uint8 of any shape, contiguous, and holds the rows where these say.
    """
    x, zero_point = unsigned(x, zero_point)
    m = x.shape[0] if windows is None else windows.begins.shape[0]
    columns, step, dtype = tiles.layout()
    steps = weight.panels.shape[1]
    if 0 in (m, weight.n):
        return x.new_zeros((m, weight.n), dtype=_int32)
    rows = x.to(by_name[dtype])
    if windows is None and steps * step != weight.k:
        rows = _pad(rows, (0, steps * step - weight.k))
    rows = rows.contiguous()
    width = weight.panels.shape[0] * columns
    start = zeros(width, dtype=_int32)
    start[: weight.n] = weight.sums * -zero_point
    if weight.zeros is not None:
        start[: weight.n] += weight.zeros * (zero_point * weight.k)
    result = empty((m, width), dtype=_int32)
    kernel = tiles.host(windows is not None)
    groups = -(-m // kernel.rows)
    each = NANOSECONDS * kernel.rows * columns * steps * step
    data, terms = [result, rows, weight.panels, start], (steps * step,)
    if windows is not None:
        data += [windows.begins, windows.distances]
        terms = (windows.terms,)
    numbers = (width, *terms, m) if windows is None else (width, *terms, m, windows.distances.shape[0])
    run(machine.address(kernel), tuple(data), numbers, weight.panels.shape[0] * groups, each)
    result = result[:, : weight.n]
    if weight.zeros is not None:
        total = x.sum(1, dtype=_int32) if windows is None else _sums(x, windows, weight.k)
        result = result - total.unsqueeze(1) * weight.zeros
    return result


def _sums(x: Any, windows: Windows, k: int) -> Any:
    """The sum of the codes of each window, (m,) of int32: a product by ones."""
    ones = packed(full((1, k), 1, dtype=_int8), zeros(1, dtype=_int32))
    return product(x, 0, ones, windows)[:, 0]


class LinearParams:
    """The weight of a layer, (n, k), quantised per tensor or per row, and its bias in float32; laid out in panels at its first use."""

    def __init__(self, weight: Any, bias: Any) -> None:
        self.weight, self.bias = weight, None if bias is None else bias.detach().to(_float)
        self._packed: Packed | None = None

    def __reduce__(self) -> tuple:
        return type(self), (self.weight, self.bias)

    def __deepcopy__(self, memo: dict) -> LinearParams:
        return type(self)(*copy.deepcopy((self.weight, self.bias), memo))

    def packed(self) -> Packed:
        """The panels."""
        if self._packed is None:
            self._packed = packed(self.weight._elements, zero_points_of(self.weight))
        return self._packed

    def run(self, x: Any, scale: float, zero_point: int, relu: bool = False) -> Any:
        """A quantised tensor (…, n) of this scale and zero point, of a quantised one (…, k)."""
        given = quantised_input("linear", x)
        k = self.weight.shape[1]
        if x.shape[-1:] != (k,):
            raise RuntimeError(f"linear(): expected input of shape (…, {k}), got {list(x.shape)}")
        sums = product(x._elements.reshape(-1, k), given.zero_point, self.packed())
        codes = requantised(sums, x, self.weight, self.bias, scale, zero_point, relu)
        new = Quantizer(schemes.per_tensor_affine, scale, zero_point)
        return over(codes.reshape(*x.shape[:-1], codes.shape[1]), x.dtype, new)

    def run_dynamic(self, x: Any, relu: bool = False) -> Any:
        """Numbers (…, n) of numbers (…, k), which are rounded to integers from 0 to 127 of one scale."""
        k = self.weight.shape[1]
        if is_quantised(x) or x.shape[-1:] != (k,) or x.dtype is not _float:
            raise RuntimeError(
                f"linear_dynamic(): expected input of shape (…, {k}) in float32, got {list(x.shape)} in {x.dtype}"
            )
        rows = x.detach().reshape(-1, k)
        least, most = (t.item() for t in aminmax(rows)) if rows.numel() else (0.0, 0.0)
        if not math.isfinite(most - least):
            raise RuntimeError(f"linear_dynamic(): expected finite input, got numbers from {least} to {most}")
        scale, zero_point = qparams_of(least, most, 0, 127)
        codes = quantized_codes["uint8"](rows, tensor(scale), tensor(float(zero_point)))
        # The largest number may round to 128 where the zero point has been rounded.
        sums = product(codes.clamp_(0, 127), zero_point, self.packed())
        factor = scales_of(self.weight) * scale
        bias = self.bias if self.bias is not None else zeros((), dtype=_float)
        result = scaled_sums(sums, factor, bias)
        result = result.clamp_(0) if relu else result
        return result.reshape(*x.shape[:-1], result.shape[1])


class ConvParams(LinearParams):
    """The weight of a convolution, (filters, channels / groups, *window), its bias, and its geometry: tuples of one length."""

    def __init__(
        self, weight: Any, bias: Any, stride: tuple, padding: tuple, dilation: tuple, groups: int
    ) -> None:
        super().__init__(weight, bias)
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self._where: tuple[Any, Windows] | None = None  # of images of one shape

    def __reduce__(self) -> tuple:
        return type(self), (self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

    def __deepcopy__(self, memo: dict) -> ConvParams:
        parts = copy.deepcopy((self.weight, self.bias), memo)
        return type(self)(*parts, self.stride, self.padding, self.dilation, self.groups)

    def packed(self) -> Packed:
        """The panels of the windows, channels last and filled up to whole steps."""
        if self._packed is None:
            rows = _pad(self.weight._elements.movedim(1, -1), (0, self._lacking()))
            self._packed = packed(rows.flatten(1), zero_points_of(self.weight))
        return self._packed

    def _lacking(self) -> int:
        """Channels to whole steps of the product."""
        return -self.weight.shape[1] % tiles.layout().terms

    def run(self, x: Any, scale: float, zero_point: int, relu: bool = False) -> Any:
        """A quantised tensor (N, filters, *places) of one (N, channels, *places), whose elements lie channels last."""
        dims = len(self.stride)
        name = f"conv{dims}d"
        given = quantised_input(name, x)
        channels = self.weight.shape[1] * self.groups
        if x.ndim != dims + 2 or x.shape[1] != channels:
            raise RuntimeError(
                f"{name}(): expected input of shape (N, {channels}, {dims} sizes), got {list(x.shape)}"
            )
        reach = [d * (k - 1) + 1 for d, k in zip(self.dilation, self.weight.shape[2:])]
        places = [
            (n + 2 * p - r) // s + 1 for n, p, r, s in zip(x.shape[2:], self.padding, reach, self.stride)
        ]
        if min(places) < 1:
            raise RuntimeError(
                f"{name}(): Kernel size can't be greater than actual input size: a window of {reach} in {list(x.shape[2:])} with "
                f"padding {list(self.padding)}"
            )
        if self.groups == 1:
            sums = self._windows(x._elements, given.zero_point, places)
        else:
            sums = self._by_groups(x._elements, given.zero_point)
        codes = requantised(sums, x, self.weight, self.bias, scale, zero_point, relu)
        new = Quantizer(schemes.per_tensor_affine, scale, zero_point)
        return over(codes.reshape(x.shape[0], *places, codes.shape[1]).movedim(-1, 1), x.dtype, new)

    def _windows(self, codes: Any, zero_point: int, places: list[int]) -> Any:
        """Sums over the windows of images that are laid out channels last, with zeros around them."""
        codes, zero_point = unsigned(codes, zero_point)
        last, lacking = codes.movedim(1, -1), self._lacking()
        if lacking or any(self.padding):
            around = [p for side in reversed(self.padding) for p in (side, side)]
            last = _pad(last, [0, lacking, *around], "constant", zero_point)
        last = last.contiguous()
        if self._where is None or self._where[0] != last.shape:
            self._where = last.shape, self._windows_of(last, places)
        return product(last, zero_point, self.packed(), self._where[1])

    def _windows_of(self, last: Any, places: list[int]) -> Windows:
        """Where windows lie in images (N, *sizes, channels): neighbours in the last dimension are one run."""
        image, *steps, _ = last.stride()
        window, channels = list(self.weight.shape[2:]), last.shape[-1]
        apart = [step * d for step, d in zip(steps, self.dilation)]
        terms = channels
        if self.dilation[-1] == 1:
            terms, window, apart = channels * window[-1], window[:-1], apart[:-1]
        begins = _grid([last.shape[0], *places], [image, *(step * s for step, s in zip(steps, self.stride))])
        return Windows(begins, _grid(window, apart), terms)

    def _by_groups(self, codes: Any, zero_point: int) -> Any:
        """Sums of float64, which has all of these integers, so that any order of them is exact."""
        shape = [-1] + [1] * (self.weight.ndim - 1)
        weight = self.weight._elements.to(_double) - zero_points_of(self.weight).to(_double).reshape(shape)
        run_conv = _functional[f"conv{len(self.stride)}d"]
        sums = run_conv(
            codes.to(_double) - zero_point,
            weight,
            None,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
        )
        return sums.round().to(_int32).movedim(1, -1).flatten(0, -2)


def _grid(sizes: list[int], steps: list[int]) -> Any:
    """The distances of a grid's points from its first, the last dimension fastest, (points,) of int64."""
    result = zeros(1, dtype=_int64)
    for size, step in zip(sizes, steps):
        result = (result.unsqueeze(1) + arange(size, dtype=_int64) * step).reshape(-1)
    return result


def zero_points_of(weight: Any) -> Any:
    """The zero point of each row of a weight, (n,): RuntimeError where channels are no rows."""
    quantizer = weight._quantizer
    if quantizer.axis is None:
        return full((weight.shape[0],), quantizer.zero_point, dtype=_int32)
    if quantizer.axis != 0:
        raise RuntimeError(f"a weight must be quantised per tensor or per row, got axis {quantizer.axis}")
    return quantizer.zero_point.to(_int32)


def scales_of(weight: Any) -> Any:
    """The scale of each row of a weight in float32, (n,) or one."""
    scale = weight._quantizer.scale
    return tensor(scale, dtype=_float) if weight._quantizer.axis is None else scale.to(_float)


def is_quantised(x: Any) -> bool:
    """Whether something is a quantised tensor."""
    return isinstance(x, QuantizedTensor)


def quantised_input(name: str, x: Any) -> Quantizer:
    """What the codes of a layer's input mean; RuntimeError for what is not quantised per tensor in eight bits."""
    if not is_quantised(x) or x.dtype.name not in ("quint8", "qint8"):
        raise RuntimeError(
            f"{name}(): expected a quantised input of quint8 or qint8, got one of {x.dtype}; a QuantStub before the layer makes it so"
        )
    return x._per_tensor(name)


def requantised(sums: Any, x: Any, weight: Any, bias: Any, scale: float, zero_point: int, relu: bool) -> Any:
    """Integers of this scale and zero point, of sums (m, n) of products of integers of x and of rows of the weight."""
    unit = scales_of(weight) * x._quantizer.scale
    first = zeros((), dtype=_float) if bias is None else bias / unit
    low = -128 if x.dtype.name == "qint8" else 0
    return requantized_codes[x._elements.dtype.name](
        sums,
        first,
        unit / scale,
        zero_point=float(zero_point),
        least=float(max(zero_point, low) if relu else low),
    )
