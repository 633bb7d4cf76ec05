"""Attributes of whole modules that PyTorch's classes keep and ours compute: written, so that PyTorch can run what it reads."""

from __future__ import annotations

from typing import Any

from ..nn.modules.conv import _ConvNd
from ..nn.modules.rnn import RNNBase

COMPLETED = (_ConvNd, RNNBase)


def reduced(module: Any, protocol: int) -> Any:
    """How pickle is to write one of these modules: with what PyTorch's class of that name wants in the state besides."""
    result = module.__reduce_ex__(protocol)
    if type(result) is not tuple or len(result) < 3 or type(result[2]) is not dict:
        return result  # a subclass has a way of its own
    state = result[2]
    if isinstance(module, _ConvNd):
        state = {
            "transposed": module.transposed,
            **state,
            "_reversed_padding_repeated_twice": _padding(module),
        }
    else:
        names = [name for layer in module._all_weights for name in layer]
        state = {
            **state,
            "_flat_weights_names": names,
            "_flat_weights": [getattr(module, name) for name in names],
        }
    return *result[:2], state, *result[3:]


def _padding(conv: Any) -> tuple[int, ...]:
    """How far each end of each dimension is padded, the last dimension first."""
    if conv.padding == "valid":
        pairs = [(0, 0)] * len(conv.kernel_size)
    elif conv.padding == "same":
        totals = [d * (k - 1) for d, k in zip(conv.dilation, conv.kernel_size)]
        pairs = [(total // 2, total - total // 2) for total in totals]
    else:
        pairs = [(n, n) for n in conv.padding]
    return tuple(n for pair in reversed(pairs) for n in pair)
