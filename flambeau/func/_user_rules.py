"""Rules that programs write: how an operation of theirs works on all slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..core.base.tensor import TensorBase
from ._batched import Level


class VmapInfo(NamedTuple):
    """What a rule gets: how many slices there are, and what random operations do."""

    batch_size: int
    randomness: str


def by_rule(level: Level, own: Callable, args: Any, kwargs: dict, name: str) -> Any:
    """A rule of a user: `rule(info, in_dims, *args)` returns results and where their dimension of slices is."""
    in_dims = tuple(_dims(level, a) for a in args)
    given = [inner(level, a) for a in args]
    answer = own(VmapInfo(level.size, level.randomness), in_dims, *given, **kwargs)
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise RuntimeError(
            f"Expected the vmap staticmethod of {name} to return two values, (outputs, out_dims), got {type(answer).__name__}"
        )
    return _rewrapped(level, *answer, name)


def _dims(level: Level, x: Any) -> Any:
    if isinstance(x, (tuple, list)):
        return type(x)(_dims(level, y) for y in x)
    return None if level.inside(x) is None else 0


def inner(level: Level, x: Any) -> Any:
    """The elements of tensors of a level, in lists, too."""
    if isinstance(x, (tuple, list)):
        return type(x)(inner(level, y) for y in x)
    result = level.inside(x)
    return x if result is None else result


def _rewrapped(level: Level, result: Any, dims: Any, name: str) -> Any:
    if isinstance(result, (tuple, list)):
        if not isinstance(dims, (tuple, list)):
            dims = [dims] * len(result)
        if len(dims) != len(result):
            raise RuntimeError(
                f"The vmap staticmethod of {name} returned {len(result)} outputs and {len(dims)} out_dims; they must match"
            )
        parts = [_rewrapped(level, f, d, name) for f, d in zip(result, dims)]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    if not isinstance(result, TensorBase) or dims is None:
        return result
    if result.shape[dims] != level.size:
        raise RuntimeError(
            f"The vmap staticmethod of {name} returned a tensor of shape {list(result.shape)} with out_dim {dims}, whose size is not "
            f"that of the batch, {level.size}"
        )
    return level.tensor(result if dims == 0 else result.movedim(dims, 0))
