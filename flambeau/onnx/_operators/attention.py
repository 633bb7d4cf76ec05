"""Attention, and positions that turn pairs of features."""

from __future__ import annotations

import math

from ..._tensor import Tensor
from ...core.base.dtypes import by_name
from .declare import DType, fl, operator


def _heads(x: Tensor, count: int | None) -> Tensor:
    """(batch, length, heads · features) as (batch, heads, length, features)."""
    if x.ndim == 4:
        return x
    if not count:
        raise ValueError("Attention: inputs of 3 dimensions need q_num_heads and kv_num_heads")
    return fl.transpose(x.reshape([x.shape[0], x.shape[1], count, -1]), 1, 2)


def _allowed(
    mask: Tensor | None,
    queries: int,
    keys: int,
    past: int,
    is_causal: int,
    valid: Tensor | None,
    dtype: DType,
) -> Tensor | None:
    """What is added to scores: -inf where a query may not look."""
    bias = None
    if mask is not None:
        if "bool" in str(mask.dtype):
            bias = fl.where(mask, fl.zeros([], dtype=dtype), fl.full([], -math.inf, dtype=dtype))
        else:
            bias = mask.to(dtype)
        if bias.shape[-1] < keys:
            gap = fl.full([*bias.shape[:-1], keys - bias.shape[-1]], -math.inf, dtype=dtype)
            bias = fl.cat([bias, gap], -1)
    at = fl.arange(keys)
    seen = []
    if is_causal:
        first = past if valid is None else (valid.reshape([-1, 1, 1, 1]) - queries)
        seen.append(at <= fl.arange(queries)[:, None] + first)
    if valid is not None:
        seen.append(at < valid.reshape([-1, 1, 1, 1]))
    for s in seen:
        shown = fl.where(s, fl.zeros([], dtype=dtype), fl.full([], -math.inf, dtype=dtype))
        bias = shown if bias is None else bias + shown
    return bias


@operator("Attention", since=23)
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    nonpad_kv_seqlen: Tensor | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: DType | None = None,
    outputs: int = 1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """softmax(scale · Q Kᵀ + mask) V by heads; beside it all keys and values, and the scores at one of their stages."""
    query, key, value = _heads(q, q_num_heads), _heads(k, kv_num_heads), _heads(v, kv_num_heads)
    past = 0
    if past_key is not None and past_value is not None:
        past = past_key.shape[2]
        key, value = fl.cat([past_key, key], 2), fl.cat([past_value, value], 2)
    each = query.shape[1] // key.shape[1]
    keys = fl.repeat_interleave(key, each, 1) if each > 1 else key
    values = fl.repeat_interleave(value, each, 1) if each > 1 else value
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    root = math.sqrt(factor)
    raw = fl.matmul(query * root, (keys * root).mT)
    capped = softcap * fl.tanh(raw / softcap) if softcap else raw
    bias = _allowed(attn_mask, query.shape[2], keys.shape[2], past, is_causal, nonpad_kv_seqlen, raw.dtype)
    masked = capped if bias is None else capped + bias
    wide = masked.to(
        by_name["float32"]
        if softmax_precision is None and masked.element_size() < 4
        else softmax_precision or masked.dtype
    )
    shares = fl.softmax(wide, -1)
    shares = fl.where(fl.amax(wide, -1, True) == -math.inf, fl.zeros_like(shares), shares).to(query.dtype)
    result = fl.matmul(shares, values)
    if q.ndim == 3:
        result = fl.transpose(result, 1, 2).reshape([q.shape[0], q.shape[1], -1])
    stages = {0: raw, 1: capped, 2: masked, 3: shares}
    return result, key, value, stages[qk_matmul_output_mode]


@operator("RotaryEmbedding", since=23)
def rotary_embedding(
    x: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    position_ids: Tensor | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    """Pairs of features turned by the angles of their positions; features behind `rotary_embedding_dim` stay."""
    heads = x.reshape([x.shape[0], x.shape[1], num_heads, -1]) if x.ndim == 3 else fl.transpose(x, 1, 2)
    size = rotary_embedding_dim or heads.shape[-1]
    turned, rest = heads[..., :size], heads[..., size:]
    cos, sin = (c if position_ids is None else c[position_ids] for c in (cos_cache, sin_cache))
    cos, sin = (fl.unsqueeze(c[..., : size // 2], 2) for c in (cos, sin))
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
        result = fl.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(turned.shape)
    else:
        a, b = turned[..., : size // 2], turned[..., size // 2 :]
        result = fl.cat([a * cos - b * sin, a * sin + b * cos], -1)
    output = fl.cat([result, rest], -1)
    return output.reshape(x.shape) if x.ndim == 3 else fl.transpose(output, 1, 2)
