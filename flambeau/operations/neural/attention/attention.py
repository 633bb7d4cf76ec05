"""Attention (Vaswani et al. 2017): softmax(Q Kᵀ / √E) V, alone and with its projections."""

from __future__ import annotations

import math
from typing import Any

from ....core.base.tensor import TensorBase
from ....core.lib.products.products import linear
from ....core.make.create import full, zeros
from ...declare import checks, flops
from ...declare.half_types import HALF_TYPES, in_float32
from ...declare.pointwise import FLOATING
from ...declare.registry import library
from ...random.dropout import dropout
from ...random.random import draws_as_pytorch
from ...rows.softmax import softmax_of
from . import scores as all_scores
from .backends import FEW_SCORES, SDPBackend, state
from .flash_attention import attend, blocked_call, scaled_dot_product_flash_attention_for_cpu, tiled


def _allowed(name: str, mask: TensorBase, query: TensorBase) -> None:
    """Refuse a mask of a dtype that means nothing."""
    if mask.dtype.name not in ("bool", "float32") and mask.dtype is not query.dtype:
        raise RuntimeError(
            f"{name}(): Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{mask.dtype} and query.dtype: {query.dtype} instead."
        )


@library(
    "composite",
    "nn.functional.scaled_dot_product_attention",
    autocast="lower",
    flops=flops.attention,
    dtypes=FLOATING,
)
def scaled_dot_product_attention(
    query: TensorBase,
    key: TensorBase,
    value: TensorBase,
    attn_mask: TensorBase | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> TensorBase:
    """softmax(query · keyᵀ · scale + mask) · value: (*, L, E), (*, S, E) and (*, S, V) give (*, L, V).

    `attn_mask` broadcasts to (*, L, S): a bool mask is True where attention is allowed, another is added; a `CausalBias` allows
    what it says and is never made.  `is_causal` allows a query the keys up to its own place.  A query that may attend to nothing
    gives 0.  `scale` is 1 / √E by default; `enable_gqa` repeats the heads (dimension -3) of key and value to as many as the query
    has.  `nn.attention.sdpa_kernel` chooses how it is computed; by default in tiles, on the CPU, but for a handful of scores, and
    on devices in one kernel wherever that serves and is quicker.

    RuntimeError when a mask comes with `is_causal`, or has another dtype than bool, float32 or the query's, when head counts do not
    divide, and when none of the chosen backends can serve the call.

    >>> import flambeau
    >>> q, k = flambeau.zeros(1, 2), flambeau.zeros(2, 2)
    >>> flambeau.nn.functional.scaled_dot_product_attention(q, k, flambeau.tensor([[1., 3.], [3., 5.]]))
    tensor([[2., 4.]])
    """
    name = "scaled_dot_product_attention"
    for label, given in (("query", query), ("key", key), ("value", value)):
        if given.ndim < 2:
            raise RuntimeError(
                f"{name}(): expected query, key and value to be at least 2-dimensional, but {label} has {given.ndim} dimensions"
            )
        if given.dtype is not query.dtype:
            raise RuntimeError(
                f"{name}(): Expected query, key, and value to have the same dtype, but {label} is {given.dtype} and query "
                f"{query.dtype}"
            )
    diagonal = 0 if is_causal else None
    if attn_mask is not None and is_causal:
        error = ValueError if hasattr(attn_mask, "diagonal_of") else RuntimeError
        raise error(f"{name}(): Explicit attn_mask should not be set when is_causal=True")
    if attn_mask is not None and hasattr(attn_mask, "diagonal_of"):  # a `CausalBias`
        diagonal, attn_mask = attn_mask.diagonal_of(query, key), None
    if dropout_p:
        checks.probability(name, "dropout_p", dropout_p, RuntimeError)
    if enable_gqa:
        _check_groups(name, query, key, value)
    if attn_mask is not None:
        _allowed(name, attn_mask, query)
    factor = 1.0 / math.sqrt(query.shape[-1] or 1) if scale is None else scale
    if (
        query.ndim == key.ndim == value.ndim == 3
        and not state.chosen
        and (attn_mask is None or attn_mask.ndim < 4)
    ):
        q, k, v = (x.unsqueeze(0) for x in (query, key, value))  # the batch in place of heads
        if _taken(q, k, v, attn_mask, dropout_p, diagonal, enable_gqa) is not SDPBackend.MATH:
            return _flash(q, k, v, attn_mask, dropout_p, diagonal, factor).squeeze(0)
    if _taken(query, key, value, attn_mask, dropout_p, diagonal, enable_gqa) is SDPBackend.MATH:
        return all_scores.attend(query, key, value, attn_mask, dropout_p, diagonal, factor, enable_gqa)
    return _flash(query, key, value, attn_mask, dropout_p, diagonal, factor)


def _flash(query, key, value, attn_mask, dropout_p, diagonal, factor) -> TensorBase:
    """The backend FLASH_ATTENTION."""
    if tiled(query, key, value):
        given = (query, key, value, attn_mask, diagonal, factor, dropout_p)
        return scaled_dot_product_flash_attention_for_cpu(*given)[0]
    return attend(*blocked_call(query, key, attn_mask, diagonal, factor), query, key, value)[0]


def _check_groups(name: str, query: TensorBase, key: TensorBase, value: TensorBase) -> None:
    """Each head of key and value serves as many of the query's."""
    if query.ndim < 3:
        raise IndexError(
            f"{name}(): Dimension out of range: with enable_gqa the heads are dimension -3, but query has shape {tuple(query.shape)}"
        )
    heads = query.shape[-3]
    for label, given in (("key", key), ("value", value)):
        if given.ndim < 3 or not given.shape[-3] or heads % given.shape[-3]:
            raise RuntimeError(
                f"{name}(): the number of heads in {label}, shape {tuple(given.shape)}, must divide the query's, {heads}"
            )


# --- which of them ------------------------------
def _refusal(query, key, value, attn_mask, dropout_p, enable_gqa) -> str | None:
    """Why blocks cannot serve a call, None where they can."""
    if query.dtype.name not in FLOATING:
        return f"expected floating-point query, key and value, got {query.dtype}"
    if not query.ndim == key.ndim == value.ndim == 4:
        return f"expected query, key and value of 4 dimensions, got {query.ndim}, {key.ndim} and {value.ndim}"
    if dropout_p and not tiled(query, key, value):
        return f"dropout_p is {dropout_p}, expected 0 but on the CPU"
    if not query.device == key.device == value.device:
        return f"expected tensors of one device, got {query.device}, {key.device} and {value.device}"
    shapes = f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
    if query.shape[0] != key.shape[0] or key.shape[:3] != value.shape[:3] or query.shape[3] != key.shape[3]:
        return f"expected query, key and value of equal batches, widths and key lengths, got {shapes}"
    if query.shape[1] != key.shape[1] and not enable_gqa:
        return f"expected as many heads of key and value as of query, got {shapes}"
    if attn_mask is not None:
        wanted = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        sizes = (*[1] * (4 - attn_mask.ndim), *attn_mask.shape)
        if len(sizes) != 4 or any(n not in (1, m) for n, m in zip(sizes, wanted)):
            return f"expected an attn_mask that broadcasts to {wanted}, got {tuple(attn_mask.shape)}"
        if attn_mask.device != query.device:
            return f"attn_mask is on {attn_mask.device}, query on {query.device}"
    return None


def _taken(query, key, value, attn_mask, dropout_p, diagonal, enable_gqa) -> SDPBackend:
    """The backend that computes a call; RuntimeError where none of those that are on can."""
    scores = query.numel() // (query.shape[-1] or 1) * key.shape[-2]
    if not state.chosen:
        plain = attn_mask is None and diagonal is None and not dropout_p
        if (
            (query.is_cpu and scores < (FEW_SCORES if plain else FEW_SCORES // 8))
            or (dropout_p and draws_as_pytorch(query))  # what PyTorch drops are elements of all scores
            or _refusal(query, key, value, attn_mask, dropout_p, enable_gqa) is not None
            or not (query.is_cpu or _on_device(query, key, value, attn_mask, diagonal))
        ):
            return SDPBackend.MATH
        return SDPBackend.FLASH_ATTENTION
    why = "EFFICIENT_ATTENTION, CUDNN_ATTENTION and OVERRIDEABLE are not here"
    for backend in state.listed(with_priority=True):
        if backend is SDPBackend.MATH:
            return backend
        if backend is SDPBackend.FLASH_ATTENTION:
            refusal = _refusal(query, key, value, attn_mask, dropout_p, enable_gqa)
            if refusal is None:
                return backend
            why = f"FLASH_ATTENTION: {refusal}"
    raise RuntimeError(
        f"scaled_dot_product_attention(): No available kernel. Aborting execution. ({why}; see nn.attention.sdpa_kernel)"
    )


def _on_device(query, key, value, attn_mask, diagonal) -> bool:
    """Whether a device's kernel is to be taken."""
    from .on_device import taken

    return taken(query, key, value, attn_mask, diagonal)


def _additive(mask: TensorBase | None, label: str, like: TensorBase) -> TensorBase | None:
    """A bool mask as -inf where it is True."""
    if mask is None or mask.is_floating_point():
        return mask
    if mask.dtype.name != "bool":
        raise AssertionError(f"only bool and floating types of {label} are supported, got {mask.dtype}")
    return zeros(mask.shape, dtype=like.dtype, device=like.device).masked_fill(mask, -math.inf)


def _projected(inputs, weights, bias) -> list[TensorBase]:
    """x Wᵀ + b for query, key and value."""
    biases = (None, None, None) if bias is None else bias.chunk(3)
    return [linear(x, w, b) for x, w, b in zip(inputs, weights, biases)]


@library("composite", "nn.functional.multi_head_attention_forward", autocast="composite", dtypes=FLOATING)
@in_float32()
def multi_head_attention_forward(
    query: TensorBase,
    key: TensorBase,
    value: TensorBase,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: TensorBase | None,
    in_proj_bias: TensorBase | None,
    bias_k: TensorBase | None,
    bias_v: TensorBase | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: TensorBase,
    out_proj_bias: TensorBase | None,
    training: bool = True,
    key_padding_mask: TensorBase | None = None,
    need_weights: bool = True,
    attn_mask: TensorBase | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: TensorBase | None = None,
    k_proj_weight: TensorBase | None = None,
    v_proj_weight: TensorBase | None = None,
    static_k: TensorBase | None = None,
    static_v: TensorBase | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[TensorBase, TensorBase | None]:
    """softmax(Q Kᵀ / √E + mask) V for each head, with its projections.
    Query is (L, N, E), key and value (S, N, E), or all without N.

    Masks are True where attention is not allowed, or numbers that are added; `static_k` and `static_v`, (N · heads, S, E / heads),
    replace the projected key and value.  Returns the output and, if wanted, the weights (N, L, S), or (N, heads, L, S) unless
    averaged.  AssertionError for sizes that do not fit, RuntimeError for an `attn_mask` of a wrong shape.

    >>> import flambeau
    >>> x, w = flambeau.ones(2, 1, 4), flambeau.eye(4)
    >>> out, weights = flambeau.nn.functional.multi_head_attention_forward(
    ...     x, x, x, 4, 2, flambeau.cat([w, w, w]), flambeau.zeros(12), None, None, False, 0.0, w, flambeau.zeros(4)
    ... )
    >>> out.shape, weights
    (flambeau.Size([2, 1, 4]), tensor([[[0.5000, 0.5000],
             [0.5000, 0.5000]]]))
    """
    from ...moving.joining import cat

    name = "multi_head_attention_forward"
    if query.ndim not in (2, 3) or key.ndim != query.ndim or value.ndim != query.ndim:
        raise AssertionError(
            f"{name}(): query, key and value should all be 2-D or all 3-D, got {query.ndim}-D, {key.ndim}-D and {value.ndim}-D"
        )
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    batched = query.ndim == 3
    if not batched:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, n, width = query.shape
    if width != embed_dim_to_check or width % num_heads:
        raise AssertionError(
            f"{name}(): was expecting embedding dimension of {embed_dim_to_check}, a multiple of {num_heads} heads, but got {width}"
        )
    if use_separate_proj_weight:
        weights: tuple[Any, ...] = (q_proj_weight, k_proj_weight, v_proj_weight)
    else:
        weights = in_proj_weight.chunk(3)
    q, k, v = _projected((query, key, value), weights, in_proj_bias)
    if bias_k is not None:
        k, v = cat([k, bias_k.expand(1, n, -1)]), cat([v, bias_v.expand(1, n, -1)])
    head = width // num_heads
    q, k, v = (x.reshape(x.shape[0], n, num_heads, head).permute(1, 2, 0, 3) for x in (q, k, v))
    k = k if static_k is None else static_k.reshape(n, num_heads, static_k.shape[1], head)
    v = v if static_v is None else static_v.reshape(n, num_heads, static_v.shape[1], head)

    keys = k.shape[2] - (bias_k is not None)  # what is added to the keys is never masked
    mask = _additive(attn_mask, "attn_mask", q)
    if mask is not None:
        wanted = (length, keys) if mask.ndim == 2 else (n * num_heads, length, keys)
        if tuple(mask.shape) != wanted:
            raise RuntimeError(
                f"The shape of the {mask.ndim}D attn_mask is {tuple(mask.shape)}, but should be {wanted}."
            )
        mask = mask if mask.ndim == 2 else mask.reshape(n, num_heads, length, keys)
    padding = _additive(key_padding_mask, "key_padding_mask", q)
    if padding is not None:
        if tuple(padding.shape) != (n, keys):
            raise AssertionError(
                f"{name}(): expected key_padding_mask of shape {(n, keys)}, got {tuple(padding.shape)}"
            )
        padding = padding.reshape(n, 1, 1, keys)
        mask = padding if mask is None else mask + padding
    if add_zero_attn:
        extra = zeros(n, num_heads, 1, head, dtype=k.dtype, device=k.device)
        k, v = cat([k, extra], 2), cat([v, extra], 2)

    added = k.shape[2] - keys
    if mask is not None and added:
        free = full([*mask.shape[:-1], added], 0.0, dtype=mask.dtype, device=mask.device)
        mask = cat([mask, free], -1)
    if not need_weights:
        if is_causal and key_padding_mask is None and not added:
            mask = None  # `is_causal` says what it holds
        else:
            is_causal = False
        mask = mask if mask is None or mask.dtype is q.dtype else mask.to(q.dtype)
        result = scaled_dot_product_attention(q, k, v, mask, dropout_p if training else 0.0, is_causal)
        joined = result.permute(2, 0, 1, 3).reshape(length, n, width)
        if training and draws_as_pytorch(joined):
            joined = (
                joined.contiguous()
            )  # so PyTorch's result lies in memory, and so a dropout after it is drawn
        output = linear(joined, out_proj_weight, out_proj_bias)
        return output if batched else output.squeeze(1), None
    scores = (q * (1.0 / math.sqrt(head))) @ k.transpose(2, 3)
    if mask is not None:
        scores = scores + (mask.to(scores.dtype) if scores.dtype in HALF_TYPES else mask)
    attention = softmax_of(scores, -1)
    if training and dropout_p > 0.0:
        attention = dropout(attention, dropout_p)
    joined = (attention @ v).permute(2, 0, 1, 3).reshape(length, n, width)
    output = linear(joined, out_proj_weight, out_proj_bias)
    output = output if batched else output.squeeze(1)
    attention = attention.mean(1) if average_attn_weights else attention
    return output, attention if batched else attention.squeeze(0)
