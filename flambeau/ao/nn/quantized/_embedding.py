"""Tables of vectors in codes of eight or four bits, of which those that are looked up become floats."""

from __future__ import annotations

from typing import Any

from ....core.base.dtypes import by_name
from ....core.make.create import arange, ones, zeros
from ....core.places.join import stack
from ....nn.modules.module import Module
from ....nn.modules.sparse import Embedding as FloatEmbedding
from ....nn.modules.sparse import EmbeddingBag as FloatBag
from ....operations.declare.registry import published
from ..._quantized_functions import _empty_per_channel_affine_quantized
from ..._quantized_tensor import QuantizedTensor, over, schemes
from .. import qat
from ._base import quantize_weight, quint4x2, quint8

_float = by_name["float32"]
_embedding_bag = published("nn.functional")["embedding_bag"]


class EmbeddingPackedParams(Module):
    """The codes of a table, those of four bits two a byte in each row; its state holds the table as PyTorch's does."""

    _version = 1

    def __init__(self, num_embeddings: int, embedding_dim: int, dtype: Any = quint8) -> None:
        super().__init__()
        self.dtype = dtype
        if dtype not in (quint8, quint4x2):
            raise NotImplementedError(
                f"Unsupported dtype on quantized embedding! Supports quint8 and quint4x2. Got dtype: {dtype}"
            )
        size = (num_embeddings, embedding_dim)
        blank = _empty_per_channel_affine_quantized(size, ones(size[0]), zeros(size[0]), 0, dtype, None)
        blank._elements.zero_()
        self.set_weight(blank)

    def set_weight(self, weight: Any) -> None:
        """Take a table of quint8 or quint4x2 with floating-point zero points of its rows."""
        kind = getattr(weight, "dtype", None)
        if kind not in (quint8, quint4x2) or weight.qscheme() is not schemes.per_channel_affine_float_qparams:
            raise NotImplementedError(
                "Unsupported dtype for quantized embedding prepack! Supports quint8 and quint4x2 with scheme "
                f"{schemes.per_channel_affine_float_qparams}, got {kind}"
            )
        self.dtype, self._quantizer, self._width = kind, weight._quantizer, weight.shape[1]
        codes = weight._elements
        if kind is quint4x2:
            even = codes.new_zeros((codes.shape[0], codes.shape[1] + codes.shape[1] % 2))
            even[:, : codes.shape[1]] = codes
            codes = even[:, ::2] | even[:, 1::2] << 4
        self._codes = codes

    def _unpacked(self, codes: Any) -> Any:
        if self.dtype is quint8:
            return codes
        return stack([codes & 15, codes >> 4], 2).flatten(1)[:, : self._width]

    def _weight(self) -> QuantizedTensor:
        return over(self._unpacked(self._codes), self.dtype, self._quantizer)

    def rows(self, at: Any) -> Any:
        """Rows at places (n,), as floats."""
        codes = self._unpacked(self._codes.index_select(0, at)).to(_float)
        scale, zero = (
            t.index_select(0, at).unsqueeze(1) for t in (self._quantizer.scale, self._quantizer.zero_point)
        )
        return (codes - zero) * scale

    def forward(self, x: Any) -> Any:
        return x

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_weight"] = self._weight()

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        metadata: Any,
        strict: bool,
        missing: list,
        unexpected: list,
        errors: list,
    ) -> None:
        state_dict.pop(prefix + "dtype", None)  # the table has one
        if prefix + "_packed_weight" in state_dict:
            self.set_weight(state_dict.pop(prefix + "_packed_weight"))
        elif strict:
            missing.append(prefix + "_packed_weight")
        super()._load_from_state_dict(state_dict, prefix, metadata, False, missing, unexpected, errors)

    def __repr__(self) -> str:
        return repr(self._weight())


class Embedding(Module):
    """A table of vectors in codes of eight or four bits with a scale and a zero point for each, in floats.

    `ao.quantization.quantize_dynamic` and `convert` make it of an `Embedding` with `float_qparams_weight_only_qconfig`, or its form
    of four bits.

    Args:
        dtype: quint8 or quint4x2; the rest as of `nn.Embedding`, of which looking up needs none.

    Shape:
        input: any, of int32 or int64; the result is (…, embedding_dim), in float32

    Raises:
        NotImplementedError: another dtype
        AssertionError: a weight of another shape

    >>> import flambeau
    >>> from flambeau.ao.nn.quantized import Embedding
    >>> Embedding(10, 12)(flambeau.tensor([9, 6, 5])).shape
    flambeau.Size([3, 12])
    """

    _version = 1
    _FLOAT_MODULE: tuple[type, ...] = (FloatEmbedding, qat.Embedding)

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Any = None,
        dtype: Any = quint8,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self._packed_params = EmbeddingPackedParams(num_embeddings, embedding_dim, dtype)
        if _weight is not None:
            if tuple(_weight.shape) != (num_embeddings, embedding_dim):
                raise AssertionError(
                    "Shape of weight does not match num_embeddings and embedding_dim: expected "
                    f"{[num_embeddings, embedding_dim]}, got {list(_weight.shape)}"
                )
            self.set_weight(_weight)

    @property
    def dtype(self) -> Any:
        """The dtype of the table."""
        return self._packed_params.dtype

    def forward(self, indices: Any) -> Any:
        return self._packed_params.rows(indices.reshape(-1)).reshape(*indices.shape, self.embedding_dim)

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"

    def extra_repr(self) -> str:
        return (
            f"num_embeddings={self.num_embeddings}, embedding_dim={self.embedding_dim}, dtype={self.dtype}, "
            f"qscheme={self.weight().qscheme()}"
        )

    def set_weight(self, w: Any) -> None:
        """Take a table of quint8 or quint4x2."""
        self._packed_params.set_weight(w)

    def weight(self) -> Any:
        """The table, quantised."""
        return self._packed_params._weight()

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The table of a layer with a configuration; AssertionError for another class, or another scheme."""
        if type(mod) not in cls._FLOAT_MODULE:
            raise AssertionError(
                f"nnq.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE}, but got: {type(mod).__name__}"
            )
        if mod.max_norm is not None:
            raise AssertionError(
                f"nnq.{cls.__name__}.from_float: a table with max_norm changes when it is read"
            )
        if hasattr(mod, "weight_fake_quant"):
            observer = mod.weight_fake_quant
        else:
            observer = mod.qconfig.weight()
        if observer.qscheme is not schemes.per_channel_affine_float_qparams:
            raise AssertionError(
                "Embedding quantization is only supported with float_qparams_weight_only_qconfig."
            )
        if observer.dtype not in (quint8, quint4x2):
            raise AssertionError(
                f"The only supported dtype for nnq.Embedding is quint8 and quint4x2, got {observer.dtype}"
            )
        observer(mod.weight)
        return cls._of(mod, quantize_weight(mod.weight, observer))

    @classmethod
    def _of(cls, mod: Any, weight: Any) -> Any:
        return cls(mod.num_embeddings, mod.embedding_dim, _weight=weight, dtype=weight.dtype)


class EmbeddingBag(Embedding):
    """Sums of vectors of a table in codes of eight or four bits; see `Embedding` and `nn.EmbeddingBag`.

    Args:
        mode: "sum", "mean" or "max"; PyTorch's sums whatever it is.
        include_last_offset: whether `offsets` has where the last bag ends.

    Shape:
        input: (n,) with offsets (bags,), or (bags, n), of int32 or int64; the result is (bags, embedding_dim), in float32

    Raises:
        NotImplementedError: another dtype
        AssertionError: a weight of another shape

    >>> import flambeau
    >>> from flambeau.ao.nn.quantized import EmbeddingBag
    >>> EmbeddingBag(10, 12)(flambeau.tensor([9, 6, 5]), flambeau.tensor([0, 1])).shape
    flambeau.Size([2, 12])
    """

    _FLOAT_MODULE: tuple[type, ...] = (FloatBag, qat.EmbeddingBag)

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "sum",
        sparse: bool = False,
        _weight: Any = None,
        include_last_offset: bool = False,
        dtype: Any = quint8,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, _weight=_weight, dtype=dtype)
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(self, indices: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        rows = self._packed_params.rows(indices.reshape(-1))
        places = arange(rows.shape[0]).to(indices.dtype).reshape(indices.shape)
        return _embedding_bag(
            places,
            rows,
            offsets,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
        )

    @classmethod
    def _of(cls, mod: Any, weight: Any) -> Any:
        return cls(
            mod.num_embeddings,
            mod.embedding_dim,
            mode=mod.mode,
            _weight=weight,
            include_last_offset=mod.include_last_offset,
            dtype=weight.dtype,
        )
