"""Classes of a program's own as arguments and results."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..utils._pytree import register_dataclass as registered


def register_dataclass(cls: type[Any], *, serialized_type_name: str | None = None) -> None:
    """Let a dataclass be an argument or a result of exported programs: its fields are those of a tuple.

    Args:
        cls: a dataclass.
        serialized_type_name: its name in files; that of the class where none is given.

    Raises:
        AssertionError: it is no dataclass

    >>> import dataclasses
    >>> import flambeau as torch
    >>> @dataclasses.dataclass
    ... class Batch:
    ...     x: torch.Tensor
    ...     y: torch.Tensor
    >>> torch.export.register_dataclass(Batch)
    >>> class Sum(torch.nn.Module):
    ...     def forward(self, batch):
    ...         return batch.x + batch.y
    >>> program = torch.export.export(Sum(), (Batch(torch.ones(2), torch.ones(2)),))
    >>> program.module()(Batch(torch.ones(2), torch.zeros(2)))
    tensor([1., 1.])
    """
    if not dataclasses.is_dataclass(cls):
        raise AssertionError(f"Only dataclasses can be registered with this function: {cls}")
    name = serialized_type_name or f"{cls.__module__}.{cls.__qualname__}"
    registered(cls, serialized_type_name=name)
