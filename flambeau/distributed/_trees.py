"""Tensors in the arguments and results of modules: in tuples, lists, dictionaries, named tuples and dataclasses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from ..core.base.tensor import TensorBase


def tensors_of(value: Any) -> list[Any]:
    """The tensors in a value, in order."""
    result: list[Any] = []

    def take(tensor: Any) -> Any:
        result.append(tensor)
        return tensor

    map_tensors(take, value)
    return result


def map_tensors(function: Callable[[Any], Any], value: Any) -> Any:
    """The value with `function` of each tensor in its place; containers are copied only where a tensor changed."""
    if isinstance(value, TensorBase):
        return function(value)
    if isinstance(value, dict):
        changed = {key: map_tensors(function, each) for key, each in value.items()}
        if all(changed[key] is each for key, each in value.items()):
            return value
        if type(value) is dict:
            return changed
        copied = value.copy()
        copied.update(changed)
        return copied
    if isinstance(value, (list, tuple)):
        items = [map_tensors(function, each) for each in value]
        if all(one is other for one, other in zip(items, value)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, set):
        return type(value)(map_tensors(function, each) for each in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            f.name: map_tensors(function, getattr(value, f.name)) for f in dataclasses.fields(value) if f.init
        }
        if all(each is getattr(value, name) for name, each in fields.items()):
            return value
        return dataclasses.replace(value, **fields)
    return value
