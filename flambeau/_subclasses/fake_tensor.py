"""Whether a tensor is fake: none is."""

from __future__ import annotations

from typing import Any

from .._compat.absent import refusing

__all__ = ["is_fake"]


def is_fake(x: Any) -> bool:
    """Whether a tensor only pretends to have data: False.

    >>> import flambeau
    >>> from flambeau._subclasses.fake_tensor import is_fake
    >>> is_fake(flambeau.ones(2))
    False
    """
    return False


__getattr__ = refusing("_subclasses.fake_tensor")
