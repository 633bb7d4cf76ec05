"""Linear layers whose weights are of eight or four bits: for models that run, or train what stands beside such layers.

`torchao` has the same function and configurations; here the layer multiplies by the codes themselves (`docs/computing.md`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from .._tensor import Tensor
from ..autograd import no_grad
from ..codegen.tiles.quantised import NF4
from ..core.base.dtypes import by_name
from ..core.make.literal import tensor
from ..core.places.join import stack
from ..nn.modules.linear import Linear
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from ..operations.linalg import quantised

_FLOATS = tuple(by_name[name] for name in ("float32", "bfloat16", "float16"))


def _nonzero(scales: Tensor) -> Tensor:
    """Scales to divide by: where all weights are zero, any will do."""
    return scales.masked_fill(scales == 0, 1.0)


@dataclass(frozen=True)
class Int8WeightOnlyConfig:
    """Weights of eight bits with a scale for each row: a code from -127 to 127 times the scale.

    Raises nothing.

    >>> from flambeau.ao.quantization import Int8WeightOnlyConfig
    >>> Int8WeightOnlyConfig()
    Int8WeightOnlyConfig()
    """

    kind: ClassVar[str] = "int8"

    def group(self, k: int) -> int:
        return k

    def encode(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Codes (n, k) and scales (n,) of a float32 weight (n, k)."""
        scales = weight.abs().amax(1) / 127.0 if weight.numel() else weight.new_zeros(weight.shape[0])
        codes = (weight / _nonzero(scales).unsqueeze(1)).round().clamp(-127, 127)
        return codes.to(by_name["int8"]), scales


@dataclass(frozen=True)
class _Grouped:
    group_size: int
    kind: ClassVar[str]

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


class WeightOnlyLinear(Module):
    """A linear layer by a weight in codes; `quantize_` makes it of a `Linear`.

    Its parameters are the bias alone.  `weight` is the weight that the codes mean, computed at each look.  The gradient goes to the
    input.

    Args:
        linear: of float32, bfloat16 or float16.
        config: how its weight is coded.

    Shape:
        input: (…, in_features), in the dtype of the layer; the result is (…, out_features)

    Raises:
        TypeError: another dtype.
        ValueError: the configuration's groups do not fit.

    >>> import flambeau
    >>> from flambeau.ao.quantization import Int8WeightOnlyConfig, WeightOnlyLinear
    >>> layer = WeightOnlyLinear(flambeau.nn.Linear(8, 4), Int8WeightOnlyConfig())
    >>> layer(flambeau.ones(2, 8)).shape, layer.codes.dtype
    (flambeau.Size([2, 4]), flambeau.int8)
    """

    codes: Tensor
    scales: Tensor

    def __init__(self, linear: Linear, config: Int8WeightOnlyConfig | _Grouped) -> None:
        super().__init__()
        weight = linear.weight.detach()
        if weight.dtype not in _FLOATS:
            raise TypeError(
                f"WeightOnlyLinear: expected a float32, bfloat16 or float16 weight, got {weight.dtype}"
            )
        self.out_features, self.in_features = weight.shape
        self.kind, self.group_size = config.kind, config.group(self.in_features)
        with no_grad():
            codes, scales = config.encode(weight.to(by_name["float32"]))  # type: ignore[union-attr]
        self.register_buffer("codes", codes)
        self.register_buffer("scales", scales.to(weight.dtype).contiguous())
        self.bias: Parameter | None
        self.register_parameter("bias", linear.bias)

    @property
    def weight(self) -> Tensor:
        """The weight that the codes mean, (out_features, in_features)."""
        coded = quantised.Weight(
            self.codes, self.scales, self.kind, self.group_size, self.out_features, self.in_features
        )
        return quantised.dequantised(coded).to(self.scales.dtype)

    def forward(self, input: Tensor) -> Tensor:
        if input.shape[-1:] != (self.in_features,) or input.dtype != self.scales.dtype:
            raise RuntimeError(
                f"WeightOnlyLinear: expected input of shape (…, {self.in_features}) in {self.scales.dtype}, got {list(input.shape)} "
                f"in {input.dtype}"
            )
        rows = input.reshape(-1, self.in_features)
        if self.kind == "int8":
            result = quantised._weight_int8pack_mm(rows, self.codes, self.scales)
        elif self.kind == "int4":
            result = quantised._weight_int4pack_mm_for_cpu(rows, self.codes, self.group_size, self.scales)
        else:
            result = quantised.weight_nf4pack_mm(rows, self.codes, self.group_size, self.scales)
        result = result if self.bias is None else result + self.bias
        return result.reshape(*input.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        groups = "" if self.kind == "int8" else f" in groups of {self.group_size}"
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, {self.kind}{groups}"


def quantize_(
    model: Module,
    config: Int8WeightOnlyConfig | Int4WeightOnlyConfig | NF4WeightOnlyConfig,
    filter_fn: Callable[[Module, str], bool] | None = None,
) -> None:
    """Replace linear layers of `model`, in place, by ones whose weights are in codes.

    Args:
        config: `Int8WeightOnlyConfig()`, `Int4WeightOnlyConfig(group_size)` or `NF4WeightOnlyConfig(group_size)`.
        filter_fn: called with a module and its dotted name, whether it is replaced; by default every `Linear`, but for its subclasses.
            A module that is used at several places is replaced at all of them by one.

    Raises:
        TypeError: a configuration or a module of another class, or a layer of another dtype.
        ValueError: a group size that does not divide a layer's `in_features`, or the model itself is such a layer; it is unchanged.

    >>> import flambeau
    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import Int4WeightOnlyConfig, quantize_
    >>> model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))
    >>> quantize_(model, Int4WeightOnlyConfig(group_size=32))
    >>> model[0]
    WeightOnlyLinear(in_features=64, out_features=32, bias=True, int4 in groups of 32)
    """
    if not isinstance(config, (Int8WeightOnlyConfig, _Grouped)):
        raise TypeError(
            f"quantize_(): expected a configuration such as Int8WeightOnlyConfig(), got {type(config).__name__}"
        )
    wanted = filter_fn or (lambda module, name: type(module) is Linear)
    made: dict[Module, WeightOnlyLinear] = {}
    places = []
    for name, module in model.named_modules(remove_duplicate=False):
        if not wanted(module, name):
            continue
        if not isinstance(module, Linear):
            raise TypeError(
                f"quantize_(): filter_fn chose {name!r}, which is no Linear but a {type(module).__name__}"
            )
        if module is model:
            raise ValueError("quantize_(): the model itself is a Linear, which cannot be replaced in place")
        if module not in made:
            try:
                made[module] = WeightOnlyLinear(module, config)
            except (TypeError, ValueError) as error:
                raise type(error)(f"quantize_(): {name}: {error}") from None
        places.append((name, made[module]))
    for name, layer in places:
        owner, _, last = name.rpartition(".")
        setattr(model.get_submodule(owner), last, layer.train(model.training))
