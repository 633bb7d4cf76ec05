"""Multi-head attention."""

from __future__ import annotations

import math
from typing import Any

from ..._tensor import Tensor
from ...core.base.dtypes import by_name
from ...core.make import mt19937
from ...core.make.create import empty, zeros
from ...core.places.join import cat
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """softmax(Q·Kᵀ / sqrt(head size) + mask)·V in `num_heads` subspaces, joined by `out_proj` (Vaswani et
    al., 2017).

    Queries (L, N, E), keys (S, N, kdim) and values (S, N, vdim), or (N, L, E) and so on if `batch_first`, or
    without N, are projected by `in_proj_weight` (3·E, E), or by three weights of their own where the sizes
    differ.

    Args:
        embed_dim: E, a multiple of
        num_heads: the number of heads.
        dropout: the probability of dropout of the attention weights.
        bias: whether the projections have biases.
        add_bias_kv: whether a learned key and value, `bias_k` and `bias_v`, are added to every sequence.
        add_zero_attn: whether a key and value of zeros are added.
        kdim, vdim: the sizes of keys and values, E by default.
        batch_first: whether the batch is the first dimension.

    Raises:
        ValueError: `embed_dim` or `num_heads` is not positive.
        AssertionError: the heads do not divide E.

    >>> import flambeau
    >>> from flambeau import nn
    >>> x = flambeau.zeros(5, 2, 8)
    >>> output, weights = nn.MultiheadAttention(8, 4)(x, x, x)
    >>> output.shape == (5, 2, 8), weights.shape == (2, 5, 5)
    (True, True)
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, "
                f"got embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        if embed_dim % num_heads != 0:
            raise AssertionError(f"embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}")
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = kdim if kdim is not None else embed_dim
        self.vdim = vdim if vdim is not None else embed_dim
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self.add_zero_attn = add_zero_attn

        def parameter(wanted: bool, *shape: int) -> Parameter | None:
            return Parameter(empty(shape, device=device, dtype=dtype)) if wanted else None

        separate = not self._qkv_same_embed_dim
        # In this order, which is that of the state_dict and of the random draws.
        if separate:
            self.register_parameter("q_proj_weight", parameter(True, embed_dim, embed_dim))
            self.register_parameter("k_proj_weight", parameter(True, embed_dim, self.kdim))
            self.register_parameter("v_proj_weight", parameter(True, embed_dim, self.vdim))
            self.register_parameter("in_proj_weight", None)
        else:
            self.register_parameter("in_proj_weight", parameter(True, 3 * embed_dim, embed_dim))
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        self.register_parameter("in_proj_bias", parameter(bias, 3 * embed_dim))
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        self.register_parameter("bias_k", parameter(add_bias_kv, 1, 1, embed_dim))
        self.register_parameter("bias_v", parameter(add_bias_kv, 1, 1, embed_dim))
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend.

        Args:
            query, key, value: see the class; or nested tensors (N, *, features) with `batch_first`, which take no masks
                and give no weights, and where `is_causal` needs no mask.
            key_padding_mask: (N, S) or (S): keys to leave out where True, or a number to add to their scores.
            need_weights: whether the attention weights are returned as well.
            attn_mask: (L, S) or (N · num_heads, L, S), of the same two kinds.
            average_attn_weights: whether those weights are the mean over the heads.
            is_causal: says that `attn_mask` is the causal mask; it changes nothing here.

        Returns:
            The output, of the query's shape, and the weights (N, L, S), or (N, num_heads, L, S) unless
            averaged, or None.

        Raises:
            AssertionError: shapes or mask dtypes are wrong.
            RuntimeError: `attn_mask` has a wrong shape, or `is_causal` without it.
        """
        if query.is_nested:
            if need_weights or attn_mask is not None or key_padding_mask is not None:
                raise AssertionError(
                    "MultiheadAttention does not support NestedTensor with masks or weights: sequences have no padding, and attend to "
                    "themselves alone; pass need_weights=False and no masks, with is_causal=True to attend to what is before"
                )
            return self._nested(query, key, value, is_causal), None
        batched = self._check(query, key, value, key_padding_mask, attn_mask)
        if is_causal and attn_mask is None:
            raise RuntimeError(
                "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
                "`generate_square_subsequent_mask` to create this mask."
            )
        if not batched:
            batch_dim = 0 if self.batch_first else 1
            query, key, value = (x.unsqueeze(batch_dim) for x in (query, key, value))
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        q, k, v = self._project(query, key, value)
        if not self.batch_first:
            q, k, v = (x.transpose(0, 1) for x in (q, k, v))
        n, length, _ = q.shape
        mask = self._mask(attn_mask, key_padding_mask, n, length, k.size(1), q.dtype)

        # From here on: batch, head, place, feature.
        if self.bias_k is not None:
            k = cat([k, self.bias_k.expand(n, 1, -1)], 1)
            v = cat([v, self.bias_v.expand(n, 1, -1)], 1)
        q, k, v = (x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2) for x in (q, k, v))
        if self.add_zero_attn:
            extra = zeros(n, self.num_heads, 1, self.head_dim, dtype=k.dtype, device=k.device)
            k, v = cat([k, extra], 2), cat([v, extra], 2)
        scores = (q * (1 / math.sqrt(self.head_dim))) @ k.transpose(2, 3)
        if mask is not None:
            added = k.size(2) - mask.size(-1)  # what was added above is never masked
            mask = F.pad(mask, (0, added)) if added else mask
            scores = scores + (mask.to(scores.dtype) if scores.dtype.itemsize == 2 else mask)
        weights = F.dropout(F.softmax(scores, -1), self.dropout, self.training)
        joined = (weights @ v).transpose(1, 2).reshape(n, length, self.embed_dim)
        if self.training and mt19937.source(None, joined) is not None:
            # So PyTorch's result lies in memory, and in that order a dropout after it draws.
            output = self.out_proj(joined.transpose(0, 1)).transpose(0, 1)
        else:
            output = self.out_proj(joined)
        if not self.batch_first:
            output = output.transpose(0, 1)
        if not batched:
            output = output.squeeze(0 if self.batch_first else 1)
        if not need_weights:
            return output, None
        if average_attn_weights:
            weights = weights.mean(1)
        return output, weights if batched else weights.squeeze(0)

    def _nested(self, query: Tensor, key: Tensor, value: Tensor, is_causal: bool) -> Tensor:
        """Attention within the sequences of nested tensors (N, *, features)."""
        if not self.batch_first or self.bias_k is not None or self.add_zero_attn:
            raise AssertionError(
                "MultiheadAttention does not support NestedTensor without batch_first=True, with add_bias_kv or with add_zero_attn"
            )
        for name, x in (("query", query), ("key", key), ("value", value)):
            if not x.is_nested or x.dim() != 3:
                raise AssertionError(
                    f"MultiheadAttention: expected nested query, key and value (N, *, features), but {name} is "
                    f"{'nested' if x.is_nested else 'dense'} of {x.dim()} dimensions"
                )
        heads = (self.num_heads, self.head_dim)
        q, k, v = (x.unflatten(-1, heads).transpose(1, 2) for x in self._project(query, key, value))
        dropout = self.dropout if self.training else 0.0
        result = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=is_causal)
        return self.out_proj(result.transpose(1, 2).flatten(2))

    def _check(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, attn: Tensor | None
    ) -> bool:
        """Check the shapes against each other; whether there is a batch dimension."""
        if query.dim() not in (2, 3):
            raise AssertionError(
                f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor"
            )
        dims = query.dim()
        kind = f"{'batched (3-D)' if dims == 3 else 'unbatched (2-D)'} `query`"
        if key.dim() != dims or value.dim() != dims:
            raise AssertionError(
                f"For {kind}, expected `key` and `value` to be {dims}-D "
                f"but found {key.dim()}-D and {value.dim()}-D tensors respectively"
            )
        if padding is not None and padding.dim() != dims - 1:
            raise AssertionError(
                f"For {kind}, expected `key_padding_mask` to be `None` or {dims - 1}-D "
                f"but found {padding.dim()}-D tensor instead"
            )
        if attn is not None and attn.dim() not in (2, 3):
            raise AssertionError(
                f"For {kind}, expected `attn_mask` to be `None`, 2-D or 3-D "
                f"but found {attn.dim()}-D tensor instead"
            )
        for x, size in ((query, self.embed_dim), (key, self.kdim), (value, self.vdim)):
            if x.size(-1) != size:
                raise AssertionError(f"was expecting embedding dimension of {size}, but got {x.size(-1)}")
        if tuple(key.shape[:-1]) != tuple(value.shape[:-1]):
            raise AssertionError(
                f"key's sequence and batch dims {key.shape[:-1]} do not match value's {value.shape[:-1]}"
            )
        return dims == 3

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        bias = self.in_proj_bias
        if self._qkv_same_embed_dim and query is key and key is value:
            return F.linear(query, self.in_proj_weight, bias).chunk(3, -1)
        if self._qkv_same_embed_dim:
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None, None, None) if bias is None else bias.chunk(3)
        return tuple(F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))

    def _mask(
        self, attn: Tensor | None, padding: Tensor | None, n: int, length: int, keys: int, dtype: Any
    ) -> Any:
        """What is added to the scores (N, heads, L, S): both masks, broadcastable to that shape; or None."""
        if attn is not None:
            attn = _additive(attn, "attn_mask", dtype)
            shape = (length, keys) if attn.dim() == 2 else (n * self.num_heads, length, keys)
            if tuple(attn.shape) != shape:
                raise RuntimeError(
                    f"The shape of the {attn.dim()}D attn_mask is {attn.shape}, but should be {shape}."
                )
            if attn.dim() == 3:
                attn = attn.reshape(n, self.num_heads, length, keys)
        if padding is not None:
            padding = _additive(padding, "key_padding_mask", dtype)
            for i, size in enumerate((n, keys)):
                if padding.size(i) != size:
                    raise AssertionError(
                        f"Expected key_padded_mask.shape[{i}] to be {size}, but got {padding.size(i)}"
                    )
            padding = padding.reshape(n, 1, 1, keys)
        if attn is None or padding is None:
            return padding if attn is None else attn
        return attn + padding


def _additive(mask: Tensor, name: str, dtype: Any) -> Tensor:
    """A bool mask as -inf where it is True."""
    if mask.is_floating_point():
        return mask
    if mask.dtype != by_name["bool"]:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask, -math.inf)
