"""Attention by keys and values in codes of eight bits, each row with a scale of its own: a cache of a decoder.

A step of a decoder reads every key and every value once for a few queries, so it takes as long as reading them does; codes are dequantised
in registers (`codegen/tiles/quantised_attention.py`).  Many queries take the time of their products, so then keys and values become floats.
"""

from __future__ import annotations

import functools

from ....codegen.tiles import kernels
from ....codegen.tiles import quantised_attention as tiles
from ....core.base.dtypes import by_name
from ....core.base.tensor import TensorBase
from ....core.lib.layers.bags import run
from ...declare import machine
from ...declare.registry import leaf
from ...declare.vjp import gradients
from . import scores as all_scores

KINDS = {"int8": "int8", "float8_e4m3fn": "float8", "float8_e5m2": "float8_e5m2"}  # of codes, by their dtypes
FLOATS = ("float32", "bfloat16", "float16")
FEW = 32  # rows of queries for each head of keys up to which codes are dequantised in registers
NANOSECONDS_A_BYTE = 0.06  # of codes, for two rows


@functools.cache
def _kernel(kind: type[tiles.Scores] | type[tiles.Sums], codes: str) -> int:
    return machine.address(kind(KINDS[codes], kernels.registers().bytes // 4))


def dequantised(codes: TensorBase, scales: TensorBase, dtype) -> TensorBase:
    """Codes (…, S, E) by scales (…, S)."""
    return (codes.to(by_name["float32"]) * scales.unsqueeze(-1)).to(dtype)


def takes(query: TensorBase, key: TensorBase, value: TensorBase) -> bool:
    """Whether `row_quantized_attention` computes a call: on the CPU, four dimensions that fit, few queries for each head of keys."""
    if not query.ndim == key.ndim == value.ndim == 4 or not (query.is_cpu and key.is_cpu and value.is_cpu):
        return False
    (batch, heads, length, width), own = query.shape, key.shape[1]
    return (
        query.dtype.name in FLOATS
        and 0 not in (*query.shape, *key.shape, *value.shape)
        and key.shape == (batch, own, key.shape[2], width)
        and value.shape[:3] == key.shape[:3]
        and heads % own == 0
        and heads // own * length <= FEW
    )


def _in_rows(codes: TensorBase) -> TensorBase:
    """Codes (B, heads, S, E) whose rows lie one after another."""
    width = codes.shape[3]
    dense = (codes.stride(3) == 1 or width == 1) and (codes.stride(2) == width or codes.shape[2] == 1)
    return codes if dense else codes.contiguous()


@leaf("library", inputs=("query",), label="RowQuantizedAttentionBackward0")
def row_quantized_attention(
    query: TensorBase,
    key: TensorBase,
    key_scales: TensorBase,
    value: TensorBase,
    value_scales: TensorBase,
    mask: TensorBase | None,
    diagonal: int | None,
    factor: float,
) -> TensorBase:
    """softmax(query · keyᵀ · factor + mask) · value of a call that `takes` it: queries (B, heads, L, E); codes (B, own, S, E) and
    (B, own, S, V) of one dtype each, with float32 scales (B, own, S).  Sums are float32, and the result (B, heads, L, V) is rounded once.
    """
    (batch, heads, length, width), (own, keys) = query.shape, key.shape[1:3]
    rows, columns = heads // own * length, value.shape[3]
    if query.is_meta:
        return query.new_empty((batch, heads, length, columns))
    wide = (query.to(by_name["float32"]) * factor).contiguous()
    key, value, key_scales = _in_rows(key), _in_rows(value), _with_rows(key_scales)
    found = wide.new_empty((batch, own, rows, keys))
    numbers = (keys, width, rows, own, *key.stride()[:2], *key_scales.stride()[:2])
    tasks = batch * own * -(-keys // tiles.KEYS)
    times = NANOSECONDS_A_BYTE * (rows + 1) / 2
    run(
        _kernel(tiles.Scores, key.dtype.name),
        (found, wide, key, key_scales),
        numbers,
        tasks,
        times * tiles.KEYS * width,
    )
    weights = all_scores.weights_of(found.view(batch, heads, length, keys), mask, diagonal)
    weights = (weights.reshape(batch, own, rows, keys) * value_scales.unsqueeze(2)).contiguous()
    runs = -(-keys // tiles.RUN)
    sums = wide.new_empty((batch, own, runs, rows, columns))
    numbers = (keys, columns, rows, own, *value.stride()[:2])
    run(
        _kernel(tiles.Sums, value.dtype.name), (sums, weights, value), numbers, batch * own * runs,
        times * tiles.RUN * columns,
    )  # fmt: skip
    return sums.sum(2).view(batch, heads, length, columns).to(query.dtype)


def _with_rows(scales: TensorBase) -> TensorBase:
    """Scales (B, heads, S) of which those of a head lie side by side."""
    return scales if scales.stride(2) == 1 or scales.shape[2] == 1 else scales.contiguous()


@row_quantized_attention.derivative
def _(grad, query, key, key_scales, value, value_scales, mask, diagonal, factor):
    key, value = (
        dequantised(codes, scales, query.dtype)
        for codes, scales in ((key, key_scales), (value, value_scales))
    )

    def attend(query):
        return all_scores.attend(
            query, key, value, mask, 0.0, diagonal, factor, query.shape[1] != key.shape[1]
        )

    return gradients(attend, (query,), (grad,), (True,))[0]
