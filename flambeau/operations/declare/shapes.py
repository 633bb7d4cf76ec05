"""Shapes and dimensions as operations in Python read them."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.base.tensor import TensorBase


def wrapped(dim: int, input: TensorBase, who: str) -> int:
    """The dimension counted from the front; 0-dim tensors take 0 and -1.  IndexError for one that does not exist."""
    n = max(input.ndim, 1)
    if not -n <= dim < n:
        raise IndexError(
            f"{who}(): Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"
        )
    return dim % n


def broadcast(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The shape that tensors of these shapes broadcast to; RuntimeError where they do not, ValueError
    for a negative size.
    """
    result = [1] * max((len(s) for s in shapes), default=0)
    for shape in shapes:
        for d in range(1, len(shape) + 1):
            size, known = shape[-d], result[-d]
            if size < 0:
                raise ValueError(f"broadcast_shapes(): a size must be non-negative, got {list(shape)}")
            if known == 1:
                result[-d] = size
            elif size not in (1, known):
                raise RuntimeError(
                    "broadcast_shapes(): Shape mismatch: objects cannot be broadcast to a single shape: "
                    f"{[list(s) for s in shapes]}"
                )
    return tuple(result)
