"""The transformer: encoder and decoder layers, their stacks, and the whole (Vaswani et al., 2017)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from ..._tensor import Tensor
from ...autograd.grad_mode import is_grad_enabled
from ...core.call.casting import is_anywhere_on
from ...core.call.interceptors import has_recorder
from ...core.make.create import full
from ...operations.declare.host import holds
from .. import functional as F
from .. import init
from .activation import GELU, ReLU
from .attention import MultiheadAttention
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]


def _get_activation_fn(activation: str | Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    if callable(activation):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return F.relu if activation == "relu" else F.gelu


class TransformerEncoderLayer(Module):
    """Self-attention, then a network of two linear layers, each with a residual connection and a LayerNorm.

    Args:
        d_model: the size of an input and output, a multiple of
        nhead: the number of attention heads.
        dim_feedforward: the size between the two linear layers.
        dropout: the probability of dropout, of attention weights and after each part.
        activation: 'relu', 'gelu', or a function of a tensor.
        layer_norm_eps: the `eps` of the LayerNorms.
        batch_first: whether inputs are (N, S, E), not (S, N, E).
        norm_first: whether each part is normalised before it, not after adding (Xiong et al., 2020).
        bias: whether linear layers and LayerNorms have biases.

    Raises:
        RuntimeError: an unknown `activation`.

    Shape:
        src: (S, N, E) or (S, E), batches first under `batch_first`; the result has the same

    Raises:
        AssertionError: `d_model` is no multiple of `nhead`

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.TransformerEncoderLayer(8, 2, 16)(flambeau.zeros(5, 3, 8)).shape == (5, 3, 8)
    True
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        factory: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, **factory)
        self.linear1 = Linear(d_model, dim_feedforward, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **factory)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, **factory)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, **factory)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = _get_activation_fn(activation)
        # PyTorch's number of the activation in its fused kernel, or 0.
        relu, gelu = (
            self.activation is f or isinstance(activation, c) for f, c in ((F.relu, ReLU), (F.gelu, GELU))
        )
        self.activation_relu_or_gelu = 1 if relu else 2 if gelu else 0

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """The layer's output, of the shape of `src`; the masks are those of `MultiheadAttention.forward`."""

        if self.norm_first:
            x = src + self._attend(self.norm1(src), src_mask, src_key_padding_mask, is_causal)
            return x + self._feed_forward(self.norm2(x))
        x = self.norm1(src + self._attend(src, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._feed_forward(x))

    def _attend(self, x: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool) -> Tensor:
        attended, _ = self.self_attn(
            x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False, is_causal=is_causal
        )
        return self.dropout1(attended)

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerDecoderLayer(Module):
    """Self-attention, then attention to the encoder's output, then a network of two linear layers.

    Each part has a residual connection and a LayerNorm; the arguments are those of `TransformerEncoderLayer`.

    Shape:
        tgt: (T, N, E) or (T, E); memory: (S, N, E) or (S, E), batches first under `batch_first`; result: as
            tgt

    Raises:
        AssertionError: `d_model` is no multiple of `nhead`

    >>> import flambeau
    >>> from flambeau import nn
    >>> layer = nn.TransformerDecoderLayer(8, 2, 16)
    >>> layer(flambeau.zeros(5, 3, 8), flambeau.zeros(7, 3, 8)).shape == (5, 3, 8)
    True
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        factory: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, **factory)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, **factory)
        self.linear1 = Linear(d_model, dim_feedforward, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **factory)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, **factory)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, **factory)
        self.norm3 = LayerNorm(d_model, layer_norm_eps, **factory)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = _get_activation_fn(activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The layer's output, of the shape of `tgt`; the masks are those of `MultiheadAttention.forward`."""

        if self.norm_first:
            x = tgt + self._attend(self.norm1(tgt), tgt_mask, tgt_key_padding_mask, tgt_is_causal)
            x = x + self._look_up(
                self.norm2(x), memory, memory_mask, memory_key_padding_mask, memory_is_causal
            )
            return x + self._feed_forward(self.norm3(x))
        x = self.norm1(tgt + self._attend(tgt, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
        x = self.norm2(x + self._look_up(x, memory, memory_mask, memory_key_padding_mask, memory_is_causal))
        return self.norm3(x + self._feed_forward(x))

    def _attend(self, x: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool) -> Tensor:
        attended, _ = self.self_attn(
            x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False, is_causal=is_causal
        )
        return self.dropout1(attended)

    def _look_up(
        self, x: Tensor, memory: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool
    ) -> Tensor:
        attended, _ = self.multihead_attn(
            x,
            memory,
            memory,
            attn_mask=mask,
            key_padding_mask=padding,
            need_weights=False,
            is_causal=is_causal,
        )
        return self.dropout2(attended)

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))


def _takes_nested(layer: Module) -> bool:
    """Whether PyTorch would hand this encoder layer nested tensors, whose padded places come out as zeros."""
    if not isinstance(layer, TransformerEncoderLayer):
        return False
    attention = layer.self_attn
    return (
        not layer.norm_first
        and attention.batch_first
        and attention._qkv_same_embed_dim
        and attention.in_proj_bias is not None
        and layer.activation_relu_or_gelu > 0
        and layer.norm1.eps == layer.norm2.eps
        and attention.num_heads % 2 == 0
    )


class TransformerEncoder(Module):
    """`num_layers` copies of an encoder layer, one after the other, and `norm` at the end.

    Like in PyTorch the copies begin with the same values, and where its `enable_nested_tensor` takes effect
    (evaluation without gradients of a batch that `src_key_padding_mask` pads at its end, and no other mask), padded places
    are zeros before `norm`; else they are computed like all others. `mask_check` is accepted for PyTorch's sake.

    Shape:
        src: (S, N, E) or (S, E), batches first under `batch_first`; the result has the same

    Raises:
        AssertionError: the last size is not `d_model`

    >>> import flambeau
    >>> from flambeau import nn
    >>> encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), num_layers=2)
    >>> encoder(flambeau.zeros(5, 3, 8)).shape == (5, 3, 8)
    True
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = enable_nested_tensor and _takes_nested(encoder_layer)
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """The output of the last layer; the masks are those of `MultiheadAttention.forward`."""
        output = src
        for layer in self.layers:
            output = layer(
                output,
                src_mask=mask,
                is_causal=is_causal is not None and is_causal,
                src_key_padding_mask=src_key_padding_mask,
            )
        if self.use_nested_tensor and mask is None and src_key_padding_mask is not None:
            padded = src_key_padding_mask != 0
            if self._is_cut(src, padded):
                output = output.masked_fill(padded.unsqueeze(-1), 0.0)
        return output if self.norm is None else self.norm(output)

    def _is_cut(self, src: Tensor, padded: Tensor) -> bool:
        """Whether PyTorch would cut what is padded off; calls that are recorded hold for masks of any kind, and keep it."""
        from ...backends import mha

        if (
            not len(self.layers)
            or self.layers[0].training
            or src.dim() != 3
            or not mha.get_fastpath_enabled()
        ):
            return False
        if (
            has_recorder()
            or is_anywhere_on()
            or src.is_meta
            or src.is_nested
            or getattr(src, "_is_batched", False)
        ):
            return False
        if is_grad_enabled() and any(x.requires_grad for x in (src, *self.layers[0].parameters())):
            return False
        return holds(padded[:, 1:] >= padded[:, :-1])  # nothing follows what is padded


class TransformerDecoder(Module):
    """`num_layers` copies of a decoder layer, one after the other, and `norm` at the end.

    Shape:
        tgt: (T, N, E) or (T, E); memory: (S, N, E) or (S, E), batches first under `batch_first`; result: as
            tgt

    Raises:
        AssertionError: the last size is not `d_model`

    >>> import flambeau
    >>> from flambeau import nn
    >>> decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), num_layers=2)
    >>> decoder(flambeau.zeros(5, 3, 8), flambeau.zeros(7, 3, 8)).shape == (5, 3, 8)
    True
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(decoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The output of the last layer; the masks are those of `MultiheadAttention.forward`."""
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=tgt_is_causal is not None and tgt_is_causal,
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """An encoder of the source and a decoder of the target that attends to it.

    Args:
        d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias:
            see `TransformerEncoderLayer`.
        num_encoder_layers, num_decoder_layers: how many layers each has.
        custom_encoder, custom_decoder: modules to take in place of the default ones.

    Shape:
        src: (S, N, E) or (S, E); tgt: (T, N, E) or (T, E), batches first under `batch_first`; result: as tgt

    Raises:
        RuntimeError: the last size is not `d_model`

    >>> import flambeau
    >>> from flambeau import nn
    >>> model = nn.Transformer(8, 2, 1, 1, 16)
    >>> model(flambeau.zeros(7, 3, 8), flambeau.zeros(5, 3, 8)).shape == (5, 3, 8)
    True
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options = (
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
        )
        factory: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        if custom_encoder is None:
            layer: Module = TransformerEncoderLayer(*options, **factory)
            norm = LayerNorm(d_model, layer_norm_eps, **factory)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, norm)
        self.encoder = custom_encoder
        if custom_decoder is None:
            layer = TransformerDecoderLayer(*options, **factory)
            norm = LayerNorm(d_model, layer_norm_eps, **factory)
            custom_decoder = TransformerDecoder(layer, num_decoder_layers, norm)
        self.decoder = custom_decoder
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The decoder's output, of the shape of `tgt`; the masks are those of `MultiheadAttention.forward`.

        Raises:
            RuntimeError: source and target differ in batch size, or their last size is not `d_model`.
        """
        batch_dim = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch_dim) != tgt.size(batch_dim):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """The causal mask (sz, sz): -inf above the diagonal, 0 elsewhere.

        >>> from flambeau import nn
        >>> nn.Transformer.generate_square_subsequent_mask(2)
        tensor([[0., -inf],
                [0., 0.]])
        """
        return full((sz, sz), -math.inf, device=device, dtype=dtype).triu(diagonal=1)
