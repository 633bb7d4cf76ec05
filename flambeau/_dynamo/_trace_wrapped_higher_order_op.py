"""Blocks in which PyTorch's compiler reads an index that is a tensor as an operation."""

from __future__ import annotations

from typing import Any

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex:
    """A block in which `x[i]` with a tensor `i` indexes with the tensor, as it always does here."""

    def __enter__(self) -> TransformGetItemToIndex:
        return self

    def __exit__(self, *exception: Any) -> None:
        return None
