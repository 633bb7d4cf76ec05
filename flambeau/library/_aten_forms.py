"""How calls of operations here are written as ATen's, where names and places of the arguments do not tell it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FORMS: dict[str, Callable[..., Any]] = {}


def form(*operations: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The function of an operation's arguments that gives ATen's name, arguments by position and by name; None where there is no such call there."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        FORMS.update(dict.fromkeys(operations, function))
        return function

    return declare


@form("embedding")
def _embedding(
    input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
):
    if max_norm is not None:
        return None
    place = -1 if padding_idx is None else padding_idx
    return "embedding", (weight, input, place, scale_grad_by_freq, sparse), {}


@form("arange")
def _arange(start=None, end=None, step=None, **options):
    given = [x for x in (start, end, step) if x is not None]
    if any(options.get(name) for name in ("requires_grad", "memory_format", "out")):
        return None
    return "arange", given, {name: options.get(name) for name in ("dtype", "device")}


@form("embedding_bag")
def _embedding_bag(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    if max_norm is not None or offsets is None or mode not in ("sum", "mean", "max"):
        return None
    number = ("sum", "mean", "max").index(mode)
    options = (scale_grad_by_freq, number, sparse, per_sample_weights, include_last_offset, padding_idx)
    return "embedding_bag", (weight, input, offsets, *options), {}
