"""Layers whose weights are of eight or four bits: for models that run, or train what stands beside such layers.

`torchao` has the same function and configurations; here the layer multiplies by the codes themselves (`docs/computing.md`).
"""

from __future__ import annotations

from collections.abc import Callable

from .._tensor import Tensor
from ..autograd import no_grad
from ..core.base.dtypes import by_name
from ..nn.modules.linear import Linear
from ..nn.modules.module import Module
from ..nn.modules.sparse import Embedding
from ..nn.parameter import Parameter
from ..operations.linalg import quantised
from ._configurations import Config

_FLOATS = tuple(by_name[name] for name in ("float32", "bfloat16", "float16"))


class _Coded(Module):
    """A module whose weight, (rows, k), is in codes."""

    codes: Tensor
    scales: Tensor

    def _take(self, weight: Tensor, config: Config) -> None:
        weight = weight.detach()
        if weight.dtype not in _FLOATS:
            raise TypeError(
                f"{type(self).__name__}: expected a float32, bfloat16 or float16 weight, got {weight.dtype}"
            )
        self.config, self.kind, self.group_size = config, config.kind, config.group(weight.shape[1])
        with no_grad():
            codes, scales = config.encode(weight.to(by_name["float32"]))
        self.register_buffer("codes", codes)
        self.register_buffer("scales", scales.to(weight.dtype).contiguous())

    def _floats(self, codes: Tensor, scales: Tensor, k: int) -> Tensor:
        """What codes mean, (rows, k), in the dtype of the layer."""
        coded = quantised.Weight(codes, scales, self.kind, self.group_size, codes.shape[0], k)
        return quantised.dequantised(coded).to(scales.dtype)

    def _groups(self) -> str:
        return self.kind if self.kind in quantised.WHOLE else f"{self.kind} in groups of {self.group_size}"


class WeightOnlyLinear(_Coded):
    """A linear layer by a weight in codes; `quantize_` makes it of a `Linear`.

    Its parameters are the bias alone.  `weight` is the weight that the codes mean, computed at each look.  The gradient goes to the
    input.  A configuration with dynamic activations rounds the input, row by row.

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

    def __init__(self, linear: Linear, config: Config) -> None:
        super().__init__()
        self.out_features, self.in_features = linear.weight.shape
        self._take(linear.weight, config)
        self.bias: Parameter | None
        self.register_parameter("bias", linear.bias)

    @property
    def weight(self) -> Tensor:
        """The weight that the codes mean, (out_features, in_features)."""
        return self._floats(self.codes, self.scales, self.in_features)

    def forward(self, input: Tensor) -> Tensor:
        if self.config.rounds:
            rows = self.config.rounded(input.reshape(-1, input.shape[-1]))
            input = rows.reshape(input.shape)
        result = quantised.weight_only_linear(input, self.codes, self.scales, self.kind, self.group_size)
        return result if self.bias is None else result + self.bias

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, {self._groups()}"
            f"{', dynamic activations' if 'Dynamic' in type(self.config).__name__ else ''}"
        )


class WeightOnlyEmbedding(_Coded):
    """A table of vectors in codes, of which those that are looked up become floats; `quantize_` makes it of an `Embedding`.

    It has no parameters.  `weight` is the table that the codes mean, computed at each look.

    Args:
        embedding: of float32, bfloat16 or float16, without `max_norm`.
        config: how its rows are coded.

    Shape:
        input: (…) of integers; the result is (…, embedding_dim)

    Raises:
        TypeError: another dtype.
        ValueError: the configuration's groups do not fit, or the embedding has a `max_norm`, which would change its table.

    >>> import flambeau
    >>> from flambeau.ao.quantization import Int8WeightOnlyConfig, WeightOnlyEmbedding
    >>> table = WeightOnlyEmbedding(flambeau.nn.Embedding(10, 4), Int8WeightOnlyConfig())
    >>> table(flambeau.tensor([[1, 2, 1]])).shape
    flambeau.Size([1, 3, 4])
    """

    def __init__(self, embedding: Embedding, config: Config) -> None:
        super().__init__()
        if embedding.max_norm is not None:
            raise ValueError("WeightOnlyEmbedding: an embedding with max_norm changes its table")
        self.num_embeddings, self.embedding_dim = embedding.weight.shape
        self._take(embedding.weight, config)

    @property
    def weight(self) -> Tensor:
        """The table that the codes mean, (num_embeddings, embedding_dim)."""
        return self._floats(self.codes, self.scales, self.embedding_dim)

    def forward(self, input: Tensor) -> Tensor:
        at = input.reshape(-1)
        codes = self.codes.view(by_name["uint8"]).index_select(0, at).view(self.codes.dtype)
        scales = self.scales.index_select(0 if self.kind in quantised.WHOLE else 1, at)
        return self._floats(codes, scales, self.embedding_dim).reshape(*input.shape, self.embedding_dim)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, {self._groups()}"


def quantize_(
    model: Module,
    config: Config,
    filter_fn: Callable[[Module, str], bool] | None = None,
) -> None:
    """Replace linear layers of `model`, in place, by ones whose weights are in codes; embeddings where `filter_fn` chooses them.

    Args:
        config: `Int8WeightOnlyConfig()`, `Int4WeightOnlyConfig(group_size)`, `NF4WeightOnlyConfig(group_size)` or
            `Float8WeightOnlyConfig()`; `Int8DynamicActivationInt8WeightConfig()` or `Int8DynamicActivationInt4WeightConfig(group_size)`,
            which round the input as well.
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
    if not isinstance(config, Config):
        raise TypeError(
            f"quantize_(): expected a configuration such as Int8WeightOnlyConfig(), got {type(config).__name__}"
        )
    wanted = filter_fn or (lambda module, name: type(module) is Linear)
    made: dict[Module, _Coded] = {}
    places = []
    for name, module in model.named_modules(remove_duplicate=False):
        if not wanted(module, name):
            continue
        if not isinstance(module, (Linear, Embedding)):
            raise TypeError(
                f"quantize_(): filter_fn chose {name!r}, which is no Linear but a {type(module).__name__}"
            )
        if module is model:
            raise ValueError(
                f"quantize_(): the model itself is {'a Linear' if isinstance(module, Linear) else 'an Embedding'}, which cannot be "
                "replaced in place"
            )
        if module not in made:
            try:
                kind = WeightOnlyLinear if isinstance(module, Linear) else WeightOnlyEmbedding
                made[module] = kind(module, config)  # type: ignore[arg-type]
            except (TypeError, ValueError) as error:
                raise type(error)(f"quantize_(): {name}: {error}") from None
        places.append((name, made[module]))
    for name, layer in places:
        owner, _, last = name.rpartition(".")
        setattr(model.get_submodule(owner), last, layer.train(model.training))
