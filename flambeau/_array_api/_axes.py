"""Axes as the standard counts them: one, several, none, or all."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ._dtypes import flat


def axes_of(function: str, axis: Any, rank: int) -> tuple[int, ...]:
    """The axes that `axis` names, from 0 on: all for None, one for an int.

    IndexError for one that is not there, ValueError for one that is named twice.
    """
    if axis is None:
        return tuple(range(rank))
    given = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    result = []
    for a in map(operator.index, given):
        if not -rank <= a < rank:
            raise IndexError(f"{function}(): axis {a} is out of range for an array of {rank} dimensions")
        result.append(a % rank)
    if len(set(result)) < len(result):
        raise ValueError(f"{function}(): an axis is named twice in {given}")
    return tuple(result)


def reduced(operation: Callable, x: Any, axis: Any, keepdims: bool, **options: Any) -> Any:
    """A reduction over axes as PyTorch's operation over several; over none, of each element alone."""
    axes = axes_of(operation.__name__, axis, x.ndim)
    if not axes:
        return operation(x.unsqueeze(-1), (-1,), **options)
    return operation(x, axes, keepdim=keepdims, **options)


def reduced_along_one(operation: Callable, x: Any, axis: Any, keepdims: bool, **options: Any) -> Any:
    """The same for an operation that takes one axis: the others are moved behind and made one."""
    axes = axes_of(operation.__name__, axis, x.ndim)
    kept = [a for a in range(x.ndim) if a not in axes]
    rows = flat.permute(x, (*kept, *axes))
    count = 1
    for a in axes:
        count *= x.shape[a]
    result = operation(rows.reshape((*(x.shape[a] for a in kept), count)), len(kept), **options)
    if keepdims:
        for a in sorted(axes):
            result = result.unsqueeze(a)
    return result
