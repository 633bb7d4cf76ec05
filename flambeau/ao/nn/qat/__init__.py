"""Layers that train with weights rounded as integers will hold them (`ao.quantization.prepare_qat`)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from ....core.base.formats import qscheme
from ....nn.modules import conv as convs
from ....nn.modules.linear import Linear as FloatLinear
from ....nn.modules.linear import NonDynamicallyQuantizableLinear
from ....nn.modules.module import Module
from ....nn.modules.sparse import Embedding as FloatEmbedding
from ....nn.modules.sparse import EmbeddingBag as FloatBag
from ....operations.declare.registry import published
from .._making import made, sizes

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Embedding", "EmbeddingBag", "Linear"]
float_qparams = qscheme.per_channel_affine_float_qparams
_functions = published("nn.functional")


class _Rounding(Module):
    """A layer whose weight goes through `weight_fake_quant`, which its configuration makes."""

    _FLOAT_MODULE: ClassVar[tuple[type, ...]]
    _own: ClassVar[tuple[str, ...]]  # the arguments of the class, in order, which a layer has as attributes
    _scheme: ClassVar[Any] = None  # by which the weight must be rounded, None for any
    weight: Any
    bias: Any

    def _take(self, qconfig: Any) -> None:
        if not qconfig:
            raise AssertionError("qconfig must be provided for QAT module")
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight()
        if self._scheme not in (None, self.weight_fake_quant.qscheme):
            raise AssertionError(
                f"Embedding weights requires a qscheme of {self._scheme}, got {self.weight_fake_quant.qscheme}"
            )

    def _rounded(self) -> Any:
        return self.weight_fake_quant(self.weight)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """The layer of one with a configuration, whose parameters it takes; AssertionError for another class."""
        if type(mod) not in cls._FLOAT_MODULE:
            names = ", ".join(kind.__name__ for kind in cls._FLOAT_MODULE)
            raise AssertionError(
                f"qat.{cls.__name__}.from_float only works for {names}, but got: {type(mod).__name__}"
            )
        if not getattr(mod, "qconfig", None):
            raise AssertionError("Input float module must have a valid qconfig")
        layer = mod[0] if hasattr(mod, "_parts") else mod
        given = {name: getattr(layer, name) for name in cls._own}
        if hasattr(layer, "bias"):
            given["bias"] = layer.bias is not None
        new = cls(**given, qconfig=mod.qconfig)
        new.weight = layer.weight
        if hasattr(layer, "bias"):
            new.bias = layer.bias
        return new.train(mod.training)


class Linear(_Rounding, FloatLinear):
    """`nn.Linear` with a rounded weight.

    Args:
        qconfig: whose `weight` makes the module that rounds; the rest as of `nn.Linear`.

    Shape:
        input: (…, in_features); the result is (…, out_features)

    Raises:
        AssertionError: there is no configuration

    >>> import flambeau
    >>> from flambeau.ao.nn.qat import Linear
    >>> from flambeau.ao.quantization import default_qat_qconfig
    >>> Linear(4, 2, qconfig=default_qat_qconfig)(flambeau.ones(3, 4)).shape
    flambeau.Size([3, 2])
    """

    _FLOAT_MODULE: ClassVar[tuple[type, ...]] = (FloatLinear, NonDynamicallyQuantizableLinear)
    _own = ("in_features", "out_features")

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        qconfig: Any = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        FloatLinear.__init__(self, in_features, out_features, bias, device, dtype)
        self._take(qconfig)

    def forward(self, input: Any) -> Any:
        return _functions["linear"](input, self._rounded(), self.bias)

    def to_float(self) -> Any:
        """A plain layer with the same parameters."""
        new = FloatLinear(self.in_features, self.out_features, self.bias is not None)
        new.weight, new.bias = self.weight, self.bias
        return new.train(self.training)


OF_CONVOLUTIONS = (
    "in_channels",
    "out_channels",
    "kernel_size",
    "stride",
    "padding",
    "dilation",
    "groups",
    "padding_mode",
)


class _ConvNd(_Rounding):
    """A convolution with a rounded weight."""

    _own = OF_CONVOLUTIONS

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        qconfig: Any = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        given = (
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )
        super(_Rounding, self).__init__(*given)
        self._take(qconfig)

    def forward(self, input: Any) -> Any:
        return self._conv_forward(input, self._rounded(), self.bias)


def _conv(d: int) -> Any:
    name = f"Conv{d}d"
    base = getattr(convs, name)
    text = f"""`nn.{name}` with a rounded weight.

    Args:
        qconfig: whose `weight` makes the module that rounds; the rest as of `nn.{name}`.

    Shape:
        input and result: as of `nn.{name}`

    Raises:
        AssertionError: there is no configuration

    >>> import flambeau
    >>> from flambeau.ao.nn.qat import {name}
    >>> from flambeau.ao.quantization import default_qat_qconfig
    >>> {name}(2, 3, 3, qconfig=default_qat_qconfig)(flambeau.ones(1, 2, {sizes(d, 6)})).shape
    flambeau.Size([1, 3, {sizes(d, 4)}])
    """
    return made(__name__, name, (_ConvNd, base), text, _FLOAT_MODULE=(base,))


Conv1d, Conv2d, Conv3d = (_conv(d) for d in (1, 2, 3))


class Embedding(_Rounding, FloatEmbedding):
    """`nn.Embedding` with a rounded table.

    Args:
        qconfig: whose `weight` makes the module that rounds, with a scheme of channels with floating-point zero points; the rest
            as of `nn.Embedding`.

    Shape:
        input and result: as of `nn.Embedding`

    Raises:
        AssertionError: there is no configuration, or one of another scheme

    >>> import flambeau
    >>> from flambeau.ao.nn.qat import Embedding
    >>> from flambeau.ao.quantization import default_embedding_qat_qconfig
    >>> Embedding(10, 3, qconfig=default_embedding_qat_qconfig)(flambeau.tensor([1, 2])).shape
    flambeau.Size([2, 3])
    """

    _FLOAT_MODULE: ClassVar[tuple[type, ...]] = (FloatEmbedding,)
    _scheme = float_qparams
    _own = (
        "num_embeddings",
        "embedding_dim",
        "padding_idx",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "sparse",
    )

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        qconfig: Any = None,
    ) -> None:
        FloatEmbedding.__init__(
            self,
            num_embeddings,
            embedding_dim,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )
        self._take(qconfig)

    def forward(self, input: Any) -> Any:
        return _functions["embedding"](
            input,
            self._rounded(),
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )


class EmbeddingBag(_Rounding, FloatBag):
    """`nn.EmbeddingBag` with a rounded table.

    Args:
        qconfig: whose `weight` makes the module that rounds, with a scheme of channels with floating-point zero points; the rest
            as of `nn.EmbeddingBag`.

    Shape:
        input and result: as of `nn.EmbeddingBag`

    Raises:
        AssertionError: there is no configuration, or one of another scheme

    >>> import flambeau
    >>> from flambeau.ao.nn.qat import EmbeddingBag
    >>> from flambeau.ao.quantization import default_embedding_qat_qconfig
    >>> EmbeddingBag(10, 3, qconfig=default_embedding_qat_qconfig)(flambeau.tensor([[1, 2]])).shape
    flambeau.Size([1, 3])
    """

    _FLOAT_MODULE: ClassVar[tuple[type, ...]] = (FloatBag,)
    _scheme = float_qparams
    _own = (
        "num_embeddings",
        "embedding_dim",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "mode",
        "sparse",
        "include_last_offset",
        "padding_idx",
    )

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        qconfig: Any = None,
    ) -> None:
        FloatBag.__init__(
            self,
            num_embeddings,
            embedding_dim,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
            mode=mode,
            include_last_offset=include_last_offset,
        )
        self._take(qconfig)

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        return _functions["embedding_bag"](
            input,
            self._rounded(),
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )
