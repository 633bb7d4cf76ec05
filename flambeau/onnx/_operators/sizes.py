"""Sizes as ints: what operators on shapes mean where a list of ints is wanted, so that no tensor is made and looked at."""

from __future__ import annotations

import operator as python
from collections.abc import Callable, Sequence
from typing import Any

from ..._tensor import Tensor
from .declare import fl, on_numbers
from .indexing import gather, slice_of
from .pointwise import div
from .shapes import concat, identity, reshape, shape, size, squeeze, unsqueeze

Numbers = Sequence[int]


@on_numbers(shape, rank=lambda ranks, args: 1, of_tensor=True)
def shape_numbers(data: Tensor, *, start: int = 0, end: int | None = None) -> list[int]:
    return list(data.shape)[start:end]


@on_numbers(size, rank=lambda ranks, args: 0, of_tensor=True)
def size_numbers(data: Tensor) -> list[int]:
    return [data.numel()]


@on_numbers(concat, rank=lambda ranks, args: max(ranks))
def joined_numbers(*inputs: Numbers, axis: int) -> list[int]:
    return [n for line in inputs for n in line]


@on_numbers(gather, rank=lambda ranks, args: ranks[1])
def chosen_numbers(data: Numbers, indices: Numbers, *, axis: int = 0) -> list[int]:
    return [data[k] for k in indices]


@on_numbers(slice_of, rank=lambda ranks, args: ranks[0])
def sliced_numbers(
    data: Numbers, starts: Numbers, ends: Numbers, axes: Numbers = (0,), steps: Numbers = (1,)
) -> list[int]:
    if steps[0] > 0:
        return list(data)[starts[0] : ends[0] : steps[0]]
    begin, end = (n + len(data) if n < 0 else n for n in (starts[0], ends[0]))
    return [data[k] for k in range(min(max(begin, 0), len(data) - 1), max(end, -1), steps[0])]


def _length(x: Any) -> int:
    """How many numbers there are in a list that is known."""
    return len(x) if isinstance(x, list) else _MANY


_MANY = 9  # dimensions, which no list stands for


@on_numbers(identity, rank=lambda ranks, args: ranks[0])
@on_numbers(unsqueeze, rank=lambda ranks, args: ranks[0] + _length(args[1]))
@on_numbers(squeeze, rank=lambda ranks, args: 0)
@on_numbers(reshape, rank=lambda ranks, args: _length(args[1]))
def same_numbers(data: Numbers, *rest: Any, **options: Any) -> list[int]:
    """Those of a line, whatever dimensions of size 1 it gains or loses."""
    return list(data)


def _wider(ranks: list[int], args: list[Any]) -> int:
    return max(ranks)


def _pairs(function: Callable[[int, int], int], a: Numbers, b: Numbers) -> list[int]:
    """A function of pairs; a line of one goes with all of the other."""
    if len(a) == 1:
        return [function(a[0], y) for y in b]
    if len(b) == 1:
        return [function(x, b[0]) for x in a]
    return [function(x, y) for x, y in zip(a, b, strict=True)]


@on_numbers(fl.add, rank=_wider)
def added_numbers(a: Numbers, b: Numbers) -> list[int]:
    return _pairs(python.add, a, b)


@on_numbers(fl.sub, rank=_wider)
def less_numbers(a: Numbers, b: Numbers) -> list[int]:
    return _pairs(python.sub, a, b)


@on_numbers(fl.mul, rank=_wider)
def multiplied_numbers(a: Numbers, b: Numbers) -> list[int]:
    return _pairs(python.mul, a, b)


def _share(a: int, b: int) -> int:
    return a // b if (a >= 0) == (b >= 0) else -(-a // b)


@on_numbers(div, rank=_wider)
def divided_numbers(a: Numbers, b: Numbers) -> list[int]:
    return _pairs(_share, a, b)
