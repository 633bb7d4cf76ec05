"""The operations that nested tensors of layout `jagged` take, by name: gathered here, for the class."""

from __future__ import annotations

from typing import Any

from . import pointwise, products, reductions, shapes
from .jagged import NestedTensor
from .padding import padded

__all__ = ["NestedTensor"]


def _attention(func: Any, *args: Any, **kwargs: Any) -> NestedTensor:
    from .attention import ANSWERS  # the code generator comes with it

    return ANSWERS[func.__name__](func, *args, **kwargs)


for _part in (pointwise, shapes, reductions, products):
    NestedTensor.answers.update(_part.ANSWERS)
NestedTensor.answers["scaled_dot_product_attention"] = _attention
NestedTensor.to_padded_tensor = padded
