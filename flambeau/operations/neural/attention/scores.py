"""Attention with all scores at once, out of operations: the backend MATH, and what the others' second derivatives are those of."""

from __future__ import annotations

import math

from ....core.base.dtypes import by_name
from ....core.base.tensor import TensorBase
from ....core.make.create import ones
from ...random.dropout import dropout
from ...rows.softmax import softmax_of


def attend(
    query: TensorBase,
    key: TensorBase,
    value: TensorBase,
    attn_mask: TensorBase | None,
    dropout_p: float,
    diagonal: int | None,
    factor: float,
    enable_gqa: bool,
    kept: TensorBase | None = None,
) -> TensorBase:
    """The backend MATH; `diagonal`: query i sees the keys up to i + diagonal; `kept` is what dropout has drawn elsewhere."""
    if enable_gqa:
        heads = query.shape[-3]
        plain = attn_mask is None and diagonal is None and not dropout_p
        if (
            plain
            and heads
            and key.shape[-3] == value.shape[-3] < heads
            and query.shape[:-3] == key.shape[:-3]
        ):
            # The queries of one head of keys are one after the other: more rows of one product, and no key is repeated.
            rows = heads // key.shape[-3] * query.shape[-2]
            together = query.reshape(*key.shape[:-2], rows, query.shape[-1])
            result = attend(together, key, value, None, 0.0, None, factor, False)
            return result.reshape(*query.shape[:-1], value.shape[-1])
        key = key.repeat_interleave(heads // key.shape[-3], -3)
        value = value.repeat_interleave(heads // value.shape[-3], -3)
    kind = query.dtype
    if kind.name in ("float16", "bfloat16"):  # rounded once, at the end
        query, key, value = query.float(), key.float(), value.float()
        attn_mask = attn_mask.float() if attn_mask is not None and attn_mask.dtype is kind else attn_mask
    scores = (query * factor) @ key.transpose(-2, -1)
    weights = weights_of(scores, attn_mask, diagonal)
    weights = weights * kept if kept is not None else dropout(weights, dropout_p) if dropout_p else weights
    result = weights @ value
    return result if result.dtype is kind else result.to(kind)


def weights_of(scores: TensorBase, attn_mask: TensorBase | None, diagonal: int | None) -> TensorBase:
    """The softmax of scores (…, L, S) under a mask, or a diagonal; zeros for a query that may attend to nothing."""
    if diagonal is not None and diagonal >= 0:  # every query has a key
        later = ones(*scores.shape[-2:], dtype=by_name["bool"], device=scores.device).triu(diagonal + 1)
        return softmax_of(scores.masked_fill(later, -math.inf), -1)
    if attn_mask is not None or diagonal is not None:
        if attn_mask is None:
            attn_mask = ones(*scores.shape[-2:], dtype=by_name["bool"], device=scores.device)
            attn_mask = attn_mask.tril(diagonal or 0)
        boolean = attn_mask.dtype.name == "bool"
        scores = scores.masked_fill(~attn_mask, -math.inf) if boolean else scores + attn_mask
        alone = (scores.detach() == -math.inf).all(-1, True)  # a softmax of nothing but -inf would be NaN
        return softmax_of(scores.masked_fill(alone, 0.0), -1).masked_fill(alone, 0.0)
    return softmax_of(scores, -1)
