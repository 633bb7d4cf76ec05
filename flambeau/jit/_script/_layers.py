"""Layers of this library whose methods use more of Python than TorchScript has, written in what it has: recurrent ones and attention.

Each function here is what a method computes of tensors; packed batches and nested tensors, which programs of TorchScript do not hold, are
left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..._tensor import Tensor
from ...core.make.create import zeros
from ...core.places.join import cat
from ...nn import functional as F
from ...nn.modules.attention import MultiheadAttention
from ...nn.modules.rnn import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from ...operations.declare.registry import REGISTRY

LAYERS: dict[tuple[type, str], Any] = {}  # by class and name of the method
lstm, gru, rnn_tanh, rnn_relu, lstm_cell, gru_cell, rnn_tanh_cell, rnn_relu_cell = (
    REGISTRY[f"flat_{name}"].function
    for name in "lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell".split()
)


def layer(*classes: type, name: str = "forward") -> Callable[[Any], Any]:
    """Enter what a method computes."""

    def enter(function: Any) -> Any:
        LAYERS.update({(c, name): function for c in classes})
        return function

    return enter


@layer(LSTM)
def lstm_forward(
    self: Any, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    batched = input.dim() == 3
    dim = 0 if self.batch_first else 1
    x = input if batched else input.unsqueeze(dim)
    directions = 2 if self.bidirectional else 1
    if hx is None:
        batch = x.size(dim) if self.batch_first else x.size(1)
        size = self.proj_size if self.proj_size > 0 else self.hidden_size
        h = zeros(self.num_layers * directions, batch, size, dtype=x.dtype, device=x.device)
        c = zeros(self.num_layers * directions, batch, self.hidden_size, dtype=x.dtype, device=x.device)
    else:
        h = hx[0] if batched else hx[0].unsqueeze(1)
        c = hx[1] if batched else hx[1].unsqueeze(1)
    out, h, c = lstm(
        x, [h, c], self._flat_weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional, self.batch_first
    )  # fmt: skip
    if batched:
        return out, (h, c)
    return out.squeeze(dim), (h.squeeze(1), c.squeeze(1))


@layer(GRU)
def gru_forward(self: Any, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
    batched = input.dim() == 3
    dim = 0 if self.batch_first else 1
    x = input if batched else input.unsqueeze(dim)
    directions = 2 if self.bidirectional else 1
    if hx is None:
        h = zeros(self.num_layers * directions, x.size(dim), self.hidden_size, dtype=x.dtype, device=x.device)
    else:
        h = hx if batched else hx.unsqueeze(1)
    out, h = gru(
        x, h, self._flat_weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional, self.batch_first
    )  # fmt: skip
    if batched:
        return out, h
    return out.squeeze(dim), h.squeeze(1)


@layer(RNN)
def rnn_forward(self: Any, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
    batched = input.dim() == 3
    dim = 0 if self.batch_first else 1
    x = input if batched else input.unsqueeze(dim)
    directions = 2 if self.bidirectional else 1
    if hx is None:
        h = zeros(self.num_layers * directions, x.size(dim), self.hidden_size, dtype=x.dtype, device=x.device)
    else:
        h = hx if batched else hx.unsqueeze(1)
    if self.mode == "RNN_TANH":
        out, h = rnn_tanh(
            x, h, self._flat_weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional, self.batch_first
        )  # fmt: skip
    else:
        out, h = rnn_relu(
            x, h, self._flat_weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional, self.batch_first
        )  # fmt: skip
    if batched:
        return out, h
    return out.squeeze(dim), h.squeeze(1)


@layer(LSTMCell)
def lstm_cell_forward(
    self: Any, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    single = input.dim() == 1
    x = input.unsqueeze(0) if single else input
    if hx is None:
        h = zeros(x.size(0), self.hidden_size, dtype=x.dtype, device=x.device)
        c = h
    else:
        h = hx[0].unsqueeze(0) if single else hx[0]
        c = hx[1].unsqueeze(0) if single else hx[1]
    h, c = lstm_cell(x, [h, c], self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
    if single:
        return h.squeeze(0), c.squeeze(0)
    return h, c


@layer(GRUCell)
def gru_cell_forward(self: Any, input: Tensor, hx: Tensor | None = None) -> Tensor:
    single = input.dim() == 1
    x = input.unsqueeze(0) if single else input
    if hx is None:
        h = zeros(x.size(0), self.hidden_size, dtype=x.dtype, device=x.device)
    else:
        h = hx.unsqueeze(0) if single else hx
    h = gru_cell(x, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
    return h.squeeze(0) if single else h


@layer(RNNCell)
def rnn_cell_forward(self: Any, input: Tensor, hx: Tensor | None = None) -> Tensor:
    single = input.dim() == 1
    x = input.unsqueeze(0) if single else input
    if hx is None:
        h = zeros(x.size(0), self.hidden_size, dtype=x.dtype, device=x.device)
    else:
        h = hx.unsqueeze(0) if single else hx
    if self.nonlinearity == "tanh":
        h = rnn_tanh_cell(x, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
    else:
        h = rnn_relu_cell(x, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
    return h.squeeze(0) if single else h


@layer(MultiheadAttention)
def attention_forward(
    self: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    batched = query.dim() == 3
    if not batched:
        dim = 0 if self.batch_first else 1
        query, key, value = query.unsqueeze(dim), key.unsqueeze(dim), value.unsqueeze(dim)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    if self._qkv_same_embed_dim:
        weights = self.in_proj_weight.chunk(3)
        wq, wk, wv = weights[0], weights[1], weights[2]
    else:
        wq, wk, wv = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
    if self.in_proj_bias is None:
        q, k, v = F.linear(query, wq), F.linear(key, wk), F.linear(value, wv)
    else:
        biases = self.in_proj_bias.chunk(3)
        q, k, v = F.linear(query, wq, biases[0]), F.linear(key, wk, biases[1]), F.linear(value, wv, biases[2])
    if not self.batch_first:
        q, k, v = q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1)
    n, length = q.size(0), q.size(1)
    keys = k.size(1)
    if self.bias_k is not None:
        k = cat([k, self.bias_k.expand(n, 1, -1)], 1)
        v = cat([v, self.bias_v.expand(n, 1, -1)], 1)
    q = q.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
    k = k.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
    v = v.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
    if self.add_zero_attn:
        extra = zeros(n, self.num_heads, 1, self.head_dim, dtype=k.dtype, device=k.device)
        k, v = cat([k, extra], 2), cat([v, extra], 2)
    scores = (q * (1 / math.sqrt(self.head_dim))) @ k.transpose(2, 3)
    added = k.size(2) - keys
    if attn_mask is not None:
        mask = attn_mask
        if not mask.is_floating_point():
            mask = zeros(mask.shape, dtype=scores.dtype, device=mask.device).masked_fill(mask, -math.inf)
        if mask.dim() == 3:
            mask = mask.reshape(n, self.num_heads, length, keys)
        scores = scores + F.pad(mask, (0, added)).to(scores.dtype)
    if key_padding_mask is not None:
        padding = key_padding_mask
        if not padding.is_floating_point():
            padding = zeros(padding.shape, dtype=scores.dtype, device=padding.device).masked_fill(
                padding, -math.inf
            )
        scores = scores + F.pad(padding.reshape(n, 1, 1, keys), (0, added)).to(scores.dtype)
    attention = F.dropout(F.softmax(scores, -1), self.dropout, self.training)
    output = self.out_proj((attention @ v).transpose(1, 2).reshape(n, length, self.embed_dim))
    if not self.batch_first:
        output = output.transpose(0, 1)
    if not batched:
        output = output.squeeze(0 if self.batch_first else 1)
    if not need_weights:
        return output, None
    if average_attn_weights:
        attention = attention.mean(1)
    return output, attention if batched else attention.squeeze(0)
