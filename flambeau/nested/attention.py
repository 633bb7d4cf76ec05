"""Attention within sequences of nested tensors."""

from __future__ import annotations

import math
from typing import Any

from ..core.base.tensor import TensorBase
from ..operations.declare.registry import published
from ..operations.neural.attention.blocked import Band, Blocks, Run, call_of, windowed
from ..operations.neural.attention.flash_attention import attend
from ..operations.neural.attention.programs import PLACES, Program, element, symbol
from .jagged import NestedTensor, jagged
from .padding import packed
from .raggedness import Raggedness
from .shapes import batches

_NAME = "scaled_dot_product_attention"
_cat = published("")["cat"]


def _bands(queries: Raggedness, keys: Raggedness, causal: bool) -> Blocks:
    """Which keys stand with which queries: those of the same sequence."""

    def made() -> Blocks:
        result: list[Band] = []
        for q, n, k, m in zip(queries.starts, queries.sizes, keys.starts, keys.sizes):
            if causal:
                result += windowed((q, q + n), (k, k + m), k - q, None, 0)
            elif n:
                result.append(Band(q, q + n, (Run(k, k + m, False),) if m else ()))
        return Blocks(1, 1, [[result]])

    return queries._once(("bands", id(keys), causal), lambda: (made(), keys))[0]


def _causal(queries: Raggedness, keys: Raggedness) -> Program:
    """A query sees the keys up to its own place in its sequence."""
    index = "int64"
    q, k = (symbol(p, index) for p in PLACES[2:])
    if queries is keys:
        return Program(None, k <= q)
    last = keys._tensor(keys.starts)[queries.segments()] + queries.within()
    return Program(None, k <= element(0, (q,), index), (last,))


def _checked(query: Any, key: Any, value: Any, attn_mask: Any, is_causal: bool) -> None:
    for label, x in (("query", query), ("key", key), ("value", value)):
        if not isinstance(x, NestedTensor):
            raise ValueError(
                f"{_NAME}(): expected query, key and value all nested, but {label} is dense, of shape {tuple(x.shape)}"
            )
        if x.ndim != 4 or x._ragged_idx != 2:
            raise ValueError(
                f"{_NAME}(): expected nested {label} of shape (B, heads, *, E), got {tuple(x.shape)}; see transpose(1, 2)"
            )
        if x.dtype != query.dtype or x.device != query.device:
            raise ValueError(
                f"{_NAME}(): expected query, key, and value of one dtype and device, but {label} is {x.dtype} on {x.device} and "
                f"query {query.dtype} on {query.device}"
            )
    if attn_mask is not None:
        raise ValueError(
            f"{_NAME}(): attn_mask should not be set when query is nested: sequences see their own keys, with is_causal those before"
        )
    if key.ragged.root is not value.ragged.root or key.ragged.batch != query.ragged.batch:
        raise ValueError(
            f"{_NAME}(): expected key and value of the same sequences, as many as query has, got shapes {tuple(query.shape)}, "
            f"{tuple(key.shape)} and {tuple(value.shape)}"
        )


def attention(
    func: Any,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> NestedTensor:
    """softmax(query · keyᵀ · scale) · value within each sequence: (B, heads, *, E) nested, as their query is.

    >>> import flambeau
    >>> x = flambeau.nested.nested_tensor([flambeau.ones(1, 2, 4), flambeau.ones(3, 2, 4)], layout=flambeau.jagged)
    >>> q = x.transpose(1, 2)
    >>> flambeau.nn.functional.scaled_dot_product_attention(q, q, q).values().shape
    flambeau.Size([2, 4, 4])
    """
    _checked(query, key, value, attn_mask, is_causal)
    query, key, value = packed(query), packed(key), packed(value)
    q, k, v = (x._elements for x in (query, key, value))
    heads = k.shape[0]
    if v.shape[0] != heads or (
        q.shape[0] != heads and not (enable_gqa and heads and q.shape[0] % heads == 0)
    ):
        raise RuntimeError(
            f"{_NAME}(): expected as many heads of key and value as of query, or a divisor with enable_gqa, got {q.shape[0]}, "
            f"{heads} and {v.shape[0]}"
        )
    if q.shape[2] != k.shape[2]:
        raise RuntimeError(f"{_NAME}(): query is {q.shape[2]} wide and key {k.shape[2]}")
    if dropout_p or not q.is_cpu or q.dtype.name in ("complex64", "complex128"):
        return _one_by_one(func, query, key, value, dropout_p, is_causal, scale, enable_gqa)
    factor = 1.0 / math.sqrt(q.shape[2] or 1) if scale is None else float(scale)
    program = _causal(query.ragged, key.ragged) if is_causal else Program()
    blocks = _bands(query.ragged, key.ragged, is_causal)

    def again(q: TensorBase, k: TensorBase, v: TensorBase, *captures: TensorBase) -> TensorBase:
        a, b, c = (jagged(x.squeeze(0), y.ragged, 2) for x, y in ((q, query), (k, key), (v, value)))
        return _one_by_one(func, a, b, c, 0.0, is_causal, scale, enable_gqa)._elements.unsqueeze(0)

    q, k, v = (x.unsqueeze(0) for x in (q, k, v))
    result = attend(*call_of(_NAME, q, k, program, blocks, factor, again), q, k, v)[0]
    return jagged(result.squeeze(0), query.ragged, 2)


def _one_by_one(func, query, key, value, dropout_p, is_causal, scale, enable_gqa) -> NestedTensor:
    """Each sequence alone: where a step is differentiated twice, with dropout, and on devices."""
    parts = zip(query.unbind(), key.unbind(), value.unbind())
    result = [
        func(q[None], k[None], v[None], None, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)[0]
        for q, k, v in parts
    ]
    joined = _cat(result, 1) if result else batches(query, [])._elements
    return jagged(joined, query.ragged, 2)
