"""ONNX forms of embeddings, recurrent layers and losses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..declare.onnx import onnx_form
from .embedding.bags import embedding_bag_largest, embedding_bag_rows, embedding_bag_weighted
from .embedding.embedding import embedding_rows
from .losses.linear_losses import linear_cross_entropy_rows
from .losses.losses import class_entropy
from .recurrent.recurrent import gru_sequence, lstm_sequence, rnn_sequence


# --- embeddings ------------------------------
@onnx_form(embedding_rows)
def _(g: Any, weight: Any, flat: Any, rows: int, padding_idx: Any, shared: bool) -> Any:
    return g.op("Gather", weight, flat, axis=0)


def _bags(g: Any, input: Any, offsets: Any, include_last: bool, padding: int) -> Any:
    """Which numbers are in which bag, (bags, numbers) of bools, and the numbers in a row."""
    count = math.prod(input.shape)
    flat = g.reshape(input, [count])
    bags = g.results[0].shape[0]
    if offsets is None:
        each = count // max(bags, 1)
        member = g.constant(np.repeat(np.eye(bags, dtype=bool), each, axis=1), "bool")
    else:
        at = np.arange(count)[None]
        begins = g.cast(offsets, "int64")
        if not include_last:
            begins = g.op("Concat", begins, [count], axis=0)
        begins = g.unsqueeze(begins, [1])
        lower = g.LessOrEqual(g.slice(begins, 0, 0, bags), at)
        member = g.And(lower, g.Less(at, g.slice(begins, 0, 1, bags + 1)))
    if padding >= 0:
        member = g.And(member, g.Not(g.Equal(flat, g.number(padding, flat.dtype))))
    return member, flat


@onnx_form(embedding_bag_rows)
def _(
    g: Any,
    weight: Any,
    input: Any,
    offsets: Any,
    rows: int,
    mode: str,
    include_last_offset: bool,
    padding: int,
    sparse: bool,
    by_frequency: bool,
) -> Any:
    if not math.prod(input.shape):
        return g.expand(g.number(0, weight.dtype), g.results[0].shape)
    member, flat = _bags(g, input, offsets, include_last_offset, padding)
    share = g.cast(member, weight.dtype)
    result = g.MatMul(share, g.op("Gather", weight, flat, axis=0))
    if mode == "mean":
        result = g.Div(result, g.Max(g.reduce("ReduceSum", share, [1], True), 1))
    return result


@onnx_form(embedding_bag_weighted)
def _(
    g: Any,
    weight: Any,
    scale: Any,
    input: Any,
    offsets: Any,
    include_last_offset: bool,
    padding: int,
    sparse: bool,
    by_frequency: bool,
) -> Any:
    if not math.prod(input.shape):
        return g.expand(g.number(0, weight.dtype), g.results[0].shape)
    member, flat = _bags(g, input, offsets, include_last_offset, padding)
    factors = g.reshape(scale, [math.prod(input.shape)])
    share = g.Where(member, factors, g.number(0, weight.dtype))
    return g.MatMul(share, g.op("Gather", weight, flat, axis=0))


@onnx_form(embedding_bag_largest)
def _(
    g: Any, weight: Any, input: Any, offsets: Any, rows: int, include_last_offset: bool, padding: int
) -> Any:
    if not math.prod(input.shape):
        return NotImplemented
    member, flat = _bags(g, input, offsets, include_last_offset, padding)
    each = g.op("Gather", weight, flat, axis=0)
    inside = g.unsqueeze(member, [2])
    shown = g.Where(inside, each, g.number(-math.inf, weight.dtype))
    empty = g.Not(g.cast(g.reduce("ReduceMax", g.cast(inside, "int32"), [1]), "bool"))
    values = g.Where(empty, g.number(0, weight.dtype), g.reduce("ReduceMax", shown, [1]))
    at = g.op("Gather", g.cast(flat, "int64"), g.op("ArgMax", shown, axis=1, keepdims=0), axis=0)
    return values, g.Where(empty, g.number(-1, "int64"), at)


# --- recurrent layers ------------------------------
def _turned(g: Any, x: Any, order: tuple[int, ...], size: int) -> Any:
    """Blocks of so many rows in another order, behind a new first dimension."""
    if len(order) == 1:
        return g.unsqueeze(x, [0])
    parts = g.op("Split", x, [size] * len(order), outputs=len(order), axis=0)
    return g.unsqueeze(g.op("Concat", *[parts[k] for k in order], axis=0), [0])


def _layer(
    g: Any,
    kind: str,
    gates: Any,
    weight: Any,
    states: list[Any],
    order: tuple[int, ...],
    bias: Any,
    turned: bool,
    **options: Any,
) -> Any:
    """A layer of ONNX along a sequence, over the input that the gates are made of where that is seen."""
    size = weight.shape[1]
    note = g.notes.get(gates.name)
    if note is not None and note[0] == "linear" and note[1].rank == 3:
        _, x, to_gates, added = note
    else:
        x, to_gates, added = gates, g.constant(np.eye(gates.shape[2], dtype=gates.dtype), gates.dtype), None
    zero = g.expand(g.number(0, weight.dtype), [len(order) * size])
    both = [zero if b is None else b for b in (added, bias)]
    biases = None
    if added is not None or bias is not None:
        biases = g.op("Concat", *[_turned(g, b, order, size) for b in both], axis=1)
    begin = [g.unsqueeze(s, [0]) for s in states]
    given = (x, _turned(g, to_gates, order, size), _turned(g, weight, order, size), biases, None, *begin)
    outputs = 3 if kind == "LSTM" else 2
    direction = "reverse" if turned else "forward"
    result = g.op(kind, *given, outputs=outputs, hidden_size=size, direction=direction, **options)
    return [g.squeeze(result[0], [1]), *(g.squeeze(v, [0]) for v in result[1:])]


def _one_length(g: Any, sizes: Any) -> None:
    if sizes is not None:
        raise g.unsupported("packed sequences: pad them, and mask what is behind their ends")


@onnx_form(lstm_sequence)
def _(g: Any, gates: Any, hidden: Any, cell: Any, weight: Any, sizes: Any, turned: bool, keep: bool) -> Any:
    _one_length(g, sizes)
    if keep:
        return NotImplemented
    outputs, _, last = _layer(g, "LSTM", gates, weight, [hidden, cell], (0, 3, 1, 2), None, turned)
    return outputs, last, *g.absent()[2:]  # what backward reads


@onnx_form(gru_sequence)
def _(g: Any, gates: Any, hidden: Any, weight: Any, bias: Any, sizes: Any, turned: bool, keep: bool) -> Any:
    _one_length(g, sizes)
    if keep:
        return NotImplemented
    result = _layer(g, "GRU", gates, weight, [hidden], (1, 0, 2), bias, turned, linear_before_reset=1)
    return result[0]


@onnx_form(rnn_sequence)
def _(g: Any, gates: Any, hidden: Any, weight: Any, sizes: Any, turned: bool, kind: str, keep: bool) -> Any:
    _one_length(g, sizes)
    if keep:
        return NotImplemented
    name = "Relu" if kind == "rnn_relu" else "Tanh"
    return _layer(g, "RNN", gates, weight, [hidden], (0,), None, turned, activations=[name])[0]


# --- losses ------------------------------
@onnx_form(class_entropy)
def _(g: Any, input: Any, target: Any, ignore_index: int, how: str) -> Any:
    x = g.cast(input, "float32") if input.dtype in ("float16", "bfloat16") else input
    top = g.reduce("ReduceMax", x, [1], True)
    total = g.Log(g.reduce("ReduceSum", g.Exp(g.Sub(x, top)), [1], True))
    counts = g.Not(g.Equal(target, g.number(ignore_index, target.dtype)))
    kept = g.reduce("ReduceSum", g.cast(counts, x.dtype), [0])
    loss = g.op("SoftmaxCrossEntropyLoss", x, target, reduction=how, ignore_index=ignore_index)
    return loss, top, total, kept


@onnx_form(linear_cross_entropy_rows)
def _(
    g: Any,
    input: Any,
    linear_weight: Any,
    linear_bias: Any,
    target: Any,
    weight: Any,
    steps: int,
    dtype: Any,
    how: str,
    ignore_index: int,
) -> Any:
    given = [None if v is None else g.cast(v, "float32") for v in (input, linear_weight, linear_bias, weight)]
    x, w, b, of_class = given
    scores = g.MatMul(x, g.op("Transpose", w, perm=[1, 0]))
    scores = scores if b is None else g.Add(scores, b)
    options = {"reduction": how, "ignore_index": ignore_index}
    return g.op("SoftmaxCrossEntropyLoss", scores, target, of_class, **options)
