"""How the weights of a layer are coded, and to how many bits its input is rounded: configurations by torchao's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .._tensor import Tensor
from ..codegen.tiles.quantised import NF4
from ..core.base.dtypes import by_name
from ..core.make.literal import tensor
from ..core.places.join import stack
from ..operations.linalg import quantised
from ..operations.neural.quantizing import fake_quantize_per_channel_affine


def _nonzero(scales: Tensor) -> Tensor:
    """Scales to divide by: where all weights are zero, any will do."""
    return scales.masked_fill(scales == 0, 1.0)


# The largest magnitude that a code of eight bits has.
LARGEST = {by_name["int8"]: 127.0, by_name["float8_e4m3fn"]: 448.0, by_name["float8_e5m2"]: 57344.0}


def encoded_rows(rows: Tensor, dtype: Any) -> tuple[Tensor, Tensor]:
    """Codes of eight bits (…, k) and scales (…) of float32 rows (…, k): a row's largest magnitude becomes the largest code.  A row
    that has NaN or an infinite number is NaN by its scale.
    """
    largest = LARGEST[dtype]
    scales = rows.abs().amax(-1) / largest if rows.numel() else rows.new_zeros(rows.shape[:-1])
    codes = (rows / _nonzero(scales).unsqueeze(-1)).nan_to_num(0.0)
    codes = codes if dtype.is_floating_point else codes.round()
    return codes.clamp(-largest, largest).to(dtype), scales


@dataclass(frozen=True)
class Config:
    """What all configurations say."""

    rounds: ClassVar[bool] = False  # whether a layer rounds its input as well

    @property
    def kind(self) -> str:
        """The kind of codes, as `codegen/tiles/quantised.py` has them."""
        raise NotImplementedError

    def group(self, k: int) -> int:
        """How many terms of a row have a scale together."""
        return k

    def encode(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Codes and scales of a float32 weight."""
        raise NotImplementedError

    def rounded(self, rows: Tensor) -> Tensor:
        """What a layer that `rounds` multiplies by its weight in place of its input."""
        raise NotImplementedError


def _rounded(rows: Tensor, scales: Tensor, zero_points: Tensor, low: int, high: int) -> Tensor:
    """Each row as multiples of its scale; the gradient is passed on where nothing was clamped."""
    wide = rows.to(by_name["float32"])
    return fake_quantize_per_channel_affine(wide, scales, zero_points, 0, low, high).to(rows.dtype)


@dataclass(frozen=True)
class Int8WeightOnlyConfig(Config):
    """Weights of eight bits with a scale for each row: a code from -127 to 127 times the scale.

    Raises nothing.

    >>> from flambeau.ao.quantization import Int8WeightOnlyConfig
    >>> Int8WeightOnlyConfig()
    Int8WeightOnlyConfig()
    """

    kind: ClassVar[str] = "int8"

    def encode(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Codes (n, k) and scales (n,) of a float32 weight (n, k)."""
        return encoded_rows(weight, by_name["int8"])


@dataclass(frozen=True)
class Int8DynamicActivationInt8WeightConfig(Int8WeightOnlyConfig):
    """Weights as of `Int8WeightOnlyConfig`; each row of the input is rounded to codes from -127 to 127 times a scale of its own.

    Raises nothing.

    >>> from flambeau.ao.quantization import Int8DynamicActivationInt8WeightConfig
    >>> Int8DynamicActivationInt8WeightConfig()
    Int8DynamicActivationInt8WeightConfig()
    """

    rounds: ClassVar[bool] = True

    def rounded(self, rows: Tensor) -> Tensor:
        if not rows.numel():
            return rows
        scales = _nonzero(rows.detach().to(by_name["float32"]).abs().amax(1) / 127.0)
        return _rounded(rows, scales, scales.new_zeros(scales.shape, dtype=by_name["int32"]), -127, 127)


_FLOAT8 = {by_name["float8_e4m3fn"]: "float8", by_name["float8_e5m2"]: "float8_e5m2"}  # kinds of codes


@dataclass(frozen=True)
class Float8WeightOnlyConfig(Config):
    """Weights of eight bits that are floating-point numbers, with a scale for each row, by which the largest magnitude becomes the
    dtype's largest number: 448, or 57344.

    Args:
        weight_dtype: float8_e4m3fn, of three bits of mantissa, or float8_e5m2, of two.

    Raises:
        ValueError: another dtype.

    >>> from flambeau.ao.quantization import Float8WeightOnlyConfig
    >>> Float8WeightOnlyConfig()
    Float8WeightOnlyConfig(weight_dtype=flambeau.float8_e4m3fn)
    """

    weight_dtype: Any = by_name["float8_e4m3fn"]

    def __post_init__(self) -> None:
        if self.weight_dtype not in _FLOAT8:
            raise ValueError(
                "Float8WeightOnlyConfig: weight_dtype must be float8_e4m3fn or float8_e5m2, got "
                f"{self.weight_dtype!r}"
            )

    @property
    def kind(self) -> str:
        """The kind of codes."""
        return _FLOAT8[self.weight_dtype]

    def encode(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Codes (n, k) and scales (n,) of a float32 weight (n, k).  A row that has NaN is NaN by its scale."""
        return encoded_rows(weight, self.weight_dtype)


@dataclass(frozen=True)
class _Grouped(Config):
    group_size: int

    def __post_init__(self) -> None:
        if self.group_size not in quantised.GROUPS:
            raise ValueError(
                f"{type(self).__name__}: group_size must be one of {quantised.GROUPS}, got {self.group_size!r}"
            )

    def group(self, k: int) -> int:
        if k % self.group_size:
            raise ValueError(f"group_size {self.group_size} does not divide in_features, which is {k}")
        return self.group_size


@dataclass(frozen=True)
class Int4WeightOnlyConfig(_Grouped):
    """Weights of four bits; each `group_size` weights of a row have a scale and a zero point.

    Args:
        group_size: 32, 64, 128 or 256; it divides the `in_features` of a layer.

    Raises:
        ValueError: another size.

    >>> from flambeau.ao.quantization import Int4WeightOnlyConfig
    >>> Int4WeightOnlyConfig(group_size=64)
    Int4WeightOnlyConfig(group_size=64)
    """

    group_size: int = 128
    kind: ClassVar[str] = "int4"

    def encode(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Packed codes (n, k / 2), and scales beside the values of code 8, (k / group_size, n, 2), of a float32 weight (n, k)."""
        groups = weight.reshape(weight.shape[0], -1, self.group_size)
        least = groups.amin(2)
        scales = (groups.amax(2) - least) / 15.0
        codes = ((groups - least.unsqueeze(2)) / _nonzero(scales).unsqueeze(2)).round().clamp(0, 15)
        pairs = stack((scales, least + 8.0 * scales), 2).transpose(0, 1)
        return quantised.packed(codes.reshape(weight.shape)), pairs


@dataclass(frozen=True)
class Int8DynamicActivationInt4WeightConfig(_Grouped):
    """Weights of four bits from -8 to 7, with a scale for each `group_size` weights of a row; each row of the input is rounded to 256
    codes from its least to its largest number.

    Args:
        group_size: 32, 64, 128 or 256; it divides the `in_features` of a layer.

    Raises:
        ValueError: another size.

    >>> from flambeau.ao.quantization import Int8DynamicActivationInt4WeightConfig
    >>> Int8DynamicActivationInt4WeightConfig()
    Int8DynamicActivationInt4WeightConfig(group_size=32)
    """

    group_size: int = 32
    kind: ClassVar[str] = "int4"

    def encode(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Packed codes (n, k / 2), and scales beside zeros, (k / group_size, n, 2), of a float32 weight (n, k)."""
        groups = weight.reshape(weight.shape[0], -1, self.group_size)
        scales = groups.abs().amax(2) / 7.5
        codes = (groups / _nonzero(scales).unsqueeze(2)).round().clamp(-8, 7) + 8
        pairs = stack((scales, scales.new_zeros(scales.shape)), 2).transpose(0, 1)
        return quantised.packed(codes.reshape(weight.shape)), pairs

    rounds: ClassVar[bool] = True

    def rounded(self, rows: Tensor) -> Tensor:
        if not rows.numel():
            return rows
        wide = rows.detach().to(by_name["float32"])
        least, most = wide.amin(1).clamp(max=0.0), wide.amax(1).clamp(min=0.0)
        scales = _nonzero((most - least) / 255.0)
        zeros = (-128.0 - (least / scales).round()).nan_to_num(0.0).clamp(-128, 127)
        return _rounded(rows, scales, zeros.to(by_name["int32"]), -128, 127)


@dataclass(frozen=True)
class NF4WeightOnlyConfig(_Grouped):
    """Weights of four bits: places in a table of the quantiles of a normal distribution, times the largest magnitude of `group_size`
    weights of a row (Dettmers et al., "QLoRA: Efficient Finetuning of Quantized LLMs", 2023).

    Args:
        group_size: 32, 64, 128 or 256; it divides the `in_features` of a layer.

    Raises:
        ValueError: another size.

    >>> from flambeau.ao.quantization import NF4WeightOnlyConfig
    >>> NF4WeightOnlyConfig()
    NF4WeightOnlyConfig(group_size=64)
    """

    group_size: int = 64
    kind: ClassVar[str] = "nf4"

    def encode(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Packed codes (n, k / 2) and scales (k / group_size, n) of a float32 weight (n, k)."""
        groups = weight.reshape(weight.shape[0], -1, self.group_size)
        scales = groups.abs().amax(2)
        table = tensor(NF4, device=weight.device)
        middles = (table[1:] + table[:-1]) / 2.0
        codes = (groups / _nonzero(scales).unsqueeze(2)).unsqueeze(3).gt(middles).sum(3)
        return quantised.packed(codes.reshape(weight.shape)), scales.t()
