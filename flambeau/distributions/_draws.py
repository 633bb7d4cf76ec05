"""Draws of categories: where uniform numbers fall among the cumulative weights of a row.  And what PyTorch's stream draws otherwise."""

from __future__ import annotations

from typing import Any

from ..core.base.dtypes import by_name
from ..core.make import mt19937
from ..core.make.create import empty, zeros
from ..operations.declare.indexed import indexed
from ..operations.random.random import multinomial
from ._fused import fn, fused

_INT64, _FLOAT32 = by_name["int64"], by_name["float32"]
FEW = 64  # up to so many categories, counting by passes over the draws costs less than a written place for each draw


def in_turn(like: Any) -> bool:
    """Whether numbers like these are drawn from PyTorch's stream, one after another."""
    return mt19937.source(None, like) is not None


def exponential_noise(shape: Any, like: Any, least: float = 0.0, most: float = 1.0) -> Any:
    """Exponential numbers of rate 1; in PyTorch's stream, where its distributions take uniform numbers, their negative logarithms."""
    noise = empty(shape, dtype=like.dtype, device=like.device)
    if not in_turn(noise):
        return noise.exponential_()
    return noise.uniform_().clamp_(least, most).log_().neg_()


def cauchy_noise(shape: Any, like: Any) -> Any:
    """Cauchy numbers."""
    return empty(shape, dtype=like.dtype, device=like.device).cauchy_()


def _below(noise: Any, total: Any) -> Any:
    """The number's place among weights with that total: never rounded up to the total."""
    return noise * (total * (1.0 - 2.0 ** (-50 if noise.dtype == "float64" else -22)))


@indexed(static=("steps",), dtypes=(_INT64,), effort=32)
def _category(at, noise, bounds, *, steps):
    """How many bounds a number is not below, by halving: the category it belongs to; one of weight 0 is never met."""
    row = at[1] if len(at) == 2 else at.number(0)  # of one row, draws are neighbours
    last = bounds.size(1) - 1
    x = _below(noise[at], bounds[row, last])
    place = at.number(0)
    for step in reversed(range(steps)):
        ahead = fn.minimum(place + (1 << step), last)
        place = fn.where(bounds[row, fn.maximum(ahead - 1, 0)] <= x, ahead, place)
    return fn.cast(place, "int64")


@indexed(dtypes=(None,), effort=32)
def _counts(at, bounds, noise):
    """How many of a row's draws belong to each category."""
    draw, row, category = at
    last = bounds.size(1) - 1
    total, high = bounds[row, last], bounds[row, category]
    low = bounds.get((row, category - 1), 0.0)

    def falls(k):
        x = _below(noise[draw, k, row], total)
        return fn.where((low <= x) & (x < high), fn.like(x, 1.0), fn.like(x, 0.0))

    return at.sum((noise.size(1),), falls)


@fused
def _is_category(noise, low, high, total):
    x = _below(noise, total)
    return fn.where((low <= x) & (x < high), fn.like(x, 1.0), fn.like(x, 0.0))


def _bounds(probs: Any) -> Any:
    """Cumulative weights of each row, (rows, categories)."""
    if probs.shape[-1] == 0:
        raise RuntimeError("sample(): there is no category to draw")
    if not probs.is_meta and not (probs >= 0).all():
        raise RuntimeError("sample(): probability tensor contains either `inf`, `nan` or element < 0")
    rows = probs.detach().reshape(-1, probs.shape[-1])
    return (rows if rows.dtype.itemsize >= 4 else rows.to(_FLOAT32)).cumsum(-1)


def _noise(bounds: Any, *shape: int) -> Any:
    return empty(shape, dtype=bounds.dtype, device=bounds.device).uniform_()


def categories(probs: Any, count: int) -> Any:
    """Indices, (count, rows), or (count,) for one row, each drawn by the weights of its row."""
    if count and probs.shape[-1] and in_turn(probs):
        drawn = multinomial(probs.detach().reshape(-1, probs.shape[-1]), count, True).T
        return drawn[:, 0] if drawn.shape[1] == 1 else drawn
    bounds = _bounds(probs)
    rows = bounds.shape[0]
    noise = _noise(bounds, count, rows) if rows != 1 else _noise(bounds, count)
    return _category(noise.shape, noise, bounds, steps=(bounds.shape[1] - 1).bit_length())


def one_hot_categories(probs: Any, count: int) -> Any:
    """One-hot rows, (count, rows, categories), each drawn by the weights of its row."""
    if count and probs.shape[-1] and in_turn(probs):
        drawn = categories(probs, count).view(count, -1, 1)
        return zeros((count, drawn.shape[1], probs.shape[-1]), dtype=probs.dtype).scatter_(-1, drawn, 1.0)
    bounds = _bounds(probs)
    low = bounds.roll(1, -1)
    low[:, 0] = 0.0
    return _is_category(_noise(bounds, count, bounds.shape[0], 1), low, bounds, bounds[:, -1:])


def counts(probs: Any, count: int, draws: int) -> Any:
    """How often each category was drawn: (count, rows, categories), each row of `draws` draws."""
    bounds = _bounds(probs)
    noise = _noise(bounds, count, draws, bounds.shape[0])
    return _counts((count, *bounds.shape), bounds, noise)
