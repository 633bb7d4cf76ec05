"""Nested tensors: batches of tensors of different sizes, without padding.

The classes themselves are imported with the first nested tensor.  From then on every operation asks whether one is among its
arguments (see `flambeau.overrides`), which costs other tensors some 50 ns a call.
"""

import typing as _typing

from ..core.base.lazily import lazily as _lazily

if _typing.TYPE_CHECKING:
    from .construction import (
        as_nested_tensor,
        masked_select,
        narrow,
        nested_tensor,
        nested_tensor_from_jagged,
        to_padded_tensor,
    )

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]

__getattr__, __dir__ = _lazily(__name__, names={name: ".construction" for name in __all__})
